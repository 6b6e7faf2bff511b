"""Acceptance cases 67 to 70, 81, 86 and 89: results come in any order and leave in utterance order."""

from __future__ import annotations

import pytest

from dialogue import one_of_each, order, said
from world import FAST, world

GAP_S = 0.5  # of FAST


async def test_67_a_later_utterance_that_is_done_first_waits_for_the_earlier_one(store_options):
    async with world(store_options, **FAST) as house:
        node, speaker = await one_of_each(house)
        first, second = await said(node, speaker, 2)
        await node.answer(second)
        await speaker.expect("ui_event", event="NMT_DONE", utterance_index=1)
        await house.pass_time(GAP_S * 0.9, speaker)
        await node.answer(first)

        await speaker.expect("translation_result", utterance_index=1, matching=lambda _: bool(order(speaker)))

        assert order(speaker) == [("translation_result", 0)]


async def test_68_a_gap_is_reported_after_the_gap_timeout_and_what_waited_follows(store_options):
    async with world(store_options, **FAST) as house:
        node, speaker = await one_of_each(house)
        _, second = await said(node, speaker, 2)
        await node.answer(second)
        await speaker.expect("ui_event", event="NMT_DONE", utterance_index=1)
        await house.pass_time(GAP_S - 0.01, speaker)
        await speaker.sync()
        assert order(speaker) == []

        house.clock.advance(0.01)
        missing = await speaker.expect("missing_result")

        assert (missing["utterance_index"], missing["reason"]) == (0, "gap_timeout")
        assert missing["created_at_ms"] == house.clock.wall_ms()
        result = await speaker.expect("translation_result", utterance_index=1)
        assert result["scheduler_sent_at_ms"] == house.clock.wall_ms(), "stamped when sent, not when held"


@pytest.mark.parametrize(("late_s", "expected"), [(29.0, 1), (30.1, 0)])
async def test_69_and_70_what_was_missing_comes_late_once_within_the_late_window(
    store_options, late_s, expected
):
    async with world(store_options, results={"gap_timeout_ms": 500}, job_timeout={"base_s": 50}) as house:
        node, speaker = await one_of_each(house)
        first, second = await said(node, speaker, 2)
        await node.answer(second)
        await speaker.expect("ui_event", event="NMT_DONE", utterance_index=1)
        house.clock.advance(GAP_S)
        await speaker.expect("translation_result", utterance_index=1)

        await house.pass_time(late_s, speaker)
        for _ in range(2):
            await node.answer(first)
        await house.settled(node, speaker)

        assert order(speaker) == [("missing_result", 0)] + [("translation_result", 0)] * expected


async def test_81_nobody_waits_for_a_failed_utterance(store_options):
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        first, second = await said(node, speaker, 2)
        await node.answer(second)
        await node.fail(first, "PROCESSING_ERROR")

        await speaker.expect("translation_result", utterance_index=1)

        assert order(speaker) == [("missing_result", 0)]


async def test_86_more_than_can_be_held_gives_the_lowest_gap_up(store_options):
    many = {"session": {"max_open_utterances": 1000}, "job_timeout": {"base_s": 50}}
    async with world(store_options, results={"pending_max": 200}, **many) as house:
        node, speaker = await one_of_each(house)
        _, *behind = await said(node, speaker, 202)
        for job in behind[:-1]:
            await node.answer(job)
        await house.settled(node, speaker)
        assert order(speaker) == []

        await node.answer(behind[-1])
        await speaker.expect("translation_result", utterance_index=201)

        assert order(speaker) == [("missing_result", 0)] + [("translation_result", i) for i in range(1, 201)]
        assert speaker.seen("missing_result")[0]["reason"] == "pending_overflow_evict"


async def test_89_every_one_of_300_sessions_hears_of_its_gap_in_time(store_options):
    async with world(store_options, **FAST) as house:
        nodes = [await house.node(max_concurrent_jobs=256) for _ in range(3)]
        speakers = [await house.session() for _ in range(300)]
        by_session = {speaker.id: speaker for speaker in speakers}
        for speaker in speakers:
            await speaker.say()
            await speaker.say()
        for _ in range(600):
            node, job = await house.taken(*nodes)
            if job["utterance_index"] == 1:
                await node.answer(job)
                await by_session[job["session_id"]].expect("ui_event", event="NMT_DONE")

        house.clock.advance(GAP_S)

        for speaker in speakers:
            assert (await speaker.expect("missing_result"))["reason"] == "gap_timeout"
            await speaker.expect("translation_result", utterance_index=1)


async def test_first_come_first_served_holds_nothing_back(store_options):
    async with world(store_options, results={"mode": "fcfs"}) as house:
        node, speaker = await one_of_each(house)
        first, second, third = await said(node, speaker, 3)
        await node.answer(third)
        await speaker.expect("translation_result", utterance_index=2)
        await node.answer(second, "", "")
        await speaker.expect("missing_result", utterance_index=1)
        await node.answer(first)
        await speaker.expect("translation_result", utterance_index=0)
