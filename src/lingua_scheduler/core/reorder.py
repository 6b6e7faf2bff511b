"""Whole utterances of a client, released in index order; a missing index is waited for, but not for ever."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

T = TypeVar("T")


class Reorder(Generic[T]):
    """Holds what came too early. The next expected index lives as long as the session."""

    def __init__(self, *, timeout_s: float, most: int) -> None:
        self._timeout_s = timeout_s
        self._most = most
        self._next = 0
        self._held: list[tuple[int, T]] = []
        self._seen: set[int] = set()
        self.deadline: float | None = None

    def __len__(self) -> int:
        return len(self._held)

    def expect(self, index: int) -> None:
        """Indexes below `index` were used by another path and are not waited for."""
        self._next = max(self._next, index)

    def add(self, index: int, item: T, now: float) -> list[tuple[int, T]] | None:
        """Take one utterance and return what may go on now, in order; None for a repeated index."""
        if index in self._seen:
            return None
        if index < self._next:
            return [(index, item)]
        self._seen.add(index)
        heapq.heappush(self._held, (index, item))
        released = self._ready()
        if len(self._held) > self._most:
            released += self._skip()
        self._arm(now)
        return released

    def tick(self, now: float) -> list[tuple[int, T]]:
        """Skip the missing index once its time is over."""
        if self.deadline is None or now < self.deadline:
            return []
        released = self._skip()
        self.deadline = None
        self._arm(now)
        return released

    def _skip(self) -> list[tuple[int, T]]:
        self._next = self._held[0][0]
        return self._ready()

    def _ready(self) -> list[tuple[int, T]]:
        released = []
        while self._held and self._held[0][0] <= self._next:
            index, item = heapq.heappop(self._held)
            self._seen.discard(index)
            self._next = max(self._next, index + 1)
            released.append((index, item))
        return released

    def _arm(self, now: float) -> None:
        if not self._held:
            self.deadline = None
        elif self.deadline is None:
            self.deadline = now + self._timeout_s
