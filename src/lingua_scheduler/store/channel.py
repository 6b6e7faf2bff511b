"""One socket to one Redis server, shared by every caller of an instance.

Calls made in one tick of the loop leave as one batch; while a batch is under way the next one collects. A
caller waits only for its own future, so giving up on a call can neither disturb the socket nor hand its reply
to somebody else. Nothing is ever sent twice: after a loss the outcome of what was sent is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from lingua_scheduler.errors import CorruptValue, DependencyDown, StoreError

_NEVER = float("inf")
_REASON_CHARS = 300  # of a server's error text, which may quote what was sent
_UNABLE = (ClusterDownError, ReadOnlyError, OutOfMemoryError)  # the server is there but cannot serve now
_UNABLE_WORDS = ("MISCONF", "NOREPLICAS", "BUSY", "UNBLOCKED")
_CORRUPT_WORDS = ("WRONGTYPE", "CORRUPT")  # the second is for our own scripts


Argument = str | bytes | int | float
"""What an argument of a command may be."""


def packed(args: tuple[Argument, ...]) -> bytes:
    """Write a command as Redis reads it; TypeError for a value that is not an Argument."""
    wire: bytes = pack_command(args)  # type: ignore[arg-type]  # its stub allows one argument only
    return wire


class ScriptUnknown(StoreError):
    """The server does not have the script; nothing was run."""


class Redirected(StoreError):
    """Another server of the cluster has the slot; nothing was run."""

    def __init__(self, slot: int, host: str, port: int, *, once: bool) -> None:
        super().__init__(f"slot {slot} is served by {host}:{port}")
        self.slot = slot
        self.host = host
        self.port = port
        self.once = once  # ASK: this call only, the slot has not moved yet


class Migrating(StoreError):
    """The keys of the call are between two servers of the cluster; nothing was run."""


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """The bounds of one socket."""

    connect_timeout_s: float
    reconnect_pause_s: float  # after a failed connect, calls fail at once for this long
    batch_calls: int
    queued_bytes: int


@dataclass(slots=True)
class _Call:
    packed: bytes
    future: asyncio.Future[Any]
    deadline: float
    preamble: int  # replies that precede the one the caller waits for


class Channel:
    """Sends calls in order and gives each caller its own reply, or DependencyDown by its own deadline."""

    def __init__(
        self,
        dial: Callable[[], AbstractConnection],
        limits: ChannelLimits,
        on_state: Callable[[bool], None],
    ) -> None:
        self._dial = dial
        self._limits = limits
        self._on_state = on_state
        self._connection: AbstractConnection | None = None
        self._queue: list[_Call] = []
        self._queued_bytes = 0
        self._in_flight: list[_Call] = []
        self._pump: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = _NEVER
        self._connect_again_at = 0.0
        self._last_failure = ""
        self._closed = False
        self.answers: bool | None = None  # how the last exchange ended; None before the first

    @property
    def idle(self) -> bool:
        """Nobody waits for anything."""
        return self._pump is None

    def submit(self, packed: bytes, *, timeout_s: float, preamble: int = 0) -> asyncio.Future[Any]:
        """Queue one packed command; the future gets the reply or the translated error."""
        if self._closed:
            raise DependencyDown("the connection to Redis is closed")
        if self._queued_bytes + len(packed) > self._limits.queued_bytes and self._queue:
            raise DependencyDown("too much is waiting for Redis")
        loop = asyncio.get_running_loop()
        call = _Call(packed, loop.create_future(), loop.time() + timeout_s, preamble)
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
                    connection = await self._connected()
                except (RedisError, OSError) as error:
                    _fail(self._take(all_of_it=True), self._lost(error))
                    continue
                if batch := self._take():
                    await self._exchange(connection, batch)
        finally:
            self._pump = None

    def _take(self, *, all_of_it: bool = False) -> list[_Call]:
        count = len(self._queue) if all_of_it else self._limits.batch_calls
        taken, self._queue = self._queue[:count], self._queue[count:]
        self._queued_bytes = sum(len(call.packed) for call in self._queue) if self._queue else 0
        return [call for call in taken if not call.future.done()]

    async def _connected(self) -> AbstractConnection:
        connection = self._connection
        if connection is not None:
            if connection.is_connected and not await connection.can_read():
                return connection
            self._tell(answers=False)
            await self._drop()
        loop = asyncio.get_running_loop()
        if loop.time() < self._connect_again_at:
            raise ConnectionError(self._last_failure)
        connection = self._dial()
        try:
            async with asyncio.timeout(self._limits.connect_timeout_s):
                await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException as error:
            self._connect_again_at = loop.time() + self._limits.reconnect_pause_s
            self._last_failure = str(error) or "connecting took too long"
            await connection.disconnect(nowait=True)
            raise
        self._connection = connection
        return connection

    async def _exchange(self, connection: AbstractConnection, batch: list[_Call]) -> None:
        self._in_flight = batch
        answered = 0
        try:
            async with asyncio.timeout_at(max(call.deadline for call in batch)):
                await connection.send_packed_command([call.packed for call in batch], check_health=False)
                for call in batch:
                    for _ in range(call.preamble):
                        await _read(connection)
                    _settle(call.future, await _read(connection))
                    answered += 1
            self._tell(answers=True)
        except (RedisError, OSError) as error:
            reason = self._lost(error)
            await self._drop()
            _fail(batch[answered:], reason)
        except asyncio.CancelledError:
            await self._drop()
            raise
        self._in_flight = []

    def _lost(self, error: Exception) -> str:
        self._tell(answers=False)
        return f"Redis is not reachable: {str(error)[:_REASON_CHARS] or 'no answer in time'}"

    def _tell(self, *, answers: bool) -> None:
        if self.answers is not answers:
            self.answers = answers
            self._on_state(answers)

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

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
        _fail([call for call in waiting if call.deadline <= now], "Redis did not answer in time")
        later = [call.deadline for call in waiting if call.deadline > now]
        if later:
            self._set_alarm(loop, min(later))


async def _read(connection: AbstractConnection) -> Any:
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error


def _settle(future: asyncio.Future[Any], reply: Any) -> None:
    if future.done():
        return
    if isinstance(reply, ResponseError):
        future.set_exception(_translated(reply))
    else:
        future.set_result(reply)


def _fail(calls: list[_Call], reason: str) -> None:
    for call in calls:
        if not call.future.done():
            call.future.set_exception(DependencyDown(reason))


def _translated(error: ResponseError) -> StoreError:
    text = str(error)[:_REASON_CHARS]
    word = text.partition(" ")[0]
    match error:
        case NoScriptError():
            return ScriptUnknown(text)
        case AskError():  # MovedError is a subclass
            moved = isinstance(error, MovedError)
            return Redirected(error.slot_id, error.host, error.port, once=not moved)
        case TryAgainError():
            return Migrating(text)
        case _ if isinstance(error, _UNABLE) or word in _UNABLE_WORDS:
            return DependencyDown(f"Redis cannot serve now: {text}")
    return CorruptValue(text) if word in _CORRUPT_WORDS else StoreError(text)
