"""A client's WebSocket: bytes out, messages in, and the reason why it ended."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Annotated

import aiohttp
import msgspec
from aiohttp import ClientWSTimeout, WSMsgType

from lingua_scheduler.client.errors import ConnectionLost, ServerUnreachable, SessionRefused
from lingua_scheduler.client.inbox import Inbox
from lingua_scheduler.core.keys import NotLetIn, bearer_header
from lingua_scheduler.errors import InvalidMessage, LinguaError
from lingua_scheduler.secret import Secret
from lingua_scheduler.wire.codec import DEFAULT_OPTIONS, decode_from_server
from lingua_scheduler.wire.session import SessionCloseAck, ToClient

_LARGEST_BYTES = DEFAULT_OPTIONS.job_result_bytes + DEFAULT_OPTIONS.control_bytes
_ABNORMAL = 1006
_CLOSE_S = 5.0  # for the other side to say goodbye too
_REFUSALS = {401: "UNAUTHORISED", 403: "FORBIDDEN"}

_Seconds = Annotated[float, msgspec.Meta(gt=0)]
_Socket = aiohttp.ClientWebSocketResponse[bool]

TokenSource = Callable[[], Awaitable[str]]
"""Gives a key or token that counts now; errors of the network mean that it may have one later."""


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a client keeps its connection."""

    token: Secret = Secret("")
    """Key or token to show to the server; empty: none. A client with a `fresh_token` asks that instead."""
    heartbeat_s: _Seconds = 25.0
    """Time between two heartbeats of the client."""
    connect_timeout_s: _Seconds = 10.0
    """Time for the connection, and again for the answer to `session_init`."""
    close_timeout_s: _Seconds = 15.0
    """Time for the server to translate what was said last and to acknowledge the end."""
    inbox_bytes: Annotated[int, msgspec.Meta(ge=1024)] = 16 * 2**20
    """Most unread bytes; beyond them the client stops reading its socket."""
    keep_bytes: Annotated[int, msgspec.Meta(ge=1024)] = 8 * 2**20
    """Most audio that a lasting client keeps until the server has it safe."""
    acknowledge_results: Annotated[int, msgspec.Meta(ge=1)] = 10
    """Results that a lasting client acknowledges at once."""
    acknowledge_after_s: _Seconds = 1.0
    """Time after which it acknowledges fewer."""
    reconnect_min_s: _Seconds = 0.2
    """Pause of a lasting client after its first vain attempt to come back; each one doubles it."""
    reconnect_max_s: _Seconds = 5.0
    """Longest pause."""
    reconnect_for_s: _Seconds = 120.0
    """Time after which it gives up."""


class Connection:
    """One socket at a time to one address, read by one task."""

    def __init__(
        self,
        url: str,
        options: ClientOptions,
        http: aiohttp.ClientSession | None,
        fresh_token: TokenSource | None = None,
    ) -> None:
        self.url = url
        self.fresh_token = fresh_token  # asked before each connection
        self.inbox: Inbox[ToClient] = Inbox(options.inbox_bytes)
        self.unreadable = 0  # messages that are none of this protocol
        self.close_code: int | None = None  # set when the connection has ended
        self.goodbye = False  # the server has acknowledged the end of the session
        self.over = asyncio.Event()  # set by that, or by the end of the connection
        self.lasting = False  # the inbox outlives the connection
        self.listener: Callable[[ToClient], bool] = lambda _: True  # tells what goes into the inbox
        self._options = options
        self._shared_http = http
        self._own_http: aiohttp.ClientSession | None = None
        self._socket: _Socket | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect; ServerUnreachable or SessionRefused when that fails."""
        shown = bearer_header(await self._credential())
        http = self._shared_http
        if http is None:
            http = self._own_http = aiohttp.ClientSession()
        try:
            async with asyncio.timeout(self._options.connect_timeout_s):
                self._socket = await http.ws_connect(
                    self.url,
                    headers=shown,
                    max_msg_size=_LARGEST_BYTES,
                    timeout=ClientWSTimeout(ws_close=_CLOSE_S),
                    decode_text=False,
                )
        except aiohttp.WSServerHandshakeError as error:
            await self._leave_http()
            if error.status in _REFUSALS:
                raise SessionRefused(_REFUSALS[error.status], f"HTTP {error.status}") from None
            raise ServerUnreachable(f"{self.url} answers with HTTP {error.status}") from None
        except (aiohttp.ClientError, OSError, TimeoutError):
            await self._leave_http()
            raise ServerUnreachable(f"nobody answers at {self.url}") from None
        self.close_code, self.goodbye = None, False
        self.over.clear()
        self.inbox.begin()
        self._reading = asyncio.get_running_loop().create_task(self._read(self._socket), name="client reader")

    async def _credential(self) -> str:
        if self.fresh_token is None:
            return self._options.token
        try:
            async with asyncio.timeout(self._options.connect_timeout_s):
                return await self.fresh_token()
        except (aiohttp.ClientError, OSError, TimeoutError):
            raise ServerUnreachable("no fresh token can be had now") from None
        except LinguaError:
            raise
        except Exception as error:
            raise SessionRefused(NotLetIn.code, f"no fresh token: {type(error).__name__}") from error

    async def send(self, data: bytes, *, text: bool) -> None:
        """Send one frame; ConnectionLost when there is nobody to hear it."""
        if self._socket is None or self.close_code is not None:
            raise ConnectionLost(self.close_code or _ABNORMAL)
        try:
            await self._socket.send_frame(data, WSMsgType.TEXT if text else WSMsgType.BINARY)
        except (aiohttp.ClientError, OSError):
            raise ConnectionLost(self.close_code or _ABNORMAL) from None

    async def hear(self, fits: Callable[[ToClient], bool], timeout_s: float) -> ToClient:
        """Wait for the first unread message that fits; TimeoutError or ConnectionLost when none comes."""
        try:
            async with asyncio.timeout(timeout_s):
                message = await self.inbox.take(fits)
        except TimeoutError:
            raise TimeoutError(f"not heard within {timeout_s} s; unread: {self.inbox.summary()}") from None
        if message is None:
            raise ConnectionLost(self.close_code or _ABNORMAL)
        return message

    async def unless_lost(self, answer: asyncio.Future[ToClient], timeout_s: float) -> ToClient:
        """Wait for an answer; TimeoutError or ConnectionLost when it does not come."""
        over = asyncio.create_task(self.over.wait())
        try:
            await asyncio.wait((answer, over), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.cancel()
        if answer.done():
            return answer.result()
        answer.cancel()
        if self.over.is_set():
            raise ConnectionLost(self.close_code or _ABNORMAL)
        raise TimeoutError

    async def close(self) -> None:
        """Close by agreement and let everything go; what was heard stays readable."""
        if self._socket is not None:
            await self._socket.close()
        await self._forget()

    async def cut(self) -> None:
        """End it without a word, as a lost network does."""
        self.sever()
        await self._forget()

    def sever(self) -> None:
        """Let no byte pass any more; the reader will notice."""
        ours = self._socket.get_extra_info("socket") if self._socket else None
        with suppress(OSError):
            if ours is not None:
                with socket.fromfd(ours.fileno(), ours.family, ours.type) as copy:  # as no transport lets us
                    copy.shutdown(socket.SHUT_RDWR)

    async def _read(self, socket: _Socket) -> None:
        try:
            while (frame := await socket.receive()).type in (WSMsgType.TEXT, WSMsgType.BINARY):
                try:
                    message = decode_from_server(frame.data)
                except InvalidMessage:
                    self.unreadable += 1
                    continue
                if self.listener(message):
                    await self.inbox.put(message, len(frame.data))
                if isinstance(message, SessionCloseAck):
                    self.goodbye = True
                    self.over.set()
        finally:
            self.close_code = socket.close_code or _ABNORMAL
            if not self.lasting:
                self.inbox.end()
            self.over.set()

    async def _forget(self) -> None:
        self._socket = None
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait((self._reading,))
            self._reading = None
        await self._leave_http()

    async def _leave_http(self) -> None:
        if self._own_http is not None:
            await self._own_http.close()
            self._own_http = None
