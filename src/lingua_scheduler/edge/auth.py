"""Who may open a socket: web pages by their origin, and everybody by the key or token they show.

A browser tells a page's origin and cannot be made to lie about it. It cannot send `Authorization` with a
WebSocket, so its token comes as a subprotocol. A token in an address is not read: addresses are logged.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from lingua_scheduler.core.keys import NotLetIn, Refusal, bearer_of
from lingua_scheduler.errors import ConfigError
from lingua_scheduler.flow.admission_pass import Pass
from lingua_scheduler.flow.credentials import Credentials, Purpose

ANY_ORIGIN: Final = "*"
PROTOCOL: Final = "lingua"
"""The subprotocol that is answered to whoever offers it."""
_BEARER: Final = "bearer."
_TRACEPARENT: Final = "traceparent"
_RETRY_AFTER_S: Final = (1, 5)
_LATER: Final = (Refusal.THROTTLED, Refusal.CROWDED)
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


class Shown(NamedTuple):
    """What a request shows, None for nothing and empty for nothing readable, and the protocol to answer."""

    credential: str | None
    protocol: str | None
    traceparent: str | None = None  # the trace that it goes on with


def shown_by(request: web.Request) -> Shown:
    """Read key or token of a request; more than one of them is none."""
    headers = request.headers
    offers = [
        offer.strip()
        for header in headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, ())
        for offer in header.split(",")
    ]
    protocol = PROTOCOL if PROTOCOL in offers else None
    found = [offer.removeprefix(_BEARER) for offer in offers if offer.startswith(_BEARER)]
    said = bearer_of(headers.getall(hdrs.AUTHORIZATION, ()))
    if said is not None:
        found.append(said)
    parents = headers.getall(_TRACEPARENT, [])
    parent = parents[0] if len(parents) == 1 else None
    if not found:
        return Shown(None, protocol, parent)
    return Shown(found[0] if len(found) == 1 else "", protocol, parent)


class Gatekeeper:
    """Asks everybody for a key or token before the upgrade."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def admit(self, purpose: Purpose, shown: Shown, remote: str) -> Pass:
        """Let somebody in; raise the HTTP answer for anybody else, the same whatever is wrong with a key."""
        try:
            admitted = self._credentials.let_in(purpose, shown.credential, remote)
        except NotLetIn as refusal:
            raise _answer(refusal.why) from None
        admitted.traceparent = shown.traceparent
        return admitted


def _answer(why: Refusal) -> web.HTTPException:
    later = {hdrs.RETRY_AFTER: str(random.randint(*_RETRY_AFTER_S))}  # noqa: S311 spreads a storm
    if why is Refusal.UNREADY:
        return web.HTTPServiceUnavailable(headers=later)
    if why in _LATER:
        return web.HTTPTooManyRequests(headers=later)
    return web.HTTPUnauthorized(text="A key or token is needed.", headers={hdrs.WWW_AUTHENTICATE: "Bearer"})
