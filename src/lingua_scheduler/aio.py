"""Tasks that are never lost, one heap of alarms for a whole instance, and work that lets others run."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import suppress
from time import perf_counter
from typing import Any, TypeVar

from lingua_scheduler.clock import Clock, Handle
from lingua_scheduler.log import get_logger

_log = get_logger(__name__)

_SLICE_S = 0.001  # what work on many things takes of the event loop at a time

_Item = TypeVar("_Item")


async def unhurried(items: Iterable[_Item]) -> AsyncIterator[_Item]:
    """Give the items, which must not change meanwhile, and let others run about once a millisecond."""
    until = perf_counter() + _SLICE_S
    for item in items:
        yield item
        if perf_counter() >= until:
            await asyncio.sleep(0)
            until = perf_counter() + _SLICE_S


class Tasks:
    """Owns background tasks: keeps them referenced, reports their crashes, cancels them together."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None  # known from the first task on: asking costs

    def start(self, coroutine: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """Run a coroutine in the background until it ends or `stop` is called."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        task = self._loop.create_task(coroutine, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task_crashed", task=task.get_name(), exc_info=error)

    async def settle(self, within_s: float) -> None:
        """Give every task this long to end by itself, then cancel what is left."""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    while self._running:
                        await asyncio.wait(self._running)
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Cancel every task and wait until all have ended."""
        while self._running:
            for task in self._running:
                task.cancel()
            await asyncio.wait(self._running)

    def __len__(self) -> int:
        return len(self._running)


class Alarm:
    """One entry of the heap; `cancel` makes it do nothing."""

    __slots__ = ("_on_cancel", "callback", "when")

    def __init__(self, when: float, callback: Callable[[], None], on_cancel: Callable[[], None]) -> None:
        self.when = when
        self.callback: Callable[[], None] | None = callback
        self._on_cancel = on_cancel

    def cancel(self) -> None:
        """Call it off; harmless when it has run."""
        if self.callback is not None:
            self.callback = None
            self._on_cancel()


_FEW_ALARMS = 64  # a heap of this size is not worth tidying up


class Alarms:
    """Every deadline of an instance in one heap, behind one timer of the loop.

    Cancelled entries leave when they come to the top, or all together once they outnumber the others.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._order = itertools.count()
        self._heap: list[tuple[float, int, Alarm]] = []
        self._cancelled = 0  # entries of the heap that will not ring
        self._timer: Handle | None = None
        self._timer_at = float("inf")

    def set(self, when: float, callback: Callable[[], None]) -> Alarm:
        """Run `callback` once the clock has reached `when`."""
        alarm = Alarm(when, callback, self._one_cancelled)
        heapq.heappush(self._heap, (when, next(self._order), alarm))
        if when < self._timer_at:
            self._arm()
        return alarm

    def __len__(self) -> int:
        """Count the alarms that would still ring."""
        return len(self._heap) - self._cancelled

    @property
    def size(self) -> int:
        """Count the entries of the heap, cancelled ones too."""
        return len(self._heap)

    @property
    def overdue_s(self) -> float:
        """How long ago the earliest entry should have left the heap; 0 when none is late."""
        return max(0.0, self._clock.now() - self._heap[0][0]) if self._heap else 0.0

    def _one_cancelled(self) -> None:
        self._cancelled += 1
        if len(self._heap) > _FEW_ALARMS and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_at = None, float("inf")
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
            self._cancelled -= 1
        if self._heap:
            self._timer_at = self._heap[0][0]
            self._timer = self._clock.call_at(self._timer_at, self._ring)

    def _ring(self) -> None:
        self._timer, self._timer_at = None, float("inf")
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            _, _, alarm = heapq.heappop(self._heap)
            callback, alarm.callback = alarm.callback, None
            if callback is None:
                self._cancelled -= 1
                continue
            try:
                callback()
            except Exception:  # noqa: BLE001 one bad callback must not silence the others
                _log.exception("alarm_failed")
        self._arm()


class Deadline:
    """One movable moment. Moving it later costs nothing until it rings, so a frame may move it each time."""

    __slots__ = ("_alarm", "_alarms", "_callback", "when")

    def __init__(self, alarms: Alarms, callback: Callable[[], None]) -> None:
        self._alarms = alarms
        self._callback = callback
        self._alarm: Alarm | None = None
        self.when: float | None = None

    def move(self, when: float | None) -> None:
        """Set, move or (with None) clear the moment at which the callback runs."""
        self.when = when
        if when is None:
            return
        if self._alarm is None or when < self._alarm.when:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = self._alarms.set(when, self._ring)

    def clear(self) -> None:
        """Forget the moment and the heap entry."""
        self.when = None
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self) -> None:
        alarm, self._alarm = self._alarm, None
        if self.when is None or alarm is None:
            return
        if self.when > alarm.when:
            self._alarm = self._alarms.set(self.when, self._ring)
            return
        self.when = None
        self._callback()
