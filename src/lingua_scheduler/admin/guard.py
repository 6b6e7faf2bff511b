"""Who may give orders over HTTP: whoever has the admin token or, without one, a program on this machine."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from functools import wraps
from urllib.parse import urlsplit

import msgspec
from aiohttp import hdrs, web

from lingua_scheduler.secret import Secret

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_BEARER = "bearer "
_PROXY_MARKS = ("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP")
_SAME_PAGE = ("same-origin", "none")
_JSON = "application/json"


class AdminOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who may give orders over HTTP."""

    token: Secret = Secret("")
    """What orders must bring as `Authorization: Bearer`; empty: only programs on this machine give any."""


def json_answer(data: object, *, status: int = 200) -> web.Response:
    """Answer with JSON."""
    return web.Response(body=msgspec.json.encode(data), status=status, content_type=_JSON)


def problem(status: int, title: str, detail: str) -> web.Response:
    """Answer with what went wrong, in the form of RFC 9457."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return web.Response(
        body=msgspec.json.encode(body), status=status, content_type="application/problem+json"
    )


class Guard:
    """Lets requests of operators through, and nobody else's."""

    def __init__(self, options: AdminOptions) -> None:
        self._token = options.token

    def only(self, handler: Handler) -> Handler:
        """Make a handler that refuses strangers."""

        @wraps(handler)
        async def guarded(request: web.Request) -> web.StreamResponse:
            return self._refusal(request) or await handler(request)

        return guarded

    def _refusal(self, request: web.Request) -> web.Response | None:
        if self._token:
            if not self._has_token(request):
                answer = problem(401, "Unauthorized", "send Authorization: Bearer with the admin token")
                answer.headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
                return answer
        elif not _is_local(request):
            return problem(403, "Forbidden", "set admin.token to give orders from elsewhere")
        if request.method == hdrs.METH_POST and request.content_type != _JSON:
            return problem(415, "Unsupported Media Type", f"send Content-Type: {_JSON}")
        return None

    def _has_token(self, request: web.Request) -> bool:
        said = request.headers.getall(hdrs.AUTHORIZATION, ())
        if len(said) != 1 or said[0][: len(_BEARER)].lower() != _BEARER:
            return False
        brought = said[0][len(_BEARER) :].strip()
        return hmac.compare_digest(brought.encode(errors="replace"), self._token.encode())


def _is_local(request: web.Request) -> bool:
    """Tell a program of this machine from a proxy on it, and from a web page that makes a browser ask."""
    headers = request.headers
    if not _is_loopback(request.remote or "") or any(mark in headers for mark in _PROXY_MARKS):
        return False
    host = _host(f"//{headers.get(hdrs.HOST, '')}")
    if host is None or not (host == "localhost" or _is_loopback(host)):
        return False  # a name that somebody else made point here
    if headers.get("Sec-Fetch-Site", "none").lower() not in _SAME_PAGE:
        return False
    origins = headers.getall(hdrs.ORIGIN, ())
    return not origins or list(origins) == [f"{request.scheme}://{headers[hdrs.HOST]}"]


def _host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _is_loopback(address: str) -> bool:
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return False
    inner = known.ipv4_mapped if isinstance(known, ipaddress.IPv6Address) else None
    return (inner or known).is_loopback
