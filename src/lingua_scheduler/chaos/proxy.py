"""A TCP proxy whose network can be made bad: slow, narrow, silent, or cut, while connections live on it.

Bytes are never lost or changed, as TCP promises: a blackhole holds them until it is lifted, and a reset ends
the connection.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from lingua_scheduler.aio import Tasks

Address = tuple[str, int]
Route = Callable[[], Address | None]

LOCALHOST = "127.0.0.1"

_READ_BYTES = 65536
_LINE_PIECES = 64  # under way at a time, in each direction
_LINGER_NOT = struct.pack("ii", 1, 0)  # closing sends a reset


@dataclass(frozen=True, slots=True)
class Weather:
    """What the network is like for every connection of a proxy, from now on."""

    latency_ms: float = 0.0  # until a byte arrives
    jitter_ms: float = 0.0  # at most so much more, by chance
    rate_bytes_s: float = 0.0  # 0: no limit
    slice_bytes: int = 0  # pieces are at most this long; 0: no limit
    blackhole: bool = False  # nothing passes, and nobody is told
    down_only: bool = False  # all of this concerns only what goes to who connected


CLEAR = Weather()
"""A network that does not show."""


@dataclass(eq=False)
class _Pipe:
    """One connection through the proxy: both its sockets."""

    near: asyncio.StreamWriter
    far: asyncio.StreamWriter

    def reset(self) -> None:
        for writer in (self.near, self.far):
            plain = writer.get_extra_info("socket")
            with suppress(OSError):
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
            writer.transport.abort()

    def half_close(self) -> None:
        """End what goes to who connected; the other direction stays open."""
        with suppress(OSError, RuntimeError):
            self.near.write_eof()


class Proxy:
    """Listens on a port of its own and passes every connection on to where `route` says."""

    def __init__(self, route: Route | Address, *, seed: int | str = 0) -> None:
        self._route: Route = route if callable(route) else lambda: route
        self._random = random.Random(seed)  # noqa: S311 chance here is part of a plan
        self._tasks = Tasks()
        self._pipes: set[_Pipe] = set()
        self._server: asyncio.Server | None = None
        self._weather = CLEAR
        self._passable = asyncio.Event()  # no blackhole
        self._passable.set()
        self.accepted = 0  # connections that were passed on since the start
        self.port = 0

    async def start(self, port: int = 0) -> Self:
        """Listen, on a free port unless one is named."""
        self._server = await asyncio.start_server(self._connected, LOCALHOST, port, limit=_READ_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """Stop listening and cut every connection."""
        if self._server is not None:
            self._server.close()
        self._passable.set()
        self.reset()
        await self._tasks.stop()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def weather(self) -> Weather:
        """What the network is like; it may be changed at any time."""
        return self._weather

    @weather.setter
    def weather(self, weather: Weather) -> None:
        self._weather = weather
        if weather.blackhole:
            self._passable.clear()
        else:
            self._passable.set()

    @property
    def open(self) -> int:
        """How many connections there are now."""
        return len(self._pipes)

    def reset(self, share: float = 1.0) -> int:
        """Cut connections, all or a share of them by chance, with a reset to both sides; return how many."""
        chosen = [pipe for pipe in self._pipes if share >= 1 or self._random.random() < share]
        for pipe in chosen:
            pipe.reset()
        return len(chosen)

    def half_close(self) -> None:
        """End, for every connection, what goes to who connected."""
        for pipe in self._pipes:
            pipe.half_close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._lifted(down=False)
        address = self._route()
        try:
            if address is None:
                raise ConnectionRefusedError
            far_reader, far_writer = await asyncio.open_connection(*address, limit=_READ_BYTES)
        except OSError:
            writer.transport.abort()
            return
        pipe = _Pipe(writer, far_writer)
        self._pipes.add(pipe)
        self.accepted += 1
        both = [
            self._tasks.start(self._pump(reader, far_writer, down=False), name="proxy up"),
            self._tasks.start(self._pump(far_reader, writer, down=True), name="proxy down"),
        ]
        try:
            await asyncio.wait(both)
        finally:
            self._pipes.discard(pipe)
            for end in (writer, far_writer):
                end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, down: bool) -> None:
        """Pass on what comes: read at once, written when it is due."""
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_LINE_PIECES)
        writing = self._tasks.start(self._write(line, writer, down=down), name="proxy line")
        due, data = 0.0, b"-"
        while data:
            try:
                data = await reader.read(_READ_BYTES)
            except OSError:
                writing.cancel()
                writer.transport.abort()
                return
            due = max(due, asyncio.get_running_loop().time() + self._delay_s(down=down))
            await line.put((due, data))
        await asyncio.wait((writing,))

    async def _write(
        self, line: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter, *, down: bool
    ) -> None:
        data = b"-"
        with suppress(OSError, RuntimeError):  # the latter: half closed by us
            while data:
                due, data = await line.get()
                await asyncio.sleep(due - asyncio.get_running_loop().time())
                await self._pass_on(data, writer, down=down)
            if writer.can_write_eof():
                writer.write_eof()
        while data:  # nobody is there any more: what still comes is read away
            _, data = await line.get()

    async def _pass_on(self, data: bytes, writer: asyncio.StreamWriter, *, down: bool) -> None:
        rest = memoryview(data)
        await self._lifted(down=down)
        while rest:
            weather = self._weather_for(down=down)
            piece = rest[: weather.slice_bytes or len(rest)]
            if weather.rate_bytes_s:
                await asyncio.sleep(len(piece) / weather.rate_bytes_s)
            writer.write(piece)
            await writer.drain()
            rest = rest[len(piece) :]
            await asyncio.sleep(0)
            await self._lifted(down=down)

    def _weather_for(self, *, down: bool) -> Weather:
        return CLEAR if self._weather.down_only and not down else self._weather

    def _delay_s(self, *, down: bool) -> float:
        weather = self._weather_for(down=down)
        return (weather.latency_ms + weather.jitter_ms * self._random.random()) / 1000

    async def _lifted(self, *, down: bool) -> None:
        """Wait while nothing passes."""
        if down or not self._weather.down_only:
            await self._passable.wait()
