"""Jobs: claimed once, advanced by their current attempt only, ended once; single Redis and cluster."""

from __future__ import annotations

import asyncio

import pytest

from lingua_scheduler.core.model import JobId, SessionId
from lingua_scheduler.core.stored import Finish, Logged, Remembered
from lingua_scheduler.errors import CorruptValue, DependencyDown, Fenced, StoreError
from lingua_scheduler.store.jobs import CLAIMS_KEPT
from store.ledgers import B, job_end, new_job, slot_on
from stored_jobs import job_record, session_fields

SESSION = SessionId("s-1")
JOB = JobId("job-1")
FIRST = slot_on("n1")


@pytest.fixture
def record(ledgers):
    """Give a function that reads fields of the job's record."""

    async def read(*fields):
        found = await job_record(ledgers.call, ledgers.keys, SESSION, JOB)
        return tuple(found.get(name) for name in fields)

    return read


@pytest.fixture
def told(ledgers):
    """Give a function that reads what the session's client was told."""

    async def read():
        return await session_fields(ledgers.call, ledgers.keys, SESSION, "told")

    return read


@pytest.fixture
async def job(ledgers):
    """Give a job whose first attempt is on n1."""
    await ledgers.sessions.open(SESSION, ledgers.owner, {}, epoch=1)
    await ledgers.jobs.create(new_job(), FIRST)
    return new_job()


# The audio is there before the job, and the claim and the record are one step.


async def test_a_placed_job_is_written_with_its_attempt_and_audio(ledgers, job, record):
    assert await record("state", "attempt", "node", "record") == ("DISPATCHED", "1", "n1", '{"a":1}')
    assert await ledgers.call("GET", ledgers.keys.audio(SESSION, JOB)) == job.audio
    assert 0 < await ledgers.call("PTTL", ledgers.keys.audio(SESSION, JOB)) <= job.ttl_ms
    assert 0 < await ledgers.call("PTTL", ledgers.keys.session(SESSION)) <= 90_000


async def test_a_job_without_node_waits(ledgers, record):
    await ledgers.jobs.create(new_job(), None)
    assert await record("state", "attempt", "node") == ("CREATED", "0", "")


async def test_the_same_job_again_is_known(ledgers, job, record):
    again = await ledgers.jobs.create(job, slot_on("n2", attempt=2))
    assert (again.job_id, again.fresh) == (JOB, False)
    assert await record("attempt", "node") == ("1", "n1")


async def test_an_utterance_has_one_job_per_language(ledgers, job):
    other = await ledgers.jobs.create(new_job("job-2"), None)
    assert (other.job_id, other.fresh) == (JOB, False)
    assert await job_record(ledgers.call, ledgers.keys, SESSION, "job-2") == {}
    assert not await ledgers.call("EXISTS", ledgers.keys.audio(SESSION, "job-2"))
    assert (await ledgers.jobs.create(new_job("job-3", tgt_lang="de"), None)).fresh
    assert (await ledgers.jobs.create(new_job("job-4", index=1), None)).fresh


async def test_ac42_of_many_at_once_one_is_made(store):
    several = [store.ledgers() for _ in range(4)]
    claims = await asyncio.gather(
        *(several[number % 4].jobs.create(new_job(f"job-{number}"), None) for number in range(40))
    )
    assert sum(claim.fresh for claim in claims) == 1
    assert len({claim.job_id for claim in claims}) == 1


async def test_an_older_owner_of_the_session_makes_none(store, ledgers, job):
    other = store.ledgers(B)
    assert await other.sessions.take_over(SESSION, B, epoch=1)
    with pytest.raises(Fenced, match="newer owner"):
        await ledgers.jobs.create(new_job("job-2", index=1), None)
    assert not await ledgers.call("EXISTS", ledgers.keys.audio(SESSION, "job-2"))
    claim = await other.jobs.create(new_job("job-2", index=1, session_epoch=2), None)
    assert claim.fresh


async def test_who_has_lost_the_session_takes_no_audio_from_its_next_owner(store, ledgers, job):
    """It heard no answer when it wrote the job, and writes it again after the next owner has taken it up."""
    other = store.ledgers(B)
    assert (await other.sessions.take_over(SESSION, B, epoch=1)).jobs
    with pytest.raises(Fenced):
        await ledgers.jobs.create(job, FIRST)
    assert await other.jobs.audio(SESSION, JOB, attempt=1) == job.audio
    await other.jobs.finish(job_end(session_epoch=2))
    with pytest.raises(Fenced):
        await ledgers.jobs.create(job, FIRST)
    assert not await ledgers.call("EXISTS", ledgers.keys.audio(SESSION, JOB)), "the job has ended"


async def test_a_job_whose_audio_cannot_be_written_is_not_written(ledgers):
    with pytest.raises(StoreError):
        await ledgers.jobs.create(new_job(ttl_ms=0), None)
    assert not await ledgers.call("EXISTS", ledgers.keys.session(SESSION), ledgers.keys.audio(SESSION, JOB))
    assert (await ledgers.jobs.create(new_job(), None)).fresh


async def test_a_job_whose_audio_comes_too_late_is_not_written_and_may_be_again(ledgers, monkeypatch):
    """A slot of a cluster moves, or a socket was lost between the two."""

    async def in_order(first, then, *, durable):
        answer = await then
        await ledgers.call(*first)
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(ledgers.connection, "in_order", in_order)
        with pytest.raises(DependencyDown, match="audio"):
            await ledgers.jobs.create(new_job(last_seq=7), None)
    assert not await ledgers.call("EXISTS", ledgers.keys.session(SESSION), ledgers.keys.audio(SESSION, JOB))
    assert (await ledgers.jobs.create(new_job(last_seq=7), None)).fresh


async def test_a_session_that_redis_forgot_is_restored(store, ledgers, job, record):
    store.on_every_server("FLUSHALL")
    assert (await ledgers.jobs.create(job, FIRST)).fresh
    assert await record("state") == ("DISPATCHED",)
    session = ledgers.keys.session(SESSION)
    assert await ledgers.call("HMGET", session, "owner", "epoch") == [ledgers.owner.encode(), b"1"]
    assert await ledgers.call("PTTL", session) > 0


async def test_the_session_remembers_affinity_pool_and_pair(ledgers, job):
    await ledgers.jobs.create(
        new_job("job-2", index=1, affinity=Remembered("n1", 300_000), preferred_pool=3, last_pair="zh:en"),
        None,
    )
    read = ("HMGET", ledgers.keys.session(SESSION), "timeout_node_id", "preferred_pool", "last_lang_pair")
    assert await ledgers.call(*read) == [b"n1", b"3", b"zh:en"]
    until, now = (
        await ledgers.call("HGET", ledgers.keys.session(SESSION), "timeout_node_until"),
        await ledgers.call("TIME"),
    )
    assert 0 < int(until) - int(now[0]) * 1000 <= 301_000
    await ledgers.jobs.create(new_job("job-3", index=2), None)
    assert await ledgers.call(*read) == [None, b"3", b"zh:en"]


async def test_the_next_attempt_moves_the_session_to_its_node(ledgers, job):
    """A failover takes the open turn along."""
    assert await ledgers.jobs.attempt(SESSION, slot_on("n2", attempt=2), Remembered("n2", 300_000), epoch=1)
    assert await ledgers.call("HGET", ledgers.keys.session(SESSION), "timeout_node_id") == b"n2"


async def test_old_claims_are_forgotten(ledgers):
    for index in range(0, 3 * CLAIMS_KEPT, 8):
        for lang in ("en", "de"):
            await ledgers.jobs.create(new_job(f"job-{index}-{lang}", index=index, tgt_lang=lang), None)
    names = await session_fields(ledgers.call, ledgers.keys, SESSION, "claim")
    indexes = [int(name.partition(":")[0]) for name in names]
    assert len(await session_fields(ledgers.call, ledgers.keys, SESSION, "job")) == 2 * 3 * CLAIMS_KEPT // 8
    assert min(indexes) == CLAIMS_KEPT + 8
    assert len(indexes) == 2 * (2 * CLAIMS_KEPT - 8) // 8


async def test_the_session_remembers_what_is_written_so_far(ledgers):
    """The next index and the last frame only rise, whatever order jobs are written in."""
    counters = ("HMGET", ledgers.keys.session(SESSION), "next_index", "last_seq")
    await ledgers.jobs.create(new_job(), None)
    assert await ledgers.call(*counters) == [b"1", b""]
    await ledgers.jobs.create(new_job("job-10", index=10, last_seq=9), None)
    assert await ledgers.call(*counters) == [b"11", b"9"]
    await ledgers.jobs.create(new_job("job-9", index=9, last_seq=0), None)
    await ledgers.jobs.create(new_job("job-8", index=8), None)
    assert await ledgers.call(*counters) == [b"11", b"9"]
    await ledgers.jobs.create(new_job("job-11", index=10, last_seq=20), None)
    assert await ledgers.call(*counters) == [b"11", b"9"], "that one was not written"


async def test_a_session_of_an_older_owner_becomes_its_newer_owners_again(store, ledgers, job):
    """Redis forgot everything, and the older owner did not know yet that it had lost the session."""
    other = store.ledgers(B)
    assert await other.sessions.take_over(SESSION, B, epoch=1)
    store.on_every_server("FLUSHALL")
    assert (await ledgers.jobs.create(job, FIRST)).fresh
    claim = await other.jobs.create(new_job("job-2", index=1, session_epoch=2), None)
    assert claim.fresh
    assert await ledgers.call("HMGET", ledgers.keys.session(SESSION), "owner", "epoch") == [B.encode(), b"2"]
    assert await ledgers.jobs.finish(job_end()) is Finish.FENCED


async def test_an_epoch_that_is_no_number_is_written_anew(ledgers, job):
    await ledgers.call("HSET", ledgers.keys.session(SESSION), "epoch", "first")
    assert (await ledgers.jobs.create(new_job("job-2", index=1), None)).fresh
    assert await ledgers.call("HGET", ledgers.keys.session(SESSION), "epoch") == b"1"


# The next attempt follows the one before, and nobody else has moved the job.


async def test_the_next_attempt_becomes_the_current_one(ledgers, job, record):
    await ledgers.jobs.step(SESSION, FIRST, "RUNNING", epoch=1)
    assert await ledgers.jobs.attempt(SESSION, slot_on("n2", attempt=2), epoch=1)
    assert await record("state", "attempt", "node") == ("DISPATCHED", "2", "n2")


async def test_asking_again_is_answered_the_same(ledgers, job):
    second = slot_on("n2", attempt=2)
    assert await ledgers.jobs.attempt(SESSION, second, epoch=1)
    assert await ledgers.jobs.attempt(SESSION, second, epoch=1)


async def test_the_first_attempt_of_a_waiting_job(ledgers, record):
    await ledgers.jobs.create(new_job(), None)
    assert await ledgers.jobs.attempt(SESSION, FIRST, epoch=1)
    assert await record("state", "attempt") == ("DISPATCHED", "1")


@pytest.mark.parametrize("attempt", [1, 3, 10])
async def test_an_attempt_that_does_not_follow_is_refused(ledgers, job, record, attempt):
    assert not await ledgers.jobs.attempt(SESSION, slot_on("n2", attempt=attempt), epoch=1)
    assert await record("attempt", "node") == ("1", "n1")


async def test_of_many_second_attempts_one_wins(ledgers, job):
    won = await asyncio.gather(
        *(ledgers.jobs.attempt(SESSION, slot_on(f"n{number}", attempt=2), epoch=1) for number in range(20))
    )
    assert sum(won) == 1


async def test_an_ended_job_has_no_next_attempt(ledgers, job):
    await ledgers.jobs.finish(job_end())
    assert not await ledgers.jobs.attempt(SESSION, slot_on("n2", attempt=2), epoch=1)


async def test_an_unknown_job_has_none(ledgers):
    assert not await ledgers.jobs.attempt(SESSION, FIRST, epoch=1)
    assert not await ledgers.call("EXISTS", ledgers.keys.session(SESSION))


async def test_an_older_owner_of_the_session_places_no_attempt(store, ledgers, job, record):
    assert await store.ledgers(B).sessions.take_over(SESSION, B, epoch=1)
    assert not await ledgers.jobs.attempt(SESSION, slot_on("n2", attempt=2), epoch=1)
    assert await record("attempt", "node") == ("1", "n1")


async def test_a_session_that_vanished_takes_its_jobs_along(ledgers, job, record):
    """Its owner lives, and may write them again; nobody else writes it anew, it may have been closed."""
    await ledgers.call("DEL", ledgers.keys.session(SESSION))
    assert not await ledgers.jobs.step(SESSION, FIRST, "ACCEPTED", epoch=1)
    assert not await ledgers.jobs.attempt(SESSION, slot_on("n2", attempt=2), epoch=1)
    assert await ledgers.jobs.finish(job_end(log=Logged(0, "en", b"said"))) is Finish.UNKNOWN
    assert not await ledgers.call("EXISTS", ledgers.keys.session(SESSION))
    again = await ledgers.jobs.create(job, slot_on("n2", attempt=2))
    assert (again.fresh, again.anew) == (True, True)
    assert await record("state", "attempt", "node") == ("DISPATCHED", "2", "n2")


# The state goes forwards only, and only for the current attempt.


async def test_from_dispatched_to_released(ledgers, job, record):
    for state in ("ACCEPTED", "RUNNING"):
        assert await ledgers.jobs.step(SESSION, FIRST, state, epoch=1)
        assert await record("state") == (state,)
    await ledgers.jobs.finish(job_end())
    assert await record("state", "outcome") == ("FINISHED", "completed")
    assert await ledgers.jobs.step(SESSION, FIRST, "RELEASED", epoch=1)
    assert await record("state") == ("RELEASED",)
    assert 0 < await ledgers.call("PTTL", ledgers.keys.ended(SESSION, JOB)) <= 60_000


async def test_the_slot_of_a_job_that_nobody_remembers_is_not_marked(ledgers, job):
    """It may be given back long after the job has ended, or after its session was closed."""
    await ledgers.jobs.finish(job_end())
    await ledgers.sessions.close(SESSION, epoch=1)
    assert not await ledgers.jobs.step(SESSION, FIRST, "RELEASED", epoch=1)
    assert not await ledgers.call("EXISTS", ledgers.keys.ended(SESSION, JOB))


async def test_who_ended_the_job_may_mark_it_though_the_session_has_moved_on(store, ledgers, job, record):
    await ledgers.jobs.finish(job_end())
    assert await store.ledgers(B).sessions.take_over(SESSION, B, epoch=1)
    assert await ledgers.jobs.step(SESSION, FIRST, "RELEASED", epoch=1)
    assert await record("state") == ("RELEASED",)


async def test_ac38_a_result_needs_no_ack(ledgers, job, record):
    assert await ledgers.jobs.finish(job_end()) is Finish.ACCEPTED
    assert await ledgers.jobs.step(SESSION, FIRST, "RELEASED", epoch=1)


async def test_ac39_a_late_ack_takes_nothing_back(ledgers, job, record):
    await ledgers.jobs.finish(job_end())
    await ledgers.jobs.step(SESSION, FIRST, "RELEASED", epoch=1)
    assert await ledgers.jobs.step(SESSION, FIRST, "ACCEPTED", epoch=1)
    assert await record("state") == ("RELEASED",)


async def test_a_running_job_is_not_released(ledgers, job, record):
    assert not await ledgers.jobs.step(SESSION, FIRST, "RELEASED", epoch=1)
    assert await record("state") == ("DISPATCHED",)


@pytest.mark.parametrize("attempt", [0, 2])
async def test_ac37_another_attempt_changes_nothing(ledgers, job, record, attempt):
    assert not await ledgers.jobs.step(SESSION, slot_on("n1", attempt=attempt), "ACCEPTED", epoch=1)
    assert await record("state") == ("DISPATCHED",)


async def test_an_unknown_job_has_no_steps(ledgers):
    for state in ("ACCEPTED", "RELEASED"):
        assert not await ledgers.jobs.step(SESSION, FIRST, state, epoch=1)
    assert not await ledgers.call("EXISTS", ledgers.keys.session(SESSION))
    assert not await ledgers.call("EXISTS", ledgers.keys.ended(SESSION, JOB))


async def test_an_older_owner_of_the_session_takes_no_step(store, ledgers, job, record):
    other = store.ledgers(B)
    assert await other.sessions.take_over(SESSION, B, epoch=1)
    assert not await ledgers.jobs.step(SESSION, FIRST, "RUNNING", epoch=1)
    assert await record("state") == ("DISPATCHED",)
    assert await other.jobs.step(SESSION, FIRST, "RUNNING", epoch=2)


# A job ends once.


async def test_the_audio_is_dropped_and_that_it_ended_is_kept_a_while(ledgers, job):
    await ledgers.jobs.finish(job_end())
    assert not await ledgers.call("EXISTS", ledgers.keys.audio(SESSION, JOB))
    assert await session_fields(ledgers.call, ledgers.keys, SESSION, "job") == {}
    assert 0 < await ledgers.call("PTTL", ledgers.keys.ended(SESSION, JOB)) <= 60_000


async def test_a_second_end_is_told_so(ledgers, job, record):
    await ledgers.jobs.finish(job_end())
    assert await ledgers.jobs.finish(job_end(outcome="failed")) is Finish.DONE
    assert await record("outcome") == ("completed",)


async def test_of_many_ends_at_once_one_counts(ledgers, job):
    verdicts = await asyncio.gather(*(ledgers.jobs.finish(job_end(outcome=f"o{n}")) for n in range(20)))
    assert verdicts.count(Finish.ACCEPTED) == 1
    assert verdicts.count(Finish.DONE) == 19


async def test_an_older_attempt_does_not_end_it(ledgers, job, record):
    await ledgers.jobs.attempt(SESSION, slot_on("n2", attempt=2), epoch=1)
    assert await ledgers.jobs.finish(job_end()) is Finish.STALE
    assert await record("state") == ("DISPATCHED",)
    assert await ledgers.call("EXISTS", ledgers.keys.audio(SESSION, JOB))


async def test_a_job_that_is_not_there_is_unknown(ledgers):
    assert await ledgers.jobs.finish(job_end()) is Finish.UNKNOWN
    assert not await ledgers.call("EXISTS", ledgers.keys.session(SESSION))
    assert not await ledgers.call("EXISTS", ledgers.keys.ended(SESSION, JOB))


# What the client is told is logged with the end of the job.


async def test_the_end_is_logged_in_the_session_which_lives_no_longer_for_it(ledgers, job, told):
    await ledgers.call("PEXPIRE", ledgers.keys.session(SESSION), 1000)
    await ledgers.jobs.finish(job_end(log=Logged(0, "en", b"\x00said\xff")))
    assert await told() == {"0:en": b"\x00said\xff"}
    assert 0 < await ledgers.call("PTTL", ledgers.keys.session(SESSION)) <= 1000


async def test_of_an_end_without_a_word_nothing_is_logged(ledgers, job, told):
    await ledgers.jobs.finish(job_end())
    assert await told() == {}


async def test_what_was_acknowledged_leaves_the_log(ledgers, job, told):
    await ledgers.jobs.finish(job_end(log=Logged(0, "en", b"zero")))
    for index in (1, 2):
        await ledgers.jobs.create(new_job(f"job-{index + 1}", index=index), None)
    await ledgers.jobs.finish(
        job_end("job-2", attempt=0, log=Logged(1, "en", b"one"), forget=("0:en", "7:xx"))
    )
    assert await told() == {"1:en": b"one"}
    await ledgers.jobs.finish(job_end("job-3", attempt=0, forget=("1:en",)))
    assert await told() == {}


async def test_an_end_whose_answer_was_not_heard_is_logged_once(ledgers, job, told):
    end = job_end(log=Logged(0, "en", b"said"))
    await ledgers.jobs.finish(end)
    assert await ledgers.jobs.finish(end) is Finish.DONE
    assert await ledgers.jobs.finish(job_end(log=Logged(0, "en", b"other"))) is Finish.DONE
    assert await told() == {"0:en": b"said"}


async def test_what_was_acknowledged_leaves_the_log_also_with_an_end_that_does_not_count(ledgers, job, told):
    await ledgers.jobs.create(new_job("job-2", index=1), None)
    await ledgers.jobs.finish(job_end("job-2", attempt=0, log=Logged(1, "en", b"one")))
    assert await ledgers.jobs.finish(job_end(attempt=7, forget=("1:en",))) is Finish.STALE
    assert await told() == {}
    await ledgers.jobs.finish(job_end(log=Logged(0, "en", b"said")))
    assert await ledgers.jobs.finish(job_end(forget=("0:en",))) is Finish.DONE
    assert await told() == {}


async def test_a_stale_end_logs_nothing_and_leaves_the_job_open(ledgers, job, told):
    await ledgers.jobs.attempt(SESSION, slot_on("n2", attempt=2), epoch=1)
    await ledgers.jobs.finish(job_end(log=Logged(0, "en", b"said")))
    assert await told() == {}
    assert (await session_fields(ledgers.call, ledgers.keys, SESSION, "job")).keys() == {JOB}


async def test_an_older_owner_of_the_session_ends_nothing(store, ledgers, job, record, told):
    await ledgers.jobs.create(new_job("job-2", index=1), None)
    await ledgers.jobs.finish(job_end("job-2", attempt=0, log=Logged(1, "en", b"one")))
    assert await store.ledgers(B).sessions.take_over(SESSION, B, epoch=1)
    late = job_end(log=Logged(0, "en", b"zero"), forget=("1:en",))
    assert await ledgers.jobs.finish(late) is Finish.FENCED
    assert await record("state") == ("DISPATCHED",)
    assert await told() == {"1:en": b"one"}


async def test_the_end_of_a_job_that_redis_lost_is_logged_while_the_session_is_there(ledgers, job, told):
    """The client is told about it, so it must also be told after a resume."""
    end = job_end(log=Logged(0, "en", b"said"))
    await ledgers.call("HDEL", ledgers.keys.session(SESSION), f"job:{JOB}")
    assert await ledgers.jobs.finish(end) is Finish.UNKNOWN
    assert await told() == {"0:en": b"said"}
    await ledgers.sessions.close(SESSION, epoch=1)
    assert await ledgers.jobs.finish(end) is Finish.UNKNOWN
    assert await told() == {}, "of a closed session nothing is left"


# Audio travels through keys: to the holder of an attempt, and back as a voice.


async def test_the_holder_of_the_current_attempt_gets_the_audio(ledgers, job):
    assert await ledgers.jobs.audio(SESSION, JOB, attempt=1) == job.audio
    assert await ledgers.jobs.audio(SESSION, JOB, attempt=1) == job.audio


async def test_ac62b_an_attempt_that_was_given_up_gets_none(ledgers, job):
    await ledgers.jobs.attempt(SESSION, slot_on("n2", attempt=2), epoch=1)
    assert await ledgers.jobs.audio(SESSION, JOB, attempt=1) is None
    assert await ledgers.jobs.audio(SESSION, JOB, attempt=2) == job.audio


async def test_of_a_job_that_ended_or_was_never_there_is_no_audio(ledgers, job):
    assert await ledgers.jobs.audio(SESSION, JobId("job-2"), attempt=1) is None
    await ledgers.jobs.finish(job_end())
    assert await ledgers.jobs.audio(SESSION, JOB, attempt=1) is None


async def test_audio_that_vanished_or_is_no_audio_is_none(ledgers, job):
    audio = ledgers.keys.audio(SESSION, JOB)
    await ledgers.call("DEL", audio)
    assert await ledgers.jobs.audio(SESSION, JOB, attempt=1) is None
    await ledgers.call("HSET", audio, "a", "b")
    assert await ledgers.jobs.audio(SESSION, JOB, attempt=1) is None
    await ledgers.call("DEL", audio)


async def test_a_voice_can_be_fetched_for_a_minute(ledgers, job):
    """A letter that says it is there may be delivered twice."""
    await ledgers.jobs.put_voice(SESSION, JOB, b"\x00voice\xff")
    for _ in range(2):
        assert await ledgers.jobs.take_voice(SESSION, JOB) == b"\x00voice\xff"
    assert 0 < await ledgers.call("PTTL", ledgers.keys.voice(SESSION, JOB)) <= 60_000
    assert await ledgers.jobs.take_voice(SESSION, JobId("job-2")) is None


async def test_a_voice_that_is_none_is_none(ledgers):
    voice = ledgers.keys.voice(SESSION, JOB)
    await ledgers.call("HSET", voice, "a", "b")
    assert await ledgers.jobs.take_voice(SESSION, JOB) is None
    await ledgers.call("DEL", voice)


async def test_all_goes_on_when_the_server_forgets_the_scripts(store, ledgers):
    store.on_every_server("SCRIPT FLUSH")
    await ledgers.jobs.create(new_job(), FIRST)
    store.on_every_server("SCRIPT FLUSH")
    assert await ledgers.jobs.step(SESSION, FIRST, "ACCEPTED", epoch=1)
    store.on_every_server("SCRIPT FLUSH")
    assert await ledgers.jobs.finish(job_end()) is Finish.ACCEPTED


async def test_a_key_of_the_wrong_type_is_a_corrupt_value_and_no_crash(ledgers):
    await ledgers.call("SET", ledgers.keys.session(SESSION), "text", "EX", 60)
    for attempt in (
        ledgers.jobs.attempt(SESSION, FIRST, epoch=1),
        ledgers.jobs.step(SESSION, FIRST, "ACCEPTED", epoch=1),
        ledgers.jobs.finish(job_end(outcome="failed")),
    ):
        with pytest.raises(CorruptValue):
            await attempt
    await ledgers.call("DEL", ledgers.keys.session(SESSION))


async def test_a_state_that_nobody_knows_is_an_error_and_no_crash(ledgers, job):
    await ledgers.call("HSET", ledgers.keys.session(SESSION), f"job:{JOB}", "DREAMING 1 n1\n0:en\n\n{}")
    with pytest.raises(StoreError, match=r"rank|job_step"):
        await ledgers.jobs.step(SESSION, FIRST, "ACCEPTED", epoch=1)
