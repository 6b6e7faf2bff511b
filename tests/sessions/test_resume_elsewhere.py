"""Decision 6 across instances: the client comes to another one, and everything of its session is there."""

from __future__ import annotations

import pytest

from comeback import RESUMES, away, ends, failed, left, resumed
from leftovers import assert_nothing_left, in_memory
from lingua_scheduler.core.model import InstanceId
from neighbours import shown, two
from support import wait_until
from world import FAST, FakeNode, World


async def known(b: World, node: FakeNode) -> None:
    """Wait until an instance knows a node of another one."""
    await wait_until(lambda: b.instance.snapshot.node(node.id) is not None, description="the node is known")


async def test_f19_a_session_moves_while_its_old_owner_lives(store_options):
    async with two(store_options) as (a, b):
        node = await a.node()
        await shown(b, 1)
        speaker = await a.session(**RESUMES)
        for index in range(2):
            await speaker.say()
            await node.answer(await node.job())
            await speaker.expect("translation_result", utterance_index=index)
        again = await resumed(b, speaker, received_through=0)
        assert (again.id, again.ack["resumed"]) == (speaker.id, True)
        assert (again.ack["last_seq"], again.ack["next_utterance_index"]) == (1, 2)
        assert await speaker.closed() == 4409
        await again.say()
        job = await node.job(utterance_index=2)
        assert len(job["audio"]) == 600
        await node.answer(job)
        await again.expect("translation_result", utterance_index=2)
        assert ends(again) == [("result", 1)]
        assert len(a.instance.sessions) == 0


async def test_speech_that_was_in_no_job_is_sent_again_and_none_is_doubled(store_options):
    async with two(store_options) as (a, b):
        node = await b.node()
        await shown(a, 1)
        speaker = await a.session(**RESUMES)
        await speaker.say(60)
        await speaker.expect("audio_ack", seq=0)
        await speaker.chunk(60)
        await speaker.chunk(60)
        await speaker.sync()
        again = await resumed(b, speaker)
        assert again.ack["last_seq"] == 0
        again._seq = 0
        for final in (False, False, False, True):
            await again.chunk(60, final=final)
        assert len((await node.job(utterance_index=0))["audio"]) == 60
        assert len((await node.job(utterance_index=1))["audio"]) == 180
        a.clock.advance(5)
        await a.settled()
        assert not node.seen("job_assign")


async def test_open_jobs_go_on_where_they_are(store_options):
    async with two(store_options) as (a, b):
        near, far = await a.node(), await b.node()
        await shown(a, 2)
        await shown(b, 2)
        speaker = await a.session(**RESUMES)
        for _ in range(4):
            await speaker.say()
        await wait_until(
            lambda: len(near.seen("job_assign")) + len(far.seen("job_assign")) == 4,
            description="all are placed",
        )
        again = await resumed(b, speaker)
        await speaker.closed()
        for node in (near, far):
            for message in node.seen("job_assign"):
                await node.answer(message)
        await again.expect("translation_result", utterance_index=3)
        assert ends(again) == [("result", 0), ("result", 1), ("result", 2)]
        await b.settled(again)
        assert await b.reserved() == []


async def test_a_job_that_waits_for_a_node_is_placed_by_the_new_owner(store_options):
    async with two(store_options) as (a, b):
        speaker = await a.session(**RESUMES)
        await speaker.say()
        await speaker.expect("audio_ack")
        again = await resumed(b, speaker)
        await speaker.closed()
        node = await b.node()
        await node.answer(await node.job(utterance_index=0))
        await again.expect("translation_result", utterance_index=0)


async def test_results_that_wait_for_others_are_taken_over_in_order(store_options):
    async with two(store_options) as (a, b):
        node = await a.node()
        await known(b, node)
        speaker = await a.session(**RESUMES)
        for _ in range(3):
            await speaker.say()
        jobs = [await node.job(utterance_index=index) for index in range(3)]
        await left(a, speaker)
        await node.answer(jobs[2])
        await node.answer(jobs[0])
        await a.settled(node)
        again = await resumed(b, speaker)
        await again.sync()
        assert ends(again) == [("result", 0)]
        await node.answer(jobs[1])
        await again.expect("translation_result", utterance_index=2)
        assert ends(again) == [("result", 0), ("result", 1)]


async def test_an_utterance_in_which_nothing_was_said_leaves_no_hole(store_options):
    async with two(store_options) as (a, b):
        node = await a.node()
        await known(b, node)
        speaker = await a.session(**RESUMES)
        for _ in range(3):
            await speaker.say()
        jobs = [await node.job(utterance_index=index) for index in range(3)]
        await left(a, speaker)
        await node.answer(jobs[1], "", "", extra={"reason": "ASR_EMPTY"})
        await node.answer(jobs[0])
        await a.settled(node)
        again = await resumed(b, speaker)
        await node.answer(jobs[2])
        await again.expect("translation_result", utterance_index=2)
        assert ends(again) == [("result", 0)]


async def test_a_result_for_an_index_the_client_has_as_missing_comes_late_and_once(store_options):
    async with two(store_options, **FAST) as (a, b):
        node = await a.node()
        await known(b, node)
        speaker = await a.session(**RESUMES)
        await speaker.say()
        await speaker.say()
        jobs = [await node.job(utterance_index=index) for index in range(2)]
        await node.answer(jobs[1])
        await a.settled(speaker, node)
        a.clock.advance(0.6)
        await speaker.expect("translation_result", utterance_index=1)
        again = await resumed(b, speaker, received_through=1)
        await again.sync()
        assert ends(again) == []
        await node.answer(jobs[0])
        await again.expect("translation_result", utterance_index=0)
        assert ends(again) == []


async def test_a_result_that_reaches_the_old_owner_is_passed_on(store_options):
    """The old owner learns that it is fenced by the end it cannot write."""
    async with two(store_options) as (a, b):
        node = await a.node()
        await known(b, node)
        speaker = await a.session(**RESUMES)
        await speaker.say()
        job = await node.job()
        b.instance.post.taken = lambda *_: None
        object.__setattr__(b.instance.resume._around, "taken", lambda *_: None)
        again = await resumed(b, speaker)
        assert a.instance.sessions.get(speaker.id) is not None
        await node.answer(job)
        await again.expect("translation_result", utterance_index=0)
        assert await speaker.closed() == 4409
        assert a.instance.sessions.get(speaker.id) is None
        assert a.instance.sessions.holds(speaker.id) is False


async def test_an_old_owner_that_was_not_told_finds_out_when_it_renews(store_options):
    async with two(store_options) as (a, b):
        before = in_memory(a)
        speaker = await a.session(**RESUMES)
        object.__setattr__(b.instance.resume._around, "taken", lambda *_: None)
        again = await resumed(b, speaker)
        await a.instance.sessions.renew()
        assert await speaker.closed() == 4409
        assert in_memory(a) == before
        await again.sync()
        assert await b.redis("HGET", b.keys.session(again.id), "owner") == b.instance.id.encode()


async def test_the_old_owner_keeps_nothing_and_removes_nothing(store_options):
    async with two(store_options) as (a, b):
        node = await b.node()
        await shown(a, 1)
        here = in_memory(a)
        speaker = await a.session(**RESUMES)
        for _ in range(3):
            await speaker.say()
        jobs = [await node.job(utterance_index=index) for index in range(3)]
        await speaker.chunk(600)
        await left(a, speaker)
        again = await resumed(b, speaker)
        await wait_until(lambda: not len(a.instance.sessions), description="the old owner knows")
        await a.live(70)
        await a.settled()
        assert {**in_memory(a), "alarms": 0} == {**here, "alarms": 0}
        assert node.seen("job_cancel") == []
        for job in jobs:
            await node.answer(job)
        await again.expect("translation_result", utterance_index=2)


async def test_a_session_goes_back_and_forth(store_options):
    async with two(store_options) as (a, b):
        node = await a.node()
        await shown(b, 1)
        speaker = await a.session(**RESUMES)
        for index, house in enumerate((b, a, a, b, a)):
            await speaker.say()
            await node.answer(await node.job(utterance_index=index))
            await speaker.expect("translation_result", utterance_index=index)
            before, speaker = speaker, await resumed(house, speaker, received_through=index)
            assert speaker.id == before.id
            await before.closed()
        await speaker.sync()
        assert ends(speaker) == []
        assert sum(len(house.instance.sessions) for house in (a, b)) == 1


async def test_f20_a_token_is_good_for_one_instance_only(store_options):
    async with two(store_options) as (a, b):
        speaker = await a.session(**RESUMES)
        await left(a, speaker)
        again = await resumed(b, speaker)
        await again.sync()
        for house in (a, b):
            await failed(await house.speaker(), resume_token=speaker.ack["resume_token"])
        await again.sync()


async def test_two_connections_with_one_token_are_not_both_served(store_options):
    async with two(store_options) as (a, b):
        speaker = await a.session(**RESUMES)
        await left(a, speaker)
        wish = {"client_version": "1", "platform": "t", "src_lang": "zh", "tgt_lang": "en"}
        rivals = [await house.speaker() for house in (a, b, a, b)]
        for rival in rivals:
            await rival.send("session_init", **wish, resume_token=speaker.ack["resume_token"])
        acks = [await rival.expect("session_init_ack") for rival in rivals]
        assert [ack["session_id"] for ack in acks].count(speaker.id) == 1
        assert [ack["resumed"] for ack in acks].count(True) == 1


async def test_an_answer_that_was_lost_is_asked_for_elsewhere(store_options):
    async with two(store_options) as (a, b):
        speaker = await a.session(**RESUMES)
        await left(a, speaker)
        deaf = await resumed(b, speaker, resume_try="t-1")
        deaf.reset()
        again = await resumed(a, speaker, resume_try="t-1")
        assert again.id == speaker.id
        await again.sync()


@pytest.mark.parametrize("effect", [False, True], ids=["not done", "done unheard"])
async def test_while_redis_is_away_nothing_is_taken_over(store_options, effect):
    async with two(store_options) as (a, b):
        node = await a.node()
        await known(b, node)
        speaker = await a.session(**RESUMES)
        await speaker.say()
        await node.answer(await node.job())
        await speaker.expect("translation_result")
        await left(a, speaker)
        away(b, "take_over", effect=effect)
        again = await b.speaker()
        wish = {"client_version": "1", "platform": "t", "src_lang": "zh", "tgt_lang": "en"}
        await again.send("session_init", **wish, resume_token=speaker.ack["resume_token"])
        await again.expect("error", code="SCHEDULER_DEPENDENCY_DOWN")
        await again.init(resume_token=speaker.ack["resume_token"], **RESUMES)
        assert again.id == speaker.id
        await again.expect("translation_result", utterance_index=0)


@pytest.mark.parametrize("effect", [False, True], ids=["not done", "done unheard"])
async def test_a_client_whose_own_instance_could_not_ask_redis_is_taken_up_elsewhere(store_options, effect):
    async with two(store_options) as (a, b):
        node = await a.node()
        await known(b, node)
        speaker = await a.session(**RESUMES)
        await speaker.say()
        await left(a, speaker)
        away(a, "take_over", effect=effect)
        refused = await a.speaker()
        wish = {"client_version": "1", "platform": "t", "src_lang": "zh", "tgt_lang": "en", **RESUMES}
        token = {"resume_token": speaker.ack["resume_token"], "resume_try": "t-1"}
        await refused.send("session_init", **wish, **token)
        await refused.expect("error", code="SCHEDULER_DEPENDENCY_DOWN")
        await node.answer(await node.job())  # written by the owner, which is still there
        await a.settled(node)
        await a.instance.sessions.renew()
        again = await resumed(b, speaker, **token)
        assert again.id == speaker.id
        await again.expect("translation_result", utterance_index=0)


async def test_speech_from_before_a_lost_answer_does_not_use_the_token_up(store_options):
    async with two(store_options, **FAST) as (a, b):
        node = await a.node()
        await known(b, node)
        speaker = await a.session(**RESUMES)
        await speaker.chunk(600)
        await speaker.sync()
        await left(a, speaker)
        deaf = await resumed(a, speaker, resume_try="t-1")
        deaf.reset()
        a.clock.advance(0.5)  # what was said before is cut, and written at the new epoch
        await node.job()
        again = await resumed(b, speaker, resume_try="t-1")
        assert again.id == speaker.id


async def test_an_owner_is_told_though_the_one_who_took_its_session_died_first(store_options):
    """Else it would find the session gone after its end, take Redis for forgetful, and write it anew."""
    async with two(store_options) as (a, b):
        speaker = await a.session(**RESUMES)
        await left(a, speaker)
        ledger = b.instance.stores.sessions
        for dead in ("dead-1", "dead-2"):
            assert await ledger.take_over(speaker.id, InstanceId(dead), epoch=1, try_id="t-1#0")
        again = await resumed(b, speaker, resume_try="t-1")
        assert again.id == speaker.id
        await wait_until(lambda: not len(a.instance.sessions), description="the first owner knows")


async def test_after_the_window_nothing_is_left_at_the_new_owner_either(store_options):
    async with two(store_options) as (a, b):
        node = await b.node()
        await shown(a, 1)
        before = in_memory(b)
        speaker = await a.session(**RESUMES)
        await speaker.say()
        await node.job()
        again = await resumed(b, speaker)
        again.reset()
        await b.forget(again, nodes=(node,))
        await wait_until(lambda: not len(a.instance.sessions), description="the old owner knows")
        await assert_nothing_left(b, before, speaker.id)


async def test_a_client_whose_new_connection_dies_during_the_move_is_waited_for(store_options):
    async with two(store_options) as (a, b):
        speaker = await a.session(**RESUMES)
        await left(a, speaker)
        wish = {"client_version": "1", "platform": "t", "src_lang": "zh", "tgt_lang": "en"}
        dying = await b.speaker()
        await dying.send(
            "session_init", **wish, resume_token=speaker.ack["resume_token"], resume_try="t", **RESUMES
        )
        dying.reset()
        again = await resumed(b, speaker, resume_try="t")
        assert again.id == speaker.id
        await again.sync()


async def test_a_session_whose_record_cannot_be_read_is_lost_and_leaves_nothing(store_options):
    async with two(store_options) as (a, b):
        speaker = await a.session(**RESUMES)
        await left(a, speaker)
        await b.redis("HSET", b.keys.session(speaker.id), "opening", "{")
        await failed(await b.speaker(), resume_token=speaker.ack["resume_token"])
        assert not await b.redis("EXISTS", b.keys.session(speaker.id))
        assert b.counted("store_corrupt_value_total") == 1


async def test_a_job_that_cannot_be_read_ends_as_missing(store_options):
    async with two(store_options) as (a, b):
        node = await a.node()
        await known(b, node)
        speaker = await a.session(**RESUMES)
        for _ in range(3):
            await speaker.say()
        jobs = [await node.job(utterance_index=index) for index in range(3)]
        await left(a, speaker)
        place = b.keys.session(speaker.id), f"job:{jobs[0]['job_id']}"
        head = (await b.redis("HGET", *place)).split(b"\n")[:3]
        await b.redis("HSET", *place, b"\n".join([*head, b"{}"]))
        await b.redis("DEL", b.keys.audio(speaker.id, jobs[1]["job_id"]))
        again = await resumed(b, speaker)
        await node.answer(jobs[2])
        await again.expect("translation_result", utterance_index=2)
        assert ends(again) == [("missing", 0), ("missing", 1)]
        assert b.counted("store_corrupt_value_total") == 1


async def test_a_turn_goes_on_with_its_node(store_options):
    async with two(store_options, **FAST) as (a, b):
        node, other = await a.node(), await a.node()
        await shown(b, 2)
        speaker = await a.session(**RESUMES)
        for _ in range(50):
            await speaker.chunk(60)
        holder, first = await a.taken(node, other, utterance_index=0)
        await left(a, speaker)
        again = await resumed(b, speaker)
        again._seq = again.ack["last_seq"] + 1
        await again.say()
        taker, second = await b.taken(node, other, utterance_index=1)
        assert taker is holder
        assert second["turn_id"] == first["turn_id"]


async def test_an_instance_that_stops_leaves_its_sessions_to_the_others(store_options):
    async with two(store_options) as (a, b):
        node = await b.node()
        await shown(a, 1)
        speaker = await a.session(**RESUMES)
        await speaker.say()
        await node.answer(await node.job())
        await speaker.expect("translation_result")
        await speaker.say()
        job = await node.job()
        await a.instance.stop()
        again = await resumed(b, speaker, received_through=0)
        assert again.id == speaker.id
        await node.answer(job)
        await again.expect("translation_result", utterance_index=1)
