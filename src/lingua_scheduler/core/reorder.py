"""Whole utterances of a client, released in index order; a missing index is waited for, but not for ever.

An index that was waited for in vain is skipped. If its utterance comes after all, it goes on at once; any
other index below the next one has been used and is a repetition.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

_REMEMBERED_SKIPS = 64


class Reorder(Generic[T]):
    """Holds what came too early. The next expected index lives as long as the session."""

    __slots__ = ("_held", "_most", "_next", "_skipped", "_timeout_s")

    def __init__(self, *, timeout_s: float, most: int) -> None:
        self._timeout_s = timeout_s
        self._most = most
        self._next = 0
        self._held: dict[int, tuple[float, T]] = {}  # with the moment of arrival
        self._skipped: list[range] = []  # waited for in vain, newest last

    def __len__(self) -> int:
        return len(self._held)

    @property
    def deadline(self) -> float | None:
        """When `tick` has something to do."""
        oldest = min((arrived for arrived, _ in self._held.values()), default=None)
        return None if oldest is None else oldest + self._timeout_s

    def expect(self, index: int) -> list[tuple[int, T]]:
        """Take note that all below `index` is used elsewhere; what was held for that is dropped."""
        for used in [held for held in self._held if held < index]:
            del self._held[used]
        self._next = max(self._next, index)
        return self._ready()

    def add(self, index: int, item: T, now: float) -> list[tuple[int, T]] | None:
        """Take one utterance and return what may go on now, in order; None for a repeated index."""
        if index in self._held:
            return None
        if index < self._next:
            return [(index, item)] if self._was_skipped(index) else None
        self._held[index] = (now, item)
        released = self._ready()
        if len(self._held) > self._most:
            released += self._skip()
        return released

    def tick(self, now: float) -> list[tuple[int, T]]:
        """Skip every index that has been missing for too long."""
        released = []
        while (deadline := self.deadline) is not None and deadline <= now:
            released += self._skip()
        return released

    def flush(self) -> list[tuple[int, T]]:
        """Release everything that is held, in order."""
        released = []
        while self._held:
            released += self._skip()
        return released

    def _skip(self) -> list[tuple[int, T]]:
        lowest = min(self._held)
        self._skipped.append(range(self._next, lowest))
        del self._skipped[:-_REMEMBERED_SKIPS]
        self._next = lowest
        return self._ready()

    def _ready(self) -> list[tuple[int, T]]:
        released = []
        while (held := self._held.pop(self._next, None)) is not None:
            released.append((self._next, held[1]))
            self._next += 1
        return released

    def _was_skipped(self, index: int) -> bool:
        """Tell whether an index is still wanted, and want it no more."""
        for at, skipped in enumerate(self._skipped):
            if index in skipped:
                self._skipped[at : at + 1] = [range(skipped.start, index), range(index + 1, skipped.stop)]
                return True
        return False
