"""Whole runs with real processes: a short one here, the long ones by `lingua chaos`."""

import os
from pathlib import Path

import pytest

from lingua_scheduler.chaos.driver import Pace, Verdict, run
from lingua_scheduler.chaos.faults import Fault
from lingua_scheduler.chaos.fleet import Load
from lingua_scheduler.chaos.history import Op
from lingua_scheduler.chaos.plan import FAULTLESS_S, Plan, Shape, Step, crashing, rolling
from lingua_scheduler.crash import CrashPoint

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")

slow = pytest.mark.skipif(
    "LINGUA_CHAOS" not in os.environ, reason="takes minutes: set LINGUA_CHAOS=1, or use ./lingua chaos"
)
SMALL = Shape(instances=2, nodes=1, odd_nodes=0)
FEW = Load(speakers=4, period_s=0.4)
QUICK = Pace(settles_s=1.5, recovery_s=1.5)


def held(verdict: Verdict) -> bool:
    assert not verdict.violations, "\n".join(verdict.lines())
    return True


async def test_an_instance_is_killed_and_its_sessions_go_on_with_the_other(tmp_path):
    plan = Plan(1, SMALL, (Step(FAULTLESS_S, 1.0, Fault.INSTANCE_KILL, 0),))
    verdict = await run(plan, tmp_path, FEW, QUICK)
    assert held(verdict)
    assert verdict.evidence.of_kind(Op.RESUMED)
    assert len(verdict.evidence.of_kind(Op.OPENED)) == FEW.speakers


@slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("point", CrashPoint)
async def test_whatever_gap_an_instance_dies_in_nothing_is_lost_or_told_twice(tmp_path, point):
    plan = crashing(1, Shape(instances=2, nodes=2, odd_nodes=0), point)
    assert held(await run(plan, tmp_path, pace=QUICK))


@slow
@pytest.mark.timeout(180)
async def test_everything_is_restarted_in_turn_and_nothing_is_missing(tmp_path):
    verdict = await run(rolling(1, Shape(nodes=5, odd_nodes=0)), tmp_path)
    assert held(verdict)
    assert not verdict.evidence.of_kind(Op.MISSING)
