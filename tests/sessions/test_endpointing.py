"""Adaptive endpointing: a client that streams without a break is answered soon after it stops speaking."""

from __future__ import annotations

import struct

import pytest

from lingua_scheduler.core.audio import pack
from world import FakeNode, Speaker, World, world

FRAME_MS = 100


def pcm(loudness: int, ms: int = FRAME_MS) -> bytes:
    """A square wave, 16 kHz."""
    count = 16 * ms
    return struct.pack(f"<{count}h", *(loudness if at % 8 < 4 else -loudness for at in range(count)))


def voiced_pcm() -> bytes:
    return pcm(4000, 80) + pcm(100, 20)


def opus(*sizes: int) -> bytes:
    """Packets without activity bits: only their sizes tell."""
    return pack(b"\xb8" + bytes(size - 1) for size in sizes)


def silk(active: int) -> bytes:
    """Packets of one size, with the encoder's opinion in them."""
    return pack([b"\x48" + bytes([0x80 * active]) + bytes(48)] * 5)


FORMATS = pytest.mark.parametrize(
    ("audio_format", "voice", "quiet"),
    [
        ("pcm16", voiced_pcm(), pcm(0)),
        ("pcm16", voiced_pcm(), pcm(150)),
        ("opus", opus(60, 72, 70, 66, 20), opus(9, 9, 9, 9, 9)),
        ("opus", opus(60, 72, 70, 66, 20), opus(22, 20, 24, 21, 23)),
        ("opus", silk(1), silk(0)),
    ],
    ids=["pcm16-silence", "pcm16-noise", "opus-silence", "opus-noise", "opus-activity"],
)


async def cast(house: World, **wish) -> tuple[FakeNode, Speaker]:
    return await house.node(max_concurrent_jobs=64), await house.session(**wish)


async def stream(house: World, speaker: Speaker, frame: bytes, ms: int) -> None:
    """Send frames in real time."""
    for _ in range(ms // FRAME_MS):
        await speaker.chunk(frame)
        await house.pass_time(FRAME_MS / 1000, speaker)


async def no_job(house: World, node: FakeNode, speaker: Speaker) -> None:
    await house.settled(speaker, node)
    assert node.seen("job_assign") == []


@FORMATS
async def test_clear_speech_ends_after_the_short_pause_although_frames_keep_coming(
    store_options, audio_format, voice, quiet
):
    async with world(store_options) as house:
        node, speaker = await cast(house, audio_format=audio_format, endpointing="adaptive")
        await stream(house, speaker, voice, 1000)
        await stream(house, speaker, quiet, 600)
        await no_job(house, node, speaker)
        await stream(house, speaker, quiet, 400)
        job = await node.job()
        assert job["is_timeout_triggered"] is True
        assert voice * 10 in job["audio"]
        await stream(house, speaker, quiet, 5000)
        await no_job(house, node, speaker)
        await stream(house, speaker, voice, 1000)
        await stream(house, speaker, quiet, 1000)
        job = await node.job()
        assert (job["utterance_index"], voice * 10 in job["audio"]) == (1, True)


@FORMATS
async def test_a_breath_does_not_end_the_sentence(store_options, audio_format, voice, quiet):
    async with world(store_options) as house:
        node, speaker = await cast(house, audio_format=audio_format, endpointing="adaptive")
        for _ in range(4):
            await stream(house, speaker, voice, 500)
            await stream(house, speaker, quiet, 400)
        await no_job(house, node, speaker)
        await speaker.final()
        assert len((await node.job())["audio"]) == 4 * (5 * len(voice) + 4 * len(quiet))


@FORMATS
async def test_a_single_sound_waits_for_the_sessions_own_pause(store_options, audio_format, voice, quiet):
    async with world(store_options) as house:
        node, speaker = await cast(house, audio_format=audio_format, endpointing="adaptive")
        await stream(house, speaker, voice, 100)
        await stream(house, speaker, quiet, 1500)
        await no_job(house, node, speaker)
        await stream(house, speaker, quiet, 1000)
        assert voice in (await node.job())["audio"]


@FORMATS
async def test_fixed_endpointing_waits_for_the_stream_to_stop(store_options, audio_format, voice, quiet):
    async with world(store_options) as house:
        node, speaker = await cast(house, audio_format=audio_format, endpointing="fixed")
        await stream(house, speaker, voice, 1000)
        await stream(house, speaker, quiet, 5000)
        await no_job(house, node, speaker)


async def test_bytes_that_cannot_be_read_end_by_the_sessions_own_pause(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house, endpointing="adaptive")
        await speaker.chunk(600)
        await house.pass_time(2.1, speaker)
        await no_job(house, node, speaker)
        await house.pass_time(0.1, speaker)
        assert len((await node.job())["audio"]) == 600


async def test_the_bounds_are_the_operators(store_options):
    async with world(store_options, session={"adaptive_pause_ms": 1500, "adaptive_speech_ms": 0}) as house:
        node, speaker = await cast(house, audio_format="pcm16", endpointing="adaptive")
        await stream(house, speaker, voiced_pcm(), 500)
        await stream(house, speaker, pcm(0), 1400)
        await no_job(house, node, speaker)
        await stream(house, speaker, pcm(0), 400)
        await node.job()


async def test_a_session_with_a_shorter_pause_keeps_it(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house, audio_format="pcm16", endpointing="adaptive", pause_ms=400)
        await stream(house, speaker, voiced_pcm(), 500)
        await stream(house, speaker, pcm(0), 700)
        await node.job()


async def test_quiet_while_a_translation_is_played_ends_nothing(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house, audio_format="pcm16", endpointing="adaptive")
        await stream(house, speaker, voiced_pcm(), 500)
        await speaker.send("tts_started", session_id=speaker.id, trace_id="t", group_id="g", ts_start_ms=1)
        await stream(house, speaker, pcm(0), 3000)
        await no_job(house, node, speaker)
        await speaker.send("tts_play_ended", session_id=speaker.id, trace_id="t", group_id="g", ts_end_ms=1)
        await stream(house, speaker, pcm(0), 800)
        await node.job()
