"""What is wrong right now and where, the worst first: the top of the dashboard, and `/api/v1/troubles`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from lingua_scheduler.admin.nodes import exclusion
from lingua_scheduler.admin.pairs import Kinds, demands, kinds
from lingua_scheduler.admin.pools import PoolRow, Pools, installed_types
from lingua_scheduler.admin.read_model import Picture
from lingua_scheduler.admin.said import rows, text
from lingua_scheduler.aio import unhurried
from lingua_scheduler.core.model import InstanceId, NodeId
from lingua_scheduler.core.placement import Exclusion, NodeFacts
from lingua_scheduler.flow.losses import lost_nodes
from lingua_scheduler.store.survey import About

_BAD, _WARN = "bad", "warn"
_MOST = 100
_SAMPLE = 5
_PENDING_WARN, _PENDING_BAD = 10, 100
_DEAD_BAD = 10
_MEANT = frozenset({Exclusion.NOT_IN_PUBLIC_POOL})  # nothing is wrong with a private node


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong: what kind of thing, where, why, how many of how many, and who."""

    kind: str
    level: str  # bad: people are not answered; warn: look at it
    where: str = ""
    why: str = ""
    count: int = 0
    of: int = 0
    names: list[str] = []


class Troubles(msgspec.Struct, frozen=True):
    """Everything that is wrong, the worst first."""

    bad: int
    warn: int
    troubles: list[Trouble]


@dataclass(frozen=True, slots=True)
class Here:
    """What only this instance knows of itself."""

    instance_id: InstanceId
    complaints: tuple[str, ...]
    stale: bool  # nobody has looked at the deployment for too long
    missing: tuple[tuple[str, int], ...]  # utterances without a translation in the last minute, by reason


class Troubleshooter:
    """Looks for what is wrong."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools

    async def troubles(self, picture: Picture, here: Here) -> Troubles:
        """List what is wrong."""
        if not picture.version:
            return Troubles(0, 0, [])
        nodes = await _Nodes.of(picture)
        found = [
            *_instances(picture, here),
            *_lost(picture),
            *_nobody(picture, nodes),
            *_pairs(picture, await kinds(picture)),
            *_unanswered(picture, here),
            *_excluded(picture, nodes),
            *_gaps(nodes),
            *_short_pools((await self._pools.pools(picture)).pools),
            *_letters(picture),
            *_catalogue(picture),
        ]
        found.sort(key=lambda trouble: trouble.level != _BAD)
        bad = sum(trouble.level == _BAD for trouble in found)
        return Troubles(bad, len(found) - bad, found[:_MOST])


@dataclass(slots=True)
class _Gap:
    """A service that some nodes of a pool have, are there for, and cannot do."""

    have: int = 0
    short: list[str] = field(default_factory=list)
    why: str = ""


@dataclass(slots=True)
class _Nodes:
    """What is wrong with single nodes."""

    useful: bool = False  # somebody takes jobs, full or not
    out: dict[Exclusion, list[str]] = field(default_factory=dict)
    gaps: dict[tuple[int, str], _Gap] = field(default_factory=dict)  # by pool and type of service

    @classmethod
    async def of(cls, picture: Picture) -> _Nodes:
        """Look at every node."""
        found = cls()
        async for facts in unhurried(picture.nodes):
            reason = exclusion(picture, facts)
            found.useful = found.useful or reason in (None, Exclusion.CAPACITY_EXCEEDED)
            if reason is not None and reason not in _MEANT:
                found.out.setdefault(reason, []).append(facts.node_id)
            if reason is not Exclusion.OFFLINE:
                found._count_services(picture, facts)
        return found

    def _count_services(self, picture: Picture, facts: NodeFacts) -> None:
        for kind in installed_types(picture, facts):
            gap = self.gaps.setdefault((facts.pool, kind), _Gap())
            gap.have += 1
            if kind not in facts.types:
                about = picture.abouts.get(facts.node_id)
                gap.why = gap.why if gap.short or about is None else _reason(about, kind)
                gap.short.append(facts.node_id)


def _short_pools(pools: list[PoolRow]) -> Iterator[Trouble]:
    """Name pools that have no node to offer, though they should."""
    for row in pools:
        if not row.ready_nodes and (row.total_nodes or row.pool_required_services):
            yield Trouble(
                kind="pool_empty",
                level=_WARN,
                where=_pool_name(row),
                of=row.total_nodes,
                names=row.sample_node_ids,
            )


def _instances(picture: Picture, here: Here) -> Iterator[Trouble]:
    for complaint in here.complaints:
        yield Trouble(kind="instance_not_ready", level=_BAD, where=here.instance_id, why=complaint)
    if here.stale:
        yield Trouble(kind="stale", level=_BAD, where=here.instance_id)
    for instance_id, presence in sorted(picture.living.items()):
        if instance_id not in picture.reachable:
            yield Trouble(kind="instance_unreachable", level=_BAD, where=instance_id)
        elif presence.draining and instance_id != here.instance_id:
            yield Trouble(kind="instance_draining", level=_WARN, where=instance_id)


def _lost(picture: Picture) -> Iterator[Trouble]:
    """Name who went away without a word."""
    for instance_id in picture.lost:
        yield Trouble(kind="instance_lost", level=_WARN, where=instance_id)
    told = {node for presence in picture.living.values() for node in lost_nodes(presence.about)}
    if names := [node_id for node_id in sorted(told) if not _online(picture, node_id)]:
        yield Trouble(kind="nodes_lost", level=_WARN, count=len(names), names=[*names[:_SAMPLE]])


def _online(picture: Picture, node_id: NodeId) -> bool:
    facts = picture.node(node_id)
    return facts is not None and exclusion(picture, facts) is not Exclusion.OFFLINE


def _nobody(picture: Picture, nodes: _Nodes) -> Iterator[Trouble]:
    if not nodes.useful:
        sessions = sum(presence.about.get("sessions", 0) for presence in picture.living.values())
        level = _BAD if sessions else _WARN
        yield Trouble(kind="no_ready_node", level=level, count=sessions, of=len(picture.nodes))


def _pairs(picture: Picture, supplies: Kinds) -> Iterator[Trouble]:
    for row in demands(picture, supplies):
        if not row.ready_nodes:
            yield Trouble(kind="pair_unserved", level=_BAD, where=row.pair, count=row.sessions)
        elif not row.free_slots and row.waiting_jobs:
            yield Trouble(
                kind="pair_full", level=_WARN, where=row.pair, count=row.waiting_jobs, of=row.total_slots
            )


def _unanswered(picture: Picture, here: Here) -> Iterator[Trouble]:
    abouts = [presence.about for presence in picture.living.values()]
    missing = sum(about.get("missing_last_min", 0) for about in abouts)
    answered = sum(about.get("answered_last_min", 0) for about in abouts)
    if missing:
        main = max(here.missing, key=lambda each: each[1], default=("", 0))
        level = _BAD if missing > answered else _WARN
        why = main[0] if main[1] else ""
        yield Trouble(kind="missing", level=level, why=why, count=missing, of=missing + answered)
    total = picture.scaling.groups.get((None, "all"))
    if total is not None and total.refusals_per_min >= 1:
        yield Trouble(kind="refused", level=_WARN, count=round(total.refusals_per_min))


def _excluded(picture: Picture, nodes: _Nodes) -> Iterator[Trouble]:
    for reason, names in sorted(nodes.out.items(), key=lambda each: -len(each[1])):
        yield Trouble(
            kind="nodes_excluded",
            level=_WARN,
            why=reason.value,
            count=len(names),
            of=len(picture.nodes),
            names=names[:_SAMPLE],
        )


def _gaps(nodes: _Nodes) -> Iterator[Trouble]:
    """Name services that nodes of a pool have, are there for, and cannot do."""
    for (pool, kind), gap in sorted(nodes.gaps.items(), key=lambda each: each[0]):
        if gap.short:
            yield Trouble(
                kind="service_gap",
                level=_WARN,
                where=f"{pool}/{kind}",
                why=gap.why,
                count=len(gap.short),
                of=gap.have,
                names=gap.short[:_SAMPLE],
            )


def _letters(picture: Picture) -> Iterator[Trouble]:
    for instance_id, mail in sorted(picture.mail.items()):
        if mail.pending > _PENDING_WARN:
            level = _BAD if mail.pending > _PENDING_BAD else _WARN
            yield Trouble(kind="letters_pending", level=level, where=instance_id, count=mail.pending)
    dead = sum(mail.dead for mail in picture.mail.values())
    if dead:
        newest = picture.dead[0] if picture.dead else None
        yield Trouble(
            kind="dead_letters",
            level=_BAD if dead > _DEAD_BAD else _WARN,
            where=newest.instance_id if newest else "",
            why=newest.reason if newest else "",
            count=dead,
        )


def _catalogue(picture: Picture) -> Iterator[Trouble]:
    standing = picture.services
    if standing.fail_count:
        yield Trouble(kind="catalogue", level=_WARN, why=standing.last_error, count=standing.fail_count)


def _reason(about: About, kind: str) -> str:
    said = (each for each in rows(about.said, "capabilities") if text(each, "type") == kind)
    return next((text(each, "reason") for each in said), "")


def _pool_name(row: PoolRow) -> str:
    return f"{row.pool_id} {row.pool_name}".strip()
