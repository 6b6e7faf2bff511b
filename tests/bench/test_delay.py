"""A network that is farther: every byte passes, in order, and the end of one side is that of the other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lingua_scheduler.bench.delay import Delay
from lingua_scheduler.bench.reactor import Reactor

LARGE = bytes(range(256)) * 20_000


@contextmanager
def passed_on(delay_s: float) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Give both ends of a connection through a network with this delay."""
    reactor = Reactor()
    with socket.create_server(("127.0.0.1", 0)) as server:
        delay = Delay(reactor, server.getsockname(), delay_s)
        serving = threading.Thread(target=reactor.run)
        serving.start()
        try:
            with socket.create_connection(("127.0.0.1", delay.port), timeout=10) as near:
                far, _ = server.accept()
                far.settimeout(10)
                with far:
                    yield near, far
        finally:
            reactor.stop()
            serving.join()
            delay.close()


def received(end: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := end.recv(1 << 20)):
        data += more
    return data


@pytest.mark.parametrize("delay_s", [0.0, 0.002])
def test_every_byte_passes_in_order_both_ways(delay_s: float) -> None:
    with passed_on(delay_s) as (near, far):
        for here, there in ((near, far), (far, near)):
            sending = threading.Thread(target=here.sendall, args=(LARGE,))
            sending.start()
            assert received(there, len(LARGE)) == LARGE
            sending.join()


def test_the_end_of_one_side_is_that_of_the_other() -> None:
    with passed_on(0.0) as (near, far):
        near.close()
        assert far.recv(1) == b""


def test_without_anybody_to_pass_on_to_a_connection_ends() -> None:
    reactor = Reactor()
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = server.getsockname()
    delay = Delay(reactor, nobody, 0.0)
    serving = threading.Thread(target=reactor.run)
    serving.start()
    with socket.create_connection(("127.0.0.1", delay.port), timeout=10) as near:
        assert near.recv(1) == b""
    reactor.stop()
    serving.join()
    delay.close()
