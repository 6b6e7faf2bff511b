"""What people want to know of a whole deployment and no instance keeps in memory, read in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lingua_scheduler.core.model import InstanceId, NodeId
from lingua_scheduler.core.placement import NodeFacts
from lingua_scheduler.errors import StoreError
from lingua_scheduler.store import node_record
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.dead_letters import DeadLetter, DeadLetters
from lingua_scheduler.store.instances import GROUP, CompanyOptions
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts

_NODES_AT_ONCE = 25
_decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(slots=True)
class About:
    """What a node says of itself, and until when that holds."""

    written: bytes = b"{}"
    lease_end_ms: int = 0  # by Redis' clock
    jobs: int = 0  # slots that are taken, and foreign load
    _said: dict[str, Any] | None = field(default=None, repr=False, compare=False)

    @property
    def said(self) -> dict[str, Any]:
        """What the node says, read when somebody wants to know; empty when it cannot be read."""
        if self._said is None:
            try:
                self._said = _decode(self.written)
            except (msgspec.DecodeError, UnicodeDecodeError):
                self._said = {}
        return self._said


@dataclass(frozen=True, slots=True)
class Mail:
    """The letters of one instance."""

    inbox: int = 0
    pending: int = 0  # taken and not dealt with
    dead: int = 0


class Survey:
    """Reads about nodes, letters and dead letters."""

    def __init__(self, connection: Connection, key_prefix: str, options: CompanyOptions) -> None:
        self._connection = connection
        self._keys = Keys(key_prefix)
        self._letters = DeadLetters(connection, Scripts(connection), self._keys, options)

    async def nodes(self, wanted: Iterable[NodeFacts]) -> dict[NodeId, About]:
        """Tell what these nodes say of themselves; those that are gone are left out."""
        nodes = list(wanted)
        found: dict[NodeId, About] = {}
        for first in range(0, len(nodes), _NODES_AT_ONCE):
            found |= await self._some(nodes[first : first + _NODES_AT_ONCE])
        return found

    async def mail(self, instances: Iterable[InstanceId]) -> dict[InstanceId, Mail]:
        """Count the letters of these instances."""
        known = list(instances)
        return dict(zip(known, await asyncio.gather(*map(self._mail, known)), strict=True))

    async def dead_letters(self, most: int) -> list[DeadLetter]:
        """Give the newest dead letters of all instances."""
        return await self._letters.page(most=most)

    async def _some(self, nodes: list[NodeFacts]) -> dict[NodeId, About]:
        asked = self._connection.asked
        replies = await asyncio.gather(*(asked(call) for facts in nodes for call in self._calls(facts)))
        answers = zip(nodes, replies[::4], replies[1::4], replies[2::4], replies[3::4], strict=True)
        return {
            facts.node_id: About(said, int(float(lease or 0)), _jobs(shelved, aside))
            for facts, said, lease, shelved, aside in answers
            if said is not None
        }

    def _calls(self, facts: NodeFacts) -> tuple[tuple[str, ...], ...]:
        keys, pool, node_id = self._keys, facts.pool, facts.node_id
        return (
            ("HGET", keys.node(pool, node_id), "about"),
            ("ZSCORE", keys.leases(pool), node_id),
            ("ZSCORE", keys.shelf(pool, facts.shelf), node_id),
            ("ZSCORE", keys.aside(pool), node_id),
        )

    async def _mail(self, instance_id: InstanceId) -> Mail:
        inbox, dead = self._keys.inbox(instance_id), self._keys.dead(instance_id)
        call = self._connection.call
        length, buried, pending = await asyncio.gather(
            call("XLEN", inbox), call("XLEN", dead), self._pending(inbox)
        )
        return Mail(inbox=length, pending=pending, dead=buried)

    async def _pending(self, inbox: str) -> int:
        try:
            summary = await self._connection.call("XPENDING", inbox, GROUP)
        except StoreError as error:
            if error.retryable:
                raise
            return 0  # nobody has taken a letter yet
        return int(summary[0])


def _jobs(shelved: bytes | None, aside: bytes | None) -> int:
    return node_record.jobs_by(shelved) if shelved else int(float(aside or 0))
