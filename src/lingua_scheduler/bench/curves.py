"""Which growth curves there are: what grows in each, what stays, and which figures are looked at.

Quick points are few and small: they show that a curve can be measured, not how it grows.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from lingua_scheduler.bench import measured
from lingua_scheduler.bench.figures import LATE_MS
from lingua_scheduler.bench.growth import Column, Point
from lingua_scheduler.bench.slopes import crossing

KNEE_MS = 50.0
"""What may be added at p99 before an instance counts as full."""

_FULL = 0.8  # of a processor; the rest is the time in which something comes
_STEP_BYTES = 65_536
_MOST_STEP = 1.3  # growth of the cost of a byte from one point to the next that is no step
_FLAT, _IN_PROPORTION = 0.1, 1.0


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve before it is measured."""

    name: str
    about: str
    axis: str
    points: tuple[float, ...]
    quick: tuple[float, ...]
    columns: tuple[Column, ...]
    measure: Callable[[float, measured.Asked], Awaitable[Point]]
    straight: bool = False  # fitted as it is, not on logarithms
    full: Callable[[Point], bool] = lambda _: False  # larger points would show nothing new
    remarks: Callable[[Sequence[Point]], list[str]] = lambda _: []


def _column(name: str, unit: str, goal: float | None = None, *, fitted: bool = True) -> Column:
    return Column(name=name, unit=unit, goal=goal, fitted=fitted)


def _standing(points: Sequence[Point]) -> list[str]:
    real = measured.REAL_NODES
    said = f"beyond {real} nodes the others stand in Redis only: full, with heartbeats, without sockets"
    return [said] if any(point.x > real for point in points) else []


def _past_knee(point: Point) -> bool:
    return bool(point.void) or point.values.get(measured.ADDED_P99, 0.0) > KNEE_MS


def _knee(points: Sequence[Point]) -> list[str]:
    """Tell at how many frames the instance is full, or that what makes load was."""
    good = [
        point
        for point in points
        if not point.void and {measured.FRAMES, measured.ADDED_P99} <= point.values.keys()
    ]
    if not good:
        return []
    knee = crossing(
        [(point.values[measured.FRAMES], point.values[measured.ADDED_P99]) for point in good], KNEE_MS
    )
    last = good[-1].values
    if knee is None:
        most = last[measured.FRAMES]
        return [f"no knee up to {most:.0f} frames each second: added p99 stays below {KNEE_MS:g} ms"]
    late = max(last.get("clients late p99", 0.0), last.get("nodes late p99", 0.0)) > LATE_MS
    busy = last.get("instance cpu, of one core", 0.0)
    if late:
        who = "the generator was late itself there and is the limit"
    else:
        who = (
            "the instance was full there"
            if busy >= _FULL
            else "neither instance nor generator was full there"
        )
    said = f"knee (added p99 = {KNEE_MS:g} ms) at {knee:.0f} frames each second"
    return [f"{said}: {who} (the instance used {busy:.0%} of its core)"]


def _steps(points: Sequence[Point]) -> list[str]:
    """Tell the largest rise of the cost of a byte between two points above 64 KiB."""
    costs = [
        (point.x, point.values[measured.NS_PER_BYTE])
        for point in points
        if not point.void
        and point.x * measured.BYTES_PER_S >= _STEP_BYTES
        and measured.NS_PER_BYTE in point.values
    ]
    rises = [(later / before, x) for (_, before), (x, later) in itertools.pairwise(costs) if before]
    if not rises:
        return []
    rise, at = max(rises)
    word = "no step" if rise <= _MOST_STEP else "a STEP"
    return [f"above 64 KiB: {word}; the cost of a byte rises most at {at:g} s, to {rise:.2f} x"]


CURVES = (
    Curve(
        name="nodes",
        about="more nodes, the same 300 sessions",
        axis="nodes",
        points=(10, 100, 1_000, 3_000, 10_000),
        quick=(5, 20),
        columns=(
            _column(measured.PLACEMENT, "us", _FLAT),
            _column(measured.HEARTBEAT, "us", _FLAT),
            _column(measured.ASSIGN_P50, "ms", _FLAT),
            _column(measured.ASSIGN_P99, "ms", _FLAT),
            _column("background redis cpu", "ms/s", _IN_PROPORTION),
            _column("background cpu", "ms/s", _IN_PROPORTION),
        ),
        measure=measured.nodes,
        remarks=_standing,
    ),
    Curve(
        name="idle",
        about="sessions that are connected and say nothing",
        axis="sessions",
        points=(100, 1_000, 5_000, 20_000),
        quick=(20, 60),
        columns=(
            _column("memory for a session", "KiB", _FLAT),
            _column("cpu for a silent session", "us/s", _FLAT),
        ),
        measure=measured.idle,
    ),
    Curve(
        name="speaking",
        about="sessions that speak nearly all the time, up to the knee",
        axis="sessions",
        points=(200, 600, 1_000, 1_500, 2_200, 3_000),
        quick=(6, 12),
        columns=(
            _column(measured.FRAMES, "/s", fitted=False),
            _column(measured.CPU, "us", _FLAT),
            _column(measured.ADDED_P50, "ms", fitted=False),
            _column(measured.ADDED_P99, "ms", fitted=False),
            _column("instance cpu, of one core", "cores"),
            _column("clients cpu, of one core", "cores"),
        ),
        measure=measured.speaking,
        full=_past_knee,
        remarks=_knee,
    ),
    Curve(
        name="instances",
        about="the same 96 speaking sessions on more instances",
        axis="instances",
        points=(1, 2, 4, 8),
        quick=(1, 2),
        columns=(
            _column(f"{measured.CPU}, own node", "us", _FLAT),
            _column(f"{measured.CPU}, other's node", "us", _FLAT),
            _column(f"{measured.ADDED_P50}, own node", "ms"),
            _column(f"{measured.ADDED_P50}, other's node", "ms"),
            _column("jobs at another instance's node, own node", "", fitted=False),
            _column("jobs at another instance's node, other's node", "", fitted=False),
            _column("background cpu of an instance", "ms/s", _FLAT),
        ),
        measure=measured.instances,
    ),
    Curve(
        name="languages",
        about="more languages, every pair of them wanted",
        axis="languages",
        points=(2, 5, 10, 25),
        quick=(2, 3),
        columns=(
            _column(measured.PLACEMENT, "us", _FLAT),
            _column(measured.HEARTBEAT, "us"),
            _column(measured.SCRIPTS, "us", _FLAT),
            _column(measured.CPU, "us", _FLAT),
            _column(measured.ASSIGN_P50, "ms", _FLAT),
        ),
        measure=measured.languages,
    ),
    Curve(
        name="room",
        about="one speaker, more listeners in six languages on two instances",
        axis="listeners",
        points=(2, 6, 20, 60, 200),
        quick=(2, 6),
        columns=(
            _column("deliveries", "for an utterance", _IN_PROPORTION),
            _column("encodings", "for an utterance", fitted=False),
            _column("cpu for a listener", "us", 0.0),
            _column("node -> listener p50", "ms", _IN_PROPORTION),
            _column("node -> listener p99", "ms"),
        ),
        measure=measured.room,
    ),
    Curve(
        name="length",
        about="longer utterances, one after the other as fast as they are answered",
        axis="seconds",
        points=(0.5, 1.5, 2.5, 8, 20, 60),
        quick=(0.5, 2.5),
        columns=(
            _column(measured.CPU, "us", _IN_PROPORTION),
            _column(measured.NS_PER_BYTE, "ns", _FLAT),
            _column("redis cpu for an utterance", "us", _IN_PROPORTION),
            _column(measured.ADDED_P50, "ms", _IN_PROPORTION),
        ),
        measure=measured.length,
        remarks=_steps,
    ),
    Curve(
        name="redis",
        about="Redis farther away",
        axis="ms of round trip",
        points=(0, 1, 5, 20),
        quick=(0, 5),
        columns=(
            _column("redis round trip", "ms", fitted=False),
            _column("utterances answered", "/s", fitted=False),
            _column(measured.ASSIGN_P50, "ms", 2.0),
            _column(measured.ADDED_P50, "ms"),
            _column(measured.ADDED_P99, "ms"),
        ),
        measure=measured.redis,
        straight=True,
    ),
)
"""All of them, in the order in which they are measured."""
