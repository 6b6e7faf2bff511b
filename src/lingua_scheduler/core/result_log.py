"""What a client was told about the ends of its utterances, until it has acknowledged that.

The log is written to Redis with the ends of jobs; this is the same in memory, and knows what may leave it.
"""

from __future__ import annotations

from collections.abc import Iterable

from lingua_scheduler.core.resume import ResumeOptions
from lingua_scheduler.core.stored import Logged


class ResultLog:
    """The unacknowledged ends of one session's utterances, bounded in number and bytes."""

    __slots__ = ("_bytes", "_entries", "_forgotten", "_options", "_told", "received")

    def __init__(self, options: ResumeOptions, entries: Iterable[Logged] = (), *, received: int = -1) -> None:
        self._options = options
        self._entries: dict[str, Logged] = {entry.name: entry for entry in entries}  # oldest first
        self._told: set[str] = set()
        self._bytes = sum(len(entry.message) for entry in self._entries.values())
        self._forgotten: list[str] = []
        self.received = received  # the client has everything up to this index
        for entry in self.entries():
            if entry.index <= received and not entry.for_room:
                self._forget(entry.name)

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> list[Logged]:
        """Give all that is kept."""
        return list(self._entries.values())

    def keep(self, entry: Logged) -> None:
        """Keep how an utterance ended, instead of what was kept before; the oldest may have to leave."""
        before = self._entries.pop(entry.name, None)
        self._bytes += len(entry.message) - (len(before.message) if before else 0)
        self._entries[entry.name] = entry
        while len(self._entries) > 1 and self._is_too_much():
            self._forget(next(iter(self._entries)))

    def message(self, name: str) -> bytes | None:
        """Give what is kept under a name."""
        entry = self._entries.get(name)
        return entry.message if entry else None

    def tell(self, name: str) -> None:
        """The client is told now, whether it is there or not."""
        if name in self._entries:
            self._told.add(name)

    def acknowledge(self, index: int) -> None:
        """The client has everything up to this index; what it was told of that may leave."""
        self.received = max(self.received, index)
        for name in [name for name in self._told if self._entries[name].index <= self.received]:
            self._forget(name)

    def done(self, name: str) -> None:
        """A room was told: nobody needs it any more."""
        if name in self._entries:
            self._forget(name)

    def unheard(self) -> list[bytes]:
        """Give what was told and not acknowledged, in the order of the utterances."""
        told = sorted((self._entries[name] for name in self._told), key=lambda entry: entry.index)
        return [entry.message for entry in told]

    def forgotten(self) -> tuple[str, ...]:
        """Take the names of what has left since the last time, to have them removed from Redis."""
        names, self._forgotten = tuple(self._forgotten), []
        return names

    def _is_too_much(self) -> bool:
        options = self._options
        return len(self._entries) > options.log_results or self._bytes > options.log_bytes

    def _forget(self, name: str) -> None:
        self._bytes -= len(self._entries.pop(name).message)
        self._told.discard(name)
        self._forgotten.append(name)
