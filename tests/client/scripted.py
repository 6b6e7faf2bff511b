"""A server that does what a test tells it: it hears, speaks, keeps silent, and closes as it likes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self, TypeVar

from aiohttp import WSMsgType, web

from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.wire.audio import parse_frame
from lingua_scheduler.wire.codec import decode_client, encode
from lingua_scheduler.wire.common import Message
from lingua_scheduler.wire.session import AudioChunk, SessionInit, SessionInitAck
from support import wait_until

PATIENCE_S = 5.0
M = TypeVar("M")


class Peer:
    """One connection as the server sees it."""

    def __init__(self, decode: Callable[[bytes], Any]) -> None:
        self.socket = web.WebSocketResponse(decode_text=False)
        self.heard: list[Any] = []  # everything, in order
        self.texts: list[bytes] = []  # text frames as they came
        self._decode = decode
        self._unread: list[Any] = []
        self._news = asyncio.Event()
        self.ended = asyncio.Event()

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Read until the end."""
        await self.socket.prepare(request)
        self._news.set()
        while (frame := await self.socket.receive()).type in (WSMsgType.TEXT, WSMsgType.BINARY):
            if frame.type is WSMsgType.TEXT:
                self.texts.append(frame.data)
                message = self._decode(frame.data)
            else:
                message = parse_frame(frame.data, 0)
            self.heard.append(message)
            self._unread.append(message)
            self._news.set()
        self.ended.set()
        self._news.set()
        return self.socket

    async def hear(self, kind: type[M], **members: Any) -> M:
        """Wait for the first unread message of a kind with these members."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for message in self._unread:
                    if isinstance(message, kind) and all(
                        getattr(message, name) == value for name, value in members.items()
                    ):
                        self._unread.remove(message)
                        return message
                self._news.clear()
                await self._news.wait()

    def unheard(self, kind: type[M]) -> list[M]:
        """Give the unread messages of a kind."""
        return [message for message in self._unread if isinstance(message, kind)]

    async def say(self, *messages: Message) -> None:
        """Send messages."""
        for message in messages:
            await self.socket.send_str(encode(message).decode())

    async def close(self, code: int = 1000) -> None:
        """Close with a code."""
        await self.socket.close(code=code)

    def cut(self) -> None:
        """End the connection without a word."""
        ours = self.socket.get_extra_info("socket")
        with suppress(OSError):
            if ours is not None:
                with socket.fromfd(ours.fileno(), ours.family, ours.type) as copy:
                    copy.shutdown(socket.SHUT_RDWR)


class ScriptedServer:
    """Listens on a free port; every connection waits for the test to take it."""

    def __init__(self, path: str = "/ws/session", decode: Callable[[bytes], Any] = decode_client) -> None:
        self._path = path
        self._decode = decode
        self._new: asyncio.Queue[Peer] = asyncio.Queue()
        self._runner: web.AppRunner | None = None
        self.peers: list[Peer] = []
        self.status: int | None = None  # refuses connections with it

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get(self._path, self._accept)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._address = self._runner.addresses[0]
        return self

    async def __aexit__(self, *_: object) -> None:
        for peer in self.peers:
            peer.cut()
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"ws://127.0.0.1:{self._address[1]}"

    async def peer(self) -> Peer:
        """Wait for the next connection."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._new.get()

    async def _accept(self, request: web.Request) -> web.StreamResponse:
        if self.status is not None:
            return web.Response(status=self.status)
        peer = Peer(self._decode)
        self.peers.append(peer)
        await self._new.put(peer)
        return await peer.serve(request)


async def welcome(peer: Peer, session_id: str = "s-1", **agreed: Any) -> SessionInit:
    """Open the session that a client asks for."""
    wish = await peer.hear(SessionInit)
    wanted = {"negotiated_audio_format": wish.audio_format or "opus", "negotiated_sample_rate": 16000}
    await peer.say(
        SessionInitAck(
            session_id=session_id, trace_id="t-1", message="session created", **{**wanted, **agreed}
        )
    )
    return wish


def audio(peer: Peer) -> list[AudioChunk]:
    """Give every audio frame that was heard."""
    return [message for message in peer.heard if isinstance(message, AudioChunk)]


def timers(clock: VirtualClock) -> list[float]:
    """Give in how many seconds each thing is due that waits for the clock to move."""
    return [when - clock.now() for when, _, handle in clock._due if handle.callback is not None]


async def due_within(clock: VirtualClock, seconds: float) -> None:
    """Wait until something is due within so many seconds of the clock."""
    await wait_until(
        lambda: any(left <= seconds + 1e-6 for left in timers(clock)), description=f"due within {seconds} s"
    )
