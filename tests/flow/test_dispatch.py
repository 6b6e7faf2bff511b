"""From a job to its node: order, waiting without polling, and answers of Redis that never arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from lingua_scheduler.errors import DependencyDown, StoreError
from support import wait_until
from world import FakeNode, Speaker, World, world

QUICK = {"dispatch": {"store_retry_ms": 10}}
QUIET = {"placement": {"refresh_ms": 3_600_000, "sweep_ms": 3_600_000}}


def disturb(ledger: object, name: str, *, after: bool = True, times: int = 1) -> Callable[[], int]:
    """Let calls of a ledger fail, with their effect (`after`) or without; gives how often it was called."""
    real = getattr(ledger, name)
    calls = 0

    async def shaky(*args: Any, **values: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls <= times:
            if after:
                await real(*args, **values)
            raise DependencyDown("the answer was lost")
        return await real(*args, **values)

    setattr(ledger, name, shaky)
    return lambda: calls


def hold(ledger: object, name: str) -> tuple[asyncio.Event, asyncio.Event]:
    """Hold the next call of a ledger back; gives what tells that it came, and what lets it go."""
    real = getattr(ledger, name)
    came, go = asyncio.Event(), asyncio.Event()

    async def held(*args: Any, **values: Any) -> Any:
        reply = await real(*args, **values)
        came.set()
        await go.wait()
        return reply

    setattr(ledger, name, held)
    return came, go


async def answered(node: FakeNode, speaker: Speaker, index: int = 0) -> dict[str, Any]:
    """Let the node answer an utterance and the speaker get it."""
    job = await node.job(utterance_index=index)
    await node.answer(job)
    await speaker.expect("translation_result", utterance_index=index)
    return job


async def nothing_held(house: World) -> None:
    async def free() -> bool:
        return not await house.reserved()

    await wait_until(free, description="no slot is held")


async def full(house: World, node: FakeNode) -> dict[str, Any]:
    """Give the only slot of a node to somebody."""
    speaker = await house.session()
    await speaker.say()
    return await node.job()


# Order


async def test_jobs_of_a_session_leave_in_the_order_of_speech(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(max_concurrent_jobs=50), await house.session()
        for _ in range(30):
            await speaker.say()
        await house.settled(speaker)
        assert [job["utterance_index"] for job in node.seen("job_assign")] == list(range(30))


async def test_jobs_that_waited_leave_in_the_order_of_speech(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        for _ in range(5):
            await speaker.say()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE", utterance_index=0)
        node = await house.node(max_concurrent_jobs=5)
        for index in range(5):
            await wait_until(lambda: node.seen("job_assign"), description="the next job")
            assert (await node.job())["utterance_index"] == index


async def test_jobs_of_a_lost_node_are_all_given_to_another(store_options):
    async with world(store_options) as house:
        first, speaker = await house.node(max_concurrent_jobs=5), await house.session()
        for index in range(5):
            await speaker.say()
            await first.job(utterance_index=index)
        second = await house.node(max_concurrent_jobs=5)
        first.reset()
        for index in range(5):
            await answered(second, speaker, index)


async def test_one_session_does_not_hold_up_another(store_options):
    async with world(store_options) as house:
        node = await house.node("zh", "en")
        nobody = await house.session(src_lang="de", tgt_lang="fr")
        await nobody.say()
        await nobody.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        await answered_by(house, node)


async def answered_by(house: World, node: FakeNode) -> None:
    speaker = await house.session()
    await speaker.say()
    await answered(node, speaker)


# Waiting, without a refresh of the snapshot to help


async def test_a_waiting_job_is_woken_by_a_released_slot(store_options):
    async with world(store_options, **QUIET) as house:
        node = await house.node(max_concurrent_jobs=1)
        busy = await full(house, node)
        speaker = await house.session()
        await speaker.say()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        await node.answer(busy)
        await answered(node, speaker)


async def test_a_waiting_job_is_woken_by_a_heartbeat(store_options):
    async with world(store_options, **QUIET) as house:
        node, speaker = await house.node(), await house.session()
        await node.beat(usage={"running_jobs": 4})
        await house.written(node)
        await speaker.say()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        await node.beat()
        await answered(node, speaker)


async def test_a_waiting_job_is_woken_by_a_new_node(store_options):
    async with world(store_options, **QUIET) as house:
        speaker = await house.session()
        await speaker.say()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        await answered(await house.node(), speaker)


async def test_a_waiting_job_is_woken_by_what_another_instance_freed(store_options):
    """The slot of an instance that died is swept by another one."""
    async with world(store_options, placement={"refresh_ms": 10, "sweep_ms": 3_600_000}) as house:
        node = await house.node(max_concurrent_jobs=1)
        await full(house, node)
        speaker = await house.session()
        await speaker.say()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        (member,) = await house.reserved()
        await house.redis("ZADD", house.keys.reserved(0), "1", member)
        async with world(store_options, placement={"sweep_ms": 100}):
            await answered(node, speaker)


async def test_nobody_asks_redis_while_all_wait(store_options):
    async with world(store_options, **QUIET) as house:
        for _ in range(5):
            speaker = await house.session()
            await speaker.say()
            await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        node = await house.node("de", "fr")
        calls = disturb(house.instance.stores.nodes, "reserve", times=0)
        for _ in range(5):
            await node.beat()
        await house.written(node)
        house.clock.advance(5)
        assert calls() == 0


async def test_of_those_who_wait_the_most_urgent_is_first_and_the_others_wait_on(store_options):
    async with world(store_options, **QUIET) as house:
        node = await house.node(max_concurrent_jobs=1)
        busy = await full(house, node)
        speakers = []
        for _ in range(4):
            speaker = await house.session()
            await speaker.say()
            await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
            speakers.append(speaker)
            house.clock.advance(0.1)
        for speaker in speakers:
            await node.answer(busy)
            busy = await node.job()
            assert busy["session_id"] == speaker.id
            assert not node.seen("job_assign")


async def test_a_job_that_ended_while_it_waited_takes_no_slot(store_options):
    async with world(store_options, **QUIET, resume={"window_s": 0}) as house:
        speaker, other = await house.session(), await house.session()
        for each in (speaker, other):
            await each.say()
            await each.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        await speaker.hang_up()
        await wait_until(lambda: len(house.instance.sessions) == 1, description="the session has ended")
        node = await house.node()
        assert (await node.job())["session_id"] == other.id
        await house.settled(other)
        assert len(await house.reserved()) == 1
        assert not node.seen("job_assign")


async def test_the_client_is_told_once_and_the_metric_counts_once(store_options):
    async with world(store_options, **QUIET) as house:
        speaker = await house.session()
        await speaker.say()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        node = await house.stranger()
        await node.register("zh", "en")
        for usage in (4, 4, 4):
            await node.beat(usage={"running_jobs": usage})
        await house.settled(speaker)
        assert not speaker.seen("ui_event", error_code="NO_AVAILABLE_NODE")
        assert house.counted("no_available_node_total", reason="no_nodes") == 1


# Answers that never arrive


async def test_a_reservation_whose_answer_was_lost_is_found_again(store_options):
    async with world(store_options, **QUICK) as house:
        node, speaker = await house.node(max_concurrent_jobs=1), await house.session()
        disturb(house.instance.stores.nodes, "reserve")
        await speaker.say()
        job = await answered(node, speaker)
        assert job["attempt_id"] == 1
        await nothing_held(house)


async def test_a_reservation_that_never_happened_is_asked_for_again(store_options):
    async with world(store_options, **QUICK) as house:
        node, speaker = await house.node(max_concurrent_jobs=1), await house.session()
        disturb(house.instance.stores.nodes, "reserve", after=False, times=3)
        await speaker.say()
        await answered(node, speaker)
        assert len(speaker.seen("ui_event", error_code="SCHEDULER_DEPENDENCY_DOWN")) == 1
        await nothing_held(house)


@pytest.mark.parametrize("after", [True, False])
async def test_a_job_whose_writing_was_not_answered_keeps_its_slot_and_its_attempt(store_options, after):
    async with world(store_options, **QUICK) as house:
        node, speaker = await house.node(), await house.session()
        disturb(house.instance.stores.jobs, "create", after=after, times=2)
        await speaker.say()
        job = await answered(node, speaker)
        assert job["attempt_id"] == 1
        assert house.counted("results_dropped_total", why="stale") == 0
        await nothing_held(house)


async def test_a_waiting_job_whose_writing_was_not_answered_is_placed_all_the_same(store_options):
    async with world(store_options, **QUICK) as house:
        speaker = await house.session()
        disturb(house.instance.stores.jobs, "create")
        await speaker.say()
        await speaker.expect("ui_event", error_code="SCHEDULER_DEPENDENCY_DOWN")
        await answered(await house.node(), speaker)
        await nothing_held(house)


async def test_a_second_attempt_whose_writing_was_not_answered_counts(store_options):
    async with world(store_options, **QUICK) as house:
        first, speaker = await house.node(), await house.session()
        await speaker.say()
        await first.job()
        second = await house.node()
        disturb(house.instance.stores.jobs, "attempt")
        first.reset()
        assert (await answered(second, speaker))["attempt_id"] == 2
        await nothing_held(house)


async def test_a_waiting_job_that_redis_forgot_is_written_anew(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.say()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        await house.redis("FLUSHALL")
        await answered(await house.node(), speaker)


async def test_a_job_that_redis_forgot_moves_to_another_node(store_options):
    async with world(store_options) as house:
        first, speaker = await house.node(), await house.session()
        await speaker.say()
        await first.job()
        await house.redis("FLUSHALL")
        second = await house.node()
        first.reset()
        await answered(second, speaker)


async def test_a_session_with_a_newer_owner_is_forgotten_and_its_job_is_not_placed(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await house.redis("HINCRBY", house.keys.session(speaker.id), "epoch", 1)
        await speaker.say()
        assert await speaker.closed() == 4409
        assert not speaker.seen("missing_result")
        assert not node.seen("job_assign")
        assert not len(house.instance.sessions)
        await nothing_held(house)


async def test_a_fault_in_one_placement_does_not_stop_the_lane(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        reserve = house.instance.stores.nodes.reserve

        async def broken(ask):
            house.instance.stores.nodes.reserve = reserve
            raise StoreError("out of order")

        house.instance.stores.nodes.reserve = broken
        await speaker.say()
        await speaker.say()
        await speaker.expect("missing_result", utterance_index=0)
        await answered(node, speaker, 1)


# Ends that come in between


@pytest.mark.parametrize("call", ["reserve", "create"])
async def test_a_session_that_ends_while_its_job_is_placed_leaves_nothing(store_options, call):
    async with world(store_options, resume={"window_s": 0}) as house:
        node, speaker = await house.node(), await house.session()
        stores = house.instance.stores
        came, go = hold(stores.nodes if call == "reserve" else stores.jobs, call)
        await speaker.say()
        await came.wait()
        await speaker.hang_up()
        await wait_until(lambda: len(house.instance.sessions) == 0, description="the session has ended")
        go.set()
        await nothing_held(house)
        assert not node.seen("job_assign")

        async def nothing_left() -> bool:
            return not await house.redis("KEYS", f"*{speaker.id}*")

        await wait_until(nothing_left, description="nothing of the session is left")


async def test_a_job_that_times_out_while_it_is_written_is_ended_there_too(store_options):
    async with world(store_options, session={"idle_timeout_seconds": 600}) as house:
        node, speaker = await house.node(), await house.session()
        came, go = hold(house.instance.stores.jobs, "create")
        await speaker.say()
        await came.wait()
        house.clock.advance(10)
        await speaker.expect("missing_result", utterance_index=0)
        go.set()
        await nothing_held(house)
        assert not node.seen("job_assign")

        async def ended() -> bool:
            return len(await house.redis("KEYS", f"*{speaker.id}*:ended:*")) == 1

        await wait_until(ended, description="the record says that it ended")
        assert await house.redis("KEYS", f"*{speaker.id}*:audio:*") == []


async def test_a_node_that_registers_anew_between_reservation_and_assignment_gets_the_job_later(
    store_options,
):
    async with world(store_options) as house:
        node, speaker = await house.node(node_id="n1"), await house.session()
        came, go = hold(house.instance.stores.nodes, "reserve")
        await speaker.say()
        await came.wait()
        await node.register(node_id="n1")
        go.set()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        await node.beat()
        await answered(node, speaker)
        await nothing_held(house)
