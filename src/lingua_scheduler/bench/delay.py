"""A network that is farther than this machine: passes connections on, and lets every answer come late.

Run as a module, with the file of its settings as the one argument: its one address is where to pass on to,
and its observations are the port on which it listens. The delay of a whole round trip lies on the way back;
bytes of one connection keep their order, and more of them may be under way at a time.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from contextlib import suppress

import msgspec

from lingua_scheduler.bench.reactor import Reactor
from lingua_scheduler.bench.records import FINISH, READY, Settings, settings_of, write
from lingua_scheduler.bench.reporting import Line

_READ_BYTES = 1 << 18


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """Where the far network begins."""

    port: int


class _End:
    """One side of a connection: what comes is passed to the other side after a time."""

    def __init__(self, reactor: Reactor, own: socket.socket, delay_s: float) -> None:
        self.other: _End | None = None
        self._reactor = reactor
        self._socket = own
        self._delay_s = delay_s
        self._backlog = b""
        self._closed = False
        own.setblocking(False)
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reactor.watch(own.fileno(), self._ready)

    def send(self, data: bytes) -> None:
        """Send; what the network does not take now waits."""
        if self._closed:
            return
        if self._backlog:
            self._backlog += data
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        if sent < len(data):
            self._backlog = data[sent:]
            self._reactor.change(self._socket.fileno(), writing=True)

    def close(self) -> None:
        """End both sides."""
        if not self._closed:
            self._closed = True
            self._reactor.forget(self._socket.fileno())
            self._socket.close()
            if self.other is not None:
                self.other.close()

    def _ready(self, events: int) -> None:
        if events & select.EPOLLOUT and self._backlog:
            data, self._backlog = self._backlog, b""
            self._reactor.change(self._socket.fileno(), writing=False)
            self.send(data)
        if self._closed or not events & ~select.EPOLLOUT:
            return
        data = b""
        with suppress(BlockingIOError, OSError):
            data = self._socket.recv(_READ_BYTES)
        if not data:
            self.close()
        elif self.other is not None:
            self._pass_on(self.other, data)

    def _pass_on(self, other: _End, data: bytes) -> None:
        if self._delay_s:
            self._reactor.at(time.monotonic() + self._delay_s, lambda _: other.send(data))
        else:
            other.send(data)


class Delay:
    """Everything that goes through."""

    def __init__(self, reactor: Reactor, address: tuple[str, int], delay_s: float) -> None:
        self._reactor = reactor
        self._address = address
        self._delay_s = delay_s
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._server.setblocking(False)
        self.port = int(self._server.getsockname()[1])
        reactor.watch(self._server.fileno(), self._connected)

    def close(self) -> None:
        """Listen no more."""
        self._reactor.forget(self._server.fileno())
        self._server.close()

    def _connected(self, _events: int) -> None:
        with suppress(BlockingIOError):
            near, _ = self._server.accept()
            try:
                far = socket.create_connection(self._address)
            except OSError:
                near.close()
                return
            here, there = _End(self._reactor, near, 0.0), _End(self._reactor, far, self._delay_s)
            here.other, there.other = there, here


def _serve(settings: Settings) -> None:
    reactor = Reactor()
    line = Line(reactor, {FINISH: lambda _: reactor.stop()})
    delay_s = settings.profile.system.redis_delay_ms / 1000
    delay = Delay(reactor, settings.addresses[0], delay_s)
    write(settings.observations, Listening(port=delay.port))
    line.say(READY)
    reactor.run()
    delay.close()


if __name__ == "__main__":
    _serve(settings_of(sys.argv))
