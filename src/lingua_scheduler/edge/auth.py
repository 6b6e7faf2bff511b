"""Which web pages may open a socket: a browser tells the page's origin and cannot be made to lie about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from lingua_scheduler.errors import ConfigError

ANY_ORIGIN: Final = "*"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_Origin = tuple[str, str, int]


def _parse(origin: str) -> _Origin | None:
    """Read `scheme://host[:port]` with nothing behind it; None for everything else, `null` included."""
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        return None
    scheme, host = parts.scheme, parts.hostname
    if scheme not in _DEFAULT_PORTS or not host or parts.path or "@" in parts.netloc:
        return None
    if "?" in origin or "#" in origin or not origin.isascii() or not origin.isprintable():
        return None
    return scheme, host, port or _DEFAULT_PORTS[scheme]


class OriginPolicy:
    """Decides by the `Origin` header before a connection is upgraded."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self._any = ANY_ORIGIN in allowed
        self._allowed: set[_Origin] = set()
        for entry in allowed:
            origin = _parse(entry.removesuffix("/"))
            if origin is not None:
                self._allowed.add(origin)
            elif entry != ANY_ORIGIN:
                raise ConfigError(
                    "server.allowed_origins: every entry must look like https://host or https://host:port"
                )

    def permits(self, origins: Sequence[str], host: str) -> bool:
        """Judge all `Origin` headers of a request; none at all means that no browser sent it.

        Without a list only pages of the same host and port as the `Host` header are let in.
        """
        if not origins or self._any:
            return True
        if len(origins) > 1 or (origin := _parse(origins[0])) is None:
            return False
        if self._allowed:
            return origin in self._allowed
        return origin == _parse(f"{origin[0]}://{host}")
