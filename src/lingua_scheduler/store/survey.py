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
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.dead_letters import DeadLetter, DeadLetters
from lingua_scheduler.store.instances import GROUP, CompanyOptions
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts

_decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class About:
    """What a node says of itself, and until when that holds."""

    said: dict[str, Any] = field(default_factory=dict)
    lease_end_ms: int = 0  # by Redis' clock
    jobs: int = 0  # slots that are taken, and foreign load


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
        found = await asyncio.gather(*map(self._node, nodes))
        return {facts.node_id: about for facts, about in zip(nodes, found, strict=True) if about is not None}

    async def mail(self, instances: Iterable[InstanceId]) -> dict[InstanceId, Mail]:
        """Count the letters of these instances."""
        known = list(instances)
        return dict(zip(known, await asyncio.gather(*map(self._mail, known)), strict=True))

    async def dead_letters(self, most: int) -> list[DeadLetter]:
        """Give the newest dead letters of all instances."""
        return await self._letters.page(most=most)

    async def _node(self, facts: NodeFacts) -> About | None:
        call, keys, pool, node_id = self._connection.call, self._keys, facts.pool, facts.node_id
        raw, lease, shelved, aside = await asyncio.gather(
            call("HGET", keys.node(pool, node_id), "about"),
            call("ZSCORE", keys.leases(pool), node_id),
            call("ZSCORE", keys.shelf(pool, facts.shelf), node_id),
            call("ZSCORE", keys.aside(pool), node_id),
        )
        if raw is None:
            return None
        try:
            return About(_decode(raw), int(float(lease or 0)), int(float(shelved or aside or 0)))
        except (msgspec.DecodeError, ValueError):
            return About()

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
