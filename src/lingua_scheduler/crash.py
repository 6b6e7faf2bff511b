"""Named places at which a process may be told to die, so that tests can reach the gap between two writes.

Nothing happens unless the environment names a point, as `after_create` or `after_create:3` (the third time it
is reached). The process then ends as by `kill -9`: no handler runs, nothing is flushed, nobody is told.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from enum import StrEnum

from lingua_scheduler.errors import ConfigError

VARIABLE = "LINGUA_CRASH_POINT"
"""The environment variable that arms a point."""


class CrashPoint(StrEnum):
    """Gaps between two writes, or between a write and its answer, in the order of an utterance's life."""

    AFTER_RESERVE = "after_reserve"  # a slot is taken, the job is not written
    AFTER_CREATE = "after_create"  # the job is written, no node was told
    AFTER_ASSIGN = "after_assign"  # a node was told, no deadline runs
    AFTER_RESULT_RECEIVED = "after_result_received"  # a node answered, the end is not written
    AFTER_FINISH = "after_finish"  # the end is written, the client was not told
    AFTER_TELL = "after_tell"  # the client was told, the slot is not free
    AFTER_LETTER_EFFECT = "after_letter_effect"  # a letter had its effect and is not settled
    AFTER_TAKE_OVER = "after_take_over"  # a session has a new owner, its client has no answer
    AFTER_ADOPT = "after_adopt"  # a dead instance is adopted, its inbox is not empty
    MID_DRAIN = "mid_drain"  # told to stop, some sessions handed over


class Trigger:
    """One armed point and how often it must still be reached."""

    def __init__(self, point: CrashPoint, times: int = 1) -> None:
        self.point = point
        self.left = times

    def reached(self, point: CrashPoint) -> bool:
        """Count a visit; True at the one that is the end."""
        if point is not self.point:
            return False
        self.left -= 1
        return self.left == 0


def armed(environ: Mapping[str, str]) -> Trigger | None:
    """Read which point is armed, if any; ConfigError when there is no such point."""
    wanted = environ.get(VARIABLE, "")
    if not wanted:
        return None
    name, _, times = wanted.partition(":")
    try:
        trigger = Trigger(CrashPoint(name), int(times or 1))
    except ValueError:
        trigger = None
    if trigger is None or trigger.left < 1:
        known = ", ".join(CrashPoint)
        raise ConfigError(f"{VARIABLE}: expected NAME or NAME:COUNT, with one of the names {known}")
    return trigger


_trigger = armed(os.environ)


def crash_point(point: CrashPoint) -> None:
    """Die here if this point is armed; otherwise this costs one comparison."""
    if _trigger is not None and _trigger.reached(point):
        os.kill(os.getpid(), signal.SIGKILL)
