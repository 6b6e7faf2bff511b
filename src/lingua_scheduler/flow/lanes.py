"""Work that must be done in order for one name and has nothing to do with that of others."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable

from lingua_scheduler.aio import Tasks
from lingua_scheduler.log import get_logger

_log = get_logger(__name__)

Work = Callable[[], Awaitable[None]]


class Lanes:
    """One lane for each name; a lane has a task while it has work and none while it is idle."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks = Tasks()
        self._lanes: dict[Hashable, deque[Work]] = {}

    def __len__(self) -> int:
        """Count the lanes that have work."""
        return len(self._lanes)

    def busy(self, name: Hashable) -> bool:
        """Tell whether a lane has work."""
        return name in self._lanes

    def depth(self, name: Hashable) -> int:
        """Count what waits in a lane behind what is being done."""
        return len(self._lanes.get(name, ()))

    def put(self, name: Hashable, work: Work) -> None:
        """Do this after all that was put into the lane before."""
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = deque()
            self._tasks.start(self._run(name, lane), name=f"{self._name} {name}")
        lane.append(work)

    async def settle(self, within_s: float) -> None:
        """Give what is under way this long, then stop."""
        await self._tasks.settle(within_s)

    async def stop(self) -> None:
        """Cancel every lane."""
        await self._tasks.stop()

    async def _run(self, name: Hashable, lane: deque[Work]) -> None:
        try:
            while lane:
                work = lane.popleft()
                try:
                    await work()
                except Exception:  # noqa: BLE001 one failure must not hold up what follows
                    _log.exception("lane_failed", lane=self._name)
        finally:
            del self._lanes[name]
