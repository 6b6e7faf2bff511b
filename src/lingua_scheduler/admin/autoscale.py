"""Signals for autoscalers: how many nodes each pool and language pair should have, as flat numbers.

Every instance tells the others its load with its presence, so whichever of them is asked gives the number for
all of them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from aiohttp import web

from lingua_scheduler.admin.census import Census, Kind, Load
from lingua_scheduler.admin.endpoint import BadParameter, word
from lingua_scheduler.admin.muster import Ability, Supply
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.autoscale import AutoscaleOptions, Steady, nodes_for
from lingua_scheduler.core.company import Presence
from lingua_scheduler.core.model import InstanceId, Pair, PoolId
from lingua_scheduler.metrics import Metrics

_TOLD = 32  # kinds of jobs that an instance tells the others about
_LOAD = "load"
_SEPARATOR = "/"
_ALL = "all"
_WAIT, _REFUSED, _WAITING = "wait_p95_ms", "refusals_per_min", "waiting"

Row = tuple[PoolId | None, str]
"""A pool, or None for all of them, and a pair, or `all`."""


class ScalingGroup(msgspec.Struct, frozen=True):
    """The signals of one pool and pair; every member is a number but the two names."""

    pool: int | None
    pair: str
    desired_nodes: int = 0
    ready_nodes: int = 0
    total_slots: int = 0
    free_slots: int = 0
    load_slots: float = 0.0
    waiting_jobs: int = 0
    running_jobs: int = 0
    arrivals_per_s: float = 0.0
    service_s: float = 0.0
    wait_p95_ms: int = 0
    refusals_per_min: float = 0.0


class ScalingAnswer(msgspec.Struct, frozen=True):
    """What `/api/v1/autoscale` says: the chosen group's numbers, flat, and all groups."""

    pool: int | None
    pair: str
    desired_nodes: int
    ready_nodes: int
    total_slots: int
    free_slots: int
    load_slots: float
    waiting_jobs: int
    running_jobs: int
    arrivals_per_s: float
    service_s: float
    wait_p95_ms: int
    refusals_per_min: float
    groups: tuple[ScalingGroup, ...]


@dataclass(frozen=True, slots=True)
class Scaling:
    """The signals at one moment: of everything, of each pool, of each pair in a pool."""

    groups: Mapping[Row, ScalingGroup] = field(default_factory=dict)
    fewest: int = 0

    def answer(self, pool: int | None, pair: str) -> ScalingAnswer:
        """Give one group's numbers; zeros when nobody asked for anything like it."""
        row: Row = (None if pool is None else PoolId(pool), pair)
        chosen = self.groups.get(row) or ScalingGroup(pool, pair, desired_nodes=self.fewest)
        return ScalingAnswer(**msgspec.structs.asdict(chosen), groups=tuple(self.groups.values()))


class Autoscaler:
    """Turns the load of all instances into a number of nodes for each group."""

    def __init__(
        self,
        instance_id: InstanceId,
        census: Census,
        options: AutoscaleOptions,
        *,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._id = instance_id
        self._census = census
        self._options = options
        self._clock = clock
        self._metrics = metrics
        self._steady: dict[Row, Steady] = {}
        self._told: dict[str, int] = {}

    def about(self) -> dict[str, int]:
        """Tell the other instances the load of this one."""
        return dict(self._told)

    def look(self, supplies: Mapping[Ability, Supply], living: Mapping[InstanceId, Presence]) -> Scaling:
        """Look at the load and the nodes of now."""
        loads = self._census.look()
        self._tell(loads)
        others = [presence.about for each, presence in living.items() if each != self._id]
        slots = _summed(loads, others, self._options)
        now, groups, own = self._clock.now(), {}, _by_row(loads)
        for row in sorted({*slots, *self._steady}, key=lambda row: (row[0] is not None, row[0] or 0, row[1])):
            group = self._group(row, slots.get(row, 0.0), _supply_of(row, supplies), now)
            if row in slots or group.desired_nodes > self._options.min_nodes:
                groups[row] = _with_loads(group, own.get(row, ()))
            else:
                del self._steady[row]
        total = groups[None, _ALL]
        groups[None, _ALL] = msgspec.structs.replace(
            total,
            wait_p95_ms=max([total.wait_p95_ms, *(about.get(_WAIT, 0) for about in others)]),
            waiting_jobs=total.waiting_jobs + sum(about.get(_WAITING, 0) for about in others),
            refusals_per_min=total.refusals_per_min + sum(about.get(_REFUSED, 0) for about in others),
        )
        self._export(groups)
        return Scaling(groups, self._options.min_nodes)

    def _group(self, row: Row, slots: float, supply: Supply, now: float) -> ScalingGroup:
        each = supply.slots / supply.nodes if supply.nodes else self._options.slots_per_node
        wish = nodes_for(slots, each, self._options)
        steady = self._steady.get(row)
        if steady is None:
            steady = self._steady[row] = Steady(self._options)
        return ScalingGroup(
            pool=row[0],
            pair=row[1],
            desired_nodes=steady.settle(wish, now),
            ready_nodes=supply.nodes,
            total_slots=supply.slots,
            free_slots=supply.free,
            load_slots=round(slots, 3),
        )

    def _tell(self, loads: Mapping[Kind, Load]) -> None:
        shares = {
            _SEPARATOR.join((_LOAD, str(pool), pair_label(pairs))): round(
                load.demand.slots(self._options) * 1000
            )
            for (pool, pairs), load in loads.items()
        }
        largest = sorted(shares, key=lambda name: -shares[name])[:_TOLD]
        self._told = {
            **{name: shares[name] for name in largest},
            _WAIT: max((load.wait_p95_ms for load in loads.values()), default=0),
            _WAITING: sum(load.demand.waiting for load in loads.values()),
            _REFUSED: round(sum(load.refused_per_min for load in loads.values())),
        }

    def _export(self, groups: Mapping[Row, ScalingGroup]) -> None:
        metrics, named = self._metrics, {_names(row): group for row, group in groups.items()}
        metrics.autoscale_desired_nodes.show({row: group.desired_nodes for row, group in named.items()})
        metrics.autoscale_load_slots.show({row: group.load_slots for row, group in named.items()})
        metrics.autoscale_free_slots.show({row: group.free_slots for row, group in named.items()})
        metrics.autoscale_waiting_jobs.show({row: group.waiting_jobs for row, group in named.items()})
        metrics.autoscale_wait_p95_ms.set(self._told[_WAIT])


def asked_group(request: web.Request) -> tuple[int | None, str]:
    """Read which group is asked for; BadParameter when there can be none like it."""
    pool, pair = word(request, "pool"), word(request, "pair")
    if pool in ("", _ALL):
        return None, pair or _ALL
    if not (pool.isascii() and pool.isdecimal()):
        raise BadParameter("pool: expected the number of a pool, or all")
    return int(pool), pair or _ALL


def pair_label(pairs: tuple[Pair, ...]) -> str:
    """Name what a kind of job needs: `zh:en`, or several with a plus between them."""
    return "+".join(map(str, pairs)) or "other"


def pairs_of(label: str) -> tuple[Pair, ...]:
    """Read what `pair_label` wrote; empty for what names no pairs."""
    parts = [part.partition(":") for part in label.split("+")]
    return tuple(Pair(src, tgt) for src, colon, tgt in parts if colon)


def _supply_of(row: Row, supplies: Mapping[Ability, Supply]) -> Supply:
    """Add up the nodes that could take jobs of a group."""
    pool, label = row
    pairs, total = pairs_of(label), Supply()
    for ability, supply in supplies.items():
        if pool in (None, ability.pool) and (label == _ALL or ability.serves(pairs)):
            total.add(supply.nodes, supply.slots, supply.free)
    return total


def _rows(pool: PoolId, label: str) -> tuple[Row, ...]:
    """Name every group that a kind of job belongs to."""
    return (None, _ALL), (None, label), (pool, _ALL), (pool, label)


def _summed(
    loads: Mapping[Kind, Load], others: Iterable[Mapping[str, int]], options: AutoscaleOptions
) -> dict[Row, float]:
    slots: dict[Row, float] = {(None, _ALL): 0.0}
    kinds = [(pool, pair_label(pairs), load.demand.slots(options)) for (pool, pairs), load in loads.items()]
    for about in others:
        for name, thousandths in about.items():
            kind, _, rest = name.partition(_SEPARATOR)
            pool, _, label = rest.partition(_SEPARATOR)
            if kind == _LOAD and pool.lstrip("-").isdecimal():
                kinds.append((PoolId(int(pool)), label, thousandths / 1000))
    for pool_id, label, share in kinds:
        for row in _rows(pool_id, label):
            slots[row] = slots.get(row, 0.0) + share
    return slots


def _by_row(loads: Mapping[Kind, Load]) -> dict[Row, list[Load]]:
    found: dict[Row, list[Load]] = {}
    for (pool, pairs), load in loads.items():
        for row in _rows(pool, pair_label(pairs)):
            found.setdefault(row, []).append(load)
    return found


def _with_loads(group: ScalingGroup, own: Sequence[Load]) -> ScalingGroup:
    """Add what this instance measured itself."""
    arrivals = sum(load.demand.arrivals_per_s for load in own)
    work_s = sum(load.demand.arrivals_per_s * load.demand.service_s for load in own)
    return msgspec.structs.replace(
        group,
        waiting_jobs=sum(load.demand.waiting for load in own),
        running_jobs=sum(load.demand.running for load in own),
        arrivals_per_s=round(arrivals, 3),
        service_s=round(work_s / arrivals, 3) if arrivals else 0.0,
        wait_p95_ms=max((load.wait_p95_ms for load in own), default=0),
        refusals_per_min=round(sum(load.refused_per_min for load in own), 3),
    )


def _names(row: Row) -> tuple[str, str]:
    return _ALL if row[0] is None else str(row[0]), row[1]
