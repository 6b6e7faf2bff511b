"""One open socket to Redis: bytes out, replies in, without a task, a timer or a coroutine per reply.

The library connects, logs in and speaks the first words; from then on the socket is read here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol, cast

import hiredis
from redis._parsers.base import BaseParser
from redis.asyncio.connection import AbstractConnection

from lingua_scheduler.store.batch import Batch

_LOST = "the connection to Redis was lost"


class User(Protocol):
    """Who sends batches along a line."""

    def answered(self, batch: Batch) -> None:
        """Learn that a batch has all its replies; it was the oldest."""

    def cut_off(self, line: Line, reason: Exception) -> None:
        """Learn that no more replies will come."""


class Line(asyncio.Protocol):
    """Hands every reply to the oldest batch that misses one: Redis answers in order."""

    def __init__(self, connection: AbstractConnection, user: User) -> None:
        self._connection = connection
        self._transport = cast("Any", connection)._writer.transport  # noqa: SLF001 the library has no other way
        self._parser = hiredis.Reader(replyError=BaseParser.parse_error)
        self._user = user
        self.under_way: deque[Batch] = deque()  # oldest first
        self.usable = not self._transport.is_closing()
        self._transport.set_protocol(self)

    def send(self, batch: Batch) -> None:
        """Send a batch behind those that are under way."""
        self.under_way.append(batch)
        try:
            self._transport.writelines(batch.wire)
        except RuntimeError:  # the loop's word for a closed socket
            self._end(ConnectionError(_LOST))

    def close(self) -> list[Batch]:
        """Close the socket and give back what will not be answered."""
        self.usable = False
        cast("Any", self._connection)._close()  # noqa: SLF001 its public twin is a coroutine that waits for nothing
        unanswered = list(self.under_way)
        self.under_way.clear()
        return unanswered

    def data_received(self, data: bytes) -> None:
        """Read what came."""
        parser = self._parser
        try:
            parser.feed(data)
            while (reply := parser.gets()) is not False:
                if not self.under_way:  # nobody has asked
                    self._end(ConnectionError("Redis sent what nobody asked for"))
                    return
                if self.under_way[0].take(reply):
                    self._user.answered(self.under_way.popleft())
        except hiredis.ProtocolError:
            self._end(ConnectionError("Redis sent what is no reply"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Learn that the socket has ended."""
        self._end(ConnectionError(str(exc) if exc else _LOST))

    def _end(self, reason: Exception) -> None:
        if self.usable:
            self.usable = False
            self._user.cut_off(self, reason)
