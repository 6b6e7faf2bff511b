"""Which sockets were written to in this tick of the event loop: each gets all of it with one system call.

A write costs the system call behind it, whatever its size, and answers tend to come together: a result and
the events around it, several jobs for one node. One callback at the end of the tick serves all sockets.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from lingua_scheduler.log import get_logger

_log = get_logger(__name__)


class Outlet(Protocol):
    """A socket that has something to send."""

    def flush(self) -> None:
        """Send it now."""


class Outbox:
    """The sockets of one instance that have something to send at the end of the tick."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[Outlet] = []

    def add(self, outlet: Outlet) -> None:
        """Flush this one, too."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting.append(outlet)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for outlet in waiting:
            try:
                outlet.flush()
            except Exception:  # noqa: BLE001 - one connection's fault must not silence the others
                _log.exception("flush_failed")
