"""Languages against each other: how many slots there are for every pair, and how many people ask for them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from lingua_scheduler.admin.autoscale import ScalingGroup, pairs_of
from lingua_scheduler.admin.nodes import exclusion
from lingua_scheduler.admin.read_model import Picture
from lingua_scheduler.admin.sessions import read_pairs
from lingua_scheduler.aio import unhurried
from lingua_scheduler.core.model import Pair
from lingua_scheduler.core.placement import Exclusion, NodeFacts

_MOST_LANGUAGES = 30
_MOST_DEMANDS = 100
_CAPTIONS = frozenset({"asr", "nmt"})  # the services without which nothing is translated
_ALL = "all"


class PairCell(msgspec.Struct, frozen=True):
    """What there is for one pair, and who asks for it."""

    src: str
    tgt: str
    ready_nodes: int
    total_slots: int
    free_slots: int
    sessions: int
    load_slots: float


class PairDemand(msgspec.Struct, frozen=True):
    """What sessions ask for: a pair, or several that one node must serve, like zh:en+en:zh."""

    pair: str
    sessions: int
    load_slots: float
    waiting_jobs: int
    refusals_per_min: float
    ready_nodes: int
    total_slots: int
    free_slots: int


class PairTable(msgspec.Struct, frozen=True):
    """The languages in most use, every pair of them that there is something to say of, and all demands."""

    languages: list[str]
    total_languages: int
    cells: list[PairCell]
    demands: list[PairDemand]


@dataclass(slots=True)
class Supply:
    """The nodes that could take jobs of a kind."""

    nodes: int = 0
    total: int = 0
    free: int = 0

    def add(self, other: Supply) -> None:
        """Count these, too."""
        self.nodes, self.total, self.free = (
            self.nodes + other.nodes,
            self.total + other.total,
            self.free + other.free,
        )


Kinds = dict[tuple[frozenset[str], frozenset[str]], Supply]
"""Nodes that everybody may use and that translate, by the languages they hear and translate into."""


async def kinds(picture: Picture) -> Kinds:
    """Count the slots of the nodes that are of use, whether or not they are full now."""
    found: Kinds = {}
    async for facts in unhurried(picture.nodes):
        if facts.private or not facts.types >= _CAPTIONS:
            continue
        if exclusion(picture, facts) not in (None, Exclusion.CAPACITY_EXCEEDED):
            continue
        mine = Supply(1, facts.max_jobs, _free(picture, facts))
        found.setdefault((facts.asr, facts.semantic), Supply()).add(mine)
    return found


def demands(picture: Picture, supplies: Kinds) -> list[PairDemand]:
    """List what sessions ask for, those first that ask for most."""
    sessions: Counter[str] = Counter()
    for presence in picture.living.values():
        sessions.update(read_pairs(presence.about))
    groups = {label: group for (pool, label), group in picture.scaling.groups.items() if pool is None}
    groups.pop(_ALL, None)
    asked = {*sessions, *groups}
    rows = [_demand(label, sessions[label], groups.get(label), supplies) for label in asked]
    rows.sort(key=lambda row: (-row.sessions, -row.load_slots, row.pair))
    return rows[:_MOST_DEMANDS]


async def pair_table(picture: Picture, first: str = "") -> PairTable:
    """Show the languages in most use, `first` before all others."""
    supplies = await kinds(picture)
    asked = demands(picture, supplies)
    chosen, total = _languages(supplies, asked, first)
    cells = _Cells()
    for (asr, semantic), supply in supplies.items():
        for src in asr & chosen.keys():
            for tgt in semantic & chosen.keys() - {src}:
                cells.supplies.setdefault(Pair(src, tgt), Supply()).add(supply)
    for row in asked:
        for pair in pairs_of(row.pair):
            if pair.src in chosen and pair.tgt in chosen:
                cells.sessions[pair] += row.sessions
                cells.load[pair] = cells.load.get(pair, 0.0) + row.load_slots
    return PairTable(list(chosen), total, cells.rows(chosen), asked)


@dataclass(slots=True)
class _Cells:
    """The table while it is being filled."""

    supplies: dict[Pair, Supply] = field(default_factory=dict)
    sessions: Counter[Pair] = field(default_factory=Counter)
    load: dict[Pair, float] = field(default_factory=dict)

    def rows(self, order: dict[str, int]) -> list[PairCell]:
        """Give the cells that are not empty, in the order of the languages."""
        known = {*self.supplies, *self.sessions}
        return [
            self._row(pair) for pair in sorted(known, key=lambda pair: (order[pair.src], order[pair.tgt]))
        ]

    def _row(self, pair: Pair) -> PairCell:
        supply = self.supplies.get(pair, Supply())
        return PairCell(
            src=pair.src,
            tgt=pair.tgt,
            ready_nodes=supply.nodes,
            total_slots=supply.total,
            free_slots=supply.free,
            sessions=self.sessions[pair],
            load_slots=round(self.load.get(pair, 0.0), 3),
        )


def _languages(supplies: Kinds, asked: list[PairDemand], first: str) -> tuple[dict[str, int], int]:
    """Choose languages and number them: the one that is asked for, then by sessions, then by slots."""
    wanted: Counter[str] = Counter()
    offered: Counter[str] = Counter()
    for row in asked:
        for pair in pairs_of(row.pair):
            wanted.update({pair.src: row.sessions + 1, pair.tgt: row.sessions + 1})
    for (asr, semantic), supply in supplies.items():
        offered.update(dict.fromkeys(asr | semantic, supply.total))
    every = sorted({*wanted, *offered}, key=lambda lang: (lang != first, -wanted[lang], -offered[lang], lang))
    return {lang: place for place, lang in enumerate(every[:_MOST_LANGUAGES])}, len(every)


def _demand(label: str, sessions: int, group: ScalingGroup | None, supplies: Kinds) -> PairDemand:
    pairs, total = pairs_of(label), Supply()
    for (asr, semantic), supply in supplies.items():
        if all(pair.src in asr and pair.tgt in semantic for pair in pairs):
            total.add(supply)
    return PairDemand(
        pair=label,
        sessions=sessions,
        load_slots=group.load_slots if group else 0.0,
        waiting_jobs=group.waiting_jobs if group else 0,
        refusals_per_min=group.refusals_per_min if group else 0.0,
        ready_nodes=total.nodes,
        total_slots=total.total,
        free_slots=total.free,
    )


def _free(picture: Picture, facts: NodeFacts) -> int:
    about = picture.abouts.get(facts.node_id)
    return max(0, facts.max_jobs - (facts.running_jobs if about is None else about.jobs))
