"""Decision 6 on one instance: a client that lost its connection finds its session again, within a window."""

from __future__ import annotations

import pytest

from comeback import RESUMES, away, ends, failed, left, noticed, resumed
from leftovers import assert_nothing_left, in_memory
from stored_jobs import session_fields
from support import wait_until
from world import FAST, world

# Tokens


async def test_every_session_gets_a_token_and_says_nothing_of_resuming(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        assert speaker.ack["resume_token"]
        assert "resumed" not in speaker.ack
        assert "last_seq" not in speaker.ack


async def test_a_client_that_comes_back_keeps_its_session(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session(**RESUMES)
        await speaker.say()
        await node.answer(await node.job())
        await speaker.expect("translation_result")
        await left(house, speaker)
        again = await resumed(house, speaker, received_through=0)
        assert again.id == speaker.id
        assert again.ack["resumed"] is True
        assert again.ack["resume_token"] != speaker.ack["resume_token"]
        assert (again.ack["last_seq"], again.ack["next_utterance_index"]) == (0, 1)
        await again.say()
        await node.answer(await node.job(utterance_index=1))
        await again.expect("translation_result", utterance_index=1)
        assert again.seen("translation_result", utterance_index=0) == []


async def test_the_utterance_that_was_being_spoken_goes_on(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session(**RESUMES)
        await speaker.chunk(600)
        await speaker.sync()
        await left(house, speaker)
        house.clock.advance(1)
        again = await resumed(house, speaker)
        assert again.ack["last_seq"] == 0
        await again.chunk(300, final=True)
        assert len((await node.job(utterance_index=0))["audio"]) == 900


async def test_frames_the_server_has_are_not_taken_twice(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session(**RESUMES)
        for _ in range(3):
            await speaker.chunk(60)
        await speaker.sync()
        await left(house, speaker)
        again = await resumed(house, speaker)
        again._seq = 0
        for _ in range(3):
            await again.chunk(60)
        await again.chunk(60, final=True)
        assert len((await node.job())["audio"]) == 240


async def test_what_was_said_last_is_cut_by_silence_while_the_client_is_away(store_options):
    async with world(store_options, **FAST) as house:
        node, speaker = await house.node(), await house.session(**RESUMES)
        await speaker.chunk(600)
        await speaker.send("tts_started", session_id=speaker.id, trace_id="t", group_id="g", ts_start_ms=1)
        await speaker.sync()
        await left(house, speaker)
        house.clock.advance(0.5)
        await node.answer(await node.job())
        await house.settled(node)
        again = await resumed(house, speaker)
        await again.expect("translation_result", utterance_index=0)


async def test_results_of_the_time_away_come_in_order_once_and_before_anything_new(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session(**RESUMES)
        for _ in range(4):
            await speaker.say()
        jobs = [await node.job(utterance_index=index) for index in range(4)]
        await left(house, speaker)
        for index in (2, 0, 1):
            await node.answer(jobs[index])
        await house.settled(node)
        again = await resumed(house, speaker)
        await node.answer(jobs[3])
        await again.expect("translation_result", utterance_index=3)
        assert ends(again) == [("result", 0), ("result", 1), ("result", 2)]


async def test_a_result_held_while_the_client_is_away_leaves_when_its_turn_comes(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session(**RESUMES)
        await speaker.say()
        await speaker.say()
        jobs = [await node.job(utterance_index=index) for index in range(2)]
        await left(house, speaker)
        await node.answer(jobs[1])
        await house.settled(node)
        again = await resumed(house, speaker)
        assert ends(again) == []
        await node.answer(jobs[0])
        await again.expect("translation_result", utterance_index=1)
        assert ends(again) == [("result", 0)]


async def test_what_went_missing_while_the_client_was_away_is_told_too(store_options):
    async with world(store_options) as house:
        speaker = await house.session(**RESUMES)
        await speaker.say()
        await speaker.expect("ui_event", event="ERROR")
        await left(house, speaker)
        house.clock.advance(10)
        again = await resumed(house, speaker)
        await again.expect("missing_result", utterance_index=0, reason="no_available_node")


# Acknowledgements


@pytest.mark.parametrize("how", ["result_ack", "received_through", "nothing"])
async def test_what_a_client_has_acknowledged_is_not_said_again(store_options, how):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session(**RESUMES)
        for index in range(3):
            await speaker.say()
            await node.answer(await node.job())
            await speaker.expect("translation_result", utterance_index=index)
        if how == "result_ack":
            await speaker.send("result_ack", session_id=speaker.id, utterance_index=1)
            await speaker.sync()
        await left(house, speaker)
        again = await resumed(house, speaker, received_through=1 if how == "received_through" else None)
        await again.sync()
        unheard = {"nothing": [0, 1, 2]}.get(how, [2])
        assert ends(again) == [("result", index) for index in unheard]


async def test_acknowledged_results_leave_redis_with_the_next_end_of_a_job(store_options):
    async with world(store_options, resume={"log_results": 2}) as house:
        node, speaker = await house.node(), await house.session(**RESUMES)

        async def logged() -> list[str]:
            return sorted(await session_fields(house.redis, house.keys, speaker.id, "told"))

        async def answered(index: int) -> None:
            await speaker.say()
            await node.answer(await node.job())
            await speaker.expect("translation_result", utterance_index=index)

        await answered(0)
        await speaker.send("result_ack", session_id=speaker.id, utterance_index=0)
        await speaker.sync()
        assert await logged() == ["0:en"]
        await answered(1)
        assert await logged() == ["1:en"]
        for index in (2, 3, 4):
            await answered(index)
        assert await logged() == ["2:en", "3:en", "4:en"]


async def test_an_acknowledgement_of_somebody_elses_speech_changes_nothing(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session(**RESUMES)
        await speaker.say()
        await node.answer(await node.job())
        await speaker.expect("translation_result")
        about = {"session_id": speaker.id, "utterance_index": 0}
        await speaker.send("result_ack", **about, speaker_session_id="s-somebody")
        await speaker.sync()
        await left(house, speaker)
        again = await resumed(house, speaker)
        await again.expect("translation_result", utterance_index=0)


# Receipts for audio


async def test_audio_is_acknowledged_when_its_job_is_written(store_options):
    async with world(store_options) as house:
        await house.node()
        speaker = await house.session(**RESUMES)
        await speaker.chunk(60)
        await speaker.chunk(60)
        await speaker.sync()
        assert speaker.seen("audio_ack") == []
        await speaker.chunk(60, final=True)
        await speaker.expect("audio_ack", session_id=speaker.id, seq=2)
        assert await house.redis("HGET", house.keys.session(speaker.id), "last_seq") == b"2"


async def test_audio_without_a_node_is_acknowledged_too(store_options):
    async with world(store_options) as house:
        speaker = await house.session(**RESUMES)
        await speaker.say()
        await speaker.expect("audio_ack", seq=0)


async def test_the_tail_of_a_cut_at_a_limit_is_not_acknowledged(store_options):
    async with world(store_options, **FAST) as house:
        node, speaker = await house.node(), await house.session(**RESUMES)
        for _ in range(50):
            await speaker.chunk(60)
        await node.job()
        ack = await speaker.expect("audio_ack")
        assert 30 < ack["seq"] < 49
        await speaker.final()
        await speaker.expect("audio_ack", seq=50)


async def test_quiet_is_acknowledged_once_a_second(store_options):
    async with world(store_options) as house:
        speaker = await house.session(**RESUMES, audio_format="pcm16")
        for _ in range(25):
            await speaker.chunk(bytes(3200))
            await house.pass_time(0.1, speaker)
        acks = [message["seq"] for message in speaker.seen("audio_ack")]
        assert len(acks) == 3
        assert acks == sorted(acks)


async def test_a_client_that_did_not_ask_for_it_gets_no_receipts(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        await node.job()
        await house.settled(speaker)
        assert speaker.seen("audio_ack") == []


# Two connections


async def test_f19_a_client_may_come_back_before_its_old_connection_is_known_to_be_dead(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session(**RESUMES)
        await speaker.say()
        job = await node.job()
        again = await resumed(house, speaker)
        assert again.id == speaker.id
        assert await speaker.closed() == 4409
        await node.answer(job)
        await again.expect("translation_result", utterance_index=0)
        await again.say()
        await node.job(utterance_index=1)


async def test_the_end_of_the_old_connection_does_not_touch_the_new_one(store_options):
    async with world(store_options) as house:
        speaker = await house.session(**RESUMES)
        again = await resumed(house, speaker)
        await speaker.closed()
        await again.sync()
        assert house.instance.sessions.get(again.id).attached


async def test_a_session_may_be_taken_up_on_its_own_connection(store_options):
    async with world(store_options) as house:
        speaker = await house.session(**RESUMES)
        first = speaker.id
        await speaker.init(resume_token=speaker.ack["resume_token"], **RESUMES)
        assert speaker.id == first
        await speaker.sync()
        assert len(house.instance.sessions) == 1


async def test_taking_a_session_up_closes_the_one_the_connection_had(store_options):
    async with world(store_options) as house:
        speaker, other = await house.session(**RESUMES), await house.session()
        await left(house, speaker)
        await other.init(resume_token=speaker.ack["resume_token"], **RESUMES)
        assert other.id == speaker.id
        await wait_until(lambda: len(house.instance.sessions) == 1, description="the other one is closed")


# Tokens that lead nowhere


async def test_f20_a_token_works_once(store_options):
    async with world(store_options) as house:
        speaker = await house.session(**RESUMES)
        await left(house, speaker)
        again = await resumed(house, speaker)
        await failed(await house.speaker(), resume_token=speaker.ack["resume_token"])
        await again.sync()


async def test_b52_forged_foreign_and_unknown_tokens_are_answered_alike(store_options):
    async with world(store_options) as house:
        speaker = await house.session(**RESUMES, tenant_id="acme")
        await left(house, speaker)
        token = speaker.ack["resume_token"]
        answers = []
        for wish in (
            {"resume_token": "x"},
            {"resume_token": token[:-1] + ("A" if token[-1] != "A" else "B"), "tenant_id": "acme"},
            {"resume_token": token, "tenant_id": "other"},
            {"resume_token": token},
        ):
            guesser = await house.speaker()
            await failed(guesser, **wish)
            own = dict.fromkeys(("session_id", "trace_id", "resume_token", "transcript_token"), "")
            answers.append({**guesser.ack, **own})
        assert all(answer == answers[0] for answer in answers)
        again = await resumed(house, speaker, tenant_id="acme")
        assert again.id == speaker.id


async def test_b52_a_claim_to_have_more_than_was_said_changes_nothing(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session(**RESUMES)
        await left(house, speaker)
        again = await resumed(house, speaker, received_through=2**60)
        assert again.ack["next_utterance_index"] == 0
        await again.say()
        await node.answer(await node.job(utterance_index=0))
        await again.expect("translation_result")


async def test_who_guesses_is_cut_off(store_options):
    async with world(store_options) as house:
        speaker = await house.speaker()
        for _ in range(4):
            await failed(speaker, resume_token="r1.s-x.1.wrong")
        await speaker.send(
            "session_init", client_version="1", platform="t", src_lang="zh", tgt_lang="en", resume_token="x"
        )
        assert await speaker.closed() == 4529


async def test_a_token_wins_over_the_languages_beside_it(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session(**RESUMES)
        await left(house, speaker)
        again = await resumed(house, speaker, src_lang="fr", tgt_lang="de", audio_format="pcm16")
        assert again.ack["negotiated_audio_format"] == "opus"
        await again.say()
        job = await node.job()
        assert (job["src_lang"], job["tgt_lang"]) == ("zh", "en")


async def test_a_closed_session_is_not_taken_up(store_options):
    async with world(store_options) as house:
        speaker = await house.session(**RESUMES)
        await speaker.send("session_close", session_id=speaker.id, reason="done")
        other = await house.speaker()
        await speaker.expect("session_close_ack")
        await failed(other, resume_token=speaker.ack["resume_token"])


# An answer that never came


async def test_a_client_that_heard_no_answer_tries_again_with_the_same_token(store_options):
    async with world(store_options) as house:
        speaker = await house.session(**RESUMES)
        await left(house, speaker)
        deaf = await resumed(house, speaker, resume_try="t-1")
        await left(house, deaf)
        again = await resumed(house, speaker, resume_try="t-1")
        assert again.id == speaker.id
        await again.sync()
        await failed(await house.speaker(), resume_token=speaker.ack["resume_token"], resume_try="t-1")
        await failed(await house.speaker(), resume_token=deaf.ack["resume_token"], resume_try="t-1")


async def test_another_try_does_not_revive_a_used_token(store_options):
    async with world(store_options) as house:
        speaker = await house.session(**RESUMES)
        await left(house, speaker)
        deaf = await resumed(house, speaker, resume_try="t-1")
        await left(house, deaf)
        await failed(await house.speaker(), resume_token=speaker.ack["resume_token"], resume_try="t-2")
        assert (await resumed(house, deaf)).id == speaker.id


# The window


async def test_after_the_window_nothing_is_left_and_the_token_is_worth_nothing(store_options):
    async with world(store_options) as house:
        node = await house.node()
        before = in_memory(house)
        speaker = await house.session(**RESUMES)
        await speaker.say()
        await node.answer(await node.job())
        await speaker.chunk(600)
        await speaker.sync()
        speaker.reset()
        await house.forget(speaker, nodes=(node,))
        await assert_nothing_left(house, before, speaker.id)
        await failed(await house.speaker(), resume_token=speaker.ack["resume_token"])


async def test_the_window_begins_anew_with_every_loss(store_options):
    async with world(store_options) as house:
        speaker = await house.session(**RESUMES)
        for _ in range(3):
            await left(house, speaker)
            house.clock.advance(59)
            speaker = await resumed(house, speaker)
            house.clock.advance(20)
            await speaker.sync()


async def test_without_a_window_there_are_no_tokens_and_no_log(store_options):
    async with world(store_options, resume={"window_s": 0}) as house:
        node = await house.node()
        before = in_memory(house)
        speaker = await house.session(**RESUMES)
        assert "resume_token" not in speaker.ack
        await speaker.say()
        await node.answer(await node.job())
        await speaker.expect("translation_result")
        assert await session_fields(house.redis, house.keys, speaker.id, "told") == {}
        await speaker.hang_up()
        await assert_nothing_left(house, before, speaker.id)


async def test_a_session_that_was_taken_up_ends_without_a_trace(store_options):
    async with world(store_options) as house:
        node = await house.node()
        before = in_memory(house)
        speaker = await house.session(**RESUMES)
        await speaker.say()
        job = await node.job()
        await left(house, speaker)
        again = await resumed(house, speaker)
        await node.answer(job)
        await again.expect("translation_result")
        await again.send("session_close", session_id=again.id, reason="done")
        await again.expect("session_close_ack")
        await again.hang_up()
        await assert_nothing_left(house, before, speaker.id)


async def test_a_client_too_slow_to_read_loses_its_connection_and_keeps_its_session(store_options):
    """F22: 4408, resume later."""
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session(**RESUMES)
        await speaker.say()
        job = await node.job()
        await house.settled(speaker)
        house.instance.sessions.get(speaker.id).sink.close(4408, "slow")
        assert await speaker.closed() == 4408
        await noticed(house, speaker)
        await node.answer(job)
        await house.settled(node)
        again = await resumed(house, speaker)
        await again.expect("translation_result", utterance_index=0)


# Redis away


@pytest.mark.parametrize("effect", [False, True], ids=["not done", "done unheard"])
async def test_while_redis_is_away_a_client_is_told_to_try_again(store_options, effect):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session(**RESUMES)
        await speaker.say()
        job = await node.job()
        await left(house, speaker)
        away(house, "take_over", effect=effect)
        again = await house.speaker()
        again._seq = speaker._seq
        wish = {"client_version": "1", "platform": "t", "src_lang": "zh", "tgt_lang": "en"}
        await again.send("session_init", **wish, resume_token=speaker.ack["resume_token"])
        error = await again.expect("error", code="SCHEDULER_DEPENDENCY_DOWN")
        assert error["retry_after_ms"] > 0
        await node.answer(job)
        await house.settled(node)
        await again.init(resume_token=speaker.ack["resume_token"], **RESUMES)
        assert (again.id, again.ack["resumed"]) == (speaker.id, True)
        await again.expect("translation_result", utterance_index=0)
        await again.say()
        await node.answer(await node.job(utterance_index=1))
        await again.expect("translation_result", utterance_index=1)


async def test_a_session_that_redis_has_forgotten_is_taken_up_where_it_lives(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session(**RESUMES)
        await speaker.say()
        await node.answer(await node.job())
        await speaker.expect("translation_result")
        await left(house, speaker)
        await house.redis("DEL", house.keys.session(speaker.id))
        again = await resumed(house, speaker)
        assert again.id == speaker.id
        await again.expect("translation_result", utterance_index=0)
        await again.say()
        await node.answer(await node.job(utterance_index=1))
        await again.expect("translation_result", utterance_index=1)
