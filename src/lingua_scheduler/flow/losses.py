"""Who went away without a word: nodes of this instance and other instances, kept in mind for a while.

A node or an instance that dies leaves nothing behind in Redis, and nothing that could be pointed at. So the
instance that missed it remembers it, until it is back or nobody needs to be told any more.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeVar

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.model import InstanceId, NodeId
from lingua_scheduler.metrics import Metrics

KEEP_S: Final = 900.0
"""How long a loss is remembered."""
_MOST = 64
_TOLD = 16  # lost nodes that an instance tells the others about
_MARK = "lost/"

Name = TypeVar("Name", NodeId, InstanceId)


class Losses:
    """The losses that this instance has noticed."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._nodes: dict[NodeId, float] = {}  # since when, the newest last
        self._instances: dict[InstanceId, float] = {}

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """Nodes that are missed, the first one first."""
        return tuple(self._nodes)

    @property
    def instances(self) -> tuple[InstanceId, ...]:
        """Instances that died, the first one first."""
        return tuple(self._instances)

    def node(self, node_id: NodeId) -> None:
        """A node of this instance is gone and did not say why."""
        _note(self._nodes, node_id, self._clock.now())
        self._show()

    def instance(self, instance_id: InstanceId) -> None:
        """Another instance is gone and did not say why."""
        _note(self._instances, instance_id, self._clock.now())
        self._show()

    def review(self, nodes: Collection[NodeId], instances: Collection[InstanceId]) -> None:
        """Forget who is back, and what was long ago."""
        since = self._clock.now() - KEEP_S
        self._nodes = {each: at for each, at in self._nodes.items() if at > since and each not in nodes}
        self._instances = {
            each: at for each, at in self._instances.items() if at > since and each not in instances
        }
        self._show()

    def about(self) -> dict[str, int]:
        """Tell the other instances which nodes were lost here."""
        return {f"{_MARK}{node_id}": 1 for node_id in list(self._nodes)[-_TOLD:]}

    def _show(self) -> None:
        self._metrics.lost_nodes.show({(each,): 1.0 for each in self._nodes})
        self._metrics.lost_instances.show({(each,): 1.0 for each in self._instances})


def lost_nodes(about: dict[str, int]) -> list[NodeId]:
    """Read which nodes an instance says were lost there."""
    return [NodeId(name.removeprefix(_MARK)) for name in about if name.startswith(_MARK)]


def _note(known: dict[Name, float], name: Name, now: float) -> None:
    known.pop(name, None)
    known[name] = now
    while len(known) > _MOST:
        del known[next(iter(known))]
