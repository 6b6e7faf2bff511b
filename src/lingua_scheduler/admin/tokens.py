"""`POST /api/v1/tokens`: a tenant's server makes short-lived tokens; browsers never see its key."""

from __future__ import annotations

import msgspec
from aiohttp import hdrs, web

from lingua_scheduler.admin.guard import credential, json_answer, problem, unauthorised
from lingua_scheduler.core.keys import NotLetIn, Refusal, TokenWish
from lingua_scheduler.flow.credentials import Credentials

_CREATED = 201
_JSON = "application/json"
_decode = msgspec.json.Decoder(TokenWish).decode


class Tokens:
    """Makes session tokens for whoever shows a tenant key."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def routes(self) -> list[web.RouteDef]:
        """Give the routes to add to the server."""
        return [web.post("/api/v1/tokens", self._make)]

    async def _make(self, request: web.Request) -> web.Response:
        if request.content_type != _JSON:
            return problem(415, "Unsupported Media Type", f"send Content-Type: {_JSON}")
        try:
            wish = _decode(await request.read() or b"{}")
        except msgspec.DecodeError as error:
            return problem(400, "Bad Request", str(error))
        try:
            token, ttl_s = self._credentials.token(credential(request), request.remote or "", wish)
        except NotLetIn as refusal:
            return _refused(refusal.why)
        answer = json_answer(
            {"token": str(token), "scope": wish.scope, "expires_in_s": ttl_s}, status=_CREATED
        )
        answer.headers[hdrs.CACHE_CONTROL] = "no-store"
        return answer


def _refused(why: Refusal) -> web.Response:
    if why is Refusal.UNREADY:
        return problem(503, "Service Unavailable", "the keys cannot be checked now: try again")
    if why is Refusal.THROTTLED:
        return problem(429, "Too Many Requests", "too many wrong keys: wait a minute")
    return unauthorised("send Authorization: Bearer with a tenant key")
