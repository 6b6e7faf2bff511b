"""One socket to one Redis server, shared by every caller of an instance.

Calls made in one tick of the loop leave as one batch, behind the batches that are under way; when enough of
those are, the next one collects. A caller waits only for its own future, so giving up on a call can neither
disturb the socket nor hand its reply to somebody else. Nothing is ever sent twice: after a loss the outcome
of what was sent is unknown.

A server that was silent or could not be reached is away until it has answered a new connect: calls fail at
once for a pause, and then wait a moment at most while the connect is tried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from redis.exceptions import RedisError, ResponseError

from lingua_scheduler.errors import DependencyDown
from lingua_scheduler.log import get_logger
from lingua_scheduler.store.batch import Batch, Call, fail
from lingua_scheduler.store.dialing import Dialer, LoginRefused
from lingua_scheduler.store.durability import Confirmation
from lingua_scheduler.store.line import Line
from lingua_scheduler.store.packing import Wire, command_name
from lingua_scheduler.store.replies import Forbidden, shortened, translated

_NEVER = float("inf")
_PATIENCE_S = 0.25  # what calls wait while a server that was away is tried again
_SMALL_BYTES = 4096
_UNDER_WAY = (
    8  # batches: what a server that falls silent has of calls that nobody waits for any more is bounded
)
_SILENT = "Redis did not answer in time"

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """The bounds of one socket."""

    reconnect_pause_s: float  # after a failed connect, calls fail at once for this long
    batch_calls: int
    queued_bytes: int


class Channel:
    """Sends calls in order and gives each caller its own reply, or DependencyDown by its own deadline."""

    def __init__(
        self,
        dialer: Dialer,
        limits: ChannelLimits,
        on_state: Callable[[bool], None],
        confirmation: Confirmation | None = None,
    ) -> None:
        self._dialer = dialer
        self._limits = limits
        self._on_state = on_state
        self._confirmation = confirmation
        self._line: Line | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: list[Call] = []
        self._unanswered_bytes = 0
        self._sends_soon = False
        self._connecting: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = _NEVER
        self._away = ""  # why the server is away; empty while nothing speaks against it
        self._fail_until = 0.0  # while it is away, nobody waits before this time
        self._forbidden: set[str] = set()  # commands whose refusal by this connection was logged
        self._closed = False
        self.answers: bool | None = None  # how the last exchange ended; None before the first

    @property
    def idle(self) -> bool:
        """Nobody waits for anything."""
        return not self._queue and not self.under_way and self._connecting is None

    @property
    def under_way(self) -> list[Batch]:
        """What was sent and is not answered yet, oldest first."""
        return list(self._line.under_way) if self._line is not None else []

    def submit(
        self, wire: Wire, *, timeout_s: float, preamble: int = 0, durable: bool = False
    ) -> asyncio.Future[Any]:
        """Queue one packed command; the future gets the reply or the translated error."""
        if self._closed:
            raise DependencyDown("the connection to Redis is closed")
        size_bytes = sum(map(len, wire))
        too_much = self._unanswered_bytes and self._unanswered_bytes + size_bytes > self._limits.queued_bytes
        if too_much and size_bytes > _SMALL_BYTES:  # who brings little is not turned away for others' audio
            raise DependencyDown("too much is waiting for Redis")
        if self._loop is None:  # known from the first call on: asking costs
            self._loop = asyncio.get_running_loop()
        loop = self._loop
        now = loop.time()
        if self._away and now < self._fail_until:
            raise DependencyDown(self._away)
        call = Call(wire, size_bytes, loop.create_future(), now + timeout_s, preamble, durable)
        self._queue.append(call)
        self._unanswered_bytes += size_bytes
        if not self._sends_soon:
            self._sends_soon = True
            loop.call_soon(self._send)
        if call.deadline < self._alarm_at:
            self._set_alarm(loop, call.deadline)
        return call.future

    async def close(self) -> None:
        """Fail whoever still waits and close the socket."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        if self._alarm is not None:
            self._alarm.cancel()
        reason = "the connection to Redis was closed"
        self._drop(reason)
        fail(self._take(all_of_it=True), reason)

    def _send(self) -> None:
        """Send what has come, as far as enough is not under way already."""
        self._sends_soon = False
        line = self._line
        if not self._queue or self._closed or self._connecting is not None:
            return
        if line is None or not line.usable:
            self._connecting = asyncio.get_running_loop().create_task(self._connect(), name="redis-channel")
            return
        while self._queue and line.usable and len(line.under_way) < _UNDER_WAY:
            if calls := self._take():
                line.send(Batch(calls, self._refuse, self._confirmation_of(calls)))

    def _take(self, *, all_of_it: bool = False) -> list[Call]:
        """Take calls from the queue, but for those that were given up."""
        count = len(self._queue) if all_of_it else self._limits.batch_calls
        taken, self._queue = self._queue[:count], self._queue[count:]
        wanted = [call for call in taken if not call.future.done()]
        if all_of_it:
            self._settle(taken)
        elif len(wanted) < len(taken):
            self._settle([call for call in taken if call.future.done()])
        return wanted

    def _settle(self, calls: list[Call]) -> None:
        for call in calls:
            self._unanswered_bytes -= call.size_bytes

    async def _connect(self) -> None:
        try:
            while self._queue and (self._line is None or not self._line.usable):
                if self._line is not None:
                    self._tell(answers=False)
                    self._drop("")
                try:
                    await self._dial()
                except (RedisError, OSError) as error:
                    self._leave(_reason(error))
        finally:
            self._connecting = None
        self._send()

    async def _dial(self) -> None:
        loop = asyncio.get_running_loop()
        patience = loop.call_later(_PATIENCE_S, self._lose_patience) if self._away else None
        try:
            self._line = Line(await self._dialer.dial(), self)
        finally:
            if patience is not None:
                patience.cancel()
        self._away = ""
        self._forbidden.clear()
        self._tell(answers=True)

    def _lose_patience(self) -> None:
        self._fail_until = _NEVER
        fail(self._take(all_of_it=True), self._away)

    def _leave(self, reason: str) -> None:
        """Take the server for away, and tell everybody who waits for it."""
        self._tell(answers=False)
        self._away = reason
        self._fail_until = asyncio.get_running_loop().time() + self._limits.reconnect_pause_s
        fail(self._take(all_of_it=True), reason)

    # what a line tells

    def answered(self, batch: Batch) -> None:
        """Learn that a batch has all its replies."""
        self._settle(batch.calls)
        if batch.demoted:
            self._dialer.move_on()
            self._drop("the server is no master any more")
        self._tell(answers=not batch.demoted)
        if self._queue:
            self._send()

    def cut_off(self, line: Line, reason: Exception) -> None:
        """Learn that a line has ended; if nobody waited for it, the next call will find out."""
        if line is self._line and line.under_way:
            self._tell(answers=False)
            self._drop(_reason(reason))
            self._send()

    def _confirmation_of(self, calls: list[Call]) -> Confirmation | None:
        if self._confirmation is None or not any(call.durable for call in calls):
            return None
        return self._confirmation

    def _refuse(self, call: Call, error: ResponseError) -> None:
        if call.future.done():
            return
        failure = translated(error, command_name(call.wire, skip=call.preamble))
        call.future.set_exception(failure)
        if isinstance(failure, Forbidden) and (text := str(failure)) not in self._forbidden:
            self._forbidden.add(text)
            _log.error("redis_forbidden", reason=text)

    def _tell(self, *, answers: bool) -> None:
        if self.answers is not answers:
            self.answers = answers
            self._on_state(answers)

    def _drop(self, reason: str) -> None:
        """Close the line; whoever waits for it learns why."""
        line, self._line = self._line, None
        if line is None:
            return
        for batch in line.close():
            self._settle(batch.calls)
            fail(batch.calls, reason)

    def _set_alarm(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = when
        self._alarm = loop.call_at(when, self._expire)

    def _expire(self) -> None:
        """Fail every caller whose deadline has passed; the socket goes on as long as others may wait."""
        self._alarm, self._alarm_at = None, _NEVER
        loop = asyncio.get_running_loop()
        now, batches = loop.time(), self.under_way
        waiting = [call for batch in batches for call in batch.calls] + self._queue
        fail([call for call in waiting if call.deadline <= now], _SILENT)
        if batches and batches[0].deadline <= now:
            self._drop(_SILENT)
            self._leave(_SILENT)
        elif later := [call.deadline for call in waiting if call.deadline > now]:
            self._set_alarm(loop, min(later))


def _reason(error: Exception) -> str:
    text = shortened(error)
    return text if isinstance(error, LoginRefused) else f"Redis is not reachable: {text or 'no answer'}"
