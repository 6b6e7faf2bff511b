"""How a process of the generator listens to the one that started it, and ends with it."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable

from lingua_scheduler.bench.reactor import Reactor


class Line:
    """Standard input and output: short orders in, short answers out."""

    def __init__(self, reactor: Reactor, orders: dict[str, Callable[[str], None]]) -> None:
        self._reactor = reactor
        self._orders = orders
        self._unread = b""
        gc.disable()  # nothing here is garbage before the end
        reactor.watch(sys.stdin.fileno(), self._readable)

    def say(self, word: str) -> None:
        """Tell the driver."""
        sys.stdout.write(f"{word}\n")
        sys.stdout.flush()

    def _readable(self, _events: int) -> None:
        data = os.read(sys.stdin.fileno(), 4096)
        if not data:  # the driver is gone
            self._reactor.stop()
            self._reactor.forget(sys.stdin.fileno())
            return
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            order, _, rest = line.decode().partition(" ")
            self._orders[order](rest)
