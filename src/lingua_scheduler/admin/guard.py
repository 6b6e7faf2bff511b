"""Who may give orders over HTTP: holders of the admin token or an admin key, else local programs."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from aiohttp import hdrs, web

from lingua_scheduler.core.keys import KEY_MARK, bearer_of
from lingua_scheduler.secret import Secret

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_PROXY_MARKS = ("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP")
_SAME_PAGE = ("same-origin", "none")
_JSON = "application/json"


class AdminOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who may ask and give orders over HTTP, and how fresh the answers are."""

    token: Secret = Secret("")
    """What orders bring as `Authorization: Bearer`, or an admin key; empty: local programs need neither."""
    open_metrics: bool = True
    """Everybody may read `/metrics`; without it, only those who may ask for everything else."""
    refresh_ms: Annotated[int, msgspec.Meta(ge=100, le=10_000)] = 1000
    """How often what people watch is looked at again."""


def json_answer(data: object, *, status: int = 200) -> web.Response:
    """Answer with JSON."""
    return web.Response(body=msgspec.json.encode(data), status=status, content_type=_JSON)


def problem(status: int, title: str, detail: str) -> web.Response:
    """Answer with what went wrong, in the form of RFC 9457."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return web.Response(
        body=msgspec.json.encode(body), status=status, content_type="application/problem+json"
    )


def unauthorised(detail: str) -> web.Response:
    """Answer somebody who shows nothing, or something wrong."""
    answer = problem(401, "Unauthorized", detail)
    answer.headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
    return answer


def credential(request: web.Request) -> str | None:
    """Read what a request shows: None for nothing, empty for nothing readable."""
    return bearer_of(request.headers.getall(hdrs.AUTHORIZATION, ()))


class Guard:
    """Lets requests of operators through, and nobody else's; `is_admin` judges keys by their sender."""

    def __init__(
        self, options: AdminOptions, is_admin: Callable[[str, str], bool] = lambda _key, _remote: False
    ) -> None:
        self._token = options.token
        self._is_admin = is_admin

    def only(self, handler: Handler) -> Handler:
        """Make a handler that refuses strangers."""

        @wraps(handler)
        async def guarded(request: web.Request) -> web.StreamResponse:
            return self._refusal(request) or await handler(request)

        return guarded

    def _refusal(self, request: web.Request) -> web.Response | None:
        shown = credential(request) or ""
        is_key = shown.startswith(KEY_MARK)
        if is_key or self._token:
            known = self._is_token(shown) or (is_key and self._is_admin(shown, request.remote or ""))
            if not known:
                return unauthorised("send Authorization: Bearer with the admin token or an admin key")
        elif not _is_local(request):
            return problem(
                403, "Forbidden", "set admin.token or send an admin key to give orders from elsewhere"
            )
        if request.method == hdrs.METH_POST and request.content_type != _JSON:
            return problem(415, "Unsupported Media Type", f"send Content-Type: {_JSON}")
        return None

    def _is_token(self, shown: str) -> bool:
        same = hmac.compare_digest(shown.encode(errors="replace"), self._token.encode())
        return same and bool(self._token)


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
