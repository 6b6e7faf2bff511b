"""Jobs: claimed once, advanced by their current attempt only, ended once; single Redis and cluster."""

from __future__ import annotations

import asyncio

import pytest

from lingua_scheduler.core.model import JobId, SessionId
from lingua_scheduler.core.ports import Finish, Remembered
from lingua_scheduler.errors import CorruptValue, StoreError
from lingua_scheduler.store.jobs import CLAIMS_KEPT
from store.ledgers import B, new_job, slot_on

SESSION = SessionId("s-1")
JOB = JobId("job-1")
FIRST = slot_on("n1")


@pytest.fixture
def record(ledgers):
    """Give a function that reads fields of the job's record."""

    async def read(*fields):
        values = await ledgers.call("HMGET", ledgers.keys.job(SESSION, JOB), *fields)
        return tuple(value.decode() if value is not None else None for value in values)

    return read


@pytest.fixture
async def job(ledgers):
    """Give a job whose first attempt is on n1."""
    await ledgers.sessions.open(SESSION, ledgers.owner, {})
    await ledgers.jobs.create(new_job(), FIRST)
    return new_job()


# The claim, the record and the audio are one step.


async def test_a_placed_job_is_written_with_its_attempt_and_audio(ledgers, job, record):
    assert await record("state", "attempt", "node", "record") == ("DISPATCHED", "1", "n1", '{"a":1}')
    assert await ledgers.call("GET", ledgers.keys.audio(SESSION, JOB)) == job.audio
    for key in (ledgers.keys.job(SESSION, JOB), ledgers.keys.audio(SESSION, JOB)):
        assert 0 < await ledgers.call("PTTL", key) <= job.ttl_ms


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
    assert not await ledgers.call("EXISTS", ledgers.keys.job(SESSION, "job-2"))
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
    epoch = await other.sessions.open(SESSION, B, {})
    with pytest.raises(StoreError, match="newer owner"):
        await ledgers.jobs.create(new_job("job-2", index=1), None)
    claim = await other.jobs.create(new_job("job-2", index=1, session_epoch=epoch), None)
    assert claim.fresh


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
    assert await ledgers.jobs.attempt(SESSION, slot_on("n2", attempt=2), Remembered("n2", 300_000))
    assert await ledgers.call("HGET", ledgers.keys.session(SESSION), "timeout_node_id") == b"n2"


async def test_old_claims_are_forgotten(ledgers):
    for index in range(CLAIMS_KEPT + 20):
        await ledgers.jobs.create(new_job(f"job-{index}", index=index), None)
    assert await ledgers.call("HLEN", ledgers.keys.claims(SESSION)) == CLAIMS_KEPT


# The next attempt follows the one before, and nobody else has moved the job.


async def test_the_next_attempt_becomes_the_current_one(ledgers, job, record):
    await ledgers.jobs.step(SESSION, FIRST, "RUNNING")
    assert await ledgers.jobs.attempt(SESSION, slot_on("n2", attempt=2))
    assert await record("state", "attempt", "node") == ("DISPATCHED", "2", "n2")


async def test_asking_again_is_answered_the_same(ledgers, job):
    second = slot_on("n2", attempt=2)
    assert await ledgers.jobs.attempt(SESSION, second)
    assert await ledgers.jobs.attempt(SESSION, second)


async def test_the_first_attempt_of_a_waiting_job(ledgers, record):
    await ledgers.jobs.create(new_job(), None)
    assert await ledgers.jobs.attempt(SESSION, FIRST)
    assert await record("state", "attempt") == ("DISPATCHED", "1")


@pytest.mark.parametrize("attempt", [1, 3, 10])
async def test_an_attempt_that_does_not_follow_is_refused(ledgers, job, record, attempt):
    assert not await ledgers.jobs.attempt(SESSION, slot_on("n2", attempt=attempt))
    assert await record("attempt", "node") == ("1", "n1")


async def test_of_many_second_attempts_one_wins(ledgers, job):
    won = await asyncio.gather(
        *(ledgers.jobs.attempt(SESSION, slot_on(f"n{number}", attempt=2)) for number in range(20))
    )
    assert sum(won) == 1


async def test_an_ended_job_has_no_next_attempt(ledgers, job):
    await ledgers.jobs.finish(SESSION, JOB, attempt=1, outcome="completed")
    assert not await ledgers.jobs.attempt(SESSION, slot_on("n2", attempt=2))


async def test_an_unknown_job_has_none(ledgers):
    assert not await ledgers.jobs.attempt(SESSION, FIRST)
    assert not await ledgers.call("EXISTS", ledgers.keys.job(SESSION, JOB))


# The state goes forwards only, and only for the current attempt.


async def test_from_dispatched_to_released(ledgers, job, record):
    for state in ("ACCEPTED", "RUNNING"):
        assert await ledgers.jobs.step(SESSION, FIRST, state)
        assert await record("state") == (state,)
    await ledgers.jobs.finish(SESSION, JOB, attempt=1, outcome="completed")
    assert await record("state", "outcome") == ("FINISHED", "completed")
    assert await ledgers.jobs.step(SESSION, FIRST, "RELEASED")
    assert await record("state") == ("RELEASED",)


async def test_ac38_a_result_needs_no_ack(ledgers, job, record):
    assert await ledgers.jobs.finish(SESSION, JOB, attempt=1, outcome="completed") is Finish.ACCEPTED
    assert await ledgers.jobs.step(SESSION, FIRST, "RELEASED")


async def test_ac39_a_late_ack_takes_nothing_back(ledgers, job, record):
    await ledgers.jobs.finish(SESSION, JOB, attempt=1, outcome="completed")
    await ledgers.jobs.step(SESSION, FIRST, "RELEASED")
    assert await ledgers.jobs.step(SESSION, FIRST, "ACCEPTED")
    assert await record("state") == ("RELEASED",)


async def test_a_running_job_is_not_released(ledgers, job, record):
    assert not await ledgers.jobs.step(SESSION, FIRST, "RELEASED")
    assert await record("state") == ("DISPATCHED",)


@pytest.mark.parametrize("attempt", [0, 2])
async def test_ac37_another_attempt_changes_nothing(ledgers, job, record, attempt):
    assert not await ledgers.jobs.step(SESSION, slot_on("n1", attempt=attempt), "ACCEPTED")
    assert await record("state") == ("DISPATCHED",)


async def test_an_unknown_job_has_no_steps(ledgers):
    assert not await ledgers.jobs.step(SESSION, FIRST, "ACCEPTED")
    assert not await ledgers.call("EXISTS", ledgers.keys.job(SESSION, JOB))


# A job ends once.


async def test_the_audio_is_dropped_and_the_record_kept_a_while(ledgers, job):
    await ledgers.jobs.finish(SESSION, JOB, attempt=1, outcome="completed")
    assert not await ledgers.call("EXISTS", ledgers.keys.audio(SESSION, JOB))
    assert 0 < await ledgers.call("PTTL", ledgers.keys.job(SESSION, JOB)) <= 60_000


async def test_a_second_end_is_told_so(ledgers, job, record):
    await ledgers.jobs.finish(SESSION, JOB, attempt=1, outcome="completed")
    assert await ledgers.jobs.finish(SESSION, JOB, attempt=1, outcome="failed") is Finish.DONE
    assert await record("outcome") == ("completed",)


async def test_of_many_ends_at_once_one_counts(ledgers, job):
    verdicts = await asyncio.gather(
        *(ledgers.jobs.finish(SESSION, JOB, attempt=1, outcome=f"o{n}") for n in range(20))
    )
    assert verdicts.count(Finish.ACCEPTED) == 1
    assert verdicts.count(Finish.DONE) == 19


async def test_an_older_attempt_does_not_end_it(ledgers, job, record):
    await ledgers.jobs.attempt(SESSION, slot_on("n2", attempt=2))
    assert await ledgers.jobs.finish(SESSION, JOB, attempt=1, outcome="completed") is Finish.STALE
    assert await record("state") == ("DISPATCHED",)
    assert await ledgers.call("EXISTS", ledgers.keys.audio(SESSION, JOB))


async def test_a_job_that_is_not_there_is_unknown(ledgers):
    assert await ledgers.jobs.finish(SESSION, JOB, attempt=1, outcome="completed") is Finish.UNKNOWN
    assert not await ledgers.call("EXISTS", ledgers.keys.job(SESSION, JOB))


async def test_all_goes_on_when_the_server_forgets_the_scripts(store, ledgers):
    store.on_every_server("SCRIPT FLUSH")
    await ledgers.jobs.create(new_job(), FIRST)
    store.on_every_server("SCRIPT FLUSH")
    assert await ledgers.jobs.step(SESSION, FIRST, "ACCEPTED")
    store.on_every_server("SCRIPT FLUSH")
    assert await ledgers.jobs.finish(SESSION, JOB, attempt=1, outcome="completed") is Finish.ACCEPTED


async def test_a_key_of_the_wrong_type_is_a_corrupt_value_and_no_crash(ledgers):
    await ledgers.call("SET", ledgers.keys.job(SESSION, JOB), "text", "EX", 60)
    for attempt in (
        ledgers.jobs.attempt(SESSION, FIRST),
        ledgers.jobs.step(SESSION, FIRST, "ACCEPTED"),
        ledgers.jobs.finish(SESSION, JOB, attempt=1, outcome="failed"),
    ):
        with pytest.raises(CorruptValue):
            await attempt
    await ledgers.call("DEL", ledgers.keys.job(SESSION, JOB))


async def test_a_state_that_nobody_knows_is_an_error_and_no_crash(ledgers, job):
    await ledgers.call("HSET", ledgers.keys.job(SESSION, JOB), "state", "DREAMING", "attempt", "1")
    with pytest.raises(StoreError, match=r"rank|job_step"):
        await ledgers.jobs.step(SESSION, FIRST, "ACCEPTED")
