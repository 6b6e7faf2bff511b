"""An instance's copy of all keys: read without asking Redis, and brought up to date by version."""

from __future__ import annotations

from collections.abc import Sequence

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.keys import KeyFacts, KeyLedger, KeyRecord, NotLetIn, Refusal


class KeyCopy:
    """The keys of the configuration, which come first, and those of Redis."""

    def __init__(self, configured: Sequence[KeyFacts], ledger: KeyLedger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._configured = {key.id: KeyRecord(key) for key in configured}
        self._stored: dict[str, KeyRecord] | None = None  # None: never loaded
        self._version = ""
        self._ahead_ms = 0  # Redis' clock before ours
        self.tenants: frozenset[str] = frozenset()  # that somebody has a key for
        self.bound_nodes: frozenset[str] = frozenset()  # ids that a key is bound to
        self._index()

    @property
    def now_ms(self) -> int:
        """The time as Redis tells it, which is the same for all instances."""
        return self._clock.wall_ms() + self._ahead_ms

    async def refresh(self) -> bool:
        """Learn of new and revoked keys; False when there are none."""
        changes = await self._ledger.changes(self._version)
        self._ahead_ms = changes.now_ms - self._clock.wall_ms()
        if changes.records is None:
            return False
        self._version = changes.version
        self._stored = {record.facts.id: record for record in changes.records}
        self._index()
        return True

    def record(self, key_id: str) -> KeyRecord | None:
        """Find a key; NotLetIn while nobody knows which keys there are."""
        configured = self._configured.get(key_id)
        if configured is not None:
            return configured
        if self._stored is None:
            raise NotLetIn(Refusal.UNREADY)
        return self._stored.get(key_id)

    def revoked(self, key_id: str) -> bool:
        """Tell a key that was revoked from one that Redis has lost: nobody is shown out for a loss."""
        record = self._configured.get(key_id) or (self._stored or {}).get(key_id)
        return record is not None and record.revoked_ms > 0

    def _index(self) -> None:
        facts = [record.facts for record in (*self._configured.values(), *(self._stored or {}).values())]
        self.tenants = frozenset(each.tenant for each in facts if each.tenant)
        self.bound_nodes = frozenset(each.node_id for each in facts if each.node_id)
