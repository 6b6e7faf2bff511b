"""The nodes that the next picture shows, and what is added up over them, kept up to date node by node.

Whoever counts thousands of nodes once a second holds up everything else meanwhile. Here a node is looked at
when something about it has changed, and the sums are corrected by the difference.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from lingua_scheduler.core.model import InstanceId, NodeId, Pair, PoolId
from lingua_scheduler.core.placement import NodeFacts
from lingua_scheduler.store.survey import About


class Ability(NamedTuple):
    """What nodes have in common that take the same jobs."""

    pool: PoolId
    asr: frozenset[str]
    semantic: frozenset[str]

    def serves(self, pairs: tuple[Pair, ...]) -> bool:
        """Every direction asked for is one these nodes can do."""
        return all(pair.src in self.asr and pair.tgt in self.semantic for pair in pairs)


@dataclass(slots=True)
class Supply:
    """Open nodes that everybody may use, and their slots."""

    nodes: int = 0
    slots: int = 0
    free: int = 0

    def add(self, nodes: int, slots: int, free: int) -> None:
        """Count these, too."""
        self.nodes += nodes
        self.slots += slots
        self.free += free


class Muster:
    """Every node that is known, and the sums over all of them; the two always agree."""

    def __init__(self) -> None:
        self._nodes: dict[NodeId, NodeFacts] = {}
        self._abouts: dict[NodeId, About] = {}
        self._in_order = True
        self._ready: Counter[InstanceId] = Counter()
        self.supplies: dict[Ability, Supply] = {}

    def put(self, facts: NodeFacts) -> None:
        """Take in what is known of a node now."""
        before = self._nodes.get(facts.node_id)
        if before is None:
            self._in_order = False
        else:
            self._count(before, -1)
        self._nodes[facts.node_id] = facts
        self._count(facts, 1)

    def learn(self, node_id: NodeId, about: About) -> None:
        """Take in what a node says of itself; of one that is not there, nothing is kept."""
        facts = self._nodes.get(node_id)
        if facts is not None:
            self._count(facts, -1)
            self._abouts[node_id] = about
            self._count(facts, 1)

    def drop(self, node_id: NodeId) -> None:
        """Forget a node that left."""
        facts = self._nodes.pop(node_id, None)
        if facts is not None:
            self._count(facts, -1)
            self._abouts.pop(node_id, None)

    def _count(self, facts: NodeFacts, times: int) -> None:
        if facts.closed is not None or facts.private:
            return
        about, most = self._abouts.get(facts.node_id), facts.max_jobs
        taken = facts.running_jobs if about is None else about.jobs
        ability = Ability(facts.pool, facts.asr, facts.semantic)
        supply = self.supplies.get(ability)
        if supply is None:
            supply = self.supplies[ability] = Supply()
        supply.add(times, times * most, times * max(0, most - taken))
        if not supply.nodes:
            del self.supplies[ability]
        if about is None or about.jobs < most:
            self._ready[facts.owner] += times
            if not self._ready[facts.owner]:
                del self._ready[facts.owner]

    def node(self, node_id: NodeId) -> NodeFacts | None:
        """What is known of a node."""
        return self._nodes.get(node_id)

    def nodes(self) -> tuple[NodeFacts, ...]:
        """Give every node in the order of their ids."""
        if not self._in_order:
            self._nodes = {node_id: self._nodes[node_id] for node_id in sorted(self._nodes)}
            self._in_order = True
        return tuple(self._nodes.values())

    def abouts(self) -> dict[NodeId, About]:
        """Give what the nodes say of themselves, as far as it was asked."""
        return self._abouts.copy()

    def ready(self) -> dict[InstanceId, int]:
        """Count the nodes of each instance that may be chosen if that can be reached."""
        return dict(self._ready)
