"""How many nodes the present load asks for: a pure decision, steady against short pauses.

By Little's law a load of `arrivals_per_s` jobs that take `service_s` each keeps so many slots busy at a time.
Jobs that wait already need slots on top of that, until they are served. More nodes are asked for at once,
fewer only after the load has been lower for a while: a node that starts again costs more than one that idles.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Annotated

import msgspec

_ROUNDING = 1e-9  # what sums of fractions may be off by without asking for one node more


class AutoscaleOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many nodes are asked for: the decision behind `/api/v1/autoscale`."""

    headroom: Annotated[float, msgspec.Meta(ge=0, le=10)] = 0.25
    """Slots that should be free, as a part of those that the load keeps busy."""
    slots_per_node: Annotated[int, msgspec.Meta(ge=1)] = 4
    """Slots counted for a node while no node of the kind is there to be asked."""
    service_s: Annotated[float, msgspec.Meta(gt=0)] = 2.0
    """Time of one job on its node while none has been measured."""
    min_nodes: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Fewest nodes asked for, of any kind."""
    max_nodes: Annotated[int, msgspec.Meta(ge=1)] = 1000
    """Most nodes asked for."""
    clear_waiting_s: Annotated[float, msgspec.Meta(gt=0)] = 10
    """Time in which jobs that wait now should be served."""
    window_s: Annotated[float, msgspec.Meta(ge=5, le=3600)] = 60
    """Time over which arrivals, service times and waits are looked at."""
    scale_down_after_s: Annotated[float, msgspec.Meta(ge=0)] = 300
    """Fewer nodes are asked for once so many have been enough for this long."""

    def __post_init__(self) -> None:
        """Refuse bounds that no number keeps."""
        if self.min_nodes > self.max_nodes:
            raise ValueError("min_nodes must not be more than max_nodes")


@dataclass(frozen=True, slots=True)
class Demand:
    """What is asked of nodes that can do the same."""

    arrivals_per_s: float = 0.0
    service_s: float = 0.0  # how long a job keeps its slot
    running: int = 0  # jobs that have a slot now
    waiting: int = 0  # jobs that have none

    def slots(self, options: AutoscaleOptions) -> float:
        """Tell how many slots this keeps busy, and how many more those who wait need."""
        steady = max(self.arrivals_per_s * self.service_s, float(self.running))
        hurry = min(1.0, self.service_s / options.clear_waiting_s)
        return steady + self.waiting * max(hurry, _ROUNDING)


def nodes_for(slots: float, slots_per_node: float, options: AutoscaleOptions) -> int:
    """Tell how many nodes have these slots and room to spare."""
    if not isfinite(slots):
        return options.max_nodes
    wanted = slots * (1 + options.headroom) / max(1.0, slots_per_node)
    return min(max(ceil(wanted - _ROUNDING), options.min_nodes), options.max_nodes)


class Steady:
    """A wish that rises at once and falls only after it has been lower for a while."""

    def __init__(self, options: AutoscaleOptions) -> None:
        self._hold_s = options.scale_down_after_s
        self._wishes: deque[tuple[float, int]] = deque()  # falling: later ones are lower

    def settle(self, wish: int, now: float) -> int:
        """Give the highest wish of the last while, this one included."""
        while self._wishes and self._wishes[-1][1] <= wish:
            self._wishes.pop()
        self._wishes.append((now, wish))
        while self._wishes[0][0] < now - self._hold_s:
            self._wishes.popleft()
        return self._wishes[0][1]
