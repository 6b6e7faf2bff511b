"""A session changes hands: one new owner, who finds everything, and an older one that writes nothing more."""

from __future__ import annotations

import asyncio

import pytest

from lingua_scheduler.core.model import InstanceId, JobId, SessionId
from lingua_scheduler.core.stored import Finish, Logged, Remembered, StoredJob, Tenure
from lingua_scheduler.errors import Fenced
from store.ledgers import A, B, job_end, new_job, slot_on

SESSION = SessionId("s-1")
C = InstanceId("instance-c")


@pytest.fixture
async def other(store):
    """Give the ledgers of another instance."""
    return store.ledgers(B)


@pytest.fixture
async def session(ledgers):
    """Open a session on the first instance."""
    await ledgers.sessions.open(SESSION, A, {"src_lang": "zh", "trace_id": "t-1"}, epoch=1)


async def test_the_new_owner_is_the_owner_at_the_next_epoch(ledgers, other, session):
    key = ledgers.keys.session(SESSION)
    await ledgers.call("PEXPIRE", key, 1000)
    stored = await other.sessions.take_over(SESSION, B, epoch=1)
    assert (stored.epoch, stored.before) == (2, A)
    assert stored.fields == {"src_lang": "zh", "trace_id": "t-1"}
    assert (stored.next_index, stored.last_seq, stored.jobs, stored.log, stored.lost) == (0, None, (), (), ())
    assert await ledgers.call("HMGET", key, "owner", "epoch") == [B.encode(), b"2"]
    assert await ledgers.call("PTTL", key) > 1000


@pytest.mark.parametrize("epoch", [0, 2, 10])
async def test_at_another_epoch_it_is_not_taken(ledgers, other, session, epoch):
    assert await other.sessions.take_over(SESSION, B, epoch=epoch) is None
    assert await ledgers.sessions.owner(SESSION) == A


async def test_a_session_that_is_not_there_is_not_taken(ledgers):
    assert await ledgers.sessions.take_over(SESSION, A, epoch=1) is None
    assert not await ledgers.call("EXISTS", ledgers.keys.session(SESSION))


async def test_of_many_that_come_at_once_one_gets_it(store, ledgers, session):
    several = [store.ledgers(InstanceId(f"instance-{number}")) for number in range(4)]
    got = await asyncio.gather(
        *(several[n % 4].sessions.take_over(SESSION, several[n % 4].owner, epoch=1) for n in range(40))
    )
    assert sum(one is not None for one in got) == 1
    assert (
        await ledgers.sessions.owner(SESSION)
        == several[next(n for n, one in enumerate(got) if one) % 4].owner
    )


async def test_of_two_lives_on_one_instance_the_later_one_has_it(ledgers, session):
    assert await ledgers.sessions.take_over(SESSION, A, epoch=1)
    with pytest.raises(Fenced):
        await ledgers.jobs.create(new_job(), None)
    assert (await ledgers.jobs.create(new_job(session_epoch=2), None)).fresh


async def test_of_two_at_one_epoch_one_is_the_owner(store, ledgers, other, session):
    """Redis forgot everything, an older owner wrote first, and the client came there with an older token."""
    third = store.ledgers(C)
    assert await other.sessions.take_over(SESSION, B, epoch=1)
    store.on_every_server("FLUSHALL")
    await ledgers.sessions.open(SESSION, A, {}, epoch=1)
    assert await third.sessions.take_over(SESSION, C, epoch=1)
    with pytest.raises(Fenced):
        await other.jobs.create(new_job(session_epoch=2), None)
    with pytest.raises(Fenced):
        await other.sessions.open(SESSION, B, {}, epoch=2)
    assert await other.sessions.renew({SESSION: 2}, B) == {SESSION: Tenure.TAKEN}
    assert (await third.jobs.create(new_job(session_epoch=2), None)).fresh


async def test_open_jobs_come_with_attempt_reservation_and_audio(ledgers, other, session):
    placed = slot_on("n1", owner=B, epoch=7, pool=3, shelf="zh en \u4f60")
    await ledgers.jobs.create(new_job(index=10, last_seq=40, record=b"\x00ten"), placed)
    await ledgers.jobs.create(new_job("job-2", index=9, tgt_lang="de", last_seq=30, audio=b""), None)
    await ledgers.jobs.step(SESSION, placed, "RUNNING", epoch=1)
    stored = await other.sessions.take_over(SESSION, B, epoch=1)
    assert stored.jobs == (
        StoredJob(JobId("job-2"), 9, "de", 0, b'{"a":1}', b"", None),
        StoredJob(JobId("job-1"), 10, "en", 1, b"\x00ten", new_job().audio, placed),
    )
    assert (stored.next_index, stored.last_seq) == (11, 40)


async def test_the_reservation_is_that_of_the_current_attempt(ledgers, other, session):
    await ledgers.jobs.create(new_job(), slot_on("n1"))
    second = slot_on("n2", attempt=2, epoch=4)
    await ledgers.jobs.attempt(SESSION, second, Remembered("n2", 300_000), epoch=1)
    stored = await other.sessions.take_over(SESSION, B, epoch=1)
    assert [(job.attempt, job.reservation) for job in stored.jobs] == [(2, second)]
    assert stored.fields["timeout_node_id"] == "n2"


async def test_results_come_in_the_order_of_their_indexes(ledgers, other, session):
    told = [(index, lang) for index in (10, 9, 100, 0) for lang in ("en", "de")]
    for index, lang in told:
        job = f"job-{index}-{lang}"
        await ledgers.jobs.create(new_job(job, index=index, tgt_lang=lang), None)
        log = Logged(index, lang, job.encode())
        await ledgers.jobs.finish(job_end(job, attempt=0, log=log))
    stored = await other.sessions.take_over(SESSION, B, epoch=1)
    assert stored.log == tuple(Logged(i, lang, f"job-{i}-{lang}".encode()) for i, lang in sorted(told))
    assert (stored.jobs, stored.lost) == ((), ())


async def test_what_ended_is_not_open(ledgers, other, session):
    for index in range(2):
        await ledgers.jobs.create(new_job(f"job-{index}", index=index), slot_on("n1", f"job-{index}"))
        await ledgers.jobs.finish(job_end(f"job-{index}"))
    await ledgers.jobs.step(SESSION, slot_on("n1", "job-1"), "RELEASED", epoch=1)
    stored = await other.sessions.take_over(SESSION, B, epoch=1)
    assert (stored.jobs, stored.log, stored.lost, stored.next_index) == ((), (), (), 2)


async def test_the_new_owner_goes_on_where_the_older_one_was(ledgers, other, session):
    first = slot_on("n1")
    await ledgers.jobs.create(new_job(), first)
    assert await other.sessions.take_over(SESSION, B, epoch=1)
    assert await other.jobs.step(SESSION, first, "RUNNING", epoch=2)
    assert await other.jobs.attempt(SESSION, slot_on("n2", attempt=2), epoch=2)
    end = job_end(session_epoch=2, attempt=2, log=Logged(0, "en", b"said"))
    assert await other.jobs.finish(end) is Finish.ACCEPTED
    stored = await ledgers.sessions.take_over(SESSION, A, epoch=2)
    assert (stored.epoch, stored.before, stored.log) == (3, B, (Logged(0, "en", b"said"),))


async def test_a_job_ends_for_one_of_two_owners(ledgers, other, session):
    """The older owner's end and the change of hands cross: whoever is first decides, for both."""
    for turn in range(20):
        job, epoch = f"job-{turn}", turn + 1
        await ledgers.jobs.create(new_job(job, index=turn, session_epoch=epoch), None)
        end = job_end(job, session_epoch=epoch, attempt=0, log=Logged(turn, "en", b"said"))
        calls = [ledgers.jobs.finish(end), other.sessions.take_over(SESSION, A, epoch=epoch)]
        if turn % 2:
            verdict, stored = await asyncio.gather(*calls)
        else:
            stored, verdict = await asyncio.gather(*reversed(calls))
        open_jobs, logged = {job.index for job in stored.jobs}, {entry.index for entry in stored.log}
        assert (turn in logged) == (verdict is Finish.ACCEPTED)
        assert (turn in open_jobs) == (verdict is Finish.FENCED)


# What cannot be read is lost, and said to be.


async def no_audio(ledgers, job, audio):
    """Lose the audio."""
    await ledgers.call("DEL", audio)


async def wrong_type_of_audio(ledgers, job, audio):
    """Have something else in the place of the audio."""
    await ledgers.call("DEL", audio)
    await ledgers.call("HSET", audio, "a", "b")
    await ledgers.call("EXPIRE", audio, 60)


def with_line(number, line):
    """Have another line in what was written of the job; None: have none from there on."""

    async def hurt(ledgers, job, audio):
        lines = (await ledgers.call("HGET", *job)).split(b"\n", 3)
        changed = lines[:number] if line is None else [*lines[:number], line.encode(), *lines[number + 1 :]]
        await ledgers.call("HSET", *job, b"\n".join(changed))

    return hurt


no_request = with_line(3, None)
unknown_state = with_line(0, "DREAMING 1 n1")
no_number = with_line(0, "DISPATCHED one n1")
no_words = with_line(0, "DISPATCHED")
torn_reservation = with_line(2, '{"node_id":"n1"')
poor_reservation = with_line(2, '{"node_id":"n1"}')
reservation_of_another_attempt = with_line(0, "DISPATCHED 2 n1")


HURTS = [
    no_audio,
    no_request,
    wrong_type_of_audio,
    unknown_state,
    no_number,
    no_words,
    torn_reservation,
    poor_reservation,
    reservation_of_another_attempt,
]


@pytest.mark.parametrize("hurt", HURTS)
async def test_b71_a_job_that_cannot_be_read_is_named_lost(ledgers, other, session, hurt):
    keys = ledgers.keys
    for index in range(3):
        job = f"job-{index}"
        await ledgers.jobs.create(new_job(job, index=index), slot_on("n1", job))
    await hurt(ledgers, (keys.session(SESSION), "job:job-1"), keys.audio(SESSION, "job-1"))
    stored = await other.sessions.take_over(SESSION, B, epoch=1)
    assert [job.index for job in stored.jobs] == [0, 2]
    assert stored.lost == ((1, "en"),)
    await ledgers.call("DEL", keys.audio(SESSION, "job-1"))


async def test_a_lost_job_may_be_ended_by_the_new_owner(ledgers, other, session):
    """It is told about once; the owner after that finds it in the log."""
    await ledgers.jobs.create(new_job(), slot_on("n1"))
    await ledgers.call("HSET", ledgers.keys.session(SESSION), "job:job-1", "DREAMING\n0:en")
    assert (await other.sessions.take_over(SESSION, B, epoch=1)).lost == ((0, "en"),)
    end = job_end(session_epoch=2, log=Logged(0, "en", b"missing"))
    assert await other.jobs.finish(end) is Finish.UNKNOWN
    stored = await ledgers.sessions.take_over(SESSION, A, epoch=2)
    assert (stored.lost, stored.log) == ((), (Logged(0, "en", b"missing"),))


async def test_b71_names_and_numbers_that_make_no_sense_are_passed_over(ledgers, other, session):
    keys = ledgers.keys
    await ledgers.jobs.create(new_job(), slot_on("n1"))
    await ledgers.call("HSET", keys.session(SESSION), "next_index", "many", "last_seq", b"\xff", b"\xfe", "x")
    await ledgers.call("HSET", keys.session(SESSION), "job:job-8", "", "job:job-9", "\nnine:en\n")
    await ledgers.call("HSET", keys.session(SESSION), b"job:\xff", "", b"claim:\xff", b"\xff")
    await ledgers.call("HSET", keys.session(SESSION), "told:x", "y", b"told:\xff:en", "z", "told:-1:en", "u")
    stored = await other.sessions.take_over(SESSION, B, epoch=1)
    assert [job.index for job in stored.jobs] == [0]
    assert (stored.next_index, stored.last_seq, stored.log, stored.lost) == (1, None, (), ())


async def test_b71_a_session_that_cannot_be_read_is_nobodys(ledgers, other, session):
    key = ledgers.keys.session(SESSION)
    await ledgers.call("SET", key, "text", "EX", 60)
    assert await other.sessions.take_over(SESSION, B, epoch=1) is None
    assert await ledgers.sessions.owner(SESSION) is None
    await ledgers.call("DEL", key)


async def test_who_heard_no_answer_takes_it_again_by_the_same_try(ledgers, session):
    """An instance may die between taking a session over and telling its client."""
    first = await ledgers.sessions.take_over(SESSION, B, epoch=1, try_id="try-1")
    assert await ledgers.sessions.take_over(SESSION, A, epoch=1, try_id="try-2") is None
    assert await ledgers.sessions.take_over(SESSION, A, epoch=1) is None
    again = await ledgers.sessions.take_over(SESSION, A, epoch=1, try_id="try-1")
    assert (first.epoch, again.epoch) == (2, 3)


async def test_of_numbered_tries_an_older_one_comes_too_late(ledgers, session):
    """A client that went on to another instance is not thrown out by its own request from before."""
    take_over = ledgers.sessions.take_over
    for number, owner in ((1, A), (3, B)):
        assert await take_over(SESSION, owner, epoch=1, try_id=f"a.try-%#{number}")
    for late in ("a.try-%#1", "a.try-%#2", "a-try-%#9", "#9", "a.try-%"):
        assert await take_over(SESSION, A, epoch=1, try_id=late) is None
    assert (await take_over(SESSION, A, epoch=1, try_id="a.try-%#10")).epoch == 4


async def test_once_something_was_said_the_same_try_is_over(ledgers, session):
    taken = await ledgers.sessions.take_over(SESSION, A, epoch=1, try_id="try-1")
    await ledgers.jobs.create(new_job(session_epoch=taken.epoch), None)
    assert await ledgers.sessions.take_over(SESSION, A, epoch=1, try_id="try-1") is None
