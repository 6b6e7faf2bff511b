"""The read model of nodes: where to ask first, and what to show people. It decides nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Annotated

import msgspec

from lingua_scheduler.core.model import NodeId, Pair, PoolId
from lingua_scheduler.core.placement import NodeFacts
from lingua_scheduler.core.ports import NodeLedger
from lingua_scheduler.errors import StoreError
from lingua_scheduler.log import get_logger

_log = get_logger(__name__)


class PlacementOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How nodes are spread over pools and how many of them one question names."""

    pool_count: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    """Number of hash pools; each owns one slot of Redis. 1 on a single Redis, 16 on a cluster."""
    hash_seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Seed of the hash that gives a node its pool."""
    candidates: Annotated[int, msgspec.Meta(ge=1, le=64)] = 16
    """Nodes offered to one reservation; the least loaded eligible one is chosen by Redis."""
    refresh_ms: Annotated[int, msgspec.Meta(ge=10)] = 100
    """How often a changed pool is noticed."""
    sweep_ms: Annotated[int, msgspec.Meta(ge=100)] = 5000
    """How often expired leases and reservations are removed."""


class Snapshot:
    """Nodes by pair, refreshed by version; readers never wait."""

    def __init__(self, options: PlacementOptions) -> None:
        self._options = options
        self._nodes: dict[PoolId, dict[NodeId, NodeFacts]] = {
            PoolId(number): {} for number in range(options.pool_count)
        }
        self._versions: dict[PoolId, int] = dict.fromkeys(self._nodes, 0)
        self._by_pairs: dict[tuple[PoolId, tuple[Pair, ...]], tuple[NodeId, ...]] = {}

    @property
    def pools(self) -> tuple[PoolId, ...]:
        """Every pool."""
        return tuple(self._nodes)

    def node(self, node_id: NodeId) -> NodeFacts | None:
        """What is known of a node."""
        return next((nodes[node_id] for nodes in self._nodes.values() if node_id in nodes), None)

    def nodes(self) -> list[NodeFacts]:
        """Every known node."""
        return [facts for nodes in self._nodes.values() for facts in nodes.values()]

    def put(self, facts: NodeFacts) -> None:
        """Take in what an own node just said, before the next refresh."""
        before = self._nodes[facts.pool].get(facts.node_id)
        self._nodes[facts.pool][facts.node_id] = facts
        if before is None or (before.asr, before.semantic) != (facts.asr, facts.semantic):
            self._by_pairs.clear()

    def drop(self, node_id: NodeId) -> None:
        """Forget a node that left."""
        for nodes in self._nodes.values():
            nodes.pop(node_id, None)
        self._by_pairs.clear()

    def serving(self, pool: PoolId, pairs: tuple[Pair, ...]) -> tuple[NodeId, ...]:
        """Nodes of a pool that can do every one of these pairs."""
        key = (pool, pairs)
        known = self._by_pairs.get(key)
        if known is None:
            known = tuple(facts.node_id for facts in self._nodes[pool].values() if facts.serves(pairs))
            self._by_pairs[key] = known
        return known

    def served(self, pairs: tuple[Pair, ...]) -> bool:
        """Some node can do these pairs and is open for work."""
        return any(
            self._nodes[pool][node_id].closed is None
            for pool in self._nodes
            for node_id in self.serving(pool, pairs)
        )

    def candidates(
        self, pool: PoolId, pairs: tuple[Pair, ...], *, without: set[NodeId]
    ) -> tuple[NodeId, ...]:
        """Sample nodes to offer to one reservation."""
        serving = self.serving(pool, pairs)
        wanted = self._options.candidates
        if len(serving) > wanted + len(without):
            serving = tuple(random.sample(serving, wanted + len(without)))
        return tuple(node_id for node_id in serving if node_id not in without)[:wanted]

    async def refresh(self, ledger: NodeLedger) -> list[NodeFacts]:
        """Bring every pool up to its newest version; return the nodes that changed."""
        changed: list[NodeFacts] = []
        for pool in self._nodes:
            changes = await ledger.changes(pool, since=self._versions[pool])
            if changes is None:
                continue
            if changes.complete:
                self._nodes[pool] = {}
            self._nodes[pool].update((facts.node_id, facts) for facts in changes.nodes)
            for node_id in changes.gone:
                self._nodes[pool].pop(node_id, None)
            self._versions[pool] = changes.version
            changed.extend(changes.nodes)
            self._by_pairs.clear()
        return changed


async def keep_fresh(
    snapshot: Snapshot,
    ledger: NodeLedger,
    options: PlacementOptions,
    on_change: Callable[[list[NodeFacts]], None],
) -> None:
    """Refresh for ever; a Redis that is away is tried again at the next turn."""
    while True:
        try:
            changed = await snapshot.refresh(ledger)
        except StoreError as error:
            _log.debug("snapshot_stale", reason=str(error))
        else:
            if changed:
                on_change(changed)
        await asyncio.sleep(options.refresh_ms / 1000)


async def keep_swept(snapshot: Snapshot, ledger: NodeLedger, options: PlacementOptions) -> None:
    """Remove for ever what nobody owns any more: ended leases and reservations."""
    while True:
        await asyncio.sleep(options.sweep_ms / 1000)
        try:
            for pool in snapshot.pools:
                await ledger.sweep(pool)
        except StoreError as error:
            _log.debug("sweep_failed", reason=str(error))
