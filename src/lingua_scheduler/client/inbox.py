"""What a connection has heard and nobody has read yet: in order, bounded in bytes, and open to selection."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Generic, TypeVar

M = TypeVar("M")


class Inbox(Generic[M]):
    """One writer, any number of readers; a writer that finds it full waits, and so does its socket."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held: deque[tuple[M, int]] = deque()
        self._held_bytes = 0
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()
        self.ended = False  # nothing will arrive any more

    async def put(self, message: M, size_bytes: int) -> None:
        """Add a message once there is room; a single one always fits."""
        while self._held and self._held_bytes + size_bytes > self._limit_bytes:
            self._taken.clear()
            await self._taken.wait()
        self._held.append((message, size_bytes))
        self._held_bytes += size_bytes
        self._arrived.set()

    def begin(self) -> None:
        """Messages will arrive, also after an end."""
        self.ended = False

    def end(self) -> None:
        """No more messages will arrive; what is there may still be read."""
        self.ended = True
        self._arrived.set()

    async def take(self, fits: Callable[[M], bool] | None = None) -> M | None:
        """Wait for the first message that fits and remove it; None when it ended without one."""
        while True:
            for at, (message, size_bytes) in enumerate(self._held):
                if fits is None or fits(message):
                    self._remove(at, size_bytes)
                    return message
            if self.ended:
                return None
            self._arrived.clear()
            await self._arrived.wait()

    def _remove(self, at: int, size_bytes: int) -> None:
        del self._held[at]
        self._held_bytes -= size_bytes
        self._taken.set()

    def clear(self) -> list[M]:
        """Remove and return everything that is there."""
        messages = [message for message, _ in self._held]
        self._held.clear()
        self._held_bytes = 0
        self._taken.set()
        return messages

    def summary(self) -> str:
        """Name what lies unread by type and code, never by content."""
        kinds = Counter(_kind(message) for message, _ in self._held)
        return ", ".join(f"{kind} x{count}" for kind, count in kinds.items()) or "nothing"


def _kind(message: object) -> str:
    words = (getattr(message, name, None) for name in ("event", "code", "error_code", "reason"))
    return " ".join((type(message).__name__, *(word for word in words if isinstance(word, str))))
