"""Keys of tenants, nodes and operators in Redis: digests only, under one version that instances follow.

A revoked key stays known for a while, so that every instance learns of it; then the next change removes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from lingua_scheduler.core.keys import KeyChanges, KeyFacts, KeyRecord
from lingua_scheduler.log import get_logger
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts

_KEEP_MS: Final = 30 * 86_400_000  # a key that was revoked or has expired stays in the list so long

_log = get_logger(__name__)
_read = msgspec.json.Decoder(KeyFacts).decode


class AuthKeyStore:
    """Implements `core.keys.KeyLedger`; the rest is for `lingua keys`."""

    def __init__(
        self,
        scripts: Scripts,
        keys: Keys,
        unreadable: Callable[[], None] = lambda: None,  # told of every entry that cannot be read
    ) -> None:
        self._unreadable = unreadable
        self._names = {"auth_keys": keys.auth_keys(), "auth_version": keys.auth_version()}
        self._put = scripts.load("auth_put")
        self._revoke = scripts.load("auth_revoke")
        self._changes = scripts.load("auth_changes")

    async def changes(self, since: str) -> KeyChanges:
        """Tell the time, and all keys if they are not those of version `since`; one call."""
        reply = await self._changes(**self._names, since=since)
        version, now_ms = reply[0].decode(), int(reply[1])
        if version == since:
            return KeyChanges(version, now_ms, None)
        return KeyChanges(version, now_ms, self._records(reply[2]))

    async def add(self, facts: KeyFacts, *, ttl_ms: int = 0) -> bool:
        """Make a key known, for ever or for a time; False when its id is taken."""
        about = msgspec.json.encode(facts)
        reply = await self._put(**self._names, id=facts.id, ttl_ms=ttl_ms, about=about, keep_ms=_KEEP_MS)
        return bool(reply)

    async def revoke(self, key_id: str) -> bool:
        """Let a key count no more, on any instance; False when there is no such key."""
        return bool(await self._revoke(**self._names, id=key_id, keep_ms=_KEEP_MS))

    async def all(self) -> tuple[KeyRecord, ...]:
        """List every key, the oldest first."""
        records = (await self.changes("")).records or ()
        return tuple(sorted(records, key=lambda record: (record.created_ms, record.facts.id)))

    def _records(self, flat: list[bytes]) -> tuple[KeyRecord, ...]:
        found = [_record(name, line) for name, line in zip(flat[::2], flat[1::2], strict=True)]
        for _ in range(found.count(None)):
            self._unreadable()
        return tuple(record for record in found if record is not None)


def _record(name: bytes, line: bytes) -> KeyRecord | None:
    """Read one line; what cannot be read lets nobody in."""
    try:
        created_ms, expires_ms, revoked_ms, about = line.split(b" ", 3)
        times: Any = int(created_ms), int(expires_ms), int(revoked_ms)
        facts = _read(about)
        if facts.id.encode() == name:
            return KeyRecord(facts, *times)
    except (ValueError, msgspec.DecodeError):
        pass
    _log.warning("access_entry_unreadable", id=name.decode(errors="replace"))
    return None
