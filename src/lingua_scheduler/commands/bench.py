"""`lingua bench`: measures what parts cost and how that grows, runs load by a profile, compares two runs."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lingua_scheduler.errors import ConfigError

if TYPE_CHECKING:
    from lingua_scheduler.bench.hop import Report as HopReport
    from lingua_scheduler.bench.placement import Report as PlacementReport
    from lingua_scheduler.bench.report import Report
    from lingua_scheduler.bench.room import Report as RoomReport

_FAILED = 1
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Which profile, and where its report goes."""

    profile: str
    changes: tuple[str, ...] = ()
    runs: int = 1
    out: Path | None = None
    html: Path | None = None


def bench(given: argparse.Namespace) -> int:
    """Do what was asked for; return how it went as an exit code."""
    if given.what == "compare":
        return _compare(given.reports, given.margin)
    if given.what == "growth":
        return growth(tuple(map(str, given.reports)), given.out, quick=given.quick)
    if given.reports:
        raise ConfigError(f"bench {given.what}: takes no files")
    if given.what == "run":
        if given.profile is None:
            return _list()
        return load(RunRequest(given.profile, tuple(given.set), given.runs, given.out, given.html))
    if given.what == "peers":
        return peers(RunRequest("ingest", tuple(given.set), given.runs, given.out, given.html))
    report = asyncio.run(_measured(given))
    print("\n".join(report.lines()))
    missed = report.missed()
    print("\n".join(f"missed: {goal}" for goal in missed) or "all goals met")
    return _FAILED if missed else 0


def load(request: RunRequest) -> int:
    """Run a profile, print its report, and write it where asked; a void run is a failure."""
    if request.runs < 1:
        raise ConfigError("--runs: must be at least 1")
    return _shown(_interruptible(_load(request)), request)


def peers(request: RunRequest) -> int:
    """Measure an instance beside its peers, with audio by a profile; report as for a run."""
    from lingua_scheduler.bench.peers import PeersRequest, measure  # noqa: PLC0415
    from lingua_scheduler.bench.profile import load as load_profile  # noqa: PLC0415

    if request.runs < 1:
        raise ConfigError("--runs: must be at least 1")
    audio = load_profile(request.profile, request.changes)
    asked = PeersRequest(frames=audio, passes=2 * request.runs)
    return _shown(_interruptible(measure(asked, say=_note)), request)


def growth(names: tuple[str, ...], out: Path | None, *, quick: bool) -> int:
    """Measure growth curves, print them, and write files of each where asked; a void point is a failure."""
    from lingua_scheduler.bench.drawing import drawn  # noqa: PLC0415
    from lingua_scheduler.bench.growing import grow, named  # noqa: PLC0415
    from lingua_scheduler.bench.growth import write  # noqa: PLC0415

    curves = named(names)
    grown = _interruptible(grow(curves, quick=quick, say=_note))
    print("\n".join(grown.lines()))
    if out is not None:
        write(grown, out, [drawn(curve) for curve in grown.curves])
    return _FAILED if any(curve.void for curve in grown.curves) else 0


def _shown(report: Report, request: RunRequest) -> int:
    from lingua_scheduler.bench.page import page  # noqa: PLC0415

    print("\n".join(report.lines()))
    if request.out is not None:
        report.write(request.out)
    if request.html is not None:
        request.html.write_text(page(report), encoding="utf-8")
    return _FAILED if report.void else 0


async def _load(request: RunRequest) -> Report:
    from lingua_scheduler.bench.driver import run  # noqa: PLC0415
    from lingua_scheduler.bench.figures import reported  # noqa: PLC0415
    from lingua_scheduler.bench.profile import load as load_profile  # noqa: PLC0415
    from lingua_scheduler.bench.report import together  # noqa: PLC0415

    profile = load_profile(request.profile, request.changes)
    name = Path(request.profile).stem
    reports = []
    for number in range(1, request.runs + 1):
        _note(f"{name}: run {number} of {request.runs}")
        reports.append(reported(name, await run(profile, say=_note)))
    return together(reports)


def _note(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _interruptible(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run something to its end; when told to stop, let it end its processes first."""

    async def watched() -> _Result:
        task = asyncio.current_task()
        if task is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    try:
        return asyncio.run(watched())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _list() -> int:
    from lingua_scheduler.bench import profile  # noqa: PLC0415

    for name in profile.shipped():
        print(f"{name:<14}{profile.load(name).about}")
    return 0


def _compare(paths: list[Path], margin: float) -> int:
    from lingua_scheduler.bench.compare import lines  # noqa: PLC0415
    from lingua_scheduler.bench.report import Report  # noqa: PLC0415

    if len(paths) != 2:  # noqa: PLR2004
        raise ConfigError("bench compare: name two reports")
    before, after = map(Report.read, paths)
    print("\n".join(lines(before, after, margin)))
    return 0


async def _measured(given: argparse.Namespace) -> PlacementReport | HopReport | RoomReport:
    from lingua_scheduler.bench import hop, placement, room  # noqa: PLC0415

    if given.what == "room":
        return await room.measure(rounds=min(given.rounds, room.MOST_ROUNDS), listeners=given.listeners)
    if given.what == "hop":
        return await hop.measure(rounds=given.rounds)
    return await placement.measure(rounds=given.rounds, most_nodes=given.nodes)
