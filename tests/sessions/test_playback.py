"""Acceptance cases 45 to 51: while a translation is played, silence of the speaker means nothing."""

from __future__ import annotations

import pytest

from world import FAST, FakeNode, Speaker, World, world

PAUSE_S, SILENCE_CUT_S = 0.3, 0.45  # of FAST
HOUR_MS = 3_600_000
CLOCKS = pytest.mark.parametrize("ahead_ms", [0, HOUR_MS, -HOUR_MS], ids=["right", "ahead", "behind"])


async def cast(house: World) -> tuple[FakeNode, Speaker]:
    return await house.node(), await house.session()


async def play(house: World, speaker: Speaker, *, ended: bool = False, ahead_ms: int = 0) -> None:
    """Report playback with the clock of the client."""
    at = "ts_end_ms" if ended else "ts_start_ms"
    await speaker.send(
        "tts_play_ended" if ended else "tts_started",
        session_id=speaker.id,
        trace_id="t",
        group_id="g-unknown",
        **{at: house.clock.wall_ms() + ahead_ms},
    )


async def no_job(house: World, node: FakeNode, speaker: Speaker) -> None:
    await house.settled(speaker, node)
    assert node.seen("job_assign") == []


@CLOCKS
async def test_45_46_48_speech_before_playback_is_held_until_it_has_ended(store_options, ahead_ms):
    async with world(store_options, **FAST) as house:
        node, speaker = await cast(house)
        await speaker.chunk(600)
        await play(house, speaker, ahead_ms=ahead_ms)
        await house.pass_time(3 * PAUSE_S, speaker)
        await no_job(house, node, speaker)

        await play(house, speaker, ended=True, ahead_ms=ahead_ms)
        await house.pass_time(SILENCE_CUT_S - 0.01, speaker)
        await no_job(house, node, speaker)
        house.clock.advance(0.02)
        job = await node.job()
        assert (len(job["audio"]), job["is_timeout_triggered"]) == (600, True)


@CLOCKS
async def test_47_48_a_late_chunk_cuts_nothing_while_playing(store_options, ahead_ms):
    async with world(store_options, **FAST) as house:
        node, speaker = await cast(house)
        await speaker.chunk(60)
        await play(house, speaker, ahead_ms=ahead_ms)
        await house.pass_time(2 * PAUSE_S, speaker)
        await speaker.chunk(60)
        await house.pass_time(2 * PAUSE_S, speaker)
        await no_job(house, node, speaker)
        await speaker.final()
        assert len((await node.job())["audio"]) == 120


async def test_49_playback_that_never_ends_is_cut_off_by_the_safety_cap(store_options):
    async with world(store_options, segmentation={"pause_ms": 300, "playback_cap_ms": 20_000}) as house:
        node, speaker = await cast(house)
        await play(house, speaker)
        await speaker.chunk(60)
        await house.pass_time(20.4, speaker)
        await no_job(house, node, speaker)
        house.clock.advance(0.1)
        assert len((await node.job())["audio"]) == 60


async def test_50_the_client_can_end_its_utterance_while_playing(store_options):
    async with world(store_options, **FAST) as house:
        node, speaker = await cast(house)
        await play(house, speaker)
        await speaker.chunk(60, final=True)
        job = await node.job()
        assert (job["is_manual_cut"], len(job["audio"])) == (True, 60)


async def test_50_a_limit_cuts_while_playing(store_options):
    async with world(store_options, **FAST) as house:
        node, speaker = await cast(house)
        await play(house, speaker)
        await speaker.chunk(3600)
        assert (await node.job())["is_max_duration_triggered"] is True


async def test_51_playback_of_an_unknown_group_is_no_error_and_makes_no_group(store_options):
    async with world(store_options, **FAST) as house:
        node, speaker = await cast(house)
        await play(house, speaker)
        await play(house, speaker, ended=True)
        await speaker.say(600)
        job = await node.job()
        assert "group_id" not in job
        await speaker.expect("ui_event", event="DISPATCHED")
        assert speaker.inbox == []


async def test_an_end_without_a_start_changes_nothing(store_options):
    async with world(store_options, **FAST) as house:
        node, speaker = await cast(house)
        await speaker.chunk(60)
        await house.pass_time(0.2, speaker)
        await play(house, speaker, ended=True)
        await house.pass_time(0.251, speaker)
        assert len((await node.job())["audio"]) == 60


async def test_ids_of_started_and_ended_need_not_agree(store_options):
    """The web client names the group of the latest result, which may differ between start and end."""
    async with world(store_options, **FAST) as house:
        node, speaker = await cast(house)
        await speaker.chunk(60)
        for kind, at, group in (
            ("tts_started", "ts_start_ms", "g-0"),
            ("tts_play_ended", "ts_end_ms", "g-1"),
        ):
            await speaker.send(kind, session_id=speaker.id, trace_id="t", group_id=group, **{at: 1})
        await house.pass_time(SILENCE_CUT_S + 0.01, speaker)
        assert len((await node.job())["audio"]) == 60
