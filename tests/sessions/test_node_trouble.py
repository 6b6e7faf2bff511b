"""Acceptance cases 44a to 44f and fault F10: nodes that are absent, late, or all silent."""

from __future__ import annotations

from support import wait_until
from world import Speaker, World, world

PENDING_S = 10.0
ATTEMPT_S = 3.0  # 2 s and half of the 0.2 s of audio, in whole seconds
SHORT = {"job_timeout": {"base_s": 2, "min_s": 2}}


def ends(speaker: Speaker) -> list[tuple[str, int]]:
    kinds = {"translation_result", "missing_result"}
    return [
        (message["type"], message["utterance_index"]) for message in speaker.inbox if message["type"] in kinds
    ]


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
