"""One connection of a node after the other: bytes between the socket and the protocol, nothing decided."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import aiohttp
from aiohttp import ClientWSTimeout, WSMsgType

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.keys import bearer_header
from lingua_scheduler.errors import InvalidMessage, LinguaError
from lingua_scheduler.log import get_logger
from lingua_scheduler.node.events import Event
from lingua_scheduler.node.options import LinkOptions
from lingua_scheduler.node.protocol import NodeProtocol
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.codec import DEFAULT_OPTIONS, decode_to_node, encode

_log = get_logger(__name__)

_LARGEST_BYTES = DEFAULT_OPTIONS.client_ceiling_bytes
_ABNORMAL = 1006
_WORTH_A_RETRY = (408, 425, 429)
_SERVER_FAULTS = 500
_CLOSE_S = 5.0

_Socket = aiohttp.ClientWebSocketResponse[bool]


class NodeGaveUp(LinguaError):
    """The scheduler said that coming back is of no use."""


class Uplink:
    """The way to the scheduler; `act` is told what the protocol asks for."""

    def __init__(
        self,
        url: str,
        protocol: NodeProtocol,
        act: Callable[[Event], None],
        *,
        options: LinkOptions,
        clock: Clock,
    ) -> None:
        self._url = url
        self._protocol = protocol
        self._act = act
        self._options = options
        self._clock = clock
        self._stirred = asyncio.Event()
        self._hung_up = False

    def stir(self) -> None:
        """Look at the protocol again: something is to be sent, or time has a new meaning."""
        self._stirred.set()

    def hang_up(self) -> None:
        """Send what is queued, then close the connection."""
        self._hung_up = True
        self._stirred.set()

    async def serve(self, http: aiohttp.ClientSession) -> int:
        """Connect and serve until the connection ends; give the code it ended with, 1006 if none was sent.

        NodeGaveUp when the other side is no scheduler.
        """
        self._hung_up = False
        socket = await self._connected(http)
        if socket is None:
            return _ABNORMAL
        self._protocol.opened()
        loop = asyncio.get_running_loop()
        both = [loop.create_task(self._read(socket)), loop.create_task(self._write(socket))]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            await socket.close(code=CloseCode.GOING_AWAY if self._hung_up else CloseCode.NORMAL)
        finally:
            for task in both:
                task.cancel()
            for ended in await asyncio.gather(*both, return_exceptions=True):
                if isinstance(ended, Exception):
                    _log.error("uplink_failed", exc_info=ended)
            await socket.close()
            self._protocol.lost()
        return socket.close_code or _ABNORMAL

    async def _connected(self, http: aiohttp.ClientSession) -> _Socket | None:
        try:
            async with asyncio.timeout(self._options.connect_timeout_s):
                return await http.ws_connect(
                    self._url,
                    headers=bearer_header(self._options.token),
                    max_msg_size=_LARGEST_BYTES,
                    heartbeat=self._options.ping_s,
                    timeout=ClientWSTimeout(ws_close=_CLOSE_S),
                    decode_text=False,
                )
        except aiohttp.WSServerHandshakeError as error:
            if error.status < _SERVER_FAULTS and error.status not in _WORTH_A_RETRY:
                raise NodeGaveUp(f"{self._url} answers with HTTP {error.status}") from None
            _log.info("scheduler_unreachable", status=error.status)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            _log.info("scheduler_unreachable", error=type(error).__name__)
        return None

    async def _read(self, socket: _Socket) -> None:
        while (frame := await socket.receive()).type in (WSMsgType.TEXT, WSMsgType.BINARY):
            try:
                message = decode_to_node(frame.data)
            except InvalidMessage as error:
                _log.warning("scheduler_unreadable", details=error.details)
                continue
            self._perform(self._protocol.receive(message))

    async def _write(self, socket: _Socket) -> None:
        """Send what is to be sent until the connection ends or is to be ended."""
        with suppress(aiohttp.ClientError, OSError):
            while True:
                self._perform(self._protocol.tick())
                message = self._protocol.next_message()
                if message is not None:
                    await socket.send_frame(encode(message), WSMsgType.TEXT)
                    self._protocol.sent(message)
                elif self._hung_up:
                    return
                else:
                    await self._rest()

    async def _rest(self) -> None:
        """Wait until something is to be done."""
        due = self._protocol.due
        self._stirred.clear()
        alarm = None if due is None else self._clock.call_at(due, self._stirred.set)
        try:
            await self._stirred.wait()
        finally:
            if alarm is not None:
                alarm.cancel()

    def _perform(self, events: list[Event]) -> None:
        for event in events:
            self._act(event)
        self._stirred.set()
