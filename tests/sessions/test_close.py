"""Acceptance cases 126 to 132: however a session ends, what was said counts and nothing of it stays."""

from __future__ import annotations

import asyncio

import pytest

from leftovers import assert_nothing_left, in_memory
from support import wait_until
from world import FAST, FakeNode, Speaker, World, world

DRAIN_S = 3.0


async def close(speaker: Speaker, session_id: str | None = None) -> None:
    await speaker.send("session_close", session_id=session_id or speaker.id, reason="done")


async def cast(house: World) -> tuple[FakeNode, Speaker, dict[str, int]]:
    """A node, a connected speaker, and what the instance holds before the speaker's session begins."""
    node, speaker = await house.node(), await house.speaker()
    before = in_memory(house)
    await speaker.init()
    return node, speaker, before


async def test_126_a_closed_session_is_acknowledged_and_gone(store_options):
    async with world(store_options) as house:
        _, speaker, before = await cast(house)
        await close(speaker)
        await speaker.expect("session_close_ack", session_id=speaker.id)
        await speaker.chunk(600)
        await speaker.expect("error", code="INVALID_SESSION")
        await assert_nothing_left(house, before, speaker.id)


async def test_126_the_socket_may_open_another_session(store_options):
    async with world(store_options) as house:
        node, speaker, _ = await cast(house)
        first = speaker.id
        await close(speaker)
        await speaker.expect("session_close_ack", session_id=first)
        await speaker.init()
        assert speaker.id != first
        await speaker.say(60)
        assert (await node.job())["utterance_index"] == 0


async def test_127_what_is_buffered_is_translated(store_options):
    async with world(store_options) as house:
        node, speaker, before = await cast(house)
        await speaker.chunk(600)
        await close(speaker)
        job = await node.job()
        assert len(job["audio"]) == 600
        assert (job["is_manual_cut"], job["padding_ms"]) == (True, 220)
        await node.answer(job)
        await speaker.expect("translation_result", utterance_index=0)
        await speaker.expect("session_close_ack")
        await assert_nothing_left(house, before, speaker.id)


async def test_128_results_in_time_come_before_the_acknowledgement(store_options):
    async with world(store_options) as house:
        node, speaker, before = await cast(house)
        await speaker.say(600)
        await speaker.say(600)
        jobs = [await node.job(), await node.job()]
        await close(speaker)
        await house.pass_time(DRAIN_S - 0.1)
        for job in jobs:
            await node.answer(job)
        await speaker.expect("session_close_ack")
        kinds = [message["type"] for message in speaker.inbox if message["type"] != "ui_event"]
        assert kinds == ["translation_result", "translation_result"]
        await assert_nothing_left(house, before, speaker.id)
        assert node.seen("job_cancel") == []


async def test_128_the_acknowledgement_is_the_last_word(store_options):
    """A node that answers after the drain time is not heard; its job was cancelled."""
    async with world(store_options) as house:
        node, speaker, before = await cast(house)
        await speaker.say(600)
        job = await node.job()
        await close(speaker)
        await speaker.send_raw("?")
        await speaker.expect("error", code="INVALID_MESSAGE")
        await house.pass_time(DRAIN_S)
        await speaker.expect("session_close_ack")
        await node.expect("job_cancel", job_id=job["job_id"])
        await node.answer(job)
        await node.sync()
        await speaker.send_raw("?")
        await speaker.expect("error", code="INVALID_MESSAGE")
        assert [message["type"] for message in speaker.inbox] == ["ui_event"]  # DISPATCHED, before the close
        await assert_nothing_left(house, before, speaker.id)


async def test_128_without_a_drain_time_the_session_ends_at_once(store_options):
    async with world(store_options, session={"close_drain_ms": 0}) as house:
        node, speaker, before = await cast(house)
        await speaker.say(600)
        await node.job()
        await close(speaker)
        await speaker.send_raw("?")
        await speaker.expect("error", code="INVALID_MESSAGE")
        house.clock.advance(0)
        await speaker.expect("session_close_ack")
        await assert_nothing_left(house, before, speaker.id)


async def test_128_an_utterance_that_finds_no_node_does_not_prolong_the_end(store_options):
    async with world(store_options) as house:
        speaker = await house.speaker()
        before = in_memory(house)
        await speaker.init()
        await speaker.say(600)
        await speaker.expect("ui_event", event="ERROR")
        await close(speaker)
        await speaker.send_raw("?")
        await speaker.expect("error", code="INVALID_MESSAGE")
        house.clock.advance(DRAIN_S)
        await speaker.expect("session_close_ack")
        await assert_nothing_left(house, before, speaker.id)


async def test_129_only_the_sockets_own_session_can_be_closed(store_options):
    async with world(store_options) as house:
        node, speaker, _ = await cast(house)
        other = await house.session()
        for session_id in ("s-unknown", other.id):
            await close(speaker, session_id)
            await speaker.expect("error", code="INVALID_SESSION")
        assert speaker.seen("session_close_ack") == []
        await other.say(600)
        assert (await node.job())["session_id"] == other.id


async def test_129_a_session_is_closed_once(store_options):
    async with world(store_options) as house:
        _, speaker, _ = await cast(house)
        await close(speaker)
        await close(speaker)
        await speaker.expect("session_close_ack")
        await speaker.expect("error", code="INVALID_SESSION")
        assert speaker.seen("session_close_ack") == []


async def test_131_a_client_that_does_not_come_back_leaves_nothing_and_its_job_is_cancelled(store_options):
    async with world(store_options, job_timeout={"base_s": 90, "max_s": 90}) as house:
        node = await house.node()
        before = in_memory(house)
        speaker = await house.session()
        await speaker.say(600)
        job = await node.job()
        speaker.reset()
        await house.forget(speaker, nodes=(node,))
        await node.expect("job_cancel", job_id=job["job_id"])
        await assert_nothing_left(house, before, speaker.id)
        await node.answer(job)
        await node.sync()
        await assert_nothing_left(house, before, speaker.id)
        other = await house.session()
        await other.say(60)
        assert (await node.job())["session_id"] == other.id


async def _buffered(house: World, node: FakeNode, speaker: Speaker) -> None:
    await speaker.chunk(600)


async def _playing(house: World, node: FakeNode, speaker: Speaker) -> None:
    await speaker.chunk(600)
    await speaker.send("tts_started", session_id=speaker.id, trace_id="t", group_id="g", ts_start_ms=1)


async def _in_a_turn(house: World, node: FakeNode, speaker: Speaker) -> None:
    for _ in range(60):
        await speaker.chunk(60)
    await node.job()


async def _waiting_for_an_index(house: World, node: FakeNode, speaker: Speaker) -> None:
    await speaker.utterance(7)


async def _result_held(house: World, node: FakeNode, speaker: Speaker) -> None:
    await speaker.say(60)
    await speaker.say(60)
    await node.answer([await node.job(), await node.job()][1])
    await house.settled(speaker, node)


async def _answered(house: World, node: FakeNode, speaker: Speaker) -> None:
    await speaker.say(60)
    await node.answer(await node.job())
    await speaker.expect("translation_result")


async def _partial_waits(house: World, node: FakeNode, speaker: Speaker) -> None:
    await speaker.say(60)
    job = await node.job()
    for text in ("a", "ab", "abc"):
        await node.send(
            "asr_partial",
            node_id=node.id,
            session_id=speaker.id,
            utterance_index=0,
            job_id=job["job_id"],
            text=text,
            is_final=False,
            trace_id=job["trace_id"],
        )
    await node.sync()


async def _many_unplaced(house: World, node: FakeNode, speaker: Speaker) -> None:
    for _ in range(12):
        await speaker.say(60)


async def _just_said(house: World, node: FakeNode, speaker: Speaker) -> None:
    await speaker.say(60)


STATES = [
    _buffered,
    _playing,
    _in_a_turn,
    _waiting_for_an_index,
    _result_held,
    _answered,
    _partial_waits,
    _many_unplaced,
    _just_said,
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__.strip("_"))
@pytest.mark.parametrize("end", ["close", "hang_up", "reset", "second_init", "close_and_leave"])
async def test_131_whatever_a_session_was_doing_nothing_of_it_stays(store_options, state, end):
    """Section 21, for every way to end: sessions, writer, deadlines, jobs, waiting room, Redis."""
    async with world(store_options, **FAST) as house:
        node = await house.node()
        outside = in_memory(house)
        speaker = await house.speaker()
        inside = in_memory(house)
        await speaker.init()
        ids = [speaker.id]
        await state(house, node, speaker)
        if end != "reset":
            await speaker.sync()
        if end in ("close", "close_and_leave"):
            await close(speaker)
        if end == "second_init":
            await speaker.init()
            ids.append(speaker.id)
            await close(speaker)
            await speaker.expect("session_close_ack", session_id=speaker.id)
        if end in ("reset", "hang_up"):
            if end == "hang_up":
                await speaker.hang_up()
            else:
                speaker.reset()
            await house.forget(speaker, nodes=(node,))
        elif end == "close_and_leave":
            await speaker.hang_up()
        else:
            await speaker.send_raw("?")
            await speaker.expect("error", code="INVALID_MESSAGE")
            house.clock.advance(DRAIN_S)
        await assert_nothing_left(house, inside if end in ("close", "second_init") else outside, *ids)


async def test_131_a_socket_dropped_while_a_result_is_being_written_leaves_nothing(store_options):
    async with world(store_options, resume={"window_s": 0}) as house:
        node = await house.node()
        before = in_memory(house)
        for _ in range(20):
            speaker = await house.session()
            await speaker.say(60)
            job = await node.job()
            await asyncio.gather(node.answer(job), speaker.hang_up())
            await assert_nothing_left(house, before, speaker.id)


async def test_131_a_socket_dropped_right_after_it_spoke_leaves_nothing(store_options):
    """The job may be on its way to Redis when its session ends; it must not be written behind the end."""
    async with world(store_options, resume={"window_s": 0}) as house:
        await house.node()
        before = in_memory(house)
        ids = []
        for _ in range(20):
            speaker = await house.session()
            ids.append(speaker.id)
            await speaker.say(60)
            speaker.reset()
        await assert_nothing_left(house, before, *ids)


async def test_132_a_thousand_sessions_leave_nothing(store_options):
    limits = {"handshake_burst": 2000}
    async with world(store_options, server=limits, resume={"window_s": 5}) as house:
        node = await house.node(max_concurrent_jobs=256)
        before = in_memory(house)
        sessions, ids = house.instance.sessions, []
        for count in range(1000):
            speaker = await house.session()
            ids.append(speaker.id)
            await speaker.say(60)
            if count % 2:
                await node.job(session_id=speaker.id)
            speaker.reset()
            if count % 100 == 99:
                await wait_until(lambda: not sessions.attached(), description="the server has noticed")
                await house.live(5, node)
        await assert_nothing_left(house, before, *ids)
        speaker = await house.session()
        await speaker.say(60)
        await node.answer(await node.job(session_id=speaker.id))
        await speaker.expect("translation_result")
