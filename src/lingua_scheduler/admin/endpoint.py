"""One thing that can be asked over HTTP, in one record for the router, the guard and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import hdrs, web

from lingua_scheduler.admin.guard import problem

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MOST_ROWS = 1000
_ROWS = 100
_WORD_CHARS = 128
_LONGEST_TARGET = 4096


@dataclass(frozen=True, slots=True)
class Parameter:
    """One thing a caller may say in the address."""

    name: str
    about: str
    schema: dict[str, Any]
    where: str = "query"  # or "path"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """What is answered under one method and path."""

    method: str
    path: str
    about: str
    handler: Handler
    answer: Any  # the type of the JSON; None: text
    status: int = 200
    body: Any = None  # the type of the JSON that is sent; None: nothing is
    parameters: tuple[Parameter, ...] = ()
    problems: tuple[int, ...] = ()  # what may go wrong beyond what every guarded endpoint may say
    others: Mapping[int, Any] = field(default_factory=dict)  # types of answers with another status
    open: bool = False  # for everybody
    shows: str = ""  # what those show for whom it is, when they are no operators: a scheme of the document
    media: str = "application/json"
    other_media: tuple[str, ...] = ()  # further forms in which the answer may come


class BadParameter(Exception):
    """A caller said something in the address that cannot be meant; the sentence is for them."""


LIMIT = Parameter(
    "limit", "Most rows.", {"type": "integer", "minimum": 1, "maximum": MOST_ROWS, "default": _ROWS}
)
CURSOR = Parameter("cursor", "The `next` of the page before.", {"type": "string", "maxLength": _WORD_CHARS})
PAGE = (LIMIT, CURSOR)


def path_word(name: str, about: str) -> Parameter:
    """Describe an id that is part of the path."""
    return Parameter(name, about, {"type": "string", "minLength": 1, "maxLength": _WORD_CHARS}, "path")


def query_word(name: str, about: str) -> Parameter:
    """Describe a word that may be said in the query."""
    return Parameter(name, about, {"type": "string", "maxLength": _WORD_CHARS})


def word(request: web.Request, name: str) -> str:
    """Read a word of the query, empty when it is not there; BadParameter when that is no word."""
    said = request.query.getall(name, [])
    if len(said) > 1:
        raise BadParameter(f"{name}: said more than once")
    if said and len(said[0]) > _WORD_CHARS:
        raise BadParameter(f"{name}: longer than {_WORD_CHARS} characters")
    return said[0] if said else ""


def limit(request: web.Request) -> int:
    """Read how many rows are wanted."""
    said = word(request, LIMIT.name)
    if not said and LIMIT.name not in request.query:
        return _ROWS
    if not (said.isascii() and said.isdecimal() and 1 <= int(said) <= MOST_ROWS):
        raise BadParameter(f"limit: expected 1 to {MOST_ROWS}")
    return int(said)


def answered(handler: Handler) -> Handler:
    """Make a handler that words every refusal as a problem (RFC 9457)."""

    async def wrapped(request: web.Request) -> web.StreamResponse:
        if len(request.path_qs) > _LONGEST_TARGET:
            return _worded(HTTPStatus.REQUEST_URI_TOO_LONG, f"longer than {_LONGEST_TARGET} characters")
        try:
            return await handler(request)
        except BadParameter as mistake:
            return _worded(HTTPStatus.BAD_REQUEST, str(mistake))
        except msgspec.DecodeError as mistake:
            return _worded(HTTPStatus.BAD_REQUEST, str(mistake))
        except web.HTTPRequestEntityTooLarge:
            return _worded(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too large")

    return wrapped


async def nothing_here(request: web.Request) -> web.Response:
    """Answer for every path and method that nobody serves: 405 where another method would do, else 404."""
    allowed: set[str] = set()
    for resource in request.app.router.resources():
        if resource.canonical != EVERYTHING:
            _, methods = await resource.resolve(request)
            allowed |= methods
    if not allowed:
        return _worded(HTTPStatus.NOT_FOUND, "nothing is here")
    answer = _worded(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method} is not among what can be done here")
    answer.headers[hdrs.ALLOW] = ", ".join(sorted(allowed))
    return answer


EVERYTHING = "/{elsewhere}"
"""The canonical form of the route that `nothing_here` serves."""
ELSEWHERE = web.route("*", "/{elsewhere:.*}", answered(nothing_here))
"""The route for whatever no other route is for."""


def _worded(status: HTTPStatus, detail: str) -> web.Response:
    return problem(status.value, status.phrase, detail)
