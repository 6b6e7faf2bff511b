"""Being let in, for talkers: tenants' servers make short-lived tokens, and pages ask whether theirs counts.

A browser never sees a tenant's key. Nor does it see why a WebSocket was refused, so its page asks here.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from aiohttp import hdrs, web

from lingua_scheduler.admin.endpoint import Endpoint
from lingua_scheduler.admin.guard import credential, json_answer, problem, unauthorised
from lingua_scheduler.core.keys import NotLetIn, Refusal, TokenWish
from lingua_scheduler.flow.credentials import Credentials

_CREATED: Final = 201
_JSON: Final = "application/json"
_decode = msgspec.json.Decoder(TokenWish).decode

_Why = Literal["missing", "expired", "refused"]
_TOLD: Final[dict[Refusal, _Why]] = {Refusal.MISSING: "missing", Refusal.EXPIRED: "expired"}
"""What may be told: who holds a key or token that has expired could not get it but from us."""


class Token(msgspec.Struct, frozen=True):
    """A token, what it is good for, and for how long."""

    token: str
    scope: str
    expires_in_s: int


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether a session can be opened, and if not, why."""

    allowed: bool
    why: _Why | None = None


class Tokens:
    """Makes session tokens for whoever shows a tenant key, and judges them."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def endpoints(self) -> list[Endpoint]:
        """Give what to serve."""
        return [
            Endpoint(
                method="POST",
                path="/api/v1/tokens",
                about="Make a token with which a page or program can open sessions.",
                handler=self._make,
                answer=Token,
                status=_CREATED,
                body=TokenWish,
                problems=(401, 429, 503),
                shows="tenant",
                open=True,
            ),
            Endpoint(
                method="GET",
                path="/api/v1/access",
                about="Say whether a session can be opened with the key or token shown, or with none.",
                handler=self._judge,
                answer=Verdict,
                problems=(429, 503),
                shows="session",
                open=True,
            ),
        ]

    async def _make(self, request: web.Request) -> web.Response:
        if request.content_type != _JSON:
            return problem(415, "Unsupported Media Type", f"send Content-Type: {_JSON}")
        wish = _decode(await request.read() or b"{}")
        try:
            token, ttl_s = self._credentials.token(credential(request), request.remote or "", wish)
        except NotLetIn as refusal:
            return _later(refusal.why) or unauthorised("send Authorization: Bearer with a tenant key")
        return _private(json_answer(Token(str(token), wish.scope, ttl_s), status=_CREATED))

    async def _judge(self, request: web.Request) -> web.Response:
        why = self._credentials.refusal(credential(request), request.remote or "")
        if why is None:
            return _private(json_answer(Verdict(allowed=True)))
        return _later(why) or _private(json_answer(Verdict(allowed=False, why=_TOLD.get(why, "refused"))))


def _private(answer: web.Response) -> web.Response:
    answer.headers[hdrs.CACHE_CONTROL] = "no-store"
    return answer


def _later(why: Refusal) -> web.Response | None:
    """Word a refusal that says nothing about what was shown."""
    match why:
        case Refusal.UNREADY:
            return problem(503, "Service Unavailable", "the keys cannot be checked now: try again")
        case Refusal.THROTTLED:
            return problem(429, "Too Many Requests", "too many wrong keys: wait a minute")
        case Refusal.CROWDED:
            return problem(429, "Too Many Requests", "the tenant has as many connections as it may")
    return None
