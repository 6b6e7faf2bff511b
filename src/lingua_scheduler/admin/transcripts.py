"""Transcripts over HTTP, for those who took part: `/api/v1/transcripts/session` and `.../room/{code}`.

Whoever may not read one learns nothing else: a wrong token, one whose transcript is gone, and a room that one
was never in are answered alike.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final

from aiohttp import hdrs, web

from lingua_scheduler.admin.endpoint import Endpoint, Handler, Parameter, path_word
from lingua_scheduler.admin.guard import credential, problem
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.model import SessionId
from lingua_scheduler.core.pairing import Quota, neighbourhood
from lingua_scheduler.core.transcript import Transcript
from lingua_scheduler.core.transcript_files import Format, Show, Wish, write
from lingua_scheduler.errors import StoreError
from lingua_scheduler.flow.transcripts import Transcripts

Find = Callable[[SessionId | None], Awaitable[Transcript | None]]

_USAGE: Final = "format is txt, json, srt or vtt; show is both, source or translated; lang is a language tag"
_MINUTE_S: Final = 60
_LANG: Final = re.compile(r"[A-Za-z0-9_-]{1,35}")
_QUERY: Final = (
    Parameter("format", "Kind of file.", {"type": "string", "enum": [*Format], "default": "txt"}),
    Parameter("show", "Words as said, translated, or both.", {"enum": [*Show], "default": "both"}),
    Parameter(
        "lang",
        "Translations into this language only.",
        {"type": "string", "pattern": f"^({_LANG.pattern})?$"},
    ),
)
_PARAMETERS: Final = frozenset(each.name for each in _QUERY)
_TYPES: Final = {
    Format.TXT: "text/plain",
    Format.JSON: "application/json",
    Format.SRT: "application/x-subrip",
    Format.VTT: "text/vtt",
}
_HEADERS: Final = {
    hdrs.CACHE_CONTROL: "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Referrer-Policy": "no-referrer",
}


class TranscriptFiles:
    """Serves transcripts as files."""

    def __init__(self, transcripts: Transcripts, clock: Clock) -> None:
        self._transcripts = transcripts
        self._clock = clock
        self._reads = Quota(transcripts.options.reads_per_minute, _MINUTE_S)

    def endpoints(self) -> list[Endpoint]:
        """Give what to serve."""
        return [
            _file("session", "What one session said, and what others heard of it, as a file.", self._session),
            _file(
                "room/{code}",
                "What was said in a room while the caller was there, as a file.",
                self._room,
                path_word("code", "Code of the room."),
            ),
        ]

    async def _session(self, request: web.Request) -> web.Response:
        return await self._serve(request, "session", self._transcripts.of_session)

    async def _room(self, request: web.Request) -> web.Response:
        return await self._serve(
            request, "room", partial(self._transcripts.of_room, request.match_info["code"])
        )

    async def _serve(self, request: web.Request, about: str, find: Find) -> web.Response:
        answer = await self._answer(request, about, find)
        answer.headers.update(_HEADERS)
        return answer

    async def _answer(self, request: web.Request, about: str, find: Find) -> web.Response:
        wish = _wish(request)
        if wish is None:
            return problem(400, "Bad Request", _USAGE)
        reader = self._transcripts.reader(credential(request) or "")
        if not self._reads.take(reader or neighbourhood(request.remote or ""), self._clock.now()):
            refusal = problem(429, "Too Many Requests", "ask again in a minute")
            refusal.headers[hdrs.RETRY_AFTER] = str(_MINUTE_S)
            return refusal
        try:
            transcript = await find(reader)
        except StoreError:
            return problem(503, "Service Unavailable", "transcripts cannot be read now")
        if transcript is None:
            return problem(404, "Not Found", "there is no transcript for this token")
        text = await asyncio.to_thread(write, transcript, wish, about=f"a {about}")
        name = _file_name(about, transcript, wish)
        return web.Response(
            text=text,
            content_type=_TYPES[wish.format],
            charset="utf-8",
            headers={hdrs.CONTENT_DISPOSITION: f'attachment; filename="{name}"'},
        )


def _file(path: str, about: str, handler: Handler, *parameters: Parameter) -> Endpoint:
    return Endpoint(
        method="GET",
        path=f"/api/v1/transcripts/{path}",
        about=about,
        handler=handler,
        answer=None,
        parameters=(*parameters, *_QUERY),
        problems=(404, 429, 503),
        open=True,
        shows="transcript",
        media=_TYPES[Format.TXT],
        other_media=tuple(kind for form, kind in _TYPES.items() if form is not Format.TXT),
    )


def _wish(request: web.Request) -> Wish | None:
    """Read what is asked for; None when it makes no sense."""
    query = request.query
    lang = query.get("lang", "")
    if set(query) - _PARAMETERS or len(query) != len(set(query)) or (lang and not _LANG.fullmatch(lang)):
        return None
    try:
        return Wish(Format(query.get("format", "txt")), Show(query.get("show", "both")), lang.lower())
    except ValueError:
        return None


def _file_name(about: str, transcript: Transcript, wish: Wish) -> str:
    """Name the file by what cannot be anything but letters, digits and hyphens."""
    began = datetime.fromtimestamp(transcript.began_wall_ms / 1000, UTC).strftime("%Y%m%d-%H%M%S")
    parts = [about, began, *([wish.lang] if wish.lang else [])]
    return f"{'-'.join(parts)}.{wish.format}"
