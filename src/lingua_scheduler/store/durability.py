"""When a write counts as done: at once, or once a replica has it as well.

Redis' WAIT speaks of the last write of its own connection. A script that finds its work done already writes
nothing, and would be confirmed although no replica has what it found. So every batch with durable calls ends
in a mark, a small write of the batch's own connection, and only then in WAIT: whatever the calls wrote or
found lies before the mark.
"""

from __future__ import annotations

from collections.abc import Callable

from redis.exceptions import ResponseError

from lingua_scheduler.store.keys import slot
from lingua_scheduler.store.packing import packed
from lingua_scheduler.store.replies import shortened

_MARK_TTL_MS = 60_000
_REPLICAS = 1
_TRIES = 2000  # then the server refuses the mark, and the search goes on with the next batch

REPLIES = 2
"""How many answers follow those of the calls."""


class Confirmation:
    """What follows the durable calls of a batch on one server, and what its answers mean."""

    def __init__(self, prefix: str, timeout_ms: int, has_slot: Callable[[int], bool]) -> None:
        self._prefix = prefix
        self._timeout_ms = timeout_ms
        self._has_slot = has_slot
        self._number = 0
        self._wait = packed(("WAIT", _REPLICAS, timeout_ms))

    def request(self) -> bytes:
        """Give the mark, in a slot that the server has, and the wait for a replica."""
        for _ in range(_TRIES):
            if self._has_slot(slot(self._key())):
                break
            self._number += 1
        mark = packed(("SET", self._key(), 1, "PX", _MARK_TTL_MS))
        return b"".join(mark + self._wait)

    def failure(self, marked: object, replicas: object) -> str:
        """Say why nothing was confirmed; empty when a replica has everything before the mark."""
        if isinstance(marked, ResponseError):
            self._number += 1  # its slot may have moved
            return f"no replica was asked for: {shortened(marked)}"
        if isinstance(replicas, ResponseError):
            return f"no replica confirmed the write: {shortened(replicas)}"
        if not isinstance(replicas, int) or replicas < _REPLICAS:
            return f"no replica confirmed the write within {self._timeout_ms} ms"
        return ""

    def _key(self) -> str:
        return f"{self._prefix}:{{replicated:{self._number}}}:mark"
