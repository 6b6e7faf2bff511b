"""Nodes in Redis: leases, epochs, capacity and reservations, each pool in one slot."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec

from lingua_scheduler.core.model import InstanceId, NodeId, PoolId
from lingua_scheduler.core.placement import Ask, Exclusion, NodeFacts, Refusal, Reservation
from lingua_scheduler.core.ports import Beat, NodeChanges
from lingua_scheduler.errors import NodeRefused
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts

_SWEEP_BATCH = 100


class _StoredFacts(msgspec.Struct, frozen=True):
    """What snapshots of all instances read of a node."""

    owner: str
    asr: list[str]
    semantic: list[str]
    types: list[str]
    max_jobs: int
    closed: str
    sequential: bool


_facts_decoder = msgspec.json.Decoder(_StoredFacts)
_encode = msgspec.json.encode


class NodeStore:
    """Implements `core.ports.NodeLedger`."""

    def __init__(self, connection: Connection, scripts: Scripts, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys
        self._claim = scripts.load("node_claim")
        self._register = scripts.load("node_register")
        self._beat = scripts.load("node_beat")
        self._leave = scripts.load("node_leave")
        self._reserve = scripts.load("node_reserve")
        self._release = scripts.load("node_release")
        self._changes = scripts.load("node_changes")
        self._due = scripts.load("node_due")

    async def register(self, facts: NodeFacts, *, lease_ms: int, takeover: bool) -> int:
        """Write the node with its owner and lease; return its epoch."""
        if not takeover and await self._alive(facts.node_id):
            raise NodeRefused("NODE_ID_CONFLICT", f"node id {facts.node_id} is in use by a live node")
        epoch_text, before = await self._claim(where=self._keys.where(facts.node_id), pool=facts.pool)
        epoch = int(epoch_text)
        await self._register(
            **self._node_keys(facts.pool, facts.node_id),
            id=facts.node_id,
            epoch=epoch,
            owner=facts.owner,
            lease_ms=lease_ms,
            max=facts.max_jobs,
            extra=facts.running_jobs,
            closed=facts.closed or "",
            types=_spaced(facts.types),
            facts=_stored(facts),
            about=_encode(facts.about),
        )
        if before and int(before) != facts.pool:
            await self._leave(
                **self._node_keys(PoolId(int(before)), facts.node_id), id=facts.node_id, epoch=epoch - 1
            )
        return epoch

    async def _alive(self, node_id: NodeId) -> bool:
        pool = await self._connection.call("HGET", self._keys.where(node_id), "pool")
        return pool is not None and bool(
            await self._connection.call("EXISTS", self._keys.node(int(pool), node_id))
        )

    async def beat(self, facts: NodeFacts, *, epoch: int, lease_ms: int) -> Beat:
        """Renew the lease with fresh facts."""
        reply = await self._beat(
            **self._node_keys(facts.pool, facts.node_id),
            id=facts.node_id,
            epoch=epoch,
            lease_ms=lease_ms,
            max=facts.max_jobs,
            running=facts.running_jobs,
            closed=facts.closed or "",
            types=_spaced(facts.types),
            facts=_stored(facts),
            about=_encode(facts.about),
        )
        return Beat(reply.decode())

    async def leave(self, node_id: NodeId, pool: PoolId, *, epoch: int) -> bool:
        """Remove the node unless a newer epoch has taken it over."""
        return bool(await self._leave(**self._node_keys(pool, node_id), id=node_id, epoch=epoch))

    async def reserve(self, ask: Ask) -> Reservation | Refusal:
        """Choose the least loaded eligible candidate and take one of its slots, atomically."""
        status, *reply = await self._reserve(
            load=self._keys.load(ask.pool),
            held=self._keys.held(ask.pool),
            reserved=self._keys.reserved(ask.pool),
            holders=self._keys.holders(ask.pool),
            nodes=[self._keys.node(ask.pool, node_id) for node_id in ask.candidates],
            member=_member(ask.job_id, ask.attempt),
            ttl_ms=ask.ttl_ms,
            types=" ".join(sorted(ask.types)),
            reachable=_spaced(ask.reachable),
            prefer=ask.prefer or "",
            bound=int(ask.bound),
            ids=list(ask.candidates),
        )
        if status == b"2":  # an earlier, unanswered question took a slot elsewhere
            return await self.reserve(replace(ask, candidates=(NodeId(reply[0].decode()),)))
        if status == b"0":
            return Refusal({Exclusion(reply[i].decode()): int(reply[i + 1]) for i in range(0, len(reply), 2)})
        node_id, owner, epoch = reply
        return Reservation(
            node_id=NodeId(node_id.decode()),
            pool=ask.pool,
            owner=InstanceId(owner.decode()),
            epoch=int(epoch),
            job_id=ask.job_id,
            attempt=ask.attempt,
        )

    async def release(self, reservation: Reservation) -> bool:
        """Give the slot back; False when it was not held any more."""
        member = _member(reservation.job_id, reservation.attempt)
        return await self._release_member(reservation.pool, reservation.node_id, member)

    async def _release_member(self, pool: PoolId, node_id: NodeId, member: str) -> bool:
        keys = self._keys
        reply = await self._release(
            node=keys.node(pool, node_id),
            load=keys.load(pool),
            held=keys.held(pool),
            reserved=keys.reserved(pool),
            holders=keys.holders(pool),
            id=node_id,
            member=member,
        )
        return bool(reply)

    async def changes(self, pool: PoolId, *, since: int) -> NodeChanges | None:
        """Tell what changed since `since`; None when nothing did."""
        keys = self._keys
        reply = await self._changes(
            version=keys.version(pool), changes=keys.changes(pool), leases=keys.leases(pool), since=since
        )
        if not reply:
            return None
        version, complete, ids = reply
        node_ids = [NodeId(raw.decode()) for raw in ids]
        stored = await asyncio.gather(
            *(self._connection.call("HGET", keys.node(pool, node_id), "facts") for node_id in node_ids)
        )
        found = dict(zip(node_ids, stored, strict=True))
        return NodeChanges(
            version=int(version),
            complete=complete == b"1",
            nodes=tuple(_read_facts(node_id, pool, raw) for node_id, raw in found.items() if raw is not None),
            gone=tuple(node_id for node_id, raw in found.items() if raw is None),
        )

    async def sweep(self, pool: PoolId) -> int:
        """Remove nodes whose lease is over and reservations whose time is over; return how many."""
        keys = self._keys
        gone, late, holders = await self._due(
            leases=keys.leases(pool),
            reserved=keys.reserved(pool),
            holders=keys.holders(pool),
            most=_SWEEP_BATCH,
        )
        for raw in gone:
            node_id = NodeId(raw.decode())
            await self._leave(**self._node_keys(pool, node_id), id=node_id, epoch="")
        for member, holder in zip(late, holders, strict=True):
            _, _, node_id = holder.decode().partition(" ")
            await self._release_member(pool, NodeId(node_id), member.decode())
        return len(gone) + len(late)

    def _node_keys(self, pool: PoolId, node_id: NodeId) -> dict[str, str]:
        keys = self._keys
        return {
            "node": keys.node(pool, node_id),
            "load": keys.load(pool),
            "held": keys.held(pool),
            "leases": keys.leases(pool),
            "changes": keys.changes(pool),
            "version": keys.version(pool),
        }


def _member(job_id: str, attempt: int) -> str:
    return f"{job_id}#{attempt}"


def _spaced(words: Any) -> str:
    return f" {' '.join(sorted(words))} "


def _stored(facts: NodeFacts) -> bytes:
    return _encode(
        _StoredFacts(
            owner=facts.owner,
            asr=sorted(facts.asr),
            semantic=sorted(facts.semantic),
            types=sorted(facts.types),
            max_jobs=facts.max_jobs,
            closed=facts.closed or "",
            sequential=facts.sequential,
        )
    )


def _read_facts(node_id: NodeId, pool: PoolId, raw: bytes) -> NodeFacts:
    stored = _facts_decoder.decode(raw)
    return NodeFacts(
        node_id=node_id,
        pool=pool,
        owner=InstanceId(stored.owner),
        asr=frozenset(stored.asr),
        semantic=frozenset(stored.semantic),
        types=frozenset(stored.types),
        max_jobs=stored.max_jobs,
        closed=Exclusion(stored.closed) if stored.closed else None,
        sequential=stored.sequential,
    )
