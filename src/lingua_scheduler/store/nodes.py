"""Nodes in Redis: registrations, leases, epochs and shelves, each pool in one slot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import msgspec

from lingua_scheduler.core.model import InstanceId, NodeId, PoolId
from lingua_scheduler.core.placement import Ask, NodeFacts, Reservation
from lingua_scheduler.core.stored import Beat, NodeChanges
from lingua_scheduler.errors import NodeRefused
from lingua_scheduler.store import node_record
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.slots import Slots

_READ_BATCH = 50  # nodes read at a time; more would hold up the event loop
_SWEEP_BATCH = 100
_SWEEP_ROUNDS = 100
_encode = msgspec.json.encode


class NodeStore:
    """Implements `core.ports.NodeLedger`."""

    def __init__(
        self,
        connection: Connection,
        scripts: Scripts,
        keys: Keys,
        unreadable: Callable[[], None] = lambda: None,  # told of every record that cannot be read
    ) -> None:
        self._unreadable = unreadable
        self._connection = connection
        self._keys = keys
        self._slots = Slots(connection, scripts, keys)
        self._claim = scripts.load("node_claim")
        self._unclaim = scripts.load("node_unclaim")
        self._register = scripts.load("node_register")
        self._beat = scripts.load("node_beat")
        self._leave = scripts.load("node_leave")
        self._changes = scripts.load("node_changes")
        self._due = scripts.load("node_due")
        self._shelves: dict[NodeId, str] = {}  # where this instance put its own nodes

    async def register(self, facts: NodeFacts, *, lease_ms: int, takeover: bool) -> int:
        """Write the node with its owner and lease; return its epoch."""
        if not takeover and await self._alive(facts):
            raise _taken(facts.node_id)
        epoch_text, before_pool = await self._claim(where=self._keys.where(facts.node_id), pool=facts.pool)
        epoch = int(epoch_text)
        if before_pool and int(before_pool) != facts.pool:
            await self._remove(PoolId(int(before_pool)), facts.node_id, str(epoch))
        reply = await self._slots.where_it_stands(
            self._register,
            facts.pool,
            guess=facts.shelf,
            key="before",
            **self._node_keys(facts.pool, facts.node_id),
            shelf=self._keys.shelf(facts.pool, facts.shelf),
            shelf_name=facts.shelf,
            id=facts.node_id,
            epoch=epoch,
            owner=facts.owner,
            lease_ms=lease_ms,
            max=facts.max_jobs,
            extra=facts.running_jobs,
            door=node_record.door(facts),
            takeover=int(takeover),
            facts=node_record.written(facts),
            about=_encode(facts.about),
        )
        if reply == b"taken":
            raise _taken(facts.node_id)
        if reply == b"fenced":
            raise NodeRefused("NODE_ID_CONFLICT", f"node id {facts.node_id} was registered again meanwhile")
        self._shelves[facts.node_id] = facts.shelf
        return epoch

    async def _alive(self, facts: NodeFacts) -> bool:
        """Tell whether the id is in use, in the pool it last had or in the one it is to have."""
        last = await self._connection.call("HGET", self._keys.where(facts.node_id), "pool")
        for pool in {facts.pool, facts.pool if last is None else PoolId(int(last))}:
            line = await self._slots.line(pool, facts.node_id)
            there = await self._connection.call("EXISTS", self._keys.node(pool, facts.node_id))
            if there and line is not None and line.door != node_record.OFFLINE:
                return True
        return False

    async def beat(self, facts: NodeFacts, *, epoch: int, lease_ms: int, reported: bool = True) -> Beat:
        """Renew the lease with fresh facts; unless the node `reported`, its load is as before."""
        reply = await self._slots.where_it_stands(
            self._beat,
            facts.pool,
            guess=self._shelves.get(facts.node_id, facts.shelf),
            key="before",
            **self._node_keys(facts.pool, facts.node_id),
            shelf=self._keys.shelf(facts.pool, facts.shelf),
            shelf_name=facts.shelf,
            id=facts.node_id,
            epoch=epoch,
            lease_ms=lease_ms,
            max=facts.max_jobs,
            running=facts.running_jobs if reported else "",
            door=node_record.door(facts),
            facts=node_record.written(facts),
            about=_encode(facts.about),
        )
        outcome = Beat(reply.decode())
        if outcome is Beat.RENEWED:
            self._shelves[facts.node_id] = facts.shelf
        return outcome

    async def leave(self, node_id: NodeId, pool: PoolId, *, epoch: int) -> bool:
        """Remove the node unless a newer epoch has taken it over."""
        left = await self._remove(pool, node_id, str(epoch))
        if left:
            await self._unclaim(where=self._keys.where(node_id), epoch=epoch)
        return left

    async def evict(self, node_id: NodeId, pool: PoolId, *, owner: InstanceId) -> bool:
        """Remove a node that this owner, who has died, left behind."""
        line = await self._slots.line(pool, node_id)
        return line is not None and line.owner == owner and await self._remove(pool, node_id, line.epoch)

    async def _remove(self, pool: PoolId, node_id: NodeId, epoch: str) -> bool:
        reply = await self._slots.where_it_stands(
            self._leave,
            pool,
            guess=self._shelves.get(node_id, ""),
            key="shelf",
            **self._node_keys(pool, node_id),
            id=node_id,
            epoch=epoch,
        )
        if reply:
            self._shelves.pop(node_id, None)
        return bool(reply)

    async def reserve(self, ask: Ask) -> Reservation | None:
        """Choose the least loaded node of the shelves and take one of its slots, atomically."""
        return await self._slots.reserve(ask)

    async def peek(self, ask: Ask) -> Reservation | None:
        """Tell what `reserve` would answer now; nothing is taken."""
        return await self._slots.peek(ask)

    async def release(self, reservation: Reservation) -> bool:
        """Give the slot back; False when it was not held any more."""
        return await self._slots.release(reservation)

    async def changes(self, pool: PoolId, *, since: int) -> NodeChanges | None:
        """Tell what changed since `since`; None when nothing did."""
        keys = self._keys
        reply = await self._changes(
            version=keys.version(pool), changes=keys.changes(pool), leases=keys.leases(pool), since=since
        )
        if not reply:
            return None
        version, complete, ids = reply
        nodes: list[NodeFacts] = []
        gone: list[NodeId] = []
        for first in range(0, len(ids), _READ_BATCH):
            some = [NodeId(raw.decode()) for raw in ids[first : first + _READ_BATCH]]
            found = await self._facts(pool, some)
            nodes += found.values()
            gone += [node_id for node_id in some if node_id not in found]
        return NodeChanges(
            version=int(version), complete=complete == b"1", nodes=tuple(nodes), gone=tuple(gone)
        )

    async def _facts(self, pool: PoolId, node_ids: list[NodeId]) -> dict[NodeId, NodeFacts]:
        """Read nodes with their effective load; one that cannot be chosen now counts as full."""
        keys, asked = self._keys, self._connection.asked
        written = await asyncio.gather(
            *(asked(("HGET", keys.node(pool, each), "facts")) for each in node_ids)
        )
        found = []
        for node_id, raw in zip(node_ids, written, strict=True):
            facts = node_record.read(node_id, pool, raw) if raw is not None else None
            if facts is not None:
                found.append(facts)
            elif raw is not None:
                self._unreadable()
        scores = await asyncio.gather(
            *(asked(("ZSCORE", keys.shelf(pool, facts.shelf), facts.node_id)) for facts in found)
        )
        return {
            facts.node_id: replace(
                facts, running_jobs=node_record.jobs_by(score) if score else facts.max_jobs
            )
            for facts, score in zip(found, scores, strict=True)
        }

    async def sweep(self, pool: PoolId) -> int:
        """Remove nodes whose lease is over and reservations whose time is over; return how many."""
        keys, removed = self._keys, 0
        for _ in range(_SWEEP_ROUNDS):
            gone, late = await self._due(
                leases=keys.leases(pool), reserved=keys.reserved(pool), most=_SWEEP_BATCH
            )
            for raw in gone:
                await self._remove(pool, NodeId(raw.decode()), "")
            for member in late:
                await self._slots.free(pool, member)
            removed += len(gone) + len(late)
            if max(len(gone), len(late)) < _SWEEP_BATCH:
                break
        return removed

    def _node_keys(self, pool: PoolId, node_id: NodeId) -> dict[str, str]:
        keys = self._keys
        return {
            "node": keys.node(pool, node_id),
            "nodes": keys.nodes(pool),
            "aside": keys.aside(pool),
            "leases": keys.leases(pool),
            "changes": keys.changes(pool),
            "version": keys.version(pool),
        }


def _taken(node_id: NodeId) -> NodeRefused:
    return NodeRefused("NODE_ID_CONFLICT", f"node id {node_id} is in use by a live node")
