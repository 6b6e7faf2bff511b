"""Acceptance cases 44a to 44f and faults F01 to F16: nodes that are absent, die, lie or keep silent."""

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


async def test_44a_without_a_node_the_client_is_told_at_once_and_the_index_ends_after_ten_seconds(
    store_options,
):
    """Decided otherwise than in the table: at once NO_AVAILABLE_NODE, in the end JOB_TIMEOUT."""
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.say()
        told = await speaker.expect("ui_event", event="ERROR", error_code="NO_AVAILABLE_NODE")
        assert (told["utterance_index"], told["elapsed_ms"]) == (0, 0)
        await house.pass_time(PENDING_S - 0.1, speaker)
        await speaker.sync()
        assert ends(speaker) == []

        house.clock.advance(0.1)
        missing = await speaker.expect("missing_result", utterance_index=0)

        assert missing["reason"] == "no_available_node"
        (over,) = speaker.seen("ui_event", event="ERROR")
        assert (over["error_code"], over["elapsed_ms"]) == ("JOB_TIMEOUT", 10_000)
        assert not speaker.seen("error")


async def test_44b_an_index_that_found_no_node_does_not_stop_the_next_one(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.say()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        house.clock.advance(PENDING_S)
        await speaker.expect("missing_result", utterance_index=0)

        node = await house.node()
        await speaker.say()

        await node.answer(await node.job(utterance_index=1))
        await speaker.expect("translation_result", utterance_index=1)


async def test_44c_a_node_that_joins_in_time_gets_what_waited(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.say()
        await speaker.say()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        house.clock.advance(3)

        node = await house.node()

        for index in (0, 1):
            job = await node.job(utterance_index=index)
            assert (job["attempt_id"], job["audio"]) == (1, b"\xff" * 600)
            await node.answer(job)
            await speaker.expect("translation_result", utterance_index=index)
        assert not speaker.seen("missing_result")


async def test_44d_a_node_can_be_given_jobs_right_after_its_first_heartbeat(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        node = await (await house.stranger()).register()
        await node.beat()
        await node.expect("node_status", status="ready")
        await speaker.say()

        await node.job(utterance_index=0)

        await speaker.expect("ui_event", event="DISPATCHED")
        assert not speaker.seen("ui_event", event="ERROR")


async def test_44e_a_node_that_dropped_right_before_the_cut_is_passed_over(store_options):
    async with world(store_options) as house:
        gone, alive = await house.node(), await house.node()
        speaker = await house.session()
        gone.reset()
        await speaker.say()
        node, job = await house.taken(alive)
        await node.answer(job)

        await speaker.expect("translation_result", utterance_index=0)


async def test_44f_a_job_that_nobody_answers_moves_on_and_ends_once(store_options):
    """Four nodes keep silent: attempts 1 to 4, a cancel for each, one JOB_TIMEOUT, no slot held."""
    async with world(store_options, **SHORT) as house:
        nodes = [await house.node() for _ in range(4)]
        speaker = await house.session()
        await speaker.say()
        left, tried = list(nodes), []
        for attempt in range(1, 5):
            node, job = await house.taken(*left, attempt_id=attempt)
            await speaker.expect("ui_event", event="DISPATCHED")
            left.remove(node)
            tried.append(job["job_id"])
            house.clock.advance(ATTEMPT_S - 0.1)
            await node.sync()
            assert not node.seen("job_cancel")
            house.clock.advance(0.1)
            cancel = await node.expect("job_cancel", job_id=job["job_id"])
            assert (cancel["attempt_id"], cancel["reason"]) == (attempt, "job_timeout")

        missing = await speaker.expect("missing_result", utterance_index=0)

        assert missing["reason"] == "job_timeout"
        assert len(set(tried)) == 1, "one job, never twice on a node"
        (told,) = speaker.seen("ui_event", event="ERROR")
        assert (told["error_code"], told["elapsed_ms"]) == ("JOB_TIMEOUT", 4 * ATTEMPT_S * 1000)
        await house.pass_time(30, speaker)
        await house.settled(speaker)
        assert len(speaker.seen("ui_event", event="ERROR")) == 1
        await nothing_reserved(house)


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


async def test_f10_all_nodes_vanish_and_one_returns(store_options):
    async with world(store_options) as house:
        nodes = [await house.node(), await house.node()]
        speaker = await house.session()
        await speaker.say()
        _, job = await house.taken(*nodes)
        for node in nodes:
            node.reset()
        await speaker.expect("ui_event", event="ERROR", error_code="NO_AVAILABLE_NODE")
        await speaker.say()
        house.clock.advance(6)

        back = await house.node()

        again = await back.job(utterance_index=0)
        assert again["job_id"] == job["job_id"]
        assert again["attempt_id"] > 1
        await back.answer(again)
        await back.answer(await back.job(utterance_index=1))
        await speaker.expect("translation_result", utterance_index=1)
        assert ends(speaker) == [("translation_result", 0)]


async def test_a_node_that_returns_under_its_name_does_not_get_its_old_job_back(store_options):
    async with world(store_options) as house:
        node = await house.node(node_id="n-1")
        speaker = await house.session()
        await speaker.say()
        job = await node.job()
        node.reset()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")

        back = await house.node(node_id="n-1")
        await speaker.say()
        other = await house.node(node_id="n-2")

        again = await other.job(utterance_index=0)
        assert (again["job_id"], again["attempt_id"]) == (job["job_id"], 2)
        _, second = await house.taken(back, other, utterance_index=1)
        assert second["attempt_id"] == 1
        assert not back.seen("job_assign", utterance_index=0)


async def test_the_end_of_a_session_cancels_its_jobs_by_attempt(store_options):
    async with world(store_options) as house:
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
    async with world(store_options) as house:
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


async def test_a_job_that_waits_for_another_node_does_not_hold_up_later_speech(store_options):
    async with world(store_options, **SHORT) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        await node.job(utterance_index=0)
        house.clock.advance(ATTEMPT_S)
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE", utterance_index=0)

        await speaker.say()

        await node.answer(await node.job(utterance_index=1))
        await speaker.expect("ui_event", event="NMT_DONE", utterance_index=1)
        house.clock.advance(PENDING_S)
        await speaker.expect("translation_result", utterance_index=1)
        assert ends(speaker) == [("missing_result", 0)]
