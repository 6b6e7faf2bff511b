"""Keys in Redis: digests under one version, revoked for everybody at once; single and cluster."""

from __future__ import annotations

import pytest

from lingua_scheduler.core.keys import KeyFacts, KeyKind, KeyRecord, digest_of, made_key
from lingua_scheduler.store.auth_keys import AuthKeyStore
from lingua_scheduler.store.scripts import Scripts

DAY_MS = 86_400_000


class Kept:
    """The keys, as one process sees them."""

    def __init__(self, ledgers) -> None:
        self.call = ledgers.call
        self.keys = ledgers.keys
        self.calls = 0
        self.unreadable = 0
        scripts = Scripts(ledgers.connection, meter=self._count)
        self.store = AuthKeyStore(scripts, ledgers.keys, self._unreadable)

    def _count(self, *_: object) -> None:
        self.calls += 1

    def _unreadable(self) -> None:
        self.unreadable += 1

    async def make(self, kind: KeyKind = KeyKind.ADMIN, *, ttl_ms: int = 0, **members) -> tuple[str, str]:
        """Make a key known; give its id and the key."""
        key_id, key = made_key(kind)
        facts = KeyFacts(id=key_id, kind=kind, digest=digest_of(key), **members)
        assert await self.store.add(facts, ttl_ms=ttl_ms)
        return key_id, key

    async def record(self, key_id: str) -> KeyRecord:
        """Find one."""
        return next(record for record in await self.store.all() if record.facts.id == key_id)


@pytest.fixture
def kept(store):
    """Give the keys on the store under test."""
    return Kept(store.ledgers())


async def test_without_keys_there_is_a_version_all_the_same(kept):
    changes = await kept.store.changes("")
    assert (changes.version, changes.records) == ("0", ())
    assert (await kept.store.changes("0")).records is None


async def test_a_key_is_known_with_all_its_facts_and_without_itself(kept):
    key_id, key = await kept.make(
        KeyKind.TENANT, tenant="acme", label="web \u2603", max_sessions=7, ttl_ms=DAY_MS
    )
    found = await kept.record(key_id)
    assert (found.facts.tenant, found.facts.label, found.facts.max_sessions) == ("acme", "web \u2603", 7)
    assert found.expires_ms - found.created_ms == DAY_MS
    assert found.revoked_ms == 0
    stored = b"".join(await kept.call("HVALS", kept.keys.auth_keys()))
    assert str(key).rpartition("_")[2].encode() not in stored


async def test_every_change_has_a_version_of_its_own_and_costs_one_call(kept):
    seen = set()
    key_id, _ = await kept.make()
    seen.add((await kept.store.changes("")).version)
    await kept.make()
    seen.add((await kept.store.changes("")).version)
    await kept.store.revoke(key_id)
    newest = (await kept.store.changes("")).version
    assert len(seen | {newest}) == 3
    kept.calls = 0
    assert (await kept.store.changes(newest)).records is None
    assert kept.calls == 1


async def test_a_redis_that_lost_everything_starts_with_another_version(kept):
    await kept.make()
    before = (await kept.store.changes("")).version
    await kept.call("DEL", kept.keys.auth_keys())
    await kept.call("DEL", kept.keys.auth_version())
    lost = await kept.store.changes(before)
    assert lost.records == ()
    await kept.make()
    after = await kept.store.changes(lost.version)
    assert after.version not in (before, lost.version)
    assert after.records is not None
    assert len(after.records) == 1


async def test_a_revoked_key_stays_known_as_revoked_and_keeps_its_time(kept):
    key_id, _ = await kept.make(KeyKind.NODE, node_id="node-1")
    assert await kept.store.revoke(key_id)
    first = await kept.record(key_id)
    assert first.revoked_ms >= first.created_ms > 0
    assert first.facts.node_id == "node-1"
    assert await kept.store.revoke(key_id)
    assert (await kept.record(key_id)).revoked_ms == first.revoked_ms


async def test_what_is_not_there_cannot_be_revoked(kept):
    version = (await kept.store.changes("")).version
    for key_id in ("0123456789ab", "", "%d+", "*"):
        assert not await kept.store.revoke(key_id)
    assert (await kept.store.changes("")).version == version


async def test_an_id_is_given_once(kept):
    key_id, _ = await kept.make()
    other = KeyFacts(id=key_id, kind=KeyKind.ADMIN, digest="sha256:" + "0" * 64)
    assert not await kept.store.add(other)
    assert (await kept.record(key_id)).facts.digest != other.digest


async def test_keys_that_are_over_for_long_are_removed_by_the_next_change(kept):
    now_ms = (await kept.store.changes("")).now_ms
    old, recent = now_ms - 31 * DAY_MS, now_ms - 29 * DAY_MS
    made = [(await kept.make())[0] for _ in range(5)]
    times = [f"1 0 {old}", f"1 {old} 0", f"1 0 {recent}", f"1 {recent} 0", "1 0 0"]
    for key_id, said in zip(made, times, strict=True):
        line = await kept.call("HGET", kept.keys.auth_keys(), key_id)
        await kept.call("HSET", kept.keys.auth_keys(), key_id, said.encode() + b" " + line.split(b" ", 3)[3])
    newest, _ = await kept.make()
    assert {record.facts.id for record in await kept.store.all()} == {*made[2:], newest}


@pytest.mark.parametrize(
    "line", [b"", b"nonsense", b"1 2 3", b"1 2 x {}", b"1 2 3 {}", b"\xff \xff \xff \xff", b"1 0 0 []"]
)
async def test_a_line_that_cannot_be_read_lets_nobody_in(kept, line):
    key_id, _ = await kept.make()
    await kept.call("HSET", kept.keys.auth_keys(), "0123456789ab", line)
    assert [record.facts.id for record in await kept.store.all()] == [key_id]
    assert kept.unreadable == 1
    await kept.make()
    assert len(await kept.store.all()) == 2


async def test_a_line_under_another_id_lets_nobody_in(kept):
    key_id, _ = await kept.make()
    line = await kept.call("HGET", kept.keys.auth_keys(), key_id)
    await kept.call("HSET", kept.keys.auth_keys(), "0123456789ab", line)
    assert [record.facts.id for record in await kept.store.all()] == [key_id]
