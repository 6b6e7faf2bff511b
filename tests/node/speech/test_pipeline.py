"""A job through the pipeline: flags, formats, directions, turns and partials, with tiny engines."""

from __future__ import annotations

import pytest
import pytest_asyncio

from lingua_scheduler.clock import SystemClock
from lingua_scheduler.core.audio import duration_ms
from lingua_scheduler.core.model import AudioFormat
from lingua_scheduler.node import NOTHING_SAID, Job, JobFailed
from lingua_scheduler.node.speech import EngineChoice, SpeechOptions
from lingua_scheduler.node.speech.crew import Crew
from lingua_scheduler.node.speech.engines import lexicon
from lingua_scheduler.node.speech.options import TurnOptions
from lingua_scheduler.node.trace import JobTrace
from lingua_scheduler.tracing.spans import Tracer
from lingua_scheduler.wire.common import Pipeline
from lingua_scheduler.wire.opus import decode_opus, encode_opus
from node.jobs import assign
from node.speech import tiny
from node.speech.conftest import TINY, Desk

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPTIONS = SpeechOptions(**TINY)
LEXICON = f"{lexicon.__name__}:Lexicon"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crew():
    """Share one worker with the usual tiny engines among the tests of this module."""
    made = Crew(OPTIONS, SystemClock())
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
def hands(crew) -> Desk:
    """Give a pipeline of the test's own."""
    return Desk(crew, OPTIONS, SystemClock())


def said(text: str, **members):
    return assign(audio=tiny.spoken(text), **members)


async def test_speech_becomes_text_translation_and_voice_with_the_time_of_each_step(hands) -> None:
    answer = await hands.do(said("hello world"))
    assert answer.text_asr == "hello world"
    assert answer.text_translated == "olá mundo"
    assert tiny.understood(answer.tts_audio) == "olá mundo"
    assert answer.tts_format == "pcm16"
    assert answer.extra == {"detected_src_lang": "en", "language_probability": 0.75}
    took = answer.timings
    assert min(took.asr_ms, took.nmt_ms, took.tts_ms) > 0
    assert took.asr_ms + took.nmt_ms + took.tts_ms <= took.total_ms


async def test_each_step_is_shown_in_the_trace_of_its_job(hands) -> None:
    ended, given = [], said("hello world", traceparent=f"00-{'1' * 32}-{'2' * 16}-01")
    trace = JobTrace.of(Tracer(ended.append), given, "node-1", SystemClock())
    await hands.pipeline.handle(Job(given, lambda *_: None, trace))
    assert [span.name for span in ended] == ["asr", "nmt", "tts"]


async def test_words_that_are_recognised_already_are_translated_and_spoken(hands) -> None:
    given = assign(audio=b"", text="hello world", pipeline=Pipeline(use_asr=False))
    answer = await hands.do(given)
    assert (answer.text_asr, answer.text_translated) == ("hello world", "olá mundo")
    assert tiny.understood(answer.tts_audio) == "olá mundo"
    assert answer.timings.asr_ms is None


async def test_steps_that_nobody_wants_are_left_out(hands) -> None:
    mute = await hands.do(said("hello", pipeline=Pipeline(use_tts=False)))
    assert (mute.text_translated, mute.tts_audio, mute.timings.tts_ms) == ("olá", b"", None)
    parrot = await hands.do(said("hello", pipeline=Pipeline(use_nmt=False)))
    assert (parrot.text_asr, parrot.text_translated, parrot.timings.nmt_ms) == ("hello", "", None)
    assert tiny.understood(parrot.tts_audio) == "hello"
    with pytest.raises(JobFailed, match="without recognition"):
        await hands.do(said("hello", pipeline=Pipeline(use_asr=False)))


@pytest.mark.parametrize("audio", [b"", bytes(3200), tiny.pause(500)])
async def test_where_nobody_speaks_nothing_is_said(hands, audio) -> None:
    assert await hands.do(assign(audio=audio)) == NOTHING_SAID


async def test_what_the_vad_takes_for_noise_is_not_recognised(hands) -> None:
    assert await hands.do(assign(audio=(b"\x2c\x01" * 800))) == NOTHING_SAID


async def test_opus_in_is_opus_out(desk) -> None:
    async with desk(asr=tiny.choice(tiny.Meter), vad=()) as hands:
        speech = encode_opus(b"\x00\x20\x00\xe0" * 8000)
        answer = await hands.do(assign(audio=speech, audio_format="opus", padding_ms=0))
    assert answer.text_asr == "1000 ms"
    assert answer.tts_format == "opus"
    assert duration_ms(AudioFormat.OPUS, 16000, answer.tts_audio) == 20
    assert decode_opus(answer.tts_audio)


async def test_padding_is_put_behind_the_speech(desk) -> None:
    async with desk(asr=tiny.choice(tiny.Meter), vad=()) as hands:
        answer = await hands.do(assign(audio=b"\x00\x20" * 16000, padding_ms=280))
    assert answer.text_asr == "1280 ms"


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"audio_format": "mp3"}, "format is unknown"),
        ({"audio_format": "opus", "audio": b"\x05"}, "not framed"),
    ],
)
async def test_audio_that_cannot_be_read_fails_the_job(hands, members, why) -> None:
    with pytest.raises(JobFailed, match=why):
        await hands.do(assign(**members))


async def test_in_a_two_way_talk_the_language_heard_picks_the_direction(hands) -> None:
    talk = {"src_lang": "auto", "lang_a": "en", "lang_b": "pt", "mode": "two_way_auto", "tgt_lang": "pt"}
    there = await hands.do(said("hello", **talk))
    back = await hands.do(said("mundo", **talk))
    assert (there.text_translated, there.extra["detected_src_lang"]) == ("olá", "en")
    assert (back.text_translated, back.extra["detected_src_lang"]) == ("world", "pt")


async def test_what_is_said_in_the_language_wanted_stays_as_it_is(hands) -> None:
    answer = await hands.do(said("mundo", src_lang="auto", auto_langs=("en", "pt")))
    assert (answer.text_asr, answer.text_translated) == ("mundo", "mundo")


async def test_a_missing_pair_is_reached_through_a_third_language(desk) -> None:
    async with desk(nmt=tiny.choice(tiny.Dictionary) + tiny.choice(tiny.Shout)) as hands:
        answer = await hands.do(said("hello", tgt_lang="xx"))
    assert answer.text_translated == "OLÁ"
    assert answer.extra["translated_through"] == ["pt"]


@pytest.mark.parametrize(
    ("members", "service", "why"),
    [
        ({"src_lang": "zh"}, "asr", "nothing understands zh"),
        ({"tgt_lang": "zh"}, "nmt", "nothing translates from en to zh"),
        ({"src_lang": "auto"}, "asr", "nothing understands any language"),
    ],
)
async def test_a_language_that_is_not_there_is_a_model_that_is_not_available(
    hands, members, service, why
) -> None:
    with pytest.raises(JobFailed, match=why) as failure:
        await hands.do(said("hello", **members))
    assert failure.value.code == "MODEL_NOT_AVAILABLE"
    assert failure.value.details == {"service_id": service}


async def test_a_node_without_voices_does_what_needs_none(desk) -> None:
    async with desk(tts=()) as hands:
        assert (await hands.do(said("hello", pipeline=Pipeline(use_tts=False)))).text_translated == "olá"
        with pytest.raises(JobFailed, match="no voice speaks pt") as failure:
            await hands.do(said("hello"))
    assert failure.value.details == {"service_id": "tts"}


async def test_context_and_what_was_said_before_are_the_prompt(hands) -> None:
    answer = await hands.do(said("world", context_text="hello"))
    assert answer.text_asr == "[hello] world"


async def test_repair_comes_before_translation_and_shows_what_was_heard(desk) -> None:
    repair = (EngineChoice(LEXICON, {"replace": {"hallo": "hello"}}),)
    async with desk(repair=repair) as hands:
        answer = await hands.do(said("hallo world"))
        assert (answer.text_asr, answer.text_translated) == ("hello world", "olá mundo")
        assert answer.extra["raw_asr_text"] == "hallo world"
    async with desk(repair=repair, repair_always=False) as hands:
        assert (await hands.do(said("hallo"))).text_asr == "hallo"
        assert (await hands.do(said("hallo", pipeline=Pipeline(use_semantic=True)))).text_asr == "hello"


async def test_partials_are_told_unless_nobody_wants_them(hands) -> None:
    await hands.do(said("one two three"))
    assert hands.partials == ["one", "one two", "one two three"]
    await hands.do(said("one two three", enable_streaming_asr=False))
    assert len(hands.partials) == 3


async def test_captions_are_told_while_the_recogniser_thinks(desk) -> None:
    async with desk(asr=tiny.choice(tiny.SlowEars), partials=tiny.choice(tiny.Captions)) as hands:
        answer = await hands.do(said("one two"))
        assert (answer.text_asr, hands.partials) == ("one two", ["ONE TWO"])


async def test_pieces_of_a_turn_are_answered_when_they_come_and_no_word_twice(desk) -> None:
    """The limit falls into the word `three`; it is heard once, whole, with the job that ends the turn."""
    async with desk(turns=TurnOptions(join_ms=500)) as hands:
        turn = {"turn_id": "turn-1", "pipeline": Pipeline(use_tts=False)}
        first = tiny.spoken("one two") + tiny.pause(800) + tiny.spoken("th")
        piece = await hands.do(assign(audio=first, is_max_duration_triggered=True, **turn))
        last = await hands.do(
            assign("job-2", audio=tiny.spoken("ree"), utterance_index=1, is_manual_cut=True, **turn)
        )
    assert (piece.text_asr, piece.text_translated) == ("one two", "um dois")
    assert last.text_asr == "[one two] three"
    assert last.text_translated.endswith("três")


async def test_merged_pieces_are_answered_without_text_and_translated_as_one(desk) -> None:
    async with desk(turns=TurnOptions(pieces="merge")) as hands:
        turn = {"turn_id": "turn-1", "pipeline": Pipeline(use_tts=False)}
        piece = await hands.do(said("one ", is_max_duration_triggered=True, **turn))
        last = await hands.do(said("two", utterance_index=1, is_timeout_triggered=True, **turn))
    assert piece.extra == {"reason": "NO_TEXT_ASSIGNED"}
    assert (piece.text_asr, piece.text_translated, piece.tts_audio) == ("", "", b"")
    assert (last.text_asr, last.text_translated) == ("one two", "um dois")
