# ruff: noqa: INP001 a foreign program that is run by its path, like the one beside it
"""A peer of `lingua bench peers`: the socket stack of an instance with nothing behind it.

The event loop, the HTTP server and the frame reader are those of the edge and are used in the same way:
messages are passed on inside the callback that brought their bytes. They are counted; with `parse` as the
one argument they are decoded before, audio included.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import hashlib
import struct
import sys
from collections.abc import Callable

import msgspec
import uvloop
from aiohttp import WSMsgType, hdrs, web
from aiohttp._websocket.reader import WebSocketDataQueue, WebSocketReader

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_WELCOME = b'{"type":"session_init_ack","session_id":"s-00000000000000000000"}'
_MAX_BYTES = 1 << 20
_HEADER = struct.Struct("<BBIIBB")


class _Chunk(msgspec.Struct, tag_field="type", tag="audio_chunk"):
    session_id: str
    seq: int
    is_final: bool
    payload: bytes


_decode = msgspec.json.Decoder(_Chunk).decode


class _Counts:
    frames = audio_bytes = 0

    def count(self, _kind: WSMsgType, payload: bytes) -> None:
        self.frames += 1
        self.audio_bytes += len(payload)

    def parse(self, kind: WSMsgType, payload: bytes) -> None:
        self.frames += 1
        if kind is WSMsgType.TEXT:
            self.audio_bytes += len(_decode(payload).payload)
        else:
            _, length, *_ = _HEADER.unpack_from(payload)
            self.audio_bytes += len(payload[_HEADER.size + length :])


class _Inlet(WebSocketDataQueue):
    """Stands where the library has its queue."""

    def __init__(self, transport: asyncio.Transport, take: Callable[[WSMsgType, bytes], None]) -> None:
        self._transport = transport
        self._take = take
        self._introduced = False

    def feed_data(self, data: object, size: int) -> None:  # noqa: ARG002 the size counts in a queue only
        if self._introduced:
            self._take(data.type, data.data)  # type: ignore[attr-defined]  # a message of the library
        else:
            self._introduced = True
            self._transport.write(bytes((0x81, len(_WELCOME))) + _WELCOME)

    def set_exception(self, exc: BaseException, exc_cause: object = None) -> None:  # noqa: ARG002 as above
        self._transport.abort()


class _Parser:
    """Stands where the library has its payload parser; keeps the connection until its end."""

    def __init__(self, inlet: _Inlet) -> None:
        self._read = WebSocketReader(inlet, _MAX_BYTES, compress=False, decode_text=False).feed_data
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._read(data)
        return False, b""

    def feed_eof(self) -> None:
        if not self.finished.done():
            self.finished.set_result(None)


class _Upgrade(web.StreamResponse):
    def __init__(self, key: str) -> None:
        accept = base64.b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest())
        headers = {hdrs.UPGRADE: "websocket", hdrs.CONNECTION: "Upgrade"}
        super().__init__(status=101, headers={**headers, hdrs.SEC_WEBSOCKET_ACCEPT: accept.decode()})
        self.force_close()

    async def write_eof(self, data: bytes = b"") -> None:
        """Add nothing."""


async def _serve(parse: bool) -> None:  # noqa: FBT001 the one argument of a small program
    counts = _Counts()
    take = counts.parse if parse else counts.count

    async def counted(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"frames": counts.frames, "audio_bytes": counts.audio_bytes})

    async def session(request: web.Request) -> web.StreamResponse:
        upgrade = _Upgrade(request.headers[hdrs.SEC_WEBSOCKET_KEY])
        await upgrade.prepare(request)
        protocol, transport = request.protocol, request.transport
        if transport is not None:
            protocol.keep_alive(False)
            parser = _Parser(_Inlet(transport, take))
            protocol.set_parser(parser)  # type: ignore[arg-type]  # it has the methods that are called
            await parser.finished
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
    uvloop.run(_serve(sys.argv[1:] == ["parse"]))
