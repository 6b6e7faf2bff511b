"""Where clients and nodes connect to: a scheduler's address, with or without the path of its socket."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

SESSION_PATH = "/ws/session"
NODE_PATH = "/ws/node"

_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}


def endpoint(url: str, path: str) -> str:
    """Give the WebSocket address; a path that the URL names itself stays. ValueError for any other URL."""
    parts = urlsplit(url)
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None or not parts.hostname:
        raise ValueError("an address looks like ws://host:port")
    _ = parts.port  # a port that is no number is a ValueError of its own
    own_path = parts.path if parts.path.strip("/") else path
    return urlunsplit((scheme, parts.netloc, own_path, parts.query, ""))
