"""One socket to one Redis server, shared by every caller of an instance.

Calls made in one tick of the loop leave as one batch; while a batch is under way the next one collects. A
caller waits only for its own future, so giving up on a call can neither disturb the socket nor hand its reply
to somebody else. Nothing is ever sent twice: after a loss the outcome of what was sent is unknown.

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
from lingua_scheduler.store import durability
from lingua_scheduler.store.batch import Call, Replies
from lingua_scheduler.store.dialing import Dialer, LoginRefused
from lingua_scheduler.store.durability import Confirmation
from lingua_scheduler.store.line import Line
from lingua_scheduler.store.packing import command_name
from lingua_scheduler.store.replies import Forbidden, shortened, translated

_NEVER = float("inf")
_PATIENCE_S = 0.25  # what calls wait while a server that was away is tried again
_SMALL_BYTES = 4096
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
        self._queued_bytes = 0
        self._in_flight: list[Call] = []
        self._pump: asyncio.Task[None] | None = None
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
        return self._pump is None

    def submit(
        self, packed: bytes, *, timeout_s: float, preamble: int = 0, durable: bool = False
    ) -> asyncio.Future[Any]:
        """Queue one packed command; the future gets the reply or the translated error."""
        if self._closed:
            raise DependencyDown("the connection to Redis is closed")
        too_much = self._queued_bytes + len(packed) > self._limits.queued_bytes and self._queue
        if too_much and len(packed) > _SMALL_BYTES:  # who brings little is not turned away for others' audio
            raise DependencyDown("too much is waiting for Redis")
        if self._loop is None:  # known from the first call on: asking costs
            self._loop = asyncio.get_running_loop()
        loop = self._loop
        if self._away and loop.time() < self._fail_until:
            raise DependencyDown(self._away)
        call = Call(packed, loop.create_future(), loop.time() + timeout_s, preamble, durable)
        self._queue.append(call)
        self._queued_bytes += len(packed)
        if self._pump is None:
            self._pump = loop.create_task(self._serve(), name="redis-channel")
        if call.deadline < self._alarm_at:
            self._set_alarm(loop, call.deadline)
        return call.future

    async def close(self) -> None:
        """Fail whoever still waits and close the socket."""
        self._closed = True
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.wait([self._pump])
        if self._alarm is not None:
            self._alarm.cancel()
        _fail(self._in_flight + self._queue, "the connection to Redis was closed")
        self._queue, self._in_flight = [], []
        await self._drop()

    async def _serve(self) -> None:
        try:
            while self._queue:
                try:
                    line = await self._connected()
                except (RedisError, OSError) as error:
                    self._leave(_reason(error))
                    continue
                if batch := self._take():
                    await self._exchange(line, batch)
        finally:
            self._pump = None

    def _take(self, *, all_of_it: bool = False) -> list[Call]:
        count = len(self._queue) if all_of_it else self._limits.batch_calls
        taken, self._queue = self._queue[:count], self._queue[count:]
        self._queued_bytes = sum(len(call.packed) for call in self._queue) if self._queue else 0
        return [call for call in taken if not call.future.done()]

    async def _connected(self) -> Line:
        if self._line is not None:
            if self._line.usable:
                return self._line
            self._tell(answers=False)
            await self._drop()
        loop = asyncio.get_running_loop()
        patience = loop.call_later(_PATIENCE_S, self._lose_patience) if self._away else None
        try:
            self._line = Line(await self._dialer.dial())
        finally:
            if patience is not None:
                patience.cancel()
        self._away = ""
        self._forbidden.clear()
        self._tell(answers=True)
        return self._line

    def _lose_patience(self) -> None:
        self._fail_until = _NEVER
        _fail(self._take(all_of_it=True), self._away)

    def _leave(self, reason: str) -> None:
        """Take the server for away, and tell everybody who waits for it."""
        self._tell(answers=False)
        self._away = reason
        self._fail_until = asyncio.get_running_loop().time() + self._limits.reconnect_pause_s
        _fail(self._take(all_of_it=True), reason)

    async def _exchange(self, line: Line, batch: list[Call]) -> None:
        self._in_flight = batch
        try:
            async with asyncio.timeout_at(max(call.deadline for call in batch)):
                demoted = await self._converse(line, batch)
            if demoted:
                self._dialer.move_on()
                await self._drop()
            self._tell(answers=not demoted)
        except TimeoutError:
            await self._drop()
            _fail(batch, _SILENT)
            self._leave(_SILENT)
        except (
            RedisError,
            OSError,
            RuntimeError,
        ) as error:  # the last is the loop's word for a closed socket
            self._tell(answers=False)
            await self._drop()
            _fail(batch, _reason(error))
        except asyncio.CancelledError:
            await self._drop()
            raise
        self._in_flight = []

    async def _converse(self, line: Line, batch: list[Call]) -> bool:
        """Send a batch and hand out its replies; True when the server is no master any more."""
        confirmation = self._confirmation_of(batch)
        replies = Replies(batch, self._refuse, held=confirmation is not None)
        wire = [call.packed for call in batch]
        count = len(batch) + sum(call.preamble for call in batch)
        if confirmation is not None:
            wire.append(confirmation.request())
            count += durability.REPLIES
        await line.exchange(wire, count, replies.take)
        if confirmation is not None:
            marked, replicas = replies.last
            _release(replies.held, confirmation.failure(marked, replicas))
        return replies.demoted

    def _confirmation_of(self, batch: list[Call]) -> Confirmation | None:
        if self._confirmation is None or not any(call.durable for call in batch):
            return None
        return self._confirmation

    def _refuse(self, call: Call, error: ResponseError) -> None:
        if call.future.done():
            return
        failure = translated(error, command_name(call.packed, skip=call.preamble))
        call.future.set_exception(failure)
        if isinstance(failure, Forbidden) and (text := str(failure)) not in self._forbidden:
            self._forbidden.add(text)
            _log.error("redis_forbidden", reason=text)

    def _tell(self, *, answers: bool) -> None:
        if self.answers is not answers:
            self.answers = answers
            self._on_state(answers)

    async def _drop(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    def _set_alarm(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = when
        self._alarm = loop.call_at(when, self._expire)

    def _expire(self) -> None:
        """Fail every caller whose deadline has passed; the socket goes on as long as others may wait."""
        self._alarm, self._alarm_at = None, _NEVER
        loop = asyncio.get_running_loop()
        now = loop.time()
        waiting = [call for call in (*self._in_flight, *self._queue) if not call.future.done()]
        _fail([call for call in waiting if call.deadline <= now], _SILENT)
        later = [call.deadline for call in waiting if call.deadline > now]
        if later:
            self._set_alarm(loop, min(later))


def _reason(error: Exception) -> str:
    text = shortened(error)
    return text if isinstance(error, LoginRefused) else f"Redis is not reachable: {text or 'no answer'}"


def _release(held: list[tuple[Call, Any]], failure: str) -> None:
    """Answer the durable calls of a batch: with their replies, or with why nothing was confirmed."""
    for call, reply in held:
        if not failure and not call.future.done():
            call.future.set_result(reply)
    if failure:
        _fail([call for call, _ in held], f"{failure}; the outcome is unknown")


def _fail(calls: list[Call], reason: str) -> None:
    for call in calls:
        if not call.future.done():
            call.future.set_exception(DependencyDown(reason))
