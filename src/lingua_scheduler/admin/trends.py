"""How the last minutes were: who talked, what was answered, and where the time of an utterance went.

Every look at the deployment adds to it, so whoever opens a page sees at once what happened before they came.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import msgspec
from prometheus_client.metrics_core import Metric

from lingua_scheduler.admin.read_model import Picture
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.model import PoolId
from lingua_scheduler.metrics import STAGES, Metrics

_EVERY_S = 5.0
_POINTS = 181  # both ends of 15 minutes
_MINUTE_S = 60.0
_STAGES_S = 300.0
_WHOLE = "answer"  # beside the stages: from the cut to the answer
_ANSWERED, _MISSING = "answered_last_min", "missing_last_min"
_EVERYTHING: tuple[PoolId | None, str] = (None, "all")

Buckets = tuple[tuple[float, float], ...]
"""Upper bounds in seconds, and how many took at most so long."""


class StageTime(msgspec.Struct, frozen=True):
    """How long one stage took; null when nothing was measured."""

    stage: str
    count: int
    p50_ms: float | None
    p95_ms: float | None


class Course(msgspec.Struct, frozen=True):
    """Numbers of all instances over time, as columns: the same place in each belongs to the same moment."""

    at_ms: list[int]
    sessions: list[int]
    jobs: list[int]
    ready_nodes: list[int]
    answered: list[int]  # in the minute before
    missing: list[int]  # in the minute before
    refused: list[float]  # per minute


class Trends(msgspec.Struct, frozen=True):
    """What `/api/v1/trends` says; the stages are those that this instance measured."""

    every_s: float
    stages_window_s: float
    answered_last_min: int
    missing_last_min: int
    refusals_per_min: float
    stages: list[StageTime]
    course: Course


class Measured(Protocol):
    """An instrument that can be read."""

    def collect(self) -> Iterable[Metric]:
        """Give what it has counted."""
        ...


@dataclass(frozen=True, slots=True)
class _Totals:
    """What this instance has counted up to one moment."""

    at: float
    answered: int = 0
    missing: Mapping[str, int] = field(default_factory=dict)  # by reason
    stages: Mapping[str, Buckets] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Moment:
    """The deployment at one moment, and the counts of this instance."""

    row: tuple[int, int, int, int, int, int, float]  # as the columns of Course
    totals: _Totals


class TrendKeeper:
    """Remembers a quarter of an hour."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._kept: deque[_Moment] = deque(maxlen=_POINTS)

    def look(self, picture: Picture) -> None:
        """Take in a picture, if it is time for the next point."""
        now = self._clock.now()
        if not self._kept or now - self._kept[-1].totals.at >= _EVERY_S:
            self._kept.append(_Moment(_row(picture), self._totals(now)))

    def about(self) -> dict[str, int]:
        """Tell the other instances how the last minute was here."""
        return {_ANSWERED: self._answered(), _MISSING: sum(self.missing_reasons().values())}

    def missing_reasons(self) -> dict[str, int]:
        """Tell why utterances of this instance had no translation in the last minute."""
        now = self._missing()
        before = self._before(_MINUTE_S).missing
        return {reason: count - before.get(reason, 0) for reason, count in now.items()}

    def trends(self, picture: Picture) -> Trends:
        """Show the last minutes."""
        row = _row(picture)
        before = [moment.row for moment in self._kept if moment.row[0] < row[0]]
        columns = zip(*[*before, row], strict=True)
        return Trends(
            every_s=_EVERY_S,
            stages_window_s=_STAGES_S,
            answered_last_min=row[4],
            missing_last_min=row[5],
            refusals_per_min=row[6],
            stages=self._stage_times(),
            course=Course(*map(list, columns)),
        )

    def _answered(self) -> int:
        return self._metrics.translation_results_total.value - self._before(_MINUTE_S).answered

    def _missing(self) -> dict[str, int]:
        return {reason: count for (reason,), count in self._metrics.missing_results_total.read().items()}

    def _stages(self) -> dict[str, Buckets]:
        whole = _buckets(self._metrics.answer_latency_seconds)
        return {**_buckets(self._metrics.stage_seconds), _WHOLE: whole[""]}

    def _totals(self, now: float) -> _Totals:
        answered = self._metrics.translation_results_total.value
        return _Totals(now, answered, self._missing(), self._stages())

    def _before(self, seconds: float) -> _Totals:
        """Give the newest counts that are so old; none when this instance is younger."""
        times = [moment.totals.at for moment in self._kept]
        place = bisect_left(times, self._clock.now() - seconds + 1e-6)
        return self._kept[place - 1].totals if place else _Totals(0.0)

    def _stage_times(self) -> list[StageTime]:
        before, now = self._before(_STAGES_S).stages, self._stages()
        return [_stage_time(stage, _since(before.get(stage), now[stage])) for stage in (*STAGES, _WHOLE)]


def quantile_s(buckets: Buckets, part: float) -> float | None:
    """Estimate within which time so large a part of all was done, as Prometheus does; None for none."""
    if not buckets or not buckets[-1][1]:
        return None
    wanted = part * buckets[-1][1]
    for (low, under), (bound, count) in pairwise(((0.0, 0.0), *buckets)):
        if count >= wanted:
            return low if bound == float("inf") else low + (bound - low) * (wanted - under) / (count - under)
    return None


def _stage_time(stage: str, buckets: Buckets) -> StageTime:
    p50, p95 = (quantile_s(buckets, part) for part in (0.5, 0.95))
    return StageTime(
        stage=stage,
        count=round(buckets[-1][1]) if buckets else 0,
        p50_ms=None if p50 is None else round(p50 * 1000, 1),
        p95_ms=None if p95 is None else round(p95 * 1000, 1),
    )


def _since(before: Buckets | None, now: Buckets) -> Buckets:
    if before is None:
        return now
    return tuple((bound, count - old) for (bound, count), (_, old) in zip(now, before, strict=True))


def _row(picture: Picture) -> tuple[int, int, int, int, int, int, float]:
    abouts = [presence.about for presence in picture.living.values()]

    def told(name: str) -> int:
        return sum(about.get(name, 0) for about in abouts)

    total = picture.scaling.groups.get(_EVERYTHING)
    return (
        picture.at_ms,
        told("sessions"),
        told("jobs"),
        picture.ready_nodes,
        told(_ANSWERED),
        told(_MISSING),
        total.refusals_per_min if total else 0.0,
    )


def _buckets(histogram: Measured) -> dict[str, Buckets]:
    """Read a histogram with at most one label, by the values of that."""
    found: dict[str, list[tuple[float, float]]] = {}
    for family in histogram.collect():
        for sample in family.samples:
            labels = dict(sample.labels)
            bound = labels.pop("le", None)
            if bound is not None:
                found.setdefault("".join(labels.values()), []).append((float(bound), sample.value))
    return {label: tuple(buckets) for label, buckets in found.items()}
