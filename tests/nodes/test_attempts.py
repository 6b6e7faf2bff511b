"""What a node says counts for its own current attempt, and once (AC-36 to AC-43)."""

from __future__ import annotations

from typing import Any

import pytest

from stored_jobs import job_state
from support import wait_until
from world import FakeNode, World, world


async def say(node: FakeNode, kind: str, job: dict[str, Any], **fields: Any) -> None:
    """Send job_ack or job_started; members override."""
    members = ("job_id", "attempt_id", "session_id", "trace_id")
    await node.send(kind, **{**{name: job[name] for name in members}, "node_id": node.id, **fields})


async def state(house: World, job: dict[str, Any]) -> str | None:
    """Read the state of a job in Redis."""
    return await job_state(house.redis, house.keys, job["session_id"], job["job_id"])


async def reaches(house: World, job: dict[str, Any], wanted: str) -> None:
    async def there() -> bool:
        return await state(house, job) == wanted

    await wait_until(there, description=f"the job is {wanted}")


async def test_ac36_the_first_attempt_is_1_and_its_acknowledgement_is_told_once(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await node.job()
        assert job["attempt_id"] == 1
        for _ in range(3):
            await say(node, "job_ack", job)
        await house.settled(node, speaker)
        assert len(speaker.seen("ui_event", event="NODE_ACCEPTED")) == 1
        await reaches(house, job, "ACCEPTED")


async def test_the_states_follow_what_the_node_says(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await node.job()
        assert await state(house, job) == "DISPATCHED"
        await say(node, "job_ack", job)
        await reaches(house, job, "ACCEPTED")
        await say(node, "job_started", job)
        await reaches(house, job, "RUNNING")
        await node.answer(job)
        await reaches(house, job, "RELEASED")


@pytest.mark.parametrize("kind", ["job_ack", "job_started"])
@pytest.mark.parametrize("wrong", [{"attempt_id": 2}, {"job_id": "job-unknown"}])
async def test_ac37_words_about_another_attempt_or_job_change_nothing(store_options, kind, wrong):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await node.job()
        await say(node, kind, job, **wrong)
        await house.settled(node, speaker)
        assert not speaker.seen("ui_event", event="NODE_ACCEPTED")
        assert await state(house, job) == "DISPATCHED"
        assert not node.seen("error")


@pytest.mark.parametrize("kind", ["job_ack", "job_started"])
async def test_ac37_words_of_a_node_that_does_not_have_the_job_change_nothing(store_options, kind):
    async with world(store_options) as house:
        nodes, speaker = [await house.node(), await house.node()], await house.session()
        await speaker.say()
        node, job = await house.taken(*nodes)
        other = next(each for each in nodes if each is not node)
        await say(other, kind, job)
        await house.settled(other, speaker)
        assert await state(house, job) == "DISPATCHED"


async def test_ac38_a_node_that_only_answers_is_enough(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await node.job()
        await node.answer(job)
        await speaker.expect("translation_result")
        await reaches(house, job, "RELEASED")
        assert await house.reserved() == []


async def test_ac39_a_late_acknowledgement_changes_nothing(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await node.job()
        await node.answer(job)
        await reaches(house, job, "RELEASED")
        await say(node, "job_ack", job)
        await say(node, "job_started", job)
        await house.settled(node, speaker)
        assert await state(house, job) == "RELEASED"
        assert not speaker.seen("ui_event", event="NODE_ACCEPTED")


@pytest.mark.parametrize("kind", ["job_result", "job_ack", "job_started", "asr_partial"])
async def test_ac43_a_frame_under_another_name_is_refused(store_options, kind):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await node.job()
        about = {
            name: job[name] for name in ("job_id", "attempt_id", "session_id", "trace_id", "utterance_index")
        }
        words = {"success": True, "text_asr": "x", "text_translated": "y", "text": "z", "is_final": False}
        await node.send(kind, node_id="somebody-else", **about, **words)
        await node.expect("error", code="INVALID_MESSAGE")
        await house.settled(node, speaker)
        assert not speaker.seen("translation_result")
        assert await state(house, job) == "DISPATCHED"


async def test_b64_words_before_the_registration_are_refused(store_options):
    async with world(store_options) as house:
        stranger = await house.stranger()
        stranger.id = "n1"
        await stranger.fail(
            {"job_id": "j", "attempt_id": 1, "session_id": "s", "utterance_index": 0, "trace_id": "t"}, "X"
        )
        await stranger.expect("error", code="NODE_UNAVAILABLE")


async def test_b64_results_for_other_peoples_jobs_reach_nobody(store_options):
    async with world(store_options) as house:
        nodes, speaker = [await house.node(), await house.node()], await house.session()
        await speaker.say()
        node, job = await house.taken(*nodes)
        other = next(each for each in nodes if each is not node)
        await other.answer(job, "wrong", "wrong")
        await other.answer({**job, "job_id": "job-unknown"}, "wrong", "wrong")
        await house.settled(other, speaker)
        assert not speaker.seen("translation_result")
        await node.answer(job, "right", "right")
        assert (await speaker.expect("translation_result"))["text_asr"] == "right"
        assert house.counted("results_dropped_total", why="stale") == 1
        await wait_until(
            lambda: house.counted("results_dropped_total", why="unknown") == 1,
            description="it was asked whether another instance has the job",
        )
