"""Measures growth curves, point by point: what goes wrong at one of them makes that one void."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from lingua_scheduler.bench.curves import CURVES, Curve
from lingua_scheduler.bench.growth import GrownCurve, Growth, Point
from lingua_scheduler.bench.machine import Machine
from lingua_scheduler.bench.measured import Asked
from lingua_scheduler.bench.probe import version_of
from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.errors import ConfigError, LinguaError
from lingua_scheduler.log import printable
from lingua_scheduler.store.connection import Connection, StoreOptions


def named(names: Sequence[str]) -> tuple[Curve, ...]:
    """Find curves by their names, all when none are named; ConfigError when there is no such curve."""
    known = {curve.name: curve for curve in CURVES}
    for name in names:
        if name not in known:
            raise ConfigError(f"bench growth: expected {', '.join(known)}, not {printable(name)}")
    return tuple(known[name] for name in dict.fromkeys(names)) or CURVES


async def grow(
    curves: Sequence[Curve], *, quick: bool, say: Callable[[str], None] = lambda _: None
) -> Growth:
    """Measure these curves one after the other."""
    machine = Machine.here(await _redis_version())
    grown = [await grown_curve(curve, Asked(quick, say)) for curve in curves]
    made_at = datetime.now(UTC).isoformat(timespec="seconds")
    return Growth(machine=machine, made_at=made_at, quick=quick, curves=tuple(grown))


async def grown_curve(curve: Curve, asked: Asked) -> GrownCurve:
    """Measure one curve, until it is full."""
    points: list[Point] = []
    for x in curve.quick if asked.quick else curve.points:
        asked.say(f"{curve.name}: {x:g} {curve.axis}")
        points.append(await _measured(curve, x, asked))
        if curve.full(points[-1]):
            break
    return GrownCurve(
        name=curve.name,
        about=curve.about,
        axis=curve.axis,
        columns=curve.columns,
        points=tuple(points),
        straight=curve.straight,
        remarks=tuple(curve.remarks(points)),
    ).fitted()


async def _measured(curve: Curve, x: float, asked: Asked) -> Point:
    try:
        return await curve.measure(x, asked)
    except LinguaError as error:
        return Point(x=x, void=(f"it could not be measured: {error}",))


async def _redis_version() -> str:
    server = EmbeddedRedis()
    await asyncio.to_thread(server.start)
    connection = Connection(StoreOptions(url=server.url))
    try:
        return await version_of(connection)
    finally:
        await connection.close()
        await asyncio.to_thread(server.stop)
