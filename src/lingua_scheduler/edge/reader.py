"""From bytes to whole WebSocket messages: one walk over a client's frames, in the callback that brought them.

Each header is judged before its payload has come. Whole frames take the short way; what the network or the
peer has cut is put together beside it. The unmasking is the library's, in C: this is the only module that
touches its inner parts.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Final

from aiohttp import WSCloseCode
from aiohttp._websocket.helpers import websocket_mask

from lingua_scheduler.clock import Clock
from lingua_scheduler.edge.limits import SocketOptions, TokenBucket
from lingua_scheduler.wire.close import CloseCode

# every first byte that a frame may have
_TEXT: Final = 0x81
_BINARY: Final = 0x82
_CLOSE: Final = 0x88
_PING: Final = 0x89
_PONG: Final = 0x8A
_FIRST_OF_TEXT: Final = 0x01
_FIRST_OF_BINARY: Final = 0x02
_MIDDLE: Final = 0x00
_LAST: Final = 0x80
_FINAL: Final = 0x80

_WHOLE: Final = frozenset((_TEXT, _BINARY))
_CONTROL: Final = frozenset((_CLOSE, _PING, _PONG))
_FIRST: Final = frozenset((_FIRST_OF_TEXT, _FIRST_OF_BINARY))
_NEXT: Final = frozenset((_MIDDLE, _LAST))
_KNOWN: Final = _WHOLE | _CONTROL | _FIRST | _NEXT

_MASKED: Final = 0x80
_LENGTH: Final = 0x7F
_LENGTH_IN_2: Final = 126
_LENGTH_IN_8: Final = 127
_PAYLOAD_AT: Final = {_LENGTH_IN_2: 8, _LENGTH_IN_8: 14}  # behind length and mask
_PAYLOAD_AT_LEAST_AT: Final = 6

_CLOSE_CODES: Final = frozenset(WSCloseCode)
_FREE_CODES: Final = 3000  # from here on a close code may mean anything


class _Offence(Exception):
    """A frame that no client should send."""

    def __init__(self, code: CloseCode, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


class _Begun:
    """A message that comes in several frames."""

    __slots__ = ("frames", "kind", "payload")

    def __init__(self, first: int) -> None:
        self.kind = _FINAL | first
        self.frames = 0
        self.payload = bytearray()


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


class MessageReader(asyncio.Protocol, ABC):
    """Hears one client: set on a transport, it calls `on_...` for all that comes, in order."""

    __slots__ = (
        "_begun",
        "_clock",
        "_cut",
        "_deaf",
        "_missing",
        "_options",
        "_pings",
        "heard_s",
        "max_message_bytes",
    )

    def __init__(self, clock: Clock, options: SocketOptions, max_message_bytes: int) -> None:
        self.heard_s = clock.now()
        self.max_message_bytes = max_message_bytes  # may be raised once the peer is known
        self._clock = clock
        self._options = options
        self._pings = TokenBucket(options.pings_per_s, options.pings_per_s, self.heard_s)
        self._begun: _Begun | None = None
        self._cut: bytearray | None = None  # the beginning of a frame whose rest has not come yet
        self._missing = 0  # bytes of that rest; 0 while the header is not whole
        self._deaf = False

    @abstractmethod
    def on_message(self, payload: bytes, *, binary: bool) -> None:
        """Take a message; a text is valid UTF-8, not decoded. Nothing of what is called may raise."""

    @abstractmethod
    def on_ping(self, payload: bytes) -> None:
        """Take a ping."""

    @abstractmethod
    def on_close(self, code: int) -> None:
        """Take the peer's close frame, 0 when it named no code; nothing is heard after it."""

    @abstractmethod
    def on_offence(self, code: CloseCode, reason: str) -> None:
        """Learn that the peer broke the protocol; nothing is heard after it."""

    def stop(self) -> None:
        """Hear nothing any more."""
        self._deaf = True
        self._cut = self._begun = None

    def data_received(self, data: bytes) -> None:
        """Take a chunk from the transport."""
        self.heard_s = self._clock.now()
        try:
            if self._cut is not None:
                data = self._continue(self._cut, data)
            at, size = 0, len(data)
            while at + 2 <= size and not self._deaf:
                first, second = data[at], data[at + 1]
                length, payload_at = second & _LENGTH, at + _PAYLOAD_AT_LEAST_AT
                if length >= _LENGTH_IN_2:
                    payload_at = at + _PAYLOAD_AT[length]
                    if payload_at - 4 > size:
                        break
                    if length == _LENGTH_IN_2:
                        length = data[at + 2] << 8 | data[at + 3]
                    else:
                        length = int.from_bytes(data[at + 2 : at + 10], "big")
                if first not in _WHOLE or second < _MASKED or length > self.max_message_bytes or self._begun:
                    self._judge(first, second, length)
                end = payload_at + length
                if end > size:
                    self._missing = end - size
                    break
                payload = bytearray(data[payload_at:end])
                websocket_mask(data[payload_at - 4 : payload_at], payload)
                self._take(first, bytes(payload))
                at = end
            if at < size and not self._deaf:
                self._cut = bytearray(data[at:])
        except _Offence as offence:
            self.stop()
            self.on_offence(offence.code, offence.reason)

    def _continue(self, cut: bytearray, data: bytes) -> bytes:
        """Add a chunk to the frame that was cut; give what is to be walked over now."""
        missing = self._missing
        if not missing:
            self._cut = None
            return bytes(cut) + data
        cut += data[:missing]
        if len(data) < missing:
            self._missing = missing - len(data)
            return b""
        self._cut, self._missing = None, 0
        first, payload_at = cut[0], _PAYLOAD_AT.get(cut[1] & _LENGTH, _PAYLOAD_AT_LEAST_AT)
        mask = bytes(cut[payload_at - 4 : payload_at])
        del cut[:payload_at]
        websocket_mask(mask, cut)
        self._take(first, bytes(cut))
        return data[missing:]

    def _judge(self, first: int, second: int, length: int) -> None:
        """Look at the header of a frame that is not simply a whole message."""
        if first not in _KNOWN:
            raise _Offence(
                CloseCode.PROTOCOL_ERROR, "reserved bits, reserved opcode or fragmented control frame"
            )
        if second < _MASKED:
            raise _Offence(CloseCode.PROTOCOL_ERROR, "frame is not masked")
        if first not in _CONTROL:
            self._grow(first, length)
        elif second & _LENGTH >= _LENGTH_IN_2:
            raise _Offence(CloseCode.PROTOCOL_ERROR, "control frame is longer than 125 bytes")
        elif first != _CLOSE and not self._pings.take(1, self.heard_s):
            raise _Offence(CloseCode.TOO_MANY_MESSAGES, "more pings than pings_per_s")

    def _grow(self, first: int, length: int) -> None:
        """Count a data frame with the message it belongs to."""
        begun = self._begun
        if (first in _NEXT) != (begun is not None):
            raise _Offence(CloseCode.PROTOCOL_ERROR, "frame does not continue the message")
        if begun is None:
            begun = _Begun(first)
            if first in _FIRST:
                self._begun = begun
        begun.frames += 1
        if len(begun.payload) + length > self.max_message_bytes:
            raise _Offence(CloseCode.TOO_LARGE, "message is too long")
        if begun.frames > self._options.max_fragments:
            raise _Offence(CloseCode.TOO_LARGE, "message has more frames than max_fragments")

    def _take(self, kind: int, payload: bytes) -> None:
        """Pass on what a frame holds that has been judged and is here as a whole."""
        if kind not in _WHOLE and self._begun is not None and kind not in _CONTROL:
            begun = self._begun
            begun.payload += payload
            if kind != _LAST:
                return
            self._begun = None
            kind, payload = begun.kind, bytes(begun.payload)
        if kind == _TEXT:
            if not payload.isascii() and not _is_utf8(payload):
                raise _Offence(CloseCode.INVALID_PAYLOAD, "text is not UTF-8")
            self.on_message(payload, binary=False)
        elif kind == _BINARY:
            self.on_message(payload, binary=True)
        elif kind == _PING:
            self.on_ping(payload)
        elif kind == _CLOSE:
            self._part(payload)

    def _part(self, payload: bytes) -> None:
        code = int.from_bytes(payload[:2], "big")
        if len(payload) == 1 or (payload and code < _FREE_CODES and code not in _CLOSE_CODES):
            raise _Offence(CloseCode.PROTOCOL_ERROR, "not a valid close frame")
        if not _is_utf8(payload[2:]):
            raise _Offence(CloseCode.INVALID_PAYLOAD, "reason is not UTF-8")
        self.stop()
        self.on_close(code)
