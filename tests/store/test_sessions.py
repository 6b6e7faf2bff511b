"""Sessions: one owner at a time, kept alive by it, and nothing left when they end; single and cluster."""

from __future__ import annotations

import pytest

from lingua_scheduler.core.model import SessionId
from lingua_scheduler.errors import CorruptValue, StoreError
from store.ledgers import A, B, new_job, slot_on

SESSION = SessionId("s-1")
LEASE_MS = 45_000


@pytest.fixture
def key(ledgers):
    return ledgers.keys.session(SESSION)


async def test_a_session_is_written_with_owner_fields_and_lease(ledgers, key):
    assert await ledgers.sessions.open(SESSION, A, {"src_lang": "zh"}) == 1
    assert await ledgers.call("HMGET", key, "owner", "epoch", "src_lang") == [A.encode(), b"1", b"zh"]
    assert 0 < await ledgers.call("PTTL", key) <= LEASE_MS


async def test_a_new_owner_gets_a_new_epoch(store, ledgers):
    assert await ledgers.sessions.open(SESSION, A, {}) == 1
    assert await store.ledgers(B).sessions.open(SESSION, B, {}) == 2


async def test_the_owner_may_write_it_again_without_fencing_itself(ledgers):
    """A job may have restored the session just before its owner does."""
    await ledgers.jobs.create(new_job(), None)
    assert await ledgers.sessions.open(SESSION, A, {"src_lang": "zh"}) == 1
    assert (await ledgers.jobs.create(new_job("job-2", index=1), None)).fresh


async def test_renewing_extends_the_lives_of_session_and_claims(ledgers, key):
    await ledgers.sessions.open(SESSION, A, {})
    await ledgers.jobs.create(new_job(), None)
    claims = ledgers.keys.claims(SESSION)
    for name in (key, claims):
        await ledgers.call("PEXPIRE", name, 1000)
    assert await ledgers.sessions.renew([SESSION], A) == []
    for name in (key, claims):
        assert await ledgers.call("PTTL", name) > 1000


async def test_renewing_names_what_was_lost(ledgers, key):
    other, gone = SessionId("s-2"), SessionId("s-3")
    await ledgers.sessions.open(SESSION, A, {})
    await ledgers.sessions.open(other, B, {})
    assert await ledgers.sessions.renew([SESSION, other, gone], A) == [other, gone]
    assert not await ledgers.call("EXISTS", ledgers.keys.session(gone)), "renewing creates nothing"
    assert await ledgers.sessions.renew([], A) == []


async def test_closing_erases_everything(ledgers, key):
    await ledgers.sessions.open(SESSION, A, {})
    for index in range(3):
        await ledgers.jobs.create(new_job(f"job-{index}", index=index), slot_on("n1", f"job-{index}"))
    await ledgers.jobs.finish(SESSION, "job-0", attempt=1, outcome="completed")
    await ledgers.sessions.close(SESSION, epoch=1)
    assert await ledgers.names(key) == []


async def test_closing_twice_or_without_a_record_is_harmless(ledgers, key):
    await ledgers.sessions.close(SESSION, epoch=1)
    await ledgers.sessions.close(SESSION, epoch=1)
    assert await ledgers.names(key) == []


async def test_an_older_owner_erases_nothing(store, ledgers, key):
    await ledgers.sessions.open(SESSION, A, {})
    await store.ledgers(B).sessions.open(SESSION, B, {})
    await ledgers.jobs.create(new_job(session_epoch=2), None)
    await ledgers.sessions.close(SESSION, epoch=1)
    assert await ledgers.call("EXISTS", key, ledgers.keys.job(SESSION, "job-1")) == 2


async def test_a_session_that_lost_its_record_is_still_erased(ledgers, key):
    await ledgers.jobs.create(new_job(), None)
    await ledgers.call("DEL", key)
    await ledgers.sessions.close(SESSION, epoch=1)
    assert await ledgers.names(key) == []


async def test_all_goes_on_when_the_server_forgets_the_scripts(store, ledgers, key):
    store.on_every_server("SCRIPT FLUSH")
    await ledgers.sessions.open(SESSION, A, {})
    store.on_every_server("SCRIPT FLUSH")
    assert await ledgers.sessions.renew([SESSION], A) == []
    store.on_every_server("SCRIPT FLUSH")
    await ledgers.sessions.close(SESSION, epoch=1)
    assert await ledgers.names(key) == []


async def test_a_key_of_the_wrong_type_is_a_corrupt_value_and_no_crash(ledgers, key):
    await ledgers.call("SET", key, "text", "EX", 60)
    for attempt in (
        ledgers.sessions.open(SESSION, A, {}),
        ledgers.sessions.renew([SESSION], A),
        ledgers.jobs.create(new_job(), None),
    ):
        with pytest.raises(CorruptValue):
            await attempt
    with pytest.raises(StoreError):
        await ledgers.sessions.close(SESSION, epoch=1)
    await ledgers.call("DEL", key)
