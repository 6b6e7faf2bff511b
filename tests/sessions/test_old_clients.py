"""Recorded traffic of the first generation's clients, replayed: one utterance for each sentence.

The recordings are tables of what was seen on the wire: when, what, how large. A web client sends 256 ms of
Opus as 13 packets, keeps sending 5 s of trailing silence, ends a sentence with an empty final 3.25 s after
the last word, and then follows every further block of silence with a final of its own. The mobile app sends
its microphone as whole utterances of 200 ms that never say `manual_cut`.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from leftovers import assert_nothing_left, in_memory
from lingua_scheduler.core.audio import pack
from lingua_scheduler.wire.opus import OpusEncoder
from world import FakeNode, Speaker, World, world

BLOCK_S = 0.256
WEB_INIT = {
    "client_version": "web-client-v1.0",
    "platform": "web",
    "src_lang": "auto",
    "tgt_lang": "en",
    "dialect": None,
    "features": {},
    "pairing_code": None,
    "mode": "two_way_auto",
    "lang_a": "zh",
    "lang_b": "en",
    "auto_langs": ["zh", "en"],
    "trace_id": "0e6f2f0a-1111-4222-8333-444455556666",
    "tenant_id": None,
}
MOBILE_INIT = {
    "client_version": "1.0.0",
    "platform": "ios",
    "features": dict.fromkeys(
        (
            "emotion_detection",
            "voice_style_detection",
            "speech_rate_detection",
            "speech_rate_control",
            "speaker_identification",
            "persona_adaptation",
        ),
        False,
    ),
    "pairing_code": None,
}


@dataclass(frozen=True)
class Step:
    """One recorded message: the time since the one before, and its audio; no audio is the empty final."""

    after_s: float
    audio: bytes | None


def speech_block(chance: random.Random) -> bytes:
    """13 packets of speech, 400 to 1060 bytes together; the encoder heard a voice in each."""
    return pack(b"\x48\xc3" + chance.randbytes(chance.randint(28, 77)) for _ in range(13))


SILENCE = pack([b"\x48" + bytes(7)] * 13)  # a muted microphone
_encoder, _noise = OpusEncoder(), random.Random(4)
ROOM = [  # what a real encoder makes of a quiet room: packets as large as speech
    _encoder.encode(struct.pack("<4160h", *(round(_noise.gauss(0, 20)) for _ in range(4160))))
    for _ in range(20)
]


def sentence(blocks: int, *, seed: int = 1, storm: bool = True, room: bool = False) -> Iterator[Step]:
    """Speech, the quiet after it, the client's own end of the sentence, and the storm that follows."""
    chance = random.Random(seed)
    quiet = iter(ROOM if room else [SILENCE] * 20)
    for _ in range(blocks):
        yield Step(BLOCK_S, speech_block(chance))
    for _ in range(13):
        yield Step(BLOCK_S, next(quiet))
    yield Step(0.0, None)
    for _ in range(7 if storm else 0):
        yield Step(BLOCK_S, next(quiet))
        yield Step(0.016, None)


async def replay(house: World, speaker: Speaker, steps: Iterator[Step]) -> bytes:
    """Send the recording in its own time; return its speech."""
    spoken = b""
    for step in steps:
        await house.pass_time(step.after_s, speaker)
        if step.audio is None:
            await speaker.final()
        else:
            await speaker.chunk(step.audio)
            spoken += b"" if step.audio == SILENCE or step.audio in ROOM else step.audio
    await speaker.sync()
    return spoken


def test_the_recording_is_as_large_as_what_was_seen():
    assert len(SILENCE) == 130
    assert all(400 <= len(speech_block(random.Random(seed))) <= 1060 for seed in range(50))


async def web(house: World) -> tuple[FakeNode, Speaker]:
    node = await house.node(max_concurrent_jobs=64)
    speaker = await house.speaker()
    await speaker.init(**WEB_INIT)
    return node, speaker


async def no_job(house: World, node: FakeNode, speaker: Speaker) -> None:
    await house.settled(speaker, node)
    assert node.seen("job_assign") == []


# Web client


async def test_the_web_clients_init_is_answered_as_it_needs(store_options):
    async with world(store_options) as house:
        _, speaker = await web(house)
        assert speaker.ack["trace_id"] == WEB_INIT["trace_id"]
        assert speaker.ack["use_binary_frame"] is False
        assert speaker.ack["negotiated_audio_format"] == "opus"


@pytest.mark.parametrize("room", [False, True], ids=["muted", "room"])
async def test_a_sentence_with_its_silence_storm_is_one_utterance(store_options, room):
    async with world(store_options) as house:
        node, speaker = await web(house)
        spoken = await replay(house, speaker, sentence(12, room=room))
        job = await node.job()
        assert (job["utterance_index"], job["is_manual_cut"]) == (0, True)
        assert job["audio"].startswith(spoken)
        await no_job(house, node, speaker)
        await node.answer(job, tts_audio="AAA=", tts_format="opus")
        result = await speaker.expect("translation_result", utterance_index=0)
        assert result["trace_id"]
        assert result["group_id"]
        assert speaker.seen("error") == []
        assert speaker.seen("missing_result") == []


async def test_a_conversation_is_one_utterance_for_each_sentence(store_options):
    async with world(store_options) as house:
        node, speaker = await web(house)
        for index, blocks in enumerate((4, 25, 9, 60)):
            spoken = await replay(house, speaker, sentence(blocks, seed=index, room=bool(index % 2)))
            job = await node.job()
            assert job["utterance_index"] == index
            assert job["audio"].startswith(spoken)
            await node.answer(job)
            await speaker.expect("translation_result", utterance_index=index)
            await no_job(house, node, speaker)
            await house.live(0.1, node)
        assert speaker.seen("error") == []
        assert speaker.seen("missing_result") == []


async def test_the_next_sentence_in_the_middle_of_a_storm_keeps_its_beginning(store_options):
    async with world(store_options) as house:
        node, speaker = await web(house)
        await replay(house, speaker, sentence(8))
        await node.job(utterance_index=0)
        spoken = await replay(house, speaker, sentence(8, seed=2, storm=False))
        job = await node.job(utterance_index=1)
        assert spoken in job["audio"]


async def test_the_send_button_cuts_at_once(store_options):
    async with world(store_options) as house:
        node, speaker = await web(house)
        chance = random.Random(3)
        await replay(house, speaker, iter([Step(BLOCK_S, speech_block(chance)), Step(0.1, None)]))
        assert (await node.job())["is_manual_cut"] is True


async def test_playback_and_heartbeats_between_sentences_change_nothing(store_options):
    """The ids of started and ended are those of the latest result and need not agree."""
    async with world(store_options) as house:
        node, speaker = await web(house)
        await replay(house, speaker, sentence(8))
        job = await node.job()
        await node.answer(job, tts_audio="AAA=")
        result = await speaker.expect("translation_result")
        names = {"session_id": speaker.id, "trace_id": result["trace_id"], "group_id": result["group_id"]}
        await speaker.send("tts_started", **names, ts_start_ms=1794770525334)
        await house.live(31, node)
        await speaker.send("client_heartbeat", session_id=speaker.id, timestamp=1794770758669)
        await speaker.expect("server_heartbeat")
        await speaker.send("tts_play_ended", **{**names, "group_id": "g-other"}, ts_end_ms=1794770532143)
        spoken = await replay(house, speaker, sentence(8, seed=5))
        assert spoken in (await node.job(utterance_index=1))["audio"]
        assert speaker.seen("error") == []


async def test_a_tab_that_is_closed_leaves_nothing(store_options):
    async with world(store_options) as house:
        node = await house.node()
        before = in_memory(house)
        speaker = await house.speaker()
        await speaker.init(**WEB_INIT)
        await replay(house, speaker, sentence(8, storm=False))
        await speaker.chunk(speech_block(random.Random(9)))
        await node.job()
        await speaker.socket.close(code=1001)
        await house.forget(speaker, nodes=(node,))
        await assert_nothing_left(house, before, speaker.id)


async def test_frames_are_numbered_on_after_a_reconnect(store_options):
    """The page counts on from 24 on its new socket."""
    async with world(store_options) as house:
        node, speaker = await web(house)
        speaker._seq = 24
        spoken = await replay(house, speaker, sentence(8))
        assert (await node.job(utterance_index=0))["audio"].startswith(spoken)


# Mobile app


def voice_pcm(chance: random.Random, ms: int = 200) -> bytes:
    """Syllables at 16 kHz: loud with short valleys."""
    out = b""
    for window in range(ms // 20):
        loud = 250 if window % 7 == 6 else 4000
        out += struct.pack("<320h", *(chance.randint(-loud, loud) for _ in range(320)))
    return out


def room_pcm(chance: random.Random, ms: int = 200, loud: int = 60) -> bytes:
    """The noise of a quiet room."""
    count = 16 * ms
    return struct.pack(f"<{count}h", *(chance.randint(-loud, loud) for _ in range(count)))


class Phone:
    """The mobile app: a running number, one message every 200 ms, no end of anything."""

    def __init__(self, house: World, speaker: Speaker) -> None:
        self._house = house
        self._speaker = speaker
        self.index = 0

    async def send(self, audio: bytes) -> None:
        """Send one piece and let its time pass."""
        await self._speaker.utterance(
            self.index,
            audio,
            manual_cut=False,
            dialect=None,
            features=MOBILE_INIT["features"],
        )
        self.index += 1
        await self._house.pass_time(0.2, self._speaker)

    async def talk(self, seconds: float, seed: int = 1) -> bytes:
        """Speak without a break; return what was said."""
        chance, spoken = random.Random(seed), b""
        for _ in range(round(seconds * 5)):
            audio = voice_pcm(chance)
            spoken += audio
            await self.send(audio)
        return spoken

    async def listen(self, seconds: float, loud: int = 60) -> None:
        """Say nothing; the microphone stays open."""
        chance = random.Random(2)
        for _ in range(round(seconds * 5)):
            await self.send(room_pcm(chance, loud=loud))


async def mobile(house: World) -> tuple[FakeNode, Speaker, Phone]:
    node = await house.node(max_concurrent_jobs=64)
    speaker = await house.speaker()
    await speaker.init(**MOBILE_INIT)
    return node, speaker, Phone(house, speaker)


@pytest.mark.parametrize("loud", [0, 60, 300], ids=["silence", "room", "street"])
async def test_the_mobile_apps_pieces_become_one_utterance_for_each_sentence(store_options, loud):
    """Each piece alone would be 200 ms without a word; together they are cut where the voice stops.

    The utterance is numbered like a piece of it, so the number in the result is one the app has used.
    """
    async with world(store_options) as house:
        node, speaker, phone = await mobile(house)
        last = -1
        for number, seconds in enumerate((1.6, 3.0, 2.2)):
            began = phone.index
            spoken = await phone.talk(seconds, seed=number)
            await phone.listen(2.0, loud)
            job = await node.job()
            assert spoken in job["audio"]
            assert len(job["audio"]) < len(spoken) + 2 * 16_000 * 1.5
            assert (job["audio_format"], job["sample_rate"]) == ("pcm16", 16000)
            assert (job["src_lang"], job["tgt_lang"]) == ("zh", "en")
            assert max(began, last + 1) <= job["utterance_index"] < phone.index
            last = job["utterance_index"]
            await node.answer(job)
            await speaker.expect("translation_result", utterance_index=last)
            await phone.listen(3.0, loud)
            await no_job(house, node, speaker)
        assert speaker.seen("error") == []
        assert speaker.seen("missing_result") == []


async def test_a_long_speech_of_the_mobile_app_is_cut_into_pieces_of_a_turn(store_options):
    async with world(store_options, segmentation={"max_duration_ms": 2000}) as house:
        node, speaker, phone = await mobile(house)
        spoken = await phone.talk(4.0)
        await phone.listen(2.0)
        jobs = [await node.job() for _ in range(3)]
        await no_job(house, node, speaker)
        assert len({job["turn_id"] for job in jobs}) == 1
        assert b"".join(job["audio"] for job in jobs).startswith(spoken)
        indexes = [job["utterance_index"] for job in jobs]
        assert indexes == sorted(set(indexes))


async def test_pieces_sent_twice_count_once(store_options):
    async with world(store_options) as house:
        node, speaker, phone = await mobile(house)
        spoken = await phone.talk(1.0)
        for index in range(5):
            await speaker.utterance(index, spoken[:6400], manual_cut=False)
        await phone.listen(1.4)
        assert (await node.job())["audio"].count(spoken[:6400]) == 1


async def test_a_piece_that_says_it_is_the_last_ends_the_utterance(store_options):
    async with world(store_options) as house:
        node, speaker, phone = await mobile(house)
        spoken = await phone.talk(1.0)
        end = voice_pcm(random.Random(8))
        await speaker.utterance(phone.index, end)
        job = await node.job()
        assert (job["audio"], job["is_manual_cut"]) == (spoken + end, True)
        assert job["utterance_index"] == phone.index


async def test_a_longer_utterance_without_manual_cut_is_whole(store_options):
    async with world(store_options) as house:
        node, speaker, _ = await mobile(house)
        audio = b"\x00\x40" * 8000
        await speaker.utterance(0, audio, manual_cut=False)
        assert (await node.job())["audio"] == audio


async def test_pieces_may_be_switched_off(store_options):
    async with world(store_options, session={"stream_piece_max_ms": 0}) as house:
        node, _, phone = await mobile(house)
        await phone.talk(0.6)
        assert [(await node.job())["utterance_index"] for _ in range(3)] == [0, 1, 2]


async def test_a_change_of_language_ends_what_was_said_in_the_other(store_options):
    async with world(store_options) as house:
        node = await house.node("zh", "en", "ja", max_concurrent_jobs=64)
        speaker = await house.speaker()
        await speaker.init(**MOBILE_INIT)
        audio = voice_pcm(random.Random(1))
        for index, language in enumerate(("zh", "zh", "ja", "ja")):
            await speaker.utterance(index, audio, manual_cut=False, src_lang=language)
        job = await node.job()
        assert (job["src_lang"], job["audio"]) == ("zh", audio * 2)
        await house.pass_time(3, speaker)
        job = await node.job()
        assert (job["src_lang"], job["audio"]) == ("ja", audio * 2)


async def test_a_client_that_mixes_pieces_and_chunks_loses_nothing(store_options):
    """The session agreed on Opus for chunks, the pieces are pcm16: they never share an utterance."""
    async with world(store_options) as house:
        node, speaker, phone = await mobile(house)
        spoken = await phone.talk(0.4)
        await speaker.chunk(60)
        piece = await node.job()
        assert (piece["audio"], piece["audio_format"]) == (spoken, "pcm16")
        await speaker.final()
        chunk = await node.job()
        assert (len(chunk["audio"]), chunk["audio_format"]) == (60, "opus")
        assert chunk["utterance_index"] > piece["utterance_index"]


async def test_the_mobile_app_closes_without_waiting_for_the_answer(store_options):
    async with world(store_options) as house:
        node = await house.node()
        before = in_memory(house)
        speaker = await house.speaker()
        await speaker.init(**MOBILE_INIT)
        phone = Phone(house, speaker)
        await phone.talk(1.0)
        await speaker.send("session_close", session_id=speaker.id, reason="client_disconnect")
        await speaker.hang_up()
        await assert_nothing_left(house, before, speaker.id)
        await node.sync()
