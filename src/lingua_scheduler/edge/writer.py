"""The way out of one socket: messages leave in order and with the tick that posted them; few wait for long.

What one tick of the event loop posts is written together at its end. Only while the transport is full does
anything wait longer, and nothing runs for it: the transport tells when it has room again.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from lingua_scheduler.aio import Alarm
from lingua_scheduler.edge.limits import SocketOptions
from lingua_scheduler.edge.surroundings import Surroundings
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.codec import encode
from lingua_scheduler.wire.common import Message

_TEXT: Final = 0x81
_CLOSE: Final = 0x88
_PONG: Final = 0x8A
_PING_FRAME: Final = b"\x89\x00"
_SHORT_BYTES: Final = 126
_MEDIUM_BYTES: Final = 65536
_REASON_BYTES: Final = 123
_COPY_BYTES: Final = 16 * 1024  # a longer payload is not worth copying, so it is written at once
_TICK_BYTES: Final = 64 * 1024  # more than this is not kept until the tick ends

_head_2 = struct.Struct("!BB").pack
_head_4 = struct.Struct("!BBH").pack
_head_10 = struct.Struct("!BBQ").pack


def _head(first: int, payload_bytes: int) -> bytes:
    if payload_bytes < _SHORT_BYTES:
        return _head_2(first, payload_bytes)
    if payload_bytes < _MEDIUM_BYTES:
        return _head_4(first, 126, payload_bytes)
    return _head_10(first, 127, payload_bytes)


def _close_frame(code: int, reason: str) -> bytes:
    """Build a close frame; a reason that is too long is cut between two characters."""
    text = reason.encode()[:_REASON_BYTES].decode(errors="ignore").encode()
    return _head(_CLOSE, 2 + len(text)) + code.to_bytes(2, "big") + text


def _nothing() -> None:
    """Stand where nobody needs to be told any more."""


class _Waiting(NamedTuple):
    payload: bytes
    droppable: bool


class Sink:
    """What the flow sees of a socket: post and close, neither of which ever waits or raises."""

    __slots__ = (
        "_around",
        "_backlog",
        "_backlog_bytes",
        "_farewell",
        "_moved",
        "_on_close",
        "_options",
        "_paused",
        "_stall",
        "_stall_bytes",
        "_tick",
        "_tick_bytes",
        "_transport",
        "close_code",
        "closed",
        "dropped",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        options: SocketOptions,
        around: Surroundings,
        on_close: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._options = options
        self._around = around
        self._on_close = on_close
        self._paused = False  # the transport holds more than it wants to
        self._tick: list[bytes] | None = None  # frames that leave when the tick ends
        self._tick_bytes = 0
        self._backlog: list[_Waiting] = []
        self._backlog_bytes = 0
        self._farewell = b""  # the close frame that goes out behind the backlog
        self._stall: Alarm | None = None
        self._stall_bytes = 0  # what the transport held when the stall alarm was set
        self._moved = False  # the transport has taken something since then
        self.closed = False  # nothing can be posted any more
        self.close_code: int | None = None  # what was agreed on, if anything was
        self.dropped = 0  # droppable messages that gave way to others

    def post(self, message: Message | bytes, *, droppable: bool = False) -> bool:
        """Send a message, or bytes encoded before; False when it will certainly not arrive."""
        if self.closed or self._transport.is_closing():
            return False
        payload = message if isinstance(message, bytes) else encode(message)
        if self._backlog or self._paused:
            return self._hold(_Waiting(payload, droppable))
        self._send(payload)
        return True

    def close(self, code: int, reason: str = "") -> None:
        """Say goodbye behind what was posted before; a peer that does not answer in time is cut off."""
        if self.closed:
            return
        self.closed = True
        self.close_code = code
        if code == CloseCode.SLOW_CONSUMER:
            self._forget_backlog()
        frame = _close_frame(code, reason)
        if self._backlog:
            self._farewell = frame
        else:
            self._add(frame)
            self.flush()
        self._on_close()

    def ping(self) -> None:
        """Ask the peer for a sign of life, unless it has yet to read what was sent before."""
        if not self.closed and self._has_room():
            self._add(_PING_FRAME)

    def pong(self, payload: bytes) -> None:
        """Answer a ping, unless the peer does not read anyway."""
        if not self.closed and self._has_room():
            self._add(_head(_PONG, len(payload)) + payload)

    def finish(self) -> None:
        """Close the transport: the closing handshake is over and nothing is to be said any more."""
        self._forget_backlog()
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        """Cut the connection without another byte."""
        self._forget_backlog()
        self._tick = None
        self._transport.abort()

    # what the transport tells

    def flush(self) -> None:
        """Write what this tick has brought so far; the outbox asks for it when the tick ends."""
        frames, self._tick, self._tick_bytes = self._tick, None, 0
        if frames and not self._transport.is_closing():
            self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))

    def pause(self) -> None:
        """Learn that the transport holds more than it wants to."""
        self._paused = True

    def resume(self) -> None:
        """Learn that the transport has room: what waits goes on its way."""
        self._paused = False
        self._moved = True
        while self._backlog and self._has_room():
            waiting = self._backlog.pop(0)
            self._backlog_bytes -= len(waiting.payload)
            self._send(waiting.payload)
        if not self._backlog:
            self._unwatch()
            if self._farewell:
                self._add(self._farewell)
                self._farewell = b""
        self.flush()

    def gone(self) -> None:
        """Learn that the transport is no more."""
        self.closed = True
        self._tick = None
        self._forget_backlog()
        self._on_close = _nothing  # whoever keeps the sink does not keep the connection

    def _has_room(self) -> bool:
        return not self._paused and not self._transport.is_closing()

    def _send(self, payload: bytes) -> None:
        head = _head(_TEXT, len(payload))
        if len(payload) <= _COPY_BYTES:
            self._add(head + payload)
        else:
            self.flush()
            self._transport.writelines((head, payload))

    def _add(self, frame: bytes) -> None:
        """Let a frame leave with this tick."""
        if self._tick is None:
            self._tick = [frame]
            self._tick_bytes = len(frame)
            self._around.outbox.add(self)
            return
        self._tick.append(frame)
        self._tick_bytes += len(frame)
        if self._tick_bytes > _TICK_BYTES:
            self.flush()

    def _hold(self, waiting: _Waiting) -> bool:
        size = len(waiting.payload)
        if not self._fits(size):
            self._drop_for(size)
            if not self._fits(size):
                if waiting.droppable:
                    self.dropped += 1
                else:
                    self.close(CloseCode.SLOW_CONSUMER, "reads too slowly")
                return False
        self._backlog.append(waiting)
        self._backlog_bytes += size
        if self._stall is None:
            self._watch()
        return True

    def _fits(self, size: int) -> bool:
        waiting = len(self._backlog)
        return not waiting or (
            waiting < self._options.send_queue_messages
            and self._backlog_bytes + size <= self._options.send_queue_bytes
        )

    def _drop_for(self, size: int) -> None:
        """Drop droppable messages, oldest first, until there is room or none is left."""
        messages_over = len(self._backlog) + 1 - self._options.send_queue_messages
        bytes_over = self._backlog_bytes + size - self._options.send_queue_bytes
        kept: list[_Waiting] = []
        for waiting in self._backlog:
            if waiting.droppable and (messages_over > 0 or bytes_over > 0):
                messages_over -= 1
                bytes_over -= len(waiting.payload)
                self._backlog_bytes -= len(waiting.payload)
                self.dropped += 1
            else:
                kept.append(waiting)
        self._backlog = kept

    def _forget_backlog(self) -> None:
        self._backlog.clear()
        self._backlog_bytes = 0
        self._farewell = b""
        self._unwatch()

    def _watch(self) -> None:
        self._moved = False
        self._stall_bytes = self._transport.get_write_buffer_size()
        stalled_s = self._around.clock.now() + self._options.send_stall_s
        self._stall = self._around.alarms.set(stalled_s, self._check_stall)

    def _unwatch(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _check_stall(self) -> None:
        if self._moved or self._transport.get_write_buffer_size() < self._stall_bytes:
            self._watch()
        else:
            self.close(CloseCode.SLOW_CONSUMER, "takes no data")
