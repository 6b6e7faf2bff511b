"""Time as a dependency: the system's clock in production, a clock that tests move by hand."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Protocol


class Handle(Protocol):
    """A scheduled callback that can be called off."""

    def cancel(self) -> None:
        """Call it off; harmless when it has run."""


class Clock(Protocol):
    """What the rest of the program may know about time."""

    def now(self) -> float:
        """Seconds of a monotonic clock; deadlines use nothing else."""
        ...

    def wall_ms(self) -> int:
        """Unix time in milliseconds, for stamps that people and peers read."""
        ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Handle:
        """Run `callback` once `now()` has reached `when`."""
        ...


class SystemClock:
    """The clock of the running event loop."""

    now = staticmethod(time.monotonic)
    """Seconds of the system's monotonic clock; the function itself, for it is asked with every frame."""

    def wall_ms(self) -> int:
        """Unix time in milliseconds."""
        return time.time_ns() // 1_000_000

    def call_at(self, when: float, callback: Callable[[], None]) -> Handle:
        """Run `callback` on the running loop."""
        return asyncio.get_running_loop().call_later(max(0.0, when - time.monotonic()), callback)


class _VirtualHandle:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualClock:
    """A clock that stands still until `advance` moves it, firing what falls due on the way, in order."""

    def __init__(self, *, start_s: float = 1000.0, wall_ms: int = 1_800_000_000_000) -> None:
        self._now = start_s
        self._wall_ms_at_zero = wall_ms - round(start_s * 1000)
        self._order = itertools.count()
        self._due: list[tuple[float, int, _VirtualHandle]] = []

    def now(self) -> float:
        """Seconds since the clock was made, plus its start."""
        return self._now

    def wall_ms(self) -> int:
        """Unix time in milliseconds, moving with `now`."""
        return self._wall_ms_at_zero + round(self._now * 1000)

    def call_at(self, when: float, callback: Callable[[], None]) -> Handle:
        """Run `callback` during the `advance` that reaches `when`."""
        handle = _VirtualHandle(callback)
        heapq.heappush(self._due, (when, next(self._order), handle))
        return handle

    def advance(self, seconds: float) -> None:
        """Move time forward; callbacks see the time they were due at."""
        target = self._now + seconds
        while self._due and self._due[0][0] <= target:
            when, _, handle = heapq.heappop(self._due)
            self._now = max(self._now, when)
            callback, handle.callback = handle.callback, None
            if callback is not None:
                callback()
        self._now = target
