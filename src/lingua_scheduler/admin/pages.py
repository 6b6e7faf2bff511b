"""The pages for people: to talk at `/`, rooms at `/room`, those of operators, and the languages on offer."""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePath
from typing import Final

import msgspec
from aiohttp import ETag, hdrs, web

from lingua_scheduler.admin.endpoint import Endpoint
from lingua_scheduler.admin.guard import json_answer
from lingua_scheduler.core.placement import NodeFacts
from lingua_scheduler.flow.snapshot import Snapshot

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HOST: Final = re.compile(r"[A-Za-z0-9.\-]+(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?")
_LANGUAGE: Final = re.compile(r"[a-z0-9_-]{1,35}")  # what a client may ask for
_TALK: Final = "talk.html"
_ROOM: Final = "room.html"
_OPERATORS: Final = ("dashboard", "cluster", "compute-power", "models", "languages")
_CAPTIONS: Final = frozenset({"asr", "nmt"})  # the services without which nothing is translated
_VOICE: Final = "tts"

_HEADERS: Final = {
    hdrs.CACHE_CONTROL: "no-cache",  # always asked for again, rarely sent again
    hdrs.VARY: "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "microphone=(self), screen-wake-lock=(self), camera=(), geolocation=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self'; {connect}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)


@dataclass(frozen=True, slots=True)
class _File:
    """One file of the pages, as it is and compressed."""

    content_type: str
    plain: bytes
    packed: bytes
    tag: str


class Pages:
    """Serves the files of the pages, and nothing that is not one of them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._files = _read_files()

    def routes(self) -> list[web.RouteDef]:
        """Give the routes to add to the server."""
        return [
            web.get("/", self._talk),
            web.get("/room", self._room),
            web.get(r"/room/{code:\d{6}}", self._room),
            *(web.get(f"/{page}", self._board) for page in _OPERATORS),
            web.get("/web/{name}", self._file),
        ]

    def endpoints(self) -> list[Endpoint]:
        """Give what the pages ask for."""
        return [
            Endpoint(
                method="GET",
                path="/api/v1/languages",
                about="What can be translated now, by nodes that everybody may use.",
                handler=self._languages,
                answer=ServedLanguages,
                open=True,
            )
        ]

    async def _talk(self, request: web.Request) -> web.Response:
        return _answer(request, self._files[_TALK])

    async def _room(self, request: web.Request) -> web.Response:
        return _answer(request, self._files[_ROOM])

    async def _board(self, request: web.Request) -> web.Response:
        return _answer(request, self._files[f"{request.path.strip('/')}.html"])

    async def _file(self, request: web.Request) -> web.Response:
        found = self._files.get(request.match_info["name"])
        if found is None:
            raise web.HTTPNotFound
        return _answer(request, found)

    async def _languages(self, _request: web.Request) -> web.Response:
        answer = json_answer(ServedLanguages(served_languages(self._snapshot.open_kinds())))
        answer.headers.update({hdrs.CACHE_CONTROL: "no-store", "X-Content-Type-Options": "nosniff"})
        return answer


class ServedLanguage(msgspec.Struct, frozen=True):
    """A language that is understood, those it is translated into, and those of them that are spoken, too."""

    lang: str
    into: list[str]
    voiced: list[str]


class ServedLanguages(msgspec.Struct, frozen=True):
    """Every language that can be translated now."""

    languages: list[ServedLanguage]


def served_languages(nodes: list[NodeFacts]) -> list[ServedLanguage]:
    """List what the nodes that everybody may use can translate now, in the order of the languages' tags."""
    kinds = {
        (facts.asr, facts.semantic, _VOICE in facts.types)
        for facts in nodes
        if facts.closed is None and not facts.private and facts.types >= _CAPTIONS
    }
    into: dict[str, set[str]] = {}
    voiced: dict[str, set[str]] = {}
    for heard, targets, speaks in kinds:
        wanted = set(filter(_LANGUAGE.fullmatch, targets))
        for lang in filter(_LANGUAGE.fullmatch, heard):
            into.setdefault(lang, set()).update(wanted - {lang})
            voiced.setdefault(lang, set()).update(wanted - {lang} if speaks else ())
    return [
        ServedLanguage(lang, sorted(targets), sorted(voiced[lang]))
        for lang, targets in sorted(into.items())
        if targets
    ]


def _read_files() -> dict[str, _File]:
    found = {}
    for entry in files("lingua_scheduler").joinpath("web").iterdir():
        content_type = _TYPES.get(PurePath(entry.name).suffix)
        if content_type is not None:
            plain = entry.read_bytes()
            tag = hashlib.blake2s(plain, digest_size=12).hexdigest()
            found[entry.name] = _File(content_type, plain, gzip.compress(plain, mtime=0), tag)
    return found


def _answer(request: web.Request, found: _File) -> web.Response:
    packed = "gzip" in request.headers.get(hdrs.ACCEPT_ENCODING, "").lower()
    tag = f"{found.tag}-gzip" if packed else found.tag
    headers = {**_HEADERS, "Content-Security-Policy": _policy(request.host)}
    known = request.if_none_match or ()
    unchanged = any(etag.value in (tag, "*") for etag in known)
    if unchanged:
        response = web.Response(status=304, headers=headers)
    else:
        headers[hdrs.CONTENT_TYPE] = found.content_type
        if packed:
            headers[hdrs.CONTENT_ENCODING] = "gzip"
        response = web.Response(body=found.packed if packed else found.plain, headers=headers)
    response.etag = ETag(tag)
    return response


def _policy(host: str) -> str:
    """Word the policy: a page connects to where it came from, which older browsers want spelt out."""
    sockets = f" ws://{host} wss://{host}" if _HOST.fullmatch(host) else ""
    return _POLICY.format(connect=f"connect-src 'self'{sockets}")
