# ruff: noqa: INP001 a program that is run by its path, like the foreign ones beside it
"""A peer of `lingua bench peers`: the socket stack of an instance with nothing behind it.

Event loop, HTTP server, upgrade and frame reader are those of the edge: messages are passed on inside the
callback that brought their bytes. They are counted; with `parse` as the one argument they are decoded before,
audio included.
"""

from __future__ import annotations

import asyncio
import gc
import struct
import sys

import msgspec
import uvloop
from aiohttp import hdrs, web

from lingua_scheduler.clock import SystemClock
from lingua_scheduler.edge.limits import SocketOptions
from lingua_scheduler.edge.reader import MessageReader
from lingua_scheduler.edge.upgrade import Upgrade, take_over
from lingua_scheduler.wire.close import CloseCode

_WELCOME = b'{"type":"session_init_ack","session_id":"s-00000000000000000000"}'
_MAX_BYTES = 1 << 20
_HEADER = struct.Struct("<BBIIBB")
_CLOCK = SystemClock()
_OPTIONS = SocketOptions()


class _Chunk(msgspec.Struct, tag_field="type", tag="audio_chunk"):
    session_id: str
    seq: int
    is_final: bool
    payload: bytes


_decode = msgspec.json.Decoder(_Chunk).decode


class _Counts:
    frames = audio_bytes = 0


class _Connection(MessageReader):
    """Answers the first message and counts the others."""

    __slots__ = ("_counts", "_introduced", "_transport")

    def __init__(self, transport: asyncio.Transport, counts: _Counts) -> None:
        super().__init__(_CLOCK, _OPTIONS, _MAX_BYTES)
        self._transport = transport
        self._counts = counts
        self._introduced = False

    def on_message(self, payload: bytes, *, binary: bool) -> None:
        if self._introduced:
            self.count(payload, binary=binary)
        else:
            self._introduced = True
            self._transport.write(bytes((0x81, len(_WELCOME))) + _WELCOME)

    def count(self, payload: bytes, *, binary: bool) -> None:  # noqa: ARG002 for those who decode
        self._counts.frames += 1
        self._counts.audio_bytes += len(payload)

    def on_ping(self, payload: bytes) -> None:
        """Leave it."""

    def on_close(self, code: int) -> None:  # noqa: ARG002 any will do
        self._transport.close()

    def on_offence(self, code: CloseCode, reason: str) -> None:  # noqa: ARG002 any will do
        self._transport.abort()


class _Parsing(_Connection):
    __slots__ = ()

    def count(self, payload: bytes, *, binary: bool) -> None:
        self._counts.frames += 1
        if binary:
            _, length, *_ = _HEADER.unpack_from(payload)
            self._counts.audio_bytes += len(payload[_HEADER.size + length :])
        else:
            self._counts.audio_bytes += len(_decode(payload).payload)


async def _serve(kind: type[_Connection]) -> None:
    counts = _Counts()

    async def counted(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"frames": counts.frames, "audio_bytes": counts.audio_bytes})

    async def session(request: web.Request) -> web.StreamResponse:
        upgrade = Upgrade(request.headers[hdrs.SEC_WEBSOCKET_KEY])
        await upgrade.prepare(request)
        transport = request.transport
        if transport is not None:
            connection = kind(transport, counts)
            connection.data_received(take_over(request, transport, connection))
        return upgrade

    app = web.Application()
    app.add_routes([web.get("/count", counted), web.get("/ws/session", session)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    loop = asyncio.get_running_loop()
    if runner.server is None:
        raise RuntimeError("the runner has no server")
    server = await loop.create_server(runner.server, "127.0.0.1", 0, backlog=1024)
    gc.freeze()
    gc.set_threshold(10_000, 20, 100)  # as an instance does
    sys.stdout.write(f"listening {server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    uvloop.run(_serve(_Parsing if sys.argv[1:] == ["parse"] else _Connection))
