"""The event loop of the load generator: sockets and moments, and nothing that costs time per connection.

Unlike the usual loops it wakes up with the precision of the system's clock, not of milliseconds, and there
is no task, future or buffer object per message.
"""

from __future__ import annotations

import heapq
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Protocol

from lingua_scheduler.bench import sound

_READ_BYTES = 65536
_AT_ONCE = 32  # moments that are served before sockets are looked at again
_IDLE_S = 0.5
_LENGTH_IN_2, _LENGTH_IN_8 = 126, 127
_TEXT, _BINARY, _CLOSE, _PING = 1, 2, 8, 9
_SWITCHING = 101
_NO_CODE = 1005
_BIND_WITHOUT_PORT = 24  # IP_BIND_ADDRESS_NO_PORT, which the socket module does not name before 3.12

Act = Callable[[float], float | None]
"""Does what is due at a moment; gives the next moment, if there is one."""


class Hearer(Protocol):
    """Who has a connection."""

    def opened(self) -> None:
        """The server has agreed to a WebSocket."""

    def refused(self, status: int, retry_after_s: float | None) -> None:
        """There will be no WebSocket; 0 when there was not even an answer."""

    def heard(self, payload: bytes, now_s: float) -> None:
        """A message has arrived completely."""

    def ended(self, code: int) -> None:
        """The connection, which was open, is gone."""


class Reactor:
    """Serves moments and sockets until it is stopped."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._ready: dict[int, Callable[[int], None]] = {}
        self._moments: list[tuple[float, int, Act]] = []
        self._count = 0
        self._stopped = False

    def at(self, moment_s: float, act: Act) -> None:
        """Call at a moment of the monotonic clock."""
        self._count += 1
        heapq.heappush(self._moments, (moment_s, self._count, act))

    def watch(self, file: int, ready: Callable[[int], None], *, writing: bool = False) -> None:
        """Call when a file can be read, or written."""
        self._ready[file] = ready
        self._poll.register(file, select.EPOLLIN | (select.EPOLLOUT if writing else 0))

    def change(self, file: int, *, writing: bool) -> None:
        """Ask for writing as well, or no longer."""
        self._poll.modify(file, select.EPOLLIN | (select.EPOLLOUT if writing else 0))

    def forget(self, file: int) -> None:
        """Call no more."""
        if self._ready.pop(file, None) is not None:
            self._poll.unregister(file)

    def stop(self) -> None:
        """Return from `run` soon."""
        self._stopped = True

    def run(self) -> None:
        """Serve until stopped."""
        moments, poll, ready = self._moments, self._poll, self._ready
        while not self._stopped:
            now_s = time.monotonic()
            served = 0
            while moments and moments[0][0] <= now_s and served < _AT_ONCE:
                due_s, number, act = heapq.heappop(moments)
                next_s = act(due_s)
                if next_s is not None:
                    heapq.heappush(moments, (next_s, number, act))
                served += 1
            wait_s = moments[0][0] - time.monotonic() if moments else _IDLE_S
            if wait_s > 0 and not self._stopped:
                # to the microsecond, which waiting for events by itself does not offer
                select.select([poll], [], [], min(wait_s, _IDLE_S))
            for file, events in poll.poll(0):
                call = ready.get(file)
                if call is not None:
                    call(events)


class Connection:
    """A client's WebSocket."""

    __slots__ = (
        "_backlog",
        "_have",
        "_hearer",
        "_host",
        "_need",
        "_open",
        "_parts",
        "_path",
        "_reactor",
        "_socket",
    )

    def __init__(
        self, reactor: Reactor, address: tuple[str, int], path: str, hearer: Hearer, *, source: str = ""
    ) -> None:
        """Begin to connect, from an address of this machine if one is named."""
        self._reactor = reactor
        self._hearer = hearer
        self._host, self._path = f"{address[0]}:{address[1]}", path
        self._open = False
        self._backlog = b""
        self._parts: list[bytes] = []  # of a message that has not arrived completely
        self._have = self._need = 0
        self._socket: socket.socket | None = socket.socket()
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if source:
            self._socket.setsockopt(socket.IPPROTO_IP, _BIND_WITHOUT_PORT, 1)
            self._socket.bind((source, 0))
        self._socket.connect_ex(address)
        reactor.watch(self._socket.fileno(), self._connected, writing=True)

    def send(self, data: bytes) -> None:
        """Send framed bytes; what the network does not take now waits."""
        if self._socket is None:
            return
        if self._backlog:
            self._backlog += data
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._lost(_NO_CODE)
            return
        if sent < len(data):
            self._backlog = data[sent:]
            self._reactor.change(self._socket.fileno(), writing=True)

    def cut(self) -> None:
        """Vanish; nobody is told."""
        self._shut()

    def close(self) -> None:
        """Say goodbye and vanish; nobody is told."""
        self.send(sound.close(1000))
        self._shut()

    def _connected(self, _events: int) -> None:
        if self._socket is None:
            return
        if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._shut()
            self._hearer.refused(0, None)
            return
        file = self._socket.fileno()
        self._reactor.forget(file)
        self._reactor.watch(file, self._greeted)
        self.send(
            f"GET {self._path} HTTP/1.1\r\nHost: {self._host}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: bGluZ3VhLWJlbmNoLWtleQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )

    def _greeted(self, events: int) -> None:
        """Read the answer to the upgrade; what follows it are frames already."""
        data = self._received(events)
        if data is None:
            if self._socket is None:
                self._hearer.refused(0, None)
            return
        self._parts.append(data)
        head, end, rest = b"".join(self._parts).partition(b"\r\n\r\n")
        if not end:
            return
        self._parts.clear()
        status, retry_after_s = _answer(head)
        if status != _SWITCHING or self._socket is None:
            self._shut()
            self._hearer.refused(status, retry_after_s)
            return
        file = self._socket.fileno()
        self._reactor.forget(file)
        self._reactor.watch(file, self._readable)
        self._open = True
        self._hearer.opened()
        if rest:
            self._feed(rest)

    def _readable(self, events: int) -> None:
        data = self._received(events)
        if data is not None:
            self._feed(data)
        elif self._socket is None:
            self._end(_NO_CODE)

    def _received(self, events: int) -> bytes | None:
        """Read what is there; None when there is nothing, or (then without a socket) the end."""
        if self._socket is None:
            return None
        if events & select.EPOLLOUT and self._backlog:
            data, self._backlog = self._backlog, b""
            self._reactor.change(self._socket.fileno(), writing=False)
            self.send(data)
        if self._socket is None or not events & ~select.EPOLLOUT:
            return None
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            self._shut(keep_open=True)
            return None
        return data

    def _feed(self, data: bytes) -> None:
        if self._parts:
            self._parts.append(data)
            self._have += len(data)
            if self._have < self._need:
                return
            data = b"".join(self._parts)
            self._parts.clear()
        now_s, at, size = time.monotonic(), 0, len(data)
        need = 2
        while size - at >= need:
            length, head = data[at + 1], 2
            if length >= _LENGTH_IN_2:
                head = 4 if length == _LENGTH_IN_2 else 10
                if size - at < head:
                    need = head
                    break
                length = int.from_bytes(data[at + 2 : at + head], "big")
            if size - at < head + length:
                need = head + length
                break
            self._frame(data[at] & 0x0F, data[at + head : at + head + length], now_s)
            at += head + length
        if at < size:
            self._parts.append(data[at:] if at else data)
            self._have, self._need = size - at, need

    def _frame(self, kind: int, payload: bytes, now_s: float) -> None:
        if not self._open:
            return
        if kind in (_TEXT, _BINARY):
            self._hearer.heard(payload, now_s)
        elif kind == _PING:
            self.send(sound.pong(payload))
        elif kind == _CLOSE:
            self._lost(struct.unpack("!H", payload[:2])[0] if len(payload) > 1 else _NO_CODE)

    def _lost(self, code: int) -> None:
        self._shut(keep_open=True)
        self._end(code)

    def _end(self, code: int) -> None:
        if self._open:
            self._open = False
            self._hearer.ended(code)

    def _shut(self, *, keep_open: bool = False) -> None:
        ours, self._socket = self._socket, None
        self._open = self._open and keep_open
        self._backlog = b""
        if ours is not None:
            self._reactor.forget(ours.fileno())
            ours.close()


def _answer(head: bytes) -> tuple[int, float | None]:
    first, *lines = head.split(b"\r\n")
    words = first.split(maxsplit=2)
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    for line in lines:
        name, _, value = line.partition(b":")
        if name.lower() == b"retry-after" and value.strip().isdigit():
            return status, float(value)
    return status, None
