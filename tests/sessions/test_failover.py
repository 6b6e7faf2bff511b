"""Faults F01 to F16: nodes that die, lie or keep silent, and what becomes of their jobs."""

from __future__ import annotations

from typing import Any

import pytest

from support import wait_until
from world import FakeNode, Speaker, World, world

PENDING_S = 10.0
ATTEMPT_S = 3.0  # 2 s and half of the 0.2 s of audio, in whole seconds
SHORT = {"job_timeout": {"base_s": 2, "min_s": 2}}


def others(nodes: list[FakeNode], had_it: FakeNode) -> list[FakeNode]:
    return [node for node in nodes if node is not had_it]


def ends(speaker: Speaker) -> list[tuple[str, int]]:
    kinds = {"translation_result", "missing_result"}
    return [
        (message["type"], message["utterance_index"]) for message in speaker.inbox if message["type"] in kinds
    ]


async def acknowledge(node: FakeNode, job: dict[str, Any]) -> None:
    names = ("job_id", "attempt_id", "session_id", "trace_id")
    await node.send("job_ack", node_id=node.id, **{name: job[name] for name in names})


async def nothing_reserved(house: World) -> None:
    async def free() -> bool:
        return not await house.reserved()

    await wait_until(free, description="every slot is given back")


@pytest.mark.parametrize("acked", [True, False], ids=["after the ack", "before the ack"])
async def test_f01_and_f02_the_job_of_a_node_that_dies_moves_at_once(store_options, acked):
    async with world(store_options) as house:
        nodes = [await house.node(), await house.node()]
        speaker = await house.session()
        await speaker.say()
        dead, job = await house.taken(*nodes)
        if acked:
            await acknowledge(dead, job)
            await speaker.expect("ui_event", event="NODE_ACCEPTED")
        dead.reset()

        (alive,) = others(nodes, dead)
        again = await alive.job(job_id=job["job_id"])
        assert (again["attempt_id"], again["audio"]) == (2, job["audio"])
        await alive.answer(again)
        await speaker.expect("translation_result", utterance_index=0)
        await house.settled(speaker)
        assert ends(speaker) == []
        await nothing_reserved(house)


async def test_f02_a_node_that_promised_to_acknowledge_and_does_not_loses_the_job_after_two_seconds(
    store_options,
):
    async with world(store_options) as house:
        nodes = [await house.node(features=["job_ack", "exact_flags", "any_order"]) for _ in range(2)]
        speaker = await house.session()
        await speaker.say()
        mute, job = await house.taken(*nodes)
        house.clock.advance(1.9)
        await mute.sync()
        assert not mute.seen("job_cancel")
        house.clock.advance(0.1)
        await mute.expect("job_cancel", job_id=job["job_id"], attempt_id=1)
        (other,) = others(nodes, mute)
        again = await other.job(attempt_id=2)
        await acknowledge(other, again)
        await speaker.expect("ui_event", event="NODE_ACCEPTED")

        house.clock.advance(30.9)
        await other.sync()
        assert not other.seen("job_cancel"), "an acknowledged job has the whole time"
        house.clock.advance(0.1)
        await other.expect("job_cancel", attempt_id=2)


async def test_f02_a_node_that_promised_nothing_need_not_acknowledge(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(features=None), await house.session()
        await speaker.say()
        job = await node.job()
        house.clock.advance(30)
        await node.answer(job)

        await speaker.expect("translation_result")
        assert not node.seen("job_cancel")


async def test_f04_of_two_answers_one_is_delivered(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await node.job()
        await node.answer(job, "一", "one")
        await node.answer(job, "二", "two")
        await house.settled(node, speaker)

        assert ends(speaker) == [("translation_result", 0)]
        assert speaker.seen("translation_result")[0]["text_translated"] == "one"


async def test_f05_a_result_after_failover_gives_way_to_the_living_attempt(store_options):
    async with world(store_options, **SHORT) as house:
        nodes = [await house.node(), await house.node()]
        speaker = await house.session()
        await speaker.say()
        slow, job = await house.taken(*nodes)
        house.clock.advance(ATTEMPT_S)
        (fast,) = others(nodes, slow)
        again = await fast.job(attempt_id=2)

        await slow.answer(job, "旧", "old")
        await house.settled(slow, speaker)
        assert ends(speaker) == []
        await fast.answer(again, "新", "new")

        assert (await speaker.expect("translation_result"))["text_translated"] == "new"
        await slow.answer(job, "旧", "old")
        await house.settled(slow, speaker)
        assert ends(speaker) == []


@pytest.mark.parametrize("when", ["before the end", "after the end"])
async def test_f05_a_result_after_failover_is_used_when_no_other_comes(store_options, when):
    """The job failed for good, its index is open: the late answer is better than none, and comes once."""
    async with world(store_options, **SHORT) as house:
        nodes = [await house.node(), await house.node()]
        speaker = await house.session()
        await speaker.say()
        slow, job = await house.taken(*nodes)
        house.clock.advance(ATTEMPT_S)
        (broken,) = others(nodes, slow)
        again = await broken.job(attempt_id=2)
        answers = [lambda: slow.answer(job, "旧", "old"), lambda: broken.fail(again, "PROCESSING_ERROR")]
        for answer in answers if when == "before the end" else reversed(answers):
            await answer()
            await house.settled(slow, broken, speaker)

        missing = [] if when == "before the end" else [("missing_result", 0)]
        assert ends(speaker) == [*missing, ("translation_result", 0)]
        assert speaker.seen("translation_result")[0]["text_translated"] == "old"
        await nothing_reserved(house)


async def test_f05_a_result_that_came_while_the_job_waited_for_a_node_is_used_in_the_end(store_options):
    async with world(store_options, **SHORT) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await node.job()
        house.clock.advance(ATTEMPT_S)
        await node.expect("job_cancel", attempt_id=1)
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        await node.answer(job, "旧", "old")
        await house.settled(node, speaker)
        assert ends(speaker) == []

        house.clock.advance(PENDING_S)

        assert (await speaker.expect("translation_result"))["text_translated"] == "old"
        assert not speaker.seen("ui_event", error_code="JOB_TIMEOUT")
        await nothing_reserved(house)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("NODE_OVERLOADED", "full"),
        ("MODEL_NOT_AVAILABLE", "no model"),
        ("PROCESSING_ERROR", "DUPLICATE_JOB_ID: job"),
        ("PROCESSING_ERROR", "DUPLICATE_UTTERANCE_INDEX: 0"),
    ],
)
async def test_f07_a_refused_job_is_taken_elsewhere_and_never_back(store_options, code, message):
    async with world(store_options) as house:
        nodes = [await house.node(), await house.node()]
        speaker = await house.session()
        await speaker.say()
        first, job = await house.taken(*nodes)
        await first.fail(job, code, message)
        (second,) = others(nodes, first)
        again = await second.job(job_id=job["job_id"], attempt_id=2)
        await second.fail(again, code, message)
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        assert not first.seen("job_assign")

        third = await house.node()
        await third.answer(await third.job(job_id=job["job_id"], attempt_id=3))

        await speaker.expect("translation_result", utterance_index=0)
        assert not speaker.seen("error")
        await nothing_reserved(house)


async def test_f07_a_node_never_gets_more_jobs_than_it_said_it_takes(store_options):
    async with world(store_options) as house:
        node = await house.node(max_concurrent_jobs=2)
        speakers = [await house.session() for _ in range(5)]
        for speaker in speakers:
            await speaker.say()
        jobs = [await node.job(), await node.job()]
        for _ in range(3):
            await house.settled(node)
            assert not node.seen("job_assign")
            assert len(await house.reserved()) == 2
            await node.answer(jobs.pop(0))
            jobs.append(await node.job())
        for job in jobs:
            await node.answer(job)
        for speaker in speakers:
            await speaker.expect("translation_result", utterance_index=0)
        await nothing_reserved(house)


async def test_the_end_of_a_session_cancels_its_jobs_by_attempt(store_options):
    async with world(store_options, resume={"window_s": 0}) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        await speaker.say()
        jobs = [await node.job(utterance_index=index) for index in (0, 1)]
        await speaker.hang_up()

        for job in jobs:
            cancel = await node.expect("job_cancel", job_id=job["job_id"])
            assert (cancel["attempt_id"], cancel["reason"]) == (1, "session_closed")
        await node.answer(jobs[0])
        await node.sync()
        await nothing_reserved(house)


async def test_f16_a_client_that_vanishes_while_its_result_is_written_frees_the_slot(store_options):
    async with world(store_options, resume={"window_s": 0}) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await node.job()
        await house.settled(speaker)
        await house.instance.stores.connection.call("CLIENT", "PAUSE", 200, "WRITE")
        await node.answer(job)
        await node.sync()
        speaker.reset()

        await wait_until(lambda: not len(house.instance.sessions), description="the session is gone")

        await nothing_reserved(house)
        assert not len(house.instance.roster)
