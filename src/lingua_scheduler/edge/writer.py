"""The way out of one socket: messages leave in order, at once when the network takes them, bounded when not.

Nothing runs for a socket that has nothing to send: a message goes straight into the transport, and only while
the transport is full does a task wait for it with what has piled up.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple, Protocol

from lingua_scheduler.aio import Alarm, Alarms
from lingua_scheduler.clock import Clock
from lingua_scheduler.edge.limits import SocketOptions
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
_COPY_BYTES: Final = 16 * 1024  # a longer payload is not worth copying behind its header

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


class FlowControl(Protocol):
    """What the sink must know of the transport's buffer."""

    @property
    def writing_paused(self) -> bool:
        """The transport holds more than it wants to."""
        ...


class Channel(NamedTuple):
    """One upgraded connection: its transport, its flow control, and how to wait for room."""

    transport: asyncio.Transport
    flow_control: FlowControl
    drain: Callable[[], Coroutine[Any, Any, None]]


class _Waiting(NamedTuple):
    payload: bytes
    droppable: bool


class Sink:
    """What the flow sees of a socket: post and close, neither of which ever waits or raises."""

    __slots__ = (
        "_alarms",
        "_backlog",
        "_backlog_bytes",
        "_clock",
        "_drain",
        "_farewell",
        "_flow_control",
        "_flusher",
        "_moved",
        "_on_close",
        "_options",
        "_stall",
        "_stall_bytes",
        "_transport",
        "close_code",
        "closed",
        "dropped",
    )

    def __init__(
        self,
        channel: Channel,
        options: SocketOptions,
        on_close: Callable[[], None],
        *,
        clock: Clock,
        alarms: Alarms,
    ) -> None:
        self._transport, self._flow_control, self._drain = channel
        self._options = options
        self._on_close = on_close
        self._clock = clock
        self._alarms = alarms
        self._backlog: list[_Waiting] = []
        self._backlog_bytes = 0
        self._farewell = b""  # the close frame that goes out behind the backlog
        self._flusher: asyncio.Task[None] | None = None
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
        if self._backlog or self._flow_control.writing_paused:
            return self._hold(_Waiting(payload, droppable))
        self._write(payload)
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
        elif not self._transport.is_closing():
            self._transport.write(frame)
        self._on_close()

    def ping(self) -> None:
        """Ask the peer for a sign of life, unless it has yet to read what was sent before."""
        if not self.closed and self._has_room():
            self._transport.write(_PING_FRAME)

    def pong(self, payload: bytes) -> None:
        """Answer a ping, unless the peer does not read anyway."""
        if not self.closed and self._has_room():
            self._transport.write(_head(_PONG, len(payload)) + payload)

    def finish(self) -> None:
        """Close the transport: the closing handshake is over and nothing is to be said any more."""
        self._forget_backlog()
        self._transport.close()

    def abort(self) -> None:
        """Cut the connection without another byte."""
        self._forget_backlog()
        self._transport.abort()

    def gone(self) -> None:
        """Learn that the transport is no more."""
        self.closed = True
        self._forget_backlog()
        self._unwatch()
        if self._flusher is not None:
            self._flusher.cancel()
            self._flusher = None

    def _has_room(self) -> bool:
        return not self._flow_control.writing_paused and not self._transport.is_closing()

    def _write(self, payload: bytes) -> None:
        head = _head(_TEXT, len(payload))
        if len(payload) <= _COPY_BYTES:
            self._transport.write(head + payload)
        else:
            self._transport.writelines((head, payload))

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
        if self._flusher is None:
            self._flusher = asyncio.get_running_loop().create_task(self._flush(), name="edge-flush")
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

    async def _flush(self) -> None:
        """Live while something waits: write whenever the transport has room."""
        self._watch()
        try:
            while self._backlog and not self._transport.is_closing():
                await self._drain()
                self._moved = True
                while self._backlog and self._has_room():
                    waiting = self._backlog.pop(0)
                    self._backlog_bytes -= len(waiting.payload)
                    self._write(waiting.payload)
            if self._farewell and not self._transport.is_closing():
                self._transport.write(self._farewell)
        except ConnectionError:
            self._transport.abort()
        finally:
            self._flusher = None
            self._unwatch()

    def _watch(self) -> None:
        self._moved = False
        self._stall_bytes = self._transport.get_write_buffer_size()
        self._stall = self._alarms.set(self._clock.now() + self._options.send_stall_s, self._check_stall)

    def _unwatch(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _check_stall(self) -> None:
        if self._moved or self._transport.get_write_buffer_size() < self._stall_bytes:
            self._watch()
        else:
            self.close(CloseCode.SLOW_CONSUMER, "takes no data")
