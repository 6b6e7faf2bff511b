"""One chaos run from start to verdict: load, faults, healing, quiet, the last look, the checks."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lingua_scheduler.chaos.aftermath import Aftermath, logs_of, looked_at, scraped
from lingua_scheduler.chaos.checker import Violation, checked
from lingua_scheduler.chaos.evidence import LAST_LOOK, QUIET, RECOVERY, Evidence
from lingua_scheduler.chaos.fleet import Fleet, Load
from lingua_scheduler.chaos.history import Op, Recorder, read
from lingua_scheduler.chaos.injection import Injector
from lingua_scheduler.chaos.plan import FAULTLESS_S, Plan
from lingua_scheduler.chaos.processes import ChaosError
from lingua_scheduler.chaos.setting import T_END_S

_SHOWN = 6  # places of one invariant that are told
_LAST_WORDS_S = T_END_S + 20.0
_MEASURE_AHEAD_S = 0.3
_CONNECTIONS = ("scheduler_nodes_connected", "scheduler_sessions_open")


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a run takes apart from its faults."""

    settles_s: float = 4.0  # from the last healing until everything must be as before
    recovery_s: float = 4.0  # the time in which it must be


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a run."""

    plan: Plan
    evidence: Evidence
    violations: tuple[Violation, ...]
    took_s: float

    @property
    def holds(self) -> bool:
        """Every invariant holds."""
        return not self.violations

    def lines(self) -> list[str]:
        """Word the run for people."""
        events = self.evidence.events
        counted = Counter(event.op for event in events)
        reasons = Counter(event.reason for event in self.evidence.of_kind(Op.MISSING))
        missing = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common()) or "none"
        moved = sum(event.attempt > 1 for event in self.evidence.of_kind(Op.RESULT))
        lines = [
            (
                f"{counted[Op.SPOKE]} utterances: {counted[Op.RESULT]} results ({moved} after a failover), "
                f"missing: {missing}"
            ),
            (
                f"{counted[Op.OPENED]} sessions, {counted[Op.LOST]} losses of a connection, "
                f"{counted[Op.RESUMED]} resumptions; {self.took_s:.0f} s"
            ),
        ]
        for invariant in dict.fromkeys(violation.invariant for violation in self.violations):
            places = [each.line() for each in self.violations if each.invariant == invariant]
            more = [f"{invariant}: and {len(places) - _SHOWN} more"] if len(places) > _SHOWN else []
            lines += places[:_SHOWN] + more
        return lines


async def run(plan: Plan, directory: Path, load: Load | None = None, pace: Pace | None = None) -> Verdict:
    """Run a plan in processes of its own; what was recorded stays in the directory."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    recorder = Recorder(directory / "driver.jsonl", "driver")
    (directory / "plan.txt").write_text("\n".join(plan.lines()) + "\n")
    fleet = Fleet(directory, plan, recorder=recorder, load=load)
    try:
        await fleet.start()
        await _Course(fleet, plan, pace or Pace()).run()
        aftermath = await looked_at(fleet)
        await _measure(fleet)
        recorder.note(Op.PHASE, reason=LAST_LOOK)
        aftermath = msgspec.structs.replace(aftermath, exit_codes=await fleet.stop())
    finally:
        await fleet.abandon()
        recorder.close()
    evidence = _evidence(directory, aftermath, lossless=plan.lossless)
    return Verdict(plan, evidence, tuple(checked(evidence)), loop.time() - began)


def _evidence(directory: Path, aftermath: Aftermath, *, lossless: bool) -> Evidence:
    spoke, crashed = logs_of(directory, frozenset())
    aftermath = msgspec.structs.replace(aftermath, spoke_in_logs=spoke, crashed_in_logs=crashed)
    (directory / "aftermath.json").write_bytes(msgspec.json.encode(aftermath))
    return Evidence(read(directory), aftermath, lossless)


class _Course:
    """The time between the first word and the last."""

    def __init__(self, fleet: Fleet, plan: Plan, pace: Pace) -> None:
        self._pace = pace
        self._fleet = fleet
        self._plan = plan
        self._injector = Injector(fleet)

    async def run(self) -> None:
        note = self._fleet.recorder.note
        note(Op.PHASE, reason="load")
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(FAULTLESS_S - _MEASURE_AHEAD_S)
        await _measure(self._fleet)
        await self._break_things(began)
        note(Op.PHASE, reason="healed")
        await asyncio.sleep(self._pace.settles_s)
        note(Op.PHASE, reason=RECOVERY)
        await asyncio.sleep(self._pace.recovery_s)
        note(Op.PHASE, reason=QUIET)
        self._fleet.clients.tell(QUIET)
        try:
            await asyncio.wait_for(self._fleet.clients.ended(), _LAST_WORDS_S)
        except TimeoutError:
            raise ChaosError("the speakers do not end; see their history") from None

    async def _break_things(self, began: float) -> None:
        """Do every step at its time; in a rolling plan each when the one before is healed."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as steps:
            for step in self._plan.steps:
                await asyncio.sleep(max(0.0, began + step.at_s - loop.time()))
                if self._plan.lossless:
                    await self._injector.inject(step)
                else:
                    steps.create_task(self._injector.inject(step))


async def _measure(fleet: Fleet) -> None:
    """Note the memory of every instance, and its open files beside the connections it has to hold."""
    for place in fleet.places:
        counted = await scraped(place.port)
        measured = place.child.measured()
        if measured is not None:
            rss_kb, fds = measured
            held = sum(round(counted.get(name, 0)) for name in _CONNECTIONS)
            fleet.recorder.note(Op.MEASURED, instance=place.id, rss_kb=rss_kb, fds=fds - held, count=held)
