"""A port kept for several processes: bound, so that nobody else gets it, and never listened on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from lingua_scheduler.edge.server import EdgeOptions
from lingua_scheduler.errors import ConfigError

_Address = tuple[socket.AddressFamily, str]


@contextmanager
def kept_port(options: EdgeOptions) -> Iterator[int]:
    """Keep the port of these options, or any free one for 0; ConfigError when it cannot be had."""
    if not hasattr(socket, "SO_REUSEPORT"):
        raise ConfigError("--workers: processes of this platform cannot share a port")
    with ExitStack() as kept:
        port = options.port
        try:
            for address in _addresses(options.host):
                if port and not options.reuse_port:
                    _bound(address, port, shared=False).close()  # nobody serves there
                port = kept.enter_context(_bound(address, port, shared=True)).getsockname()[1]
        except OSError as error:
            raise ConfigError(
                f"server.port: cannot listen on {options.host}:{options.port}: {error.strerror}"
            ) from error
        yield port


def _addresses(host: str) -> list[_Address]:
    found = socket.getaddrinfo(host or None, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, str(place[0])) for family, _, _, _, place in found))


def _bound(address: _Address, port: int, *, shared: bool) -> socket.socket:
    family, host = address
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((host, port))
    except OSError:
        made.close()
        raise
    return made
