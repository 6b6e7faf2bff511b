"""Nodes that promised to acknowledge jobs do so in time, and full nodes say no: F02 and F07 in numbers."""

from __future__ import annotations

from typing import Any

import pytest

from world import FakeNode, Speaker, World, world

ACKNOWLEDGES = {"features": ["job_ack", "exact_flags", "any_order"]}
ACK_S = 2.0
ATTEMPT_S = 31.0  # 30 s and half of the 0.2 s of audio, in whole seconds


async def tell(node: FakeNode, kind: str, job: dict[str, Any], **fields: Any) -> None:
    """Send a message about a job."""
    names = ("job_id", "attempt_id", "session_id", "trace_id")
    await node.send(kind, node_id=node.id, **{name: job[name] for name in names}, **fields)


async def out(house: World, *nodes: FakeNode) -> tuple[Speaker, FakeNode, dict[str, Any]]:
    """Let somebody say something; give the speaker, the node that has it, and the job."""
    speaker = await house.session()
    await speaker.say()
    return (speaker, *await house.taken(*nodes))


async def test_f02_a_missing_acknowledgement_is_counted_as_such(store_options):
    async with world(store_options) as house:
        nodes = [await house.node(**ACKNOWLEDGES) for _ in range(2)]
        _, mute, job = await out(house, *nodes)
        house.clock.advance(ACK_S)
        await mute.expect("job_cancel", job_id=job["job_id"], attempt_id=1)
        other = next(node for node in nodes if node is not mute)
        await other.job(job_id=job["job_id"], attempt_id=2)
        assert house.counted("ack_timeout_total") == 1
        assert house.counted("failover_total", why="ack_timeout") == 1
        assert house.counted("failover_total", why="timeout") == 0


async def test_a_job_that_takes_too_long_is_counted_apart(store_options):
    async with world(store_options) as house:
        nodes = [await house.node(**ACKNOWLEDGES) for _ in range(2)]
        _, slow, job = await out(house, *nodes)
        await tell(slow, "job_ack", job)
        await house.settled(slow)
        house.clock.advance(ATTEMPT_S)
        await slow.expect("job_cancel", attempt_id=1)
        assert house.counted("ack_timeout_total") == 0
        assert house.counted("failover_total", why="timeout") == 1


async def test_f02_a_first_generation_node_has_no_such_deadline(store_options):
    async with world(store_options) as house:
        nodes = [await house.node(features=None) for _ in range(2)]
        _, node, _job = await out(house, *nodes)
        house.clock.advance(ATTEMPT_S - 0.1)
        await house.settled(node)
        assert not node.seen("job_cancel")
        house.clock.advance(0.1)
        await node.expect("job_cancel", attempt_id=1)
        assert house.counted("ack_timeout_total") == 0


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("job_ack", {}),
        ("job_started", {}),
        ("asr_partial", {"utterance_index": 0, "text": "你", "is_final": False}),
    ],
)
async def test_whoever_shows_that_it_works_has_acknowledged(store_options, kind, fields):
    async with world(store_options) as house:
        node = await house.node(**ACKNOWLEDGES)
        speaker, _, job = await out(house, node)
        await tell(node, kind, job, **fields)
        await house.settled(node)
        house.clock.advance(ATTEMPT_S - 0.1)
        await house.settled(node)
        assert not node.seen("job_cancel")
        await node.answer(job)
        await speaker.expect("translation_result")


async def test_a_result_needs_no_acknowledgement(store_options):
    async with world(store_options) as house:
        node = await house.node(**ACKNOWLEDGES)
        speaker, _, job = await out(house, node)
        await node.answer(job)
        await speaker.expect("translation_result")
        house.clock.advance(ACK_S)
        await house.settled(node, speaker)
        assert not node.seen("job_cancel")
        assert house.counted("ack_timeout_total") == 0


async def test_an_acknowledgement_that_comes_too_late_changes_nothing(store_options):
    async with world(store_options) as house:
        nodes = [await house.node(**ACKNOWLEDGES) for _ in range(2)]
        speaker, mute, job = await out(house, *nodes)
        house.clock.advance(ACK_S)
        other = next(node for node in nodes if node is not mute)
        again = await other.job(attempt_id=2)
        await tell(mute, "job_ack", job)
        await house.settled(mute, speaker)
        assert not speaker.seen("ui_event", event="NODE_ACCEPTED")
        await tell(other, "job_ack", again)
        await speaker.expect("ui_event", event="NODE_ACCEPTED")
        await other.answer(again)
        await speaker.expect("translation_result")


async def test_the_deadline_can_be_set(store_options):
    async with world(store_options, job_timeout={"ack_s": 0.5}) as house:
        nodes = [await house.node(**ACKNOWLEDGES) for _ in range(2)]
        _, mute, _job = await out(house, *nodes)
        house.clock.advance(0.5)
        await mute.expect("job_cancel", attempt_id=1)


async def test_when_nobody_acknowledges_the_job_fails_after_its_last_attempt(store_options):
    async with world(store_options) as house:
        nodes = [await house.node(**ACKNOWLEDGES) for _ in range(5)]
        speaker = await house.session()
        await speaker.say()
        for attempt in range(1, 5):
            await house.taken(*nodes, attempt_id=attempt)
            house.clock.advance(ACK_S)
        await speaker.expect("missing_result", reason="job_failed")
        assert house.counted("ack_timeout_total") == 4


# Full nodes


async def test_f07_the_refusals_of_full_nodes_cost_no_failover(store_options):
    """Six of seven nodes are full; three failovers would not be enough."""
    async with world(store_options) as house:
        nodes = [await house.node() for _ in range(7)]
        speaker = await house.session()
        await speaker.say()
        for attempt in range(1, 7):
            node, job = await house.taken(*nodes, attempt_id=attempt)
            await node.fail(job, "NODE_OVERLOADED", "full")
        node, job = await house.taken(*nodes, attempt_id=7)
        await node.answer(job)
        await speaker.expect("translation_result")
        assert house.counted("node_overload_reject_total") == 6
        assert house.counted("failover_total", why="node_overloaded") == 6
        assert not speaker.seen("missing_result")


async def test_f07_failures_between_refusals_use_the_failovers_up(store_options):
    async with world(store_options) as house:
        nodes = [await house.node() for _ in range(8)]
        speaker = await house.session()
        await speaker.say()
        for attempt in range(1, 8):
            node, job = await house.taken(*nodes, attempt_id=attempt)
            await node.fail(job, *(("NODE_OVERLOADED", "full") if attempt % 2 else ("X", "DUPLICATE_JOB_ID")))
        node, job = await house.taken(*nodes, attempt_id=8)
        await node.fail(job, "X", "DUPLICATE_JOB_ID")
        await speaker.expect("missing_result", reason="job_failed")


async def test_f07_when_every_node_is_full_the_job_waits_for_a_node(store_options):
    async with world(store_options) as house:
        node = await house.node()
        speaker, _, job = await out(house, node)
        await node.fail(job, "NODE_OVERLOADED", "full")
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        house.clock.advance(10)
        await speaker.expect("missing_result", reason="no_available_node")
        assert await house.reserved() == []
