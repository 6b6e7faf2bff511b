"""The read model of nodes: where to ask first, and what to show people. It decides nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Annotated

import msgspec

from lingua_scheduler.aio import unhurried
from lingua_scheduler.core.model import NodeId, Pair, PoolId
from lingua_scheduler.core.placement import Exclusion, NodeFacts, Refusal
from lingua_scheduler.core.ports import NodeLedger

_FITTING_KEPT = 1024  # needs whose shelves are remembered; clients may think of any pair


class PlacementOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the read model of nodes is kept, how much of it one placement looks at, and whom it prefers."""

    prefer_region: str = ""
    """Nodes that announced this region are asked first; empty prefers none."""
    prefer_gpu_tier: str = ""
    """Nodes that announced this strength are asked first; empty prefers none."""
    shelves: Annotated[int, msgspec.Meta(ge=1, le=64)] = 8
    """Most kinds of nodes offered to one reservation; with more of them, a random choice."""
    refresh_ms: Annotated[int, msgspec.Meta(ge=10)] = 100
    """How often a changed pool is noticed."""
    sweep_ms: Annotated[int, msgspec.Meta(ge=100)] = 5000
    """How often expired leases and reservations are removed."""


class Need(msgspec.Struct, frozen=True):
    """What a job asks of a node."""

    pairs: tuple[Pair, ...]
    types: frozenset[str]
    paired_with: NodeId | None = None  # this one may be private
    region: str = ""  # only nodes of this region; empty: of any
    gpu_tier: str = ""  # only nodes of this strength; empty: of any

    def near(self, facts: NodeFacts) -> bool:
        """Nodes like this one stand where they are wanted."""
        return self.region in ("", facts.region) and self.gpu_tier in ("", facts.gpu_tier)

    def refuses(self, facts: NodeFacts) -> Exclusion | None:
        """Why nodes like this one will not do; None when they will."""
        if not facts.serves(self.pairs):
            return Exclusion.LANG_PAIR_UNSUPPORTED
        if facts.private and facts.node_id != self.paired_with:
            return Exclusion.NOT_IN_PUBLIC_POOL
        return None if self.types <= facts.types else Exclusion.MODEL_NOT_AVAILABLE


class _Shelf:
    """Nodes that are alike for placement."""

    def __init__(self, kind: NodeFacts) -> None:
        self.kind = kind
        self.nodes: set[NodeId] = set()
        self.closed: Counter[Exclusion] = Counter()


class Snapshot:
    """Nodes of every pool by the shelf they stand on, refreshed by version; readers never wait."""

    def __init__(self, options: PlacementOptions, pools: tuple[PoolId, ...] = (PoolId(0),)) -> None:
        self._options = options
        self._nodes: dict[PoolId, dict[NodeId, NodeFacts]] = {pool: {} for pool in pools}
        self._shelves: dict[PoolId, dict[str, _Shelf]] = {pool: {} for pool in self._nodes}
        self._versions: dict[PoolId, int] = dict.fromkeys(self._nodes, 0)
        self._fitting: dict[tuple[PoolId, Need], tuple[str, ...]] = {}
        self._changed: set[NodeId] = set()

    def nearest(self, need: Need) -> Need | None:
        """Narrow a need to the preferred region and strength; None when nothing is preferred."""
        region, tier = self._options.prefer_region, self._options.prefer_gpu_tier
        return msgspec.structs.replace(need, region=region, gpu_tier=tier) if region or tier else None

    @property
    def pools(self) -> tuple[PoolId, ...]:
        """Every pool."""
        return tuple(self._nodes)

    def node(self, node_id: NodeId) -> NodeFacts | None:
        """What is known of a node."""
        for nodes in self._nodes.values():
            if (facts := nodes.get(node_id)) is not None:
                return facts
        return None

    def nodes(self) -> list[NodeFacts]:
        """Every known node."""
        return [facts for nodes in self._nodes.values() for facts in nodes.values()]

    def changed(self) -> list[NodeId]:
        """Name the nodes that came, changed or left since somebody asked this last; one caller may ask."""
        changed, self._changed = self._changed, set()
        return list(changed)

    def put(self, facts: NodeFacts) -> None:
        """Take in what is known of a node now."""
        before = self._take(facts.pool, facts.node_id)
        self._changed.add(facts.node_id)
        self._nodes[facts.pool][facts.node_id] = facts
        shelves, name = self._shelves[facts.pool], facts.shelf
        if name not in shelves:
            shelves[name] = _Shelf(facts)
            self._fitting.clear()
        shelves[name].nodes.add(facts.node_id)
        if facts.closed is not None:
            shelves[name].closed[facts.closed] += 1
        if before is not None and before.shelf != name:
            self._tidy(before)

    def drop(self, node_id: NodeId) -> None:
        """Forget a node that left."""
        for pool in self._nodes:
            if (facts := self._take(pool, node_id)) is not None:
                self._tidy(facts)

    def _take(self, pool: PoolId, node_id: NodeId) -> NodeFacts | None:
        facts = self._nodes[pool].pop(node_id, None)
        if facts is not None:
            self._changed.add(node_id)
            shelf = self._shelves[pool][facts.shelf]
            shelf.nodes.discard(node_id)
            if facts.closed is not None:
                shelf.closed[facts.closed] -= 1
        return facts

    def _tidy(self, left: NodeFacts) -> None:
        """Remove the shelf that a node has left, if it was the last one there."""
        shelves, name = self._shelves[left.pool], left.shelf
        if not shelves[name].nodes:
            del shelves[name]
            self._fitting.clear()

    def shelves(self, pool: PoolId, need: Need, *, named: Collection[NodeId | None] = ()) -> tuple[str, ...]:
        """Name shelves of a pool whose nodes will do, at most as many as one reservation may look at.

        Those of the `named` nodes are among them, if they will do.
        """
        fitting = self._fitting.get((pool, need))
        if fitting is None:
            kinds = self._shelves[pool].items()
            fitting = tuple(
                name for name, shelf in kinds if need.refuses(shelf.kind) is None and need.near(shelf.kind)
            )
            if len(self._fitting) >= _FITTING_KEPT:
                self._fitting.clear()
            self._fitting[pool, need] = fitting
        if len(fitting) <= self._options.shelves:
            return fitting
        nodes = self._nodes[pool]
        wanted = {nodes[node_id].shelf for node_id in named if node_id is not None and node_id in nodes}
        sample = random.sample(fitting, self._options.shelves)
        return tuple(dict.fromkeys([*wanted.intersection(fitting), *sample]))[: self._options.shelves]

    def open_kinds(self) -> list[NodeFacts]:
        """Show one node for all that are alike, if any of them may be chosen now, full or not."""
        return [
            replace(shelf.kind, closed=None)
            for shelves in self._shelves.values()
            for shelf in shelves.values()
            if shelf.closed.total() < len(shelf.nodes)
        ]

    def open_for(self, need: Need) -> bool:
        """Some node would take such a job now, full or not."""
        return any(
            need.refuses(shelf.kind) is None and shelf.closed.total() < len(shelf.nodes)
            for shelves in self._shelves.values()
            for shelf in shelves.values()
        )

    def explain(self, need: Need, only: PoolId | None = None) -> Refusal:
        """Count why each known node, or each of one pool, cannot take a job now, as far as is known here."""
        reasons: Counter[Exclusion] = Counter()
        for pool, shelves in self._shelves.items():
            for shelf in shelves.values() if only in (None, pool) else ():
                refused = need.refuses(shelf.kind)
                if refused is not None:
                    reasons[refused] += len(shelf.nodes)
                else:
                    reasons.update(shelf.closed)
                    reasons[Exclusion.CAPACITY_EXCEEDED] += len(shelf.nodes) - shelf.closed.total()
        return Refusal({reason: count for reason, count in reasons.items() if count})

    async def refresh(self, ledger: NodeLedger) -> list[NodeFacts]:
        """Bring every pool up to its newest version; return what changed, nodes that left as offline."""
        changed: list[NodeFacts] = []
        for pool in self._nodes:
            changes = await ledger.changes(pool, since=self._versions[pool])
            if changes is None:
                continue
            there = {facts.node_id for facts in changes.nodes}
            gone = self._nodes[pool].keys() - there if changes.complete else changes.gone
            async for node_id in unhurried(list(gone)):
                if (left := self._take(pool, node_id)) is not None:
                    self._tidy(left)
                    changed.append(replace(left, closed=Exclusion.OFFLINE))
            async for facts in unhurried(changes.nodes):
                self.put(facts)
            self._versions[pool] = changes.version
            changed.extend(changes.nodes)
        return changed

    async def sweep(self, ledger: NodeLedger) -> None:
        """Remove from Redis what nobody owns any more: ended leases and reservations."""
        for pool in self._nodes:
            await ledger.sweep(pool)
