"""Calls that leave for Redis together, and how their replies find back to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from redis.exceptions import ResponseError

from lingua_scheduler.store.replies import is_demoted


@dataclass(slots=True)
class Call:
    """One command on its way."""

    packed: bytes
    future: asyncio.Future[Any]
    deadline: float
    preamble: int  # replies that precede the one the caller waits for
    durable: bool  # answered once a replica has what it wrote


class Replies:
    """Gives the replies of a batch to its callers; those of durable calls wait for a confirmation."""

    def __init__(
        self, batch: list[Call], refuse: Callable[[Call, ResponseError], None], *, held: bool
    ) -> None:
        self._order = [each for call in batch for each in (*[None] * call.preamble, call)]
        self._next = 0
        self._refuse = refuse
        self._holds = held
        self.held: list[tuple[Call, Any]] = []
        self.last: list[Any] = []  # what follows the calls
        self.demoted = False  # the server is no master any more

    def take(self, reply: Any) -> None:
        """Take the next reply."""
        at, self._next = self._next, self._next + 1
        if at >= len(self._order):
            self.last.append(reply)
            return
        call = self._order[at]
        if call is None:
            return
        if isinstance(reply, ResponseError):
            self.demoted = self.demoted or is_demoted(reply)
            self._refuse(call, reply)
        elif call.durable and self._holds:
            self.held.append((call, reply))
        elif not call.future.done():
            call.future.set_result(reply)
