"""Walks WebSocket frame headers before the library's reader sees them and finds what that reader lets pass.

The reader accepts unmasked frames, any number of empty fragments and any number of pings, and it learns of an
oversized message late. The guard looks only at headers: payloads are skipped, never copied.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from lingua_scheduler.edge.limits import SocketOptions, TokenBucket
from lingua_scheduler.wire.close import CloseCode

_FINAL: Final = 0x80
_MASKED: Final = 0x80
_RESERVED_BITS: Final = 0x70
_OPCODE: Final = 0x0F
_CONTINUATION: Final = 0x0
_LAST_DATA_OPCODE: Final = 0x2
_CONTROL: Final = 0x8
_LAST_CONTROL_OPCODE: Final = 0xA
_LENGTH: Final = 0x7F
_LENGTH_IN_2: Final = 126
_LENGTH_IN_8: Final = 127
_MASK_BYTES: Final = 4

_BAD, _CLOSE, _PING, _WHOLE, _FIRST, _MIDDLE, _LAST = range(7)


def _kind(first: int) -> int:
    """Classify a frame by its first byte."""
    opcode, final = first & _OPCODE, bool(first & _FINAL)
    if first & _RESERVED_BITS or _LAST_DATA_OPCODE < opcode < _CONTROL or opcode > _LAST_CONTROL_OPCODE:
        return _BAD
    if opcode >= _CONTROL:
        if not final:
            return _BAD
        return _CLOSE if opcode == _CONTROL else _PING
    if opcode == _CONTINUATION:
        return _LAST if final else _MIDDLE
    return _WHOLE if final else _FIRST


_KINDS: Final = bytes(_kind(first) for first in range(256))
_WHOLE_MESSAGES: Final = frozenset(first for first in range(256) if _KINDS[first] == _WHOLE)


class Violation(NamedTuple):
    """Why a connection must be closed, and how many bytes of the chunk came before the offending frame."""

    code: CloseCode
    reason: str
    good_bytes: int


class FrameGuard:
    """Judges the frames of one client, however the network has cut them into chunks."""

    __slots__ = (
        "_fragments",
        "_head",
        "_max_fragments",
        "_message_bytes",
        "_pings",
        "_skip",
        "max_message_bytes",
    )

    def __init__(self, options: SocketOptions, max_message_bytes: int, now_s: float) -> None:
        self.max_message_bytes = max_message_bytes  # may be raised once the peer is known
        self._max_fragments = options.max_fragments
        self._pings = TokenBucket(options.pings_per_s, options.pings_per_s, now_s)
        self._head = b""  # the beginning of a header whose rest has not come yet
        self._skip = 0  # mask and payload bytes still to come of the current frame
        self._fragments = 0  # frames seen of the current message, 0 between messages
        self._message_bytes = 0

    def feed(self, data: bytes, now_s: float) -> Violation | None:
        """Walk one chunk; the first offence is returned and nothing may be fed after it."""
        position, size = self._skip, len(data)
        if position >= size:
            self._skip = position - size
            return None
        known = len(self._head)
        if known:
            data = self._head + data
            size += known
            self._head = b""
        while position + 2 <= size:
            length = data[position + 1] & _LENGTH
            payload_at = position + 2
            if length >= _LENGTH_IN_2:
                payload_at += 2 if length == _LENGTH_IN_2 else 8
                if payload_at > size:
                    break
                length = int.from_bytes(data[position + 2 : payload_at], "big")
            first, second = data[position], data[position + 1]
            if first not in _WHOLE_MESSAGES or not self._fits(second, length):
                offence = self._judge(first, second, length, now_s)
                if offence is not None:
                    return Violation(*offence, max(0, position - known))
            position = payload_at + _MASK_BYTES + length
        if position < size:
            self._head = data[position:]
            self._skip = 0
        else:
            self._skip = position - size
        return None

    def _fits(self, second: int, length: int) -> bool:
        """Tell whether the only frame of a message is beyond reproach."""
        return second >= _MASKED and length <= self.max_message_bytes and not self._fragments

    def _judge(self, first: int, second: int, length: int, now_s: float) -> tuple[CloseCode, str] | None:
        kind = _KINDS[first]
        if kind == _BAD:
            return CloseCode.PROTOCOL_ERROR, "reserved bits, reserved opcode or fragmented control frame"
        if second < _MASKED:
            return CloseCode.PROTOCOL_ERROR, "frame is not masked"
        if kind > _PING:
            return self._grow(kind, length)
        if second & _LENGTH >= _LENGTH_IN_2:
            return CloseCode.PROTOCOL_ERROR, "control frame is longer than 125 bytes"
        if kind == _PING and not self._pings.take(1, now_s):
            return CloseCode.TOO_MANY_MESSAGES, "more pings than pings_per_s"
        return None

    def _grow(self, kind: int, length: int) -> tuple[CloseCode, str] | None:
        if (kind <= _FIRST) == (self._fragments > 0):
            return CloseCode.PROTOCOL_ERROR, "frame does not continue the message"
        self._fragments += 1
        self._message_bytes += length
        if self._message_bytes > self.max_message_bytes:
            return CloseCode.TOO_LARGE, "message is too long"
        if self._fragments > self._max_fragments:
            return CloseCode.TOO_LARGE, "message has more frames than max_fragments"
        if kind in (_WHOLE, _LAST):
            self._fragments = self._message_bytes = 0
        return None
