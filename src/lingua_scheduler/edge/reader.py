"""From bytes to whole WebSocket messages: the guard in front, the library's reader behind it.

The library would put messages into a queue and wake a task for each. Here the queue passes them on at once,
so a message costs no switch of tasks. This is the only module that touches the library's inner parts.
"""

from __future__ import annotations

from typing import Final, Protocol

from aiohttp import WebSocketError, WSMessage, WSMsgType
from aiohttp._websocket.models import WSMessageTextBytes
from aiohttp._websocket.reader import WebSocketDataQueue, WebSocketReader

from lingua_scheduler.edge.guard import FrameGuard
from lingua_scheduler.wire.close import CloseCode

_KNOWN_CODES: Final = {int(code): code for code in CloseCode}


class Listener(Protocol):
    """Who hears what a peer sends; nothing here may raise."""

    def on_text(self, payload: bytes) -> None:
        """Take a text message: valid UTF-8, not decoded."""

    def on_binary(self, payload: bytes) -> None:
        """Take a binary message."""

    def on_ping(self, payload: bytes) -> None:
        """Take a ping."""

    def on_close(self, code: int) -> None:
        """Take the peer's close frame; 0 when it named no code."""

    def on_offence(self, code: CloseCode, reason: str) -> None:
        """Learn that the peer broke the protocol; it will not be listened to any more."""


class _Inlet(WebSocketDataQueue):
    """Stands where the library has its queue."""

    __slots__ = ("_pass_on", "_reader")

    def __init__(self, reader: MessageReader) -> None:  # nothing ever waits in it: it needs no buffer
        self._reader = reader
        self._pass_on = reader.pass_on

    def feed_data(self, data: WSMessage | WSMessageTextBytes, size: int) -> None:  # noqa: ARG002 the size counts in a queue only
        self._pass_on(data.type, data.data)

    def set_exception(self, exc: BaseException, exc_cause: object = None) -> None:  # noqa: ARG002 as above
        self._reader.give_up(exc)


class MessageReader:
    """Turns the bytes of one client into messages for a listener."""

    __slots__ = ("_guard", "_listener", "_parser")

    def __init__(self, listener: Listener, guard: FrameGuard, max_message_bytes: int) -> None:
        self._listener: Listener | None = listener
        self._guard = guard
        self._parser = WebSocketReader(_Inlet(self), max_message_bytes + 1, compress=False, decode_text=False)

    def feed(self, data: bytes, now_s: float) -> None:
        """Read one chunk; after an offence or `stop` nothing is read any more."""
        if self._listener is None:
            return
        violation = self._guard.feed(data, now_s)
        if violation is None:
            self._parser.feed_data(data)
            return
        if violation.good_bytes:
            self._parser.feed_data(data[: violation.good_bytes])
        self._offend(violation.code, violation.reason)

    def stop(self) -> None:
        """Listen no more."""
        self._listener = None

    def pass_on(self, kind: WSMsgType, payload: bytes) -> None:
        """Take a message from the library."""
        listener = self._listener
        if listener is None:
            return
        if kind is WSMsgType.TEXT:
            if payload.isascii() or _is_utf8(payload):
                listener.on_text(payload)
            else:
                self._offend(CloseCode.INVALID_PAYLOAD, "text is not UTF-8")
        elif kind is WSMsgType.BINARY:
            listener.on_binary(payload)
        elif kind is WSMsgType.PING:
            listener.on_ping(payload)
        elif kind is WSMsgType.CLOSE:
            self._listener = None
            listener.on_close(int(payload))

    def give_up(self, error: BaseException) -> None:
        """Take an error from the library; its text may quote the peer and is not used."""
        code = error.code if isinstance(error, WebSocketError) else CloseCode.PROTOCOL_ERROR
        self._offend(_KNOWN_CODES.get(code, CloseCode.PROTOCOL_ERROR), "not a valid sequence of frames")

    def _offend(self, code: CloseCode, reason: str) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.on_offence(code, reason)


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True
