"""One open socket to Redis: bytes out, replies in, without a task, a timer or a coroutine per reply.

The library connects, logs in and speaks the first words; from then on the socket is read here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import hiredis
from redis._parsers.base import BaseParser
from redis.asyncio.connection import AbstractConnection

_LOST = "the connection to Redis was lost"


class Line(asyncio.Protocol):
    """Hands every reply to who expects it, as it comes."""

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection = connection
        self._transport = cast("Any", connection)._writer.transport  # noqa: SLF001 the library has no other way
        self._parser = hiredis.Reader(replyError=BaseParser.parse_error)
        self._take: Callable[[Any], None] | None = None
        self._missing = 0
        self._done: asyncio.Future[None] | None = None
        self.usable = not self._transport.is_closing()  # open, and silent between two exchanges
        self._transport.set_protocol(self)

    async def exchange(self, wire: list[bytes], replies: int, take: Callable[[Any], None]) -> None:
        """Send, and give `take` so many replies; ConnectionError when the socket ends before."""
        if not self.usable:
            raise ConnectionError(_LOST)
        self._take, self._missing = take, replies
        self._done = asyncio.get_running_loop().create_future()
        try:
            self._transport.writelines(wire)
            await self._done
        finally:
            self._take = self._done = None

    async def close(self) -> None:
        """Close the socket; whoever waits learns of it."""
        self.usable = False
        await self._connection.disconnect(nowait=True)

    def data_received(self, data: bytes) -> None:
        """Read what came."""
        parser = self._parser
        try:
            parser.feed(data)
            while (reply := parser.gets()) is not False:
                self._hand_out(reply)
        except hiredis.ProtocolError:
            self._end(ConnectionError("Redis sent what is no reply"))

    def _hand_out(self, reply: Any) -> None:
        if self._take is None or not self._missing:  # nobody has asked
            self._end(ConnectionError("Redis sent what nobody asked for"))
            return
        self._missing -= 1
        self._take(reply)
        if not self._missing and self._done is not None and not self._done.done():
            self._done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Learn that the socket has ended."""
        self._end(ConnectionError(str(exc) if exc else _LOST))

    def _end(self, reason: Exception) -> None:
        self.usable = False
        if self._done is not None and not self._done.done():
            self._done.set_exception(reason)
