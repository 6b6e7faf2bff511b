"""Jobs that found no node: woken when capacity appears, the earliest deadline first, never polled."""

from __future__ import annotations

import asyncio
import heapq
import itertools

from lingua_scheduler.core.model import Pair
from lingua_scheduler.core.placement import NodeFacts
from lingua_scheduler.flow.job import Job

_Entry = tuple[float, int, Job, "asyncio.Future[None]"]


class WaitingRoom:
    """One heap of waiting jobs per set of pairs."""

    def __init__(self) -> None:
        self._order = itertools.count()
        self._heaps: dict[tuple[Pair, ...], list[_Entry]] = {}

    def __len__(self) -> int:
        return sum(1 for heap in self._heaps.values() for entry in heap if not entry[3].done())

    async def wait(self, job: Job) -> None:
        """Return when capacity for this job may have appeared, or when `leave` was called for it."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heap = self._heaps.setdefault(job.pairs, [])
        heapq.heappush(heap, (job.pending_until, next(self._order), job, woken))
        try:
            await woken
        finally:
            woken.cancel()

    def leave(self, job: Job) -> None:
        """Wake one job: it ended or must look again."""
        for entry in self._heaps.get(job.pairs, []):
            if entry[2] is job and not entry[3].done():
                entry[3].set_result(None)

    def capacity(self, facts: NodeFacts, slots: int) -> None:
        """Wake up to `slots` of the most urgent jobs that this node could take."""
        if facts.closed is not None:
            return
        for _ in range(slots):
            fitting = [
                pairs for pairs in self._heaps if facts.serves(pairs) and self._peek(pairs) is not None
            ]
            if not fitting:
                return
            most_urgent = min(fitting, key=lambda pairs: self._heaps[pairs][0][:2])
            heapq.heappop(self._heaps[most_urgent])[3].set_result(None)

    def everyone(self) -> None:
        """Wake all, most urgent first: something changed that may concern any of them."""
        heaps, self._heaps = self._heaps, {}
        for entry in sorted(itertools.chain.from_iterable(heaps.values()), key=lambda entry: entry[:2]):
            if not entry[3].done():
                entry[3].set_result(None)

    def _peek(self, pairs: tuple[Pair, ...]) -> _Entry | None:
        heap = self._heaps[pairs]
        while heap and heap[0][3].done():
            heapq.heappop(heap)
        return heap[0] if heap else None
