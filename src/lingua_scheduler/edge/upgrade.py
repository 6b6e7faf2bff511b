"""From HTTP to WebSocket: which requests are upgraded, and the answer that does it.

Stricter than the library: version 13 only, no extension, no body, and the path exactly as it is written.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from typing import Final

from aiohttp import hdrs, web

from lingua_scheduler.edge.auth import OriginPolicy

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES: Final = 16
_VERSION: Final = "13"


class Upgrade(web.StreamResponse):
    """The 101 answer; what follows it on the connection is not its business."""

    def __init__(self, key: str, protocol: str | None = None) -> None:
        accept = base64.b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()
        headers = {
            hdrs.UPGRADE: "websocket",
            hdrs.CONNECTION: "Upgrade",
            hdrs.SEC_WEBSOCKET_ACCEPT: accept,
        }
        if protocol is not None:
            headers[hdrs.SEC_WEBSOCKET_PROTOCOL] = protocol
        super().__init__(status=101, headers=headers)
        self.force_close()

    async def write_eof(self, data: bytes = b"") -> None:
        """Add nothing: the connection has carried frames and is closed already."""


class _Tail:
    """Stands where the library has its payload parser and gets what it read behind the handshake."""

    def __init__(self) -> None:
        self.data = b""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take it."""
        self.data = data
        return False, b""

    def feed_eof(self) -> None:
        """Expect no more."""


def take_over(request: web.Request, transport: asyncio.Transport, protocol: asyncio.Protocol) -> bytes:
    """Give an upgraded connection to another protocol, and what has come for it already.

    To the library it looks lost: its tasks, timers and records of it end with the request.
    """
    http, tail = request.protocol, _Tail()
    transport.set_protocol(protocol)
    if http.writing_paused:
        protocol.pause_writing()
    http.set_parser(tail)  # type: ignore[arg-type]  # it has the two methods that are called
    http.transport = None  # or it would be closed
    http.connection_lost(None)
    return tail.data


def check_upgrade(request: web.Request, path: str, origins: OriginPolicy) -> str:
    """Give the key of a request that may be upgraded; raise the HTTP answer for any other."""
    headers = request.headers
    if request.raw_path.partition("?")[0] != path:
        raise web.HTTPNotFound
    if not origins.permits(headers.getall(hdrs.ORIGIN, ()), headers.get(hdrs.HOST, "")):
        raise web.HTTPForbidden(text="This page may not connect here.")
    if not _asks_for_websocket(request):
        raise web.HTTPUpgradeRequired(text="This is a WebSocket.", headers={hdrs.UPGRADE: "websocket"})
    if headers.getall(hdrs.SEC_WEBSOCKET_VERSION, ()) != [_VERSION]:
        raise web.HTTPUpgradeRequired(
            text="WebSocket version 13 is spoken here.", headers={hdrs.SEC_WEBSOCKET_VERSION: _VERSION}
        )
    key = headers.get(hdrs.SEC_WEBSOCKET_KEY, "")
    if request.body_exists or not _is_key(key):
        raise web.HTTPBadRequest(text="Not a WebSocket handshake.")
    return key


def _asks_for_websocket(request: web.Request) -> bool:
    connection = ",".join(request.headers.getall(hdrs.CONNECTION, ())).lower()
    return (
        request.headers.get(hdrs.UPGRADE, "").strip().lower() == "websocket"
        and "upgrade" in (token.strip() for token in connection.split(","))
        and request.version >= (1, 1)
    )


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except (binascii.Error, ValueError):
        return False
