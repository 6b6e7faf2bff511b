"""Acceptance case 83: what was understood so far reaches the client at once, but never as a flood."""

from __future__ import annotations

from typing import Any

from world import FAST, FakeNode, Speaker, world

INTERVAL_S = 0.1


async def partial(node: FakeNode, job: dict[str, Any], text: str, **fields: Any) -> None:
    message = {
        "job_id": job["job_id"],
        "node_id": node.id,
        "session_id": job["session_id"],
        "utterance_index": job["utterance_index"],
        "text": text,
        "is_final": False,
        "trace_id": job["trace_id"],
    }
    await node.send("asr_partial", **{**message, **fields})


def texts(speaker: Speaker) -> list[str]:
    return [message["text"] for message in speaker.seen("asr_partial")]


async def test_83_a_partial_is_passed_on_at_once_although_lower_indexes_are_open(store_options):
    """Decided otherwise than in the original: the job id is filled in."""
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        await speaker.say()
        job = await node.job(utterance_index=1)
        for index in (0, 1):
            await speaker.expect("ui_event", event="DISPATCHED", utterance_index=index)

        await partial(node, job, "你")
        await speaker.expect("ui_event", event="ASR_PARTIAL", utterance_index=1, job_id=job["job_id"])

        (message,) = speaker.inbox
        assert message == {
            "type": "asr_partial",
            "session_id": speaker.id,
            "utterance_index": 1,
            "job_id": job["job_id"],
            "text": "你",
            "is_final": False,
            "trace_id": job["trace_id"],
        }


async def test_of_a_flood_of_partials_the_newest_is_passed_on_once_per_interval(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await node.job()
        for number in range(1000):
            await partial(node, job, str(number), is_final=number % 2 == 0)
        await node.sync()
        await house.pass_time(INTERVAL_S, speaker)
        await speaker.sync()
        assert texts(speaker) == ["0", "999"]

        await partial(node, job, "1000")
        await node.sync()
        await house.pass_time(INTERVAL_S - 0.001, speaker)
        await speaker.sync()
        assert texts(speaker) == ["0", "999"]
        house.clock.advance(0.001)
        await speaker.expect("asr_partial", text="1000")

        await speaker.sync()
        assert len(speaker.seen("ui_event", event="ASR_PARTIAL")) == 3


async def test_the_pace_is_one_for_the_whole_session(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        await speaker.say()
        first, second = await node.job(utterance_index=0), await node.job(utterance_index=1)
        await partial(node, first, "a")
        await partial(node, first, "b")
        await partial(node, second, "c")
        await node.sync()
        await house.pass_time(INTERVAL_S, speaker)
        await speaker.sync()

        assert texts(speaker) == ["a", "c"]


async def test_a_partial_that_waits_is_dropped_when_its_utterance_ends(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await node.job()
        await partial(node, job, "a")
        await partial(node, job, "b")
        await node.answer(job)
        await speaker.expect("translation_result")
        house.clock.advance(INTERVAL_S)
        await partial(node, job, "c")
        await house.settled(node, speaker)

        assert texts(speaker) == ["a"]


async def test_a_partial_of_an_index_that_was_given_up_is_dropped(store_options):
    async with world(store_options, **FAST) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        await speaker.say()
        first, second = await node.job(utterance_index=0), await node.job(utterance_index=1)
        await node.answer(second)
        await speaker.expect("ui_event", event="NMT_DONE")
        house.clock.advance(0.5)
        await speaker.expect("missing_result", utterance_index=0)

        await partial(node, first, "too late")
        await house.settled(node, speaker)

        assert texts(speaker) == []


async def test_a_partial_of_a_node_that_does_not_have_the_job_is_dropped(store_options):
    async with world(store_options) as house:
        nodes = [await house.node(), await house.node()]
        speaker = await house.session()
        await speaker.say()
        owner, job = await house.taken(*nodes)
        (stranger,) = [node for node in nodes if node is not owner]
        await partial(stranger, job, "forged")
        await partial(owner, {**job, "job_id": "job-x"}, "unknown")
        await house.settled(*nodes, speaker)
        assert texts(speaker) == []

        await partial(owner, job, "real")
        await speaker.expect("asr_partial", text="real")
