"""The generator's event loop: moments in order, and WebSocket messages however the network cuts them."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

import pytest

from lingua_scheduler.bench.reactor import Connection, Reactor

SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"


class Ear:
    def __init__(self, reactor: Reactor, until: int = 1) -> None:
        self.reactor = reactor
        self.until = until
        self.news: list[object] = []

    def add(self, what: object) -> None:
        self.news.append(what)
        if len(self.news) >= self.until:
            self.reactor.stop()

    def opened(self) -> None:
        self.add("opened")

    def refused(self, status: int, retry_after_s: float | None) -> None:
        self.add(("refused", status, retry_after_s))

    def heard(self, payload: bytes, now_s: float) -> None:
        assert now_s <= time.monotonic()
        self.add(payload)

    def ended(self, code: int) -> None:
        self.add(("ended", code))


def text(payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        return bytes((0x81, size)) + payload
    if size < 65536:
        return b"\x81\x7e" + size.to_bytes(2, "big") + payload
    return b"\x81\x7f" + size.to_bytes(8, "big") + payload


def spoken_to(answers: list[bytes], until: int) -> tuple[list[object], bytes]:
    """Connect to a server that says these bytes, each at once; give what was told, and what it received."""
    reactor, received = Reactor(), []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                received.append(peer.recv(65536))
                for answer in answers:
                    peer.sendall(answer)
                peer.settimeout(0.2)
                with suppress(OSError):
                    received.append(peer.recv(65536))

        serving = threading.Thread(target=serve)
        serving.start()
        ear = Ear(reactor, until)
        connection = Connection(reactor, server.getsockname(), "/ws/session", ear)
        reactor.run()
        connection.cut()
        serving.join()
    return ear.news, b"".join(received)


def test_moments_are_served_in_their_order_and_may_come_again() -> None:
    reactor, served = Reactor(), []
    now_s = time.monotonic()

    def again(due_s: float) -> float | None:
        served.append(due_s)
        if len(served) == 4:
            reactor.stop()
            return None
        return due_s + 0.002

    reactor.at(now_s + 0.003, again)
    reactor.at(now_s, served.append)
    reactor.run()
    assert served == sorted(served)
    assert served[0] == now_s


def test_messages_arrive_however_they_are_cut() -> None:
    payloads = [b"a", b"b" * 300, b"c" * 70_000, b""]
    whole = SWITCH + b"".join(map(text, payloads))
    for size in (len(whole), 1000, 7):
        pieces = [whole[at : at + size] for at in range(0, len(whole) if size > 7 else 600, size)]
        rest = whole[600 + (7 - 600 % 7) % 7 :] if size == 7 else b""
        news, asked = spoken_to([*pieces, rest] if rest else pieces, until=5)
        assert news == ["opened", *payloads]
        assert asked.startswith(b"GET /ws/session HTTP/1.1\r\n")


def test_a_ping_is_answered_and_a_close_is_told() -> None:
    news, received = spoken_to([SWITCH, b"\x89\x02hi", b"\x88\x02\x11\x3a"], until=2)
    assert news == ["opened", ("ended", 4410)]
    assert received.count(b"\x8a\x82") == 1


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 503 Busy\r\nRetry-After: 3\r\n\r\n", ("refused", 503, 3.0)),
        (b"HTTP/1.1 403 No\r\n\r\n", ("refused", 403, None)),
        (b"", ("refused", 0, None)),
    ],
)
def test_a_refusal_is_told_with_its_reason(answer: bytes, told: object) -> None:
    assert spoken_to([answer], until=1)[0] == [told]


def test_a_server_that_is_not_there_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    reactor = Reactor()
    ear = Ear(reactor)
    Connection(reactor, address, "/", ear)
    reactor.run()
    assert ear.news == [("refused", 0, None)]
