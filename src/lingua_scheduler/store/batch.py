"""Calls that leave for Redis together, and how their replies find back to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from redis.exceptions import ResponseError

from lingua_scheduler.errors import DependencyDown
from lingua_scheduler.store import durability
from lingua_scheduler.store.durability import Confirmation
from lingua_scheduler.store.packing import Wire
from lingua_scheduler.store.replies import is_demoted


@dataclass(slots=True)
class Call:
    """One command on its way."""

    wire: Wire
    size_bytes: int
    future: asyncio.Future[Any]
    deadline: float
    preamble: int  # replies that precede the one the caller waits for
    durable: bool  # answered once a replica has what it wrote


class Batch:
    """Gives the replies of its calls to their callers; those of durable calls wait for a confirmation."""

    __slots__ = (
        "_confirmation",
        "_held",
        "_last",
        "_missing",
        "_next",
        "_order",
        "_refuse",
        "calls",
        "deadline",
        "demoted",
        "wire",
    )

    def __init__(
        self,
        calls: list[Call],
        refuse: Callable[[Call, ResponseError], None],
        confirmation: Confirmation | None,
    ) -> None:
        self.calls = calls
        self.deadline = max([call.deadline for call in calls])
        self.wire = [piece for call in calls for piece in call.wire]
        self.demoted = False  # the server is no master any more
        self._order: list[Call | None] = [each for call in calls for each in (*[None] * call.preamble, call)]
        self._next = 0
        self._missing = len(self._order)
        self._refuse = refuse
        self._confirmation = confirmation
        self._held: list[tuple[Call, Any]] = []
        self._last: list[Any] = []  # what follows the calls
        if confirmation is not None:
            self.wire.append(confirmation.request())
            self._missing += durability.REPLIES

    def take(self, reply: Any) -> bool:
        """Take the next reply; True when it was the last one."""
        at = self._next
        self._next = at + 1
        self._missing -= 1
        if at < len(self._order):
            call = self._order[at]
            if call is not None:
                self._answer(call, reply)
        else:
            self._last.append(reply)
        if self._missing:
            return False
        if self._confirmation is not None:
            self._release(self._confirmation.failure(*self._last))
        return True

    def _answer(self, call: Call, reply: Any) -> None:
        if isinstance(reply, ResponseError):
            self.demoted = self.demoted or is_demoted(reply)
            self._refuse(call, reply)
        elif call.durable and self._confirmation is not None:
            self._held.append((call, reply))
        elif not call.future.done():
            call.future.set_result(reply)

    def _release(self, failure: str) -> None:
        """Answer the durable calls: with their replies, or with why nothing was confirmed."""
        for call, reply in self._held:
            if not failure and not call.future.done():
                call.future.set_result(reply)
        if failure:
            fail([call for call, _ in self._held], f"{failure}; the outcome is unknown")


def fail(calls: list[Call], reason: str) -> None:
    """Tell who still waits why no answer will come."""
    for call in calls:
        if not call.future.done():
            call.future.set_exception(DependencyDown(reason))
