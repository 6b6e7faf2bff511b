"""`lingua chaos`: breaks a whole system of processes by a seeded plan and tells what did not hold."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lingua_scheduler.chaos.driver import Verdict, run
from lingua_scheduler.chaos.faults import TRAITS, Fault
from lingua_scheduler.chaos.plan import Plan, Shape, crashing, planned, possible, rolling
from lingua_scheduler.chaos.processes import ChaosError
from lingua_scheduler.crash import CrashPoint
from lingua_scheduler.errors import ConfigError

_ROLLING_NODES = 5  # processes of two nodes each


@dataclass(frozen=True, slots=True)
class ChaosRequest:
    """What to break, and how often."""

    seeds: tuple[int, ...]
    duration_s: float = 20.0
    instances: int = 3
    cluster: bool = False
    rolling: bool = False
    crash: tuple[str, ...] = ()  # crash points, or `all`
    faults: tuple[str, ...] = ()  # names, or numbers such as F26
    keep: Path | None = None  # where the histories stay
    show_plan: bool = False

    def plans(self) -> list[Plan]:
        """Plan every run; ConfigError when a fault is unknown or impossible."""
        if self.crash:
            shape = Shape(self.instances, 2, 0, cluster=self.cluster)
            return [crashing(seed, shape, point) for point in _points(self.crash) for seed in self.seeds]
        if self.rolling:
            shape = Shape(self.instances, _ROLLING_NODES, 0, cluster=self.cluster)
            return [rolling(seed, shape) for seed in self.seeds]
        shape = Shape(
            self.instances, cluster=self.cluster, duration_s=self.duration_s, faults=_named(self.faults)
        )
        if not possible(shape):
            raise ConfigError("chaos: none of these faults is possible in a run of this shape")
        return [planned(seed, shape) for seed in self.seeds]

    def replay(self, plan: Plan) -> str:
        """Word the command that does exactly the same run again."""
        parts = [f"./lingua chaos --seed {plan.seed}"]
        if self.rolling:
            parts.append("--rolling")
        elif plan.armed:
            parts.append(f"--crash {plan.armed.partition(':')[0]}")
        else:
            parts.append(f"--duration {self.duration_s:g}")
        parts.append(f"--instances {self.instances}")
        parts += ["--cluster"] if self.cluster else []
        parts += [f"--faults {','.join(self.faults)}"] if self.faults else []
        return " ".join(parts)


def chaos(request: ChaosRequest) -> int:
    """Run every plan; return how it went as an exit code."""
    plans = request.plans()
    if request.show_plan:
        for plan in plans:
            print("\n".join(plan.lines()))
        return 0
    failed = [plan for plan in plans if not _holds(plan, request)]
    if failed:
        print(f"{len(failed)} of {len(plans)} runs failed; again:")
        print("\n".join(request.replay(plan) for plan in failed))
        return 1
    print(f"all invariants held in {len(plans)} runs")
    return 0


def _holds(plan: Plan, request: ChaosRequest) -> bool:
    print("\n".join(plan.lines()), flush=True)
    name = f"{plan.armed.partition(':')[0]}-{plan.seed}" if plan.armed else f"seed-{plan.seed}"
    with _directory(request.keep, name) as directory:
        verdict = asyncio.run(_run(plan, directory))
        print("\n".join(f"  {line}" for line in verdict.lines()))
        where = f"; histories in {directory}" if request.keep else ""
        print(f"  {'held' if verdict.holds else 'FAILED'}{where}\n", flush=True)
    return verdict.holds


async def _run(plan: Plan, directory: Path) -> Verdict:
    """Run a plan; when told to stop, end its processes first."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await run(plan, directory)
    except asyncio.CancelledError:
        raise ChaosError("told to stop") from None


@contextmanager
def _directory(keep: Path | None, name: str) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="lingua-chaos-") as made:
            yield Path(made)
        return
    directory = (keep / name).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    for stale in directory.iterdir():
        stale.unlink()
    yield directory


def _named(words: Sequence[str]) -> tuple[Fault, ...]:
    found: list[Fault] = []
    for word in words:
        meant = [fault for fault, trait in TRAITS.items() if word == fault.value or word in trait.numbers]
        if not meant:
            raise ConfigError(f"chaos: --faults: no fault is called {word!r}")
        found += [fault for fault in meant if fault not in found]
    return tuple(found)


def _points(words: Sequence[str]) -> list[CrashPoint]:
    if "all" in words:
        return list(CrashPoint)
    try:
        return [CrashPoint(word) for word in words]
    except ValueError:
        raise ConfigError(f"chaos: --crash: expected all or some of {', '.join(CrashPoint)}") from None
