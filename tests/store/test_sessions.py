"""Sessions: one owner at a time, kept alive by it, and nothing left when they end; single and cluster."""

from __future__ import annotations

import pytest

from lingua_scheduler.core.model import JobId, SessionId
from lingua_scheduler.core.stored import Finish, Logged, Tenure
from lingua_scheduler.errors import CorruptValue, Fenced, StoreError
from store.ledgers import A, B, job_end, new_job, slot_on

SESSION = SessionId("s-1")
LEASE_MS = 90_000


@pytest.fixture
def key(ledgers):
    return ledgers.keys.session(SESSION)


async def test_a_session_is_written_with_owner_fields_and_lease(ledgers, key):
    assert await ledgers.sessions.open(SESSION, A, {"src_lang": "zh"}, epoch=1) == 1
    assert await ledgers.call("HMGET", key, "owner", "epoch", "src_lang") == [A.encode(), b"1", b"zh"]
    assert 0 < await ledgers.call("PTTL", key) <= LEASE_MS


async def test_what_somebody_else_has_is_not_opened(store, ledgers, key):
    """Whoever wants another one's session takes it over."""
    assert await ledgers.sessions.open(SESSION, A, {"src_lang": "zh"}, epoch=1) == 1
    with pytest.raises(Fenced):
        await store.ledgers(B).sessions.open(SESSION, B, {"src_lang": "de"}, epoch=1)
    assert await ledgers.call("HMGET", key, "owner", "src_lang") == [A.encode(), b"zh"]


async def test_an_older_owner_does_not_write_it_again(store, ledgers, key):
    """Neither another instance nor an earlier life of the session on the same one."""
    await ledgers.sessions.open(SESSION, A, {}, epoch=1)
    for owner, epoch in ((B, 2), (A, 3), (A, 4)):
        assert await ledgers.sessions.take_over(SESSION, owner, epoch=epoch - 1)
    for owner, epoch in ((A, 1), (B, 2), (A, 3)):
        with pytest.raises(Fenced):
            await ledgers.sessions.open(SESSION, owner, {}, epoch=epoch)
    assert await ledgers.call("HMGET", key, "owner", "epoch") == [A.encode(), b"4"]


async def test_no_epoch_is_lowered_when_redis_forgets(ledgers, key):
    assert await ledgers.sessions.open(SESSION, A, {}, epoch=7) == 7
    assert await ledgers.call("HGET", key, "epoch") == b"7"


async def test_an_older_record_becomes_the_newer_owners(ledgers, key):
    """An older owner wrote it first after Redis had forgotten everything."""
    await ledgers.sessions.open(SESSION, A, {}, epoch=1)
    assert await ledgers.sessions.open(SESSION, B, {}, epoch=2) == 2
    assert await ledgers.call("HMGET", key, "owner", "epoch") == [B.encode(), b"2"]


async def test_written_again_its_counters_only_rise(ledgers, key):
    counters = ("HMGET", key, "next_index", "last_seq")
    await ledgers.jobs.create(new_job(index=4, last_seq=20), None)
    await ledgers.sessions.open(SESSION, A, {"next_index": "3", "last_seq": "21"}, epoch=1)
    assert await ledgers.call(*counters) == [b"5", b"21"]
    await ledgers.call("DEL", key)
    await ledgers.sessions.open(SESSION, A, {"next_index": "5", "last_seq": "0"}, epoch=1)
    assert await ledgers.call(*counters) == [b"5", b"0"]


async def test_the_owner_is_told(ledgers, key):
    assert await ledgers.sessions.owner(SESSION) is None
    await ledgers.sessions.open(SESSION, A, {}, epoch=1)
    assert await ledgers.sessions.owner(SESSION) == A
    await ledgers.sessions.take_over(SESSION, B, epoch=1)
    assert await ledgers.sessions.owner(SESSION) == B


async def test_the_owner_may_write_it_again_without_fencing_itself(ledgers):
    """A job may have restored the session just before its owner does."""
    await ledgers.jobs.create(new_job(), None)
    assert await ledgers.sessions.open(SESSION, A, {"src_lang": "zh"}, epoch=1) == 1
    assert (await ledgers.jobs.create(new_job("job-2", index=1), None)).fresh


async def test_renewing_extends_the_life_of_the_session_and_nothing_else_does(ledgers, key):
    await ledgers.sessions.open(SESSION, A, {}, epoch=1)
    await ledgers.call("PEXPIRE", key, 1000)
    for number in range(2):
        await ledgers.jobs.create(new_job(f"job-{number}", index=number), None)
    await ledgers.jobs.finish(job_end("job-0", attempt=0, log=Logged(0, "en", b"said")))
    assert 0 < await ledgers.call("PTTL", key) <= 1000
    assert await ledgers.sessions.renew({SESSION: 1}, A) == {}
    assert 60_000 < await ledgers.call("PTTL", key) <= 90_000


async def test_renewing_names_what_is_not_held(ledgers):
    other, gone, later = SessionId("s-2"), SessionId("s-3"), SessionId("s-4")
    await ledgers.sessions.open(SESSION, A, {}, epoch=1)
    await ledgers.sessions.open(other, B, {}, epoch=1)
    await ledgers.sessions.open(later, A, {}, epoch=2)
    asked = {SESSION: 1, other: 1, gone: 1, later: 1}
    taken = {other: Tenure.TAKEN, gone: Tenure.GONE, later: Tenure.TAKEN}
    assert await ledgers.sessions.renew(asked, A) == taken
    assert not await ledgers.call("EXISTS", ledgers.keys.session(gone)), "renewing creates nothing"
    assert await ledgers.sessions.renew({}, A) == {}


async def test_who_lost_a_session_does_not_extend_it(ledgers, key):
    await ledgers.sessions.open(SESSION, A, {}, epoch=1)
    await ledgers.sessions.take_over(SESSION, B, epoch=1)
    await ledgers.call("PEXPIRE", key, 1000)
    assert await ledgers.sessions.renew({SESSION: 1}, A) == {SESSION: Tenure.TAKEN}
    assert await ledgers.call("PTTL", key) <= 1000


async def test_renewing_takes_back_what_an_older_owner_wrote(ledgers, key):
    await ledgers.sessions.open(SESSION, A, {}, epoch=1)
    assert await ledgers.sessions.renew({SESSION: 2}, B) == {}
    assert await ledgers.sessions.renew({SESSION: 1}, A) == {SESSION: Tenure.TAKEN}


async def test_one_session_that_is_corrupt_keeps_no_other_from_being_renewed(ledgers, key):
    other = SessionId("s-2")
    await ledgers.sessions.open(other, A, {}, epoch=1)
    await ledgers.call("SET", key, "text", "EX", 60)
    assert await ledgers.sessions.renew({SESSION: 1, other: 1}, A) == {SESSION: Tenure.GONE}
    await ledgers.call("DEL", key)


async def test_closing_erases_everything(ledgers, key):
    await ledgers.sessions.open(SESSION, A, {}, epoch=1)
    for index in range(3):
        await ledgers.jobs.create(new_job(f"job-{index}", index=index), slot_on("n1", f"job-{index}"))
    await ledgers.jobs.finish(job_end("job-0", log=Logged(0, "en", b"said")))
    await ledgers.jobs.put_voice(SESSION, JobId("job-1"), b"voice")
    await ledgers.sessions.close(SESSION, epoch=1)
    assert await ledgers.names(key) == []


async def test_closing_erases_more_than_fits_into_one_command(ledgers, key):
    claims = [part for index in range(3000) for part in (f"claim:{index}:en", f"job-{index}")]
    await ledgers.call("HSET", key, *claims)
    await ledgers.jobs.create(new_job(index=5000), None)
    await ledgers.sessions.close(SESSION, epoch=1)
    assert await ledgers.names(key) == []


async def test_closing_twice_or_without_a_record_is_harmless(ledgers, key):
    await ledgers.sessions.close(SESSION, epoch=1)
    await ledgers.sessions.close(SESSION, epoch=1)
    assert await ledgers.names(key) == []


async def test_an_older_owner_erases_nothing(store, ledgers, key):
    await ledgers.sessions.open(SESSION, A, {}, epoch=1)
    other = store.ledgers(B)
    await other.sessions.take_over(SESSION, B, epoch=1)
    await other.jobs.create(new_job(session_epoch=2), None)
    await ledgers.sessions.close(SESSION, epoch=1)
    assert await ledgers.call("EXISTS", key, ledgers.keys.audio(SESSION, "job-1")) == 2


async def test_of_a_session_that_lost_its_record_the_audio_goes_with_the_end_of_its_job(ledgers, key):
    await ledgers.jobs.create(new_job(), None)
    await ledgers.call("DEL", key)
    assert await ledgers.jobs.finish(job_end(attempt=0)) is Finish.UNKNOWN
    await ledgers.sessions.close(SESSION, epoch=1)
    assert await ledgers.names(key) == []


async def test_a_job_whose_claim_was_forgotten_is_erased_with_its_session(ledgers, key):
    await ledgers.jobs.create(new_job(), None)
    await ledgers.call("HDEL", key, "claim:0:en")
    await ledgers.sessions.close(SESSION, epoch=1)
    assert await ledgers.names(key) == []


async def test_all_goes_on_when_the_server_forgets_the_scripts(store, ledgers, key):
    store.on_every_server("SCRIPT FLUSH")
    await ledgers.sessions.open(SESSION, A, {}, epoch=1)
    store.on_every_server("SCRIPT FLUSH")
    assert await ledgers.sessions.renew({SESSION: 1}, A) == {}
    store.on_every_server("SCRIPT FLUSH")
    assert await ledgers.sessions.take_over(SESSION, A, epoch=1)
    store.on_every_server("SCRIPT FLUSH")
    await ledgers.sessions.close(SESSION, epoch=2)
    assert await ledgers.names(key) == []


async def test_a_key_of_the_wrong_type_is_a_corrupt_value_and_no_crash(ledgers, key):
    await ledgers.call("SET", key, "text", "EX", 60)
    for attempt in (
        ledgers.sessions.open(SESSION, A, {}, epoch=1),
        ledgers.jobs.create(new_job(), None),
    ):
        with pytest.raises(CorruptValue):
            await attempt
    with pytest.raises(StoreError):
        await ledgers.sessions.close(SESSION, epoch=1)
    assert await ledgers.sessions.take_over(SESSION, A, epoch=1) is None
    assert await ledgers.sessions.owner(SESSION) is None
    await ledgers.call("DEL", key)
