"""Acceptance cases 71, 72, 74, 75, 85 and 88: whose answer counts, and how often."""

from __future__ import annotations

import pytest

from dialogue import one_of_each, order, said
from lingua_scheduler.core.stored import Finish
from lingua_scheduler.errors import DependencyDown
from world import world


async def test_71_and_72_a_repeated_result_is_delivered_once_however_late_it_is_repeated(store_options):
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        (job,) = await said(node, speaker)
        for _ in range(2):
            await node.answer(job)
        await house.settled(node, speaker)
        await house.pass_time(35, speaker)
        await node.answer(job)
        await house.settled(node, speaker)

        assert order(speaker) == [("translation_result", 0)]


@pytest.mark.parametrize("at_once", [True, False])
async def test_74_a_complete_result_may_follow_an_empty_one(store_options, at_once):
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        (job,) = await said(node, speaker)
        await node.answer(job, "", "")
        if not at_once:
            await speaker.expect("missing_result")
            await house.pass_time(29, speaker)
        await node.answer(job, "你好", "hello")

        assert (await speaker.expect("translation_result"))["text_translated"] == "hello"
        await house.settled(node, speaker)
        assert len(order(speaker)) <= 1, "a missing_result at most"


async def test_75_an_empty_result_after_a_complete_one_changes_nothing(store_options):
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        (job,) = await said(node, speaker)
        await node.answer(job)
        await node.answer(job, "", "")
        await node.answer(job, "", "", extra={"reason": "ASR_EMPTY"})
        await house.settled(node, speaker)

        assert order(speaker) == [("translation_result", 0)]


async def test_85_a_result_of_a_node_that_never_had_the_job_is_dropped(store_options):
    """Decided otherwise than in the table: results are fenced by node and attempt."""
    async with world(store_options) as house:
        nodes = [await house.node(), await house.node()]
        speaker = await house.session()
        await speaker.say()
        owner, job = await house.taken(*nodes)
        (stranger,) = [node for node in nodes if node is not owner]
        await stranger.answer(job, "假", "forged")
        await stranger.answer(job, "", "", extra={"reason": "ASR_EMPTY"})
        await house.settled(stranger, speaker)
        assert order(speaker) == []

        await owner.answer(job, "真", "real")

        assert (await speaker.expect("translation_result"))["text_translated"] == "real"


@pytest.mark.parametrize(
    "wrong",
    [{"attempt_id": 2}, {"session_id": "s-other"}, {"utterance_index": 1}, {"job_id": "job-other"}],
    ids=lambda wrong: next(iter(wrong)),
)
async def test_85_a_result_that_names_another_attempt_session_index_or_job_is_dropped(store_options, wrong):
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        (job,) = await said(node, speaker)
        await node.answer(job, "假", "forged", **wrong)
        await house.settled(node, speaker)
        assert order(speaker) == []

        await node.answer(job, "真", "real")

        assert (await speaker.expect("translation_result"))["text_translated"] == "real"


async def test_88_a_result_for_an_unknown_session_changes_nothing(store_options):
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        await said(node, speaker)
        strange = {
            "job_id": "job-x",
            "attempt_id": 1,
            "session_id": "s-x",
            "utterance_index": 0,
            "trace_id": "t",
        }
        known = len(house.instance.roster)
        for _ in range(50):
            await node.answer(strange)
        await house.settled(node, speaker)

        assert (len(house.instance.roster), len(house.instance.sessions)) == (known, 1)
        assert order(speaker) == []


async def test_a_result_whose_writing_redis_never_confirmed_is_delivered_all_the_same(store_options):
    """The reply is lost after the end was written; asked again, Redis says that the job had ended."""
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        (job,) = await said(node, speaker)
        ledger = house.instance.stores.jobs
        finish, calls = ledger.finish, []

        async def lose_the_first_reply(*args, **fields):
            verdict = await finish(*args, **fields)
            calls.append(verdict)
            if len(calls) == 1:
                raise DependencyDown("the reply is lost")
            return verdict

        ledger.finish = lose_the_first_reply
        await node.answer(job)
        await speaker.expect("translation_result", utterance_index=0)
        await house.settled(node, speaker)

        assert calls == [Finish.ACCEPTED, Finish.DONE]
        assert order(speaker) == []
        assert await house.reserved() == []


async def test_b65_a_result_that_is_too_long_is_refused_and_a_better_one_still_counts(store_options):
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        (job,) = await said(node, speaker)
        await node.answer(job, "a" * 70_000)
        await node.expect("error", code="INVALID_MESSAGE")

        await node.answer(job, "<script>alert(1)</script>", "</script>\u2028\x00\U0001f600")

        result = await speaker.expect("translation_result")
        assert result["text_asr"] == "<script>alert(1)</script>"
        assert result["text_translated"] == "</script>\u2028\x00\U0001f600"
