"""Watchdogs: background loops that never end unnoticed, and how late the event loop is.

A loop that hangs is worse than one that crashes: nothing is logged, and the instance looks well while leases
run out. So every loop of an instance runs here, where it is known since when its present turn lasts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

import msgspec

from lingua_scheduler.aio import Alarms, Tasks
from lingua_scheduler.clock import Clock, Handle
from lingua_scheduler.errors import LinguaError
from lingua_scheduler.log import get_logger

_log = get_logger(__name__)

_SHORTEST_PAUSE_S = 0.2  # after a failure, however often the loop turns
_LONGEST_PAUSE_S = 1.0  # after a failure, however seldom it does: until it turns, the instance is not ready
_LAG_EVERY_S = 0.5
_CALM_S = 2.0  # without a late measurement, before new sessions are let in again


class WatchOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When an instance stops trusting itself."""

    stuck_after_s: Annotated[float, msgspec.Meta(gt=0)] = 4
    """A background loop whose turn lasts longer, or fails for longer, makes the instance not ready."""
    lag_warn_ms: Annotated[int, msgspec.Meta(ge=1)] = 250
    """An event loop that is so late is logged."""
    lag_limit_ms: Annotated[int, msgspec.Meta(ge=1)] = 1000
    """An event loop that is so late takes no new sessions until it has calmed down."""


@dataclass(slots=True, eq=False)
class _Loop:
    """One background loop and where it is."""

    name: str
    body: Callable[[], Awaitable[None]]
    every_s: float
    task: asyncio.Task[None] | None = None
    busy_since: float | None = None  # its present turn; None while it pauses
    failing_since: float | None = None  # the first of its failures in a row

    @property
    def pause_s(self) -> float:
        """How long it waits for its next turn; one that failed tries again soon."""
        if self.failing_since is None:
            return self.every_s
        return min(max(self.every_s, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S)

    def complaint(self, now: float, stuck_after_s: float) -> str | None:
        """Say what is wrong with it, if anything is."""
        if self.task is not None and self.task.done():
            return f"loop {self.name} has ended"
        if self.busy_since is not None and now - self.busy_since > stuck_after_s:
            return f"loop {self.name} has hung for {now - self.busy_since:.1f} s"
        if self.failing_since is not None and now - self.failing_since > stuck_after_s:
            return f"loop {self.name} has failed for {now - self.failing_since:.1f} s"
        return None


class Watch:
    """Runs the background loops of an instance, turn by turn, and names those that do not turn."""

    def __init__(self, clock: Clock, alarms: Alarms, options: WatchOptions) -> None:
        self._clock = clock
        self._alarms = alarms
        self._options = options
        self._tasks = Tasks()
        self._loops: list[_Loop] = []

    def loop(self, name: str, body: Callable[[], Awaitable[None]], *, every_s: float) -> None:
        """Await `body` again and again with a pause before each turn; a turn that fails is not the last."""
        loop = _Loop(name, body, every_s)
        self._loops.append(loop)
        loop.task = self._tasks.start(self._turn(loop), name=name)

    def stuck(self) -> list[str]:
        """Say which loops hang, fail or have ended, and whether deadlines are overdue."""
        now, limit_s = self._clock.now(), self._options.stuck_after_s
        said = [each for loop in self._loops if (each := loop.complaint(now, limit_s)) is not None]
        if self._alarms.overdue_s > limit_s:
            said.append(f"deadlines are overdue by {self._alarms.overdue_s:.1f} s")
        return said

    async def stop(self) -> None:
        """End every loop."""
        self._loops.clear()
        await self._tasks.stop()

    async def _turn(self, loop: _Loop) -> None:
        while True:
            await asyncio.sleep(loop.pause_s)
            loop.busy_since = self._clock.now()
            try:
                await loop.body()
            except Exception as error:  # noqa: BLE001 a loop goes on whatever its body does
                self._failed(loop, error)
            else:
                if loop.failing_since is not None:
                    loop.failing_since = None
                    _log.info("loop_recovered", loop=loop.name)
            finally:
                loop.busy_since = None

    def _failed(self, loop: _Loop, error: Exception) -> None:
        """Log the first failure in a row; what can be expected without a traceback."""
        if loop.failing_since is not None:
            return
        loop.failing_since = self._clock.now()
        if isinstance(error, LinguaError) and error.retryable:
            _log.warning("loop_failed", loop=loop.name, reason=str(error))
        else:
            _log.error("loop_failed", loop=loop.name, exc_info=error)


class LagMonitor:
    """Measures how late callbacks run, twice a second."""

    def __init__(self, clock: Clock, options: WatchOptions, observe: Callable[[float], None]) -> None:
        self._clock = clock
        self._warn_s = options.lag_warn_ms / 1000
        self._limit_s = options.lag_limit_ms / 1000
        self._observe = observe
        self._due = 0.0
        self._timer: Handle | None = None
        self._calm_at = float("-inf")

    @property
    def overloaded(self) -> bool:
        """The event loop was too late a moment ago: no new sessions."""
        return self._clock.now() < self._calm_at

    def start(self) -> None:
        """Measure from now on."""
        self._due = self._clock.now() + _LAG_EVERY_S
        self._timer = self._clock.call_at(self._due, self._measure)

    async def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _measure(self) -> None:
        now = self._clock.now()
        lag_s = max(0.0, now - self._due)
        self._observe(lag_s)
        if lag_s > self._warn_s:
            _log.warning("event_loop_late", lag_ms=round(lag_s * 1000))
        if lag_s > self._limit_s:
            self._calm_at = now + _CALM_S
        self.start()
