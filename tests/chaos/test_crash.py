"""Crash points do nothing unless one is armed; then the process is gone without a word."""

import subprocess
import sys

import pytest

from lingua_scheduler.crash import CrashPoint, Trigger, armed, crash_point
from lingua_scheduler.errors import ConfigError

CHILD = """
from lingua_scheduler.crash import CrashPoint, crash_point
for number in range(5):
    crash_point(CrashPoint.AFTER_TELL)
    crash_point(CrashPoint.AFTER_CREATE)
    print(number, flush=True)
"""


def test_nothing_happens_when_no_point_is_armed():
    for point in CrashPoint:
        crash_point(point)
    assert armed({}) is None
    assert armed({"LINGUA_CRASH_POINT": ""}) is None


def test_only_the_armed_point_counts_and_only_its_last_time():
    trigger = Trigger(CrashPoint.MID_DRAIN, 2)
    assert not trigger.reached(CrashPoint.AFTER_TELL)
    assert [trigger.reached(CrashPoint.MID_DRAIN) for _ in range(3)] == [False, True, False]


@pytest.mark.parametrize("wanted", ["nowhere", "after_tell:0", "after_tell:x", "after_tell:-1"])
def test_a_point_that_does_not_exist_is_refused(wanted):
    with pytest.raises(ConfigError, match="LINGUA_CRASH_POINT"):
        armed({"LINGUA_CRASH_POINT": wanted})


def test_an_armed_process_dies_at_the_point_without_a_word():
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        env={"LINGUA_CRASH_POINT": "after_create:3", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-9, "0\n1\n", "")
