"""What was said in a session or a room, with its translations, and the token of those who may read it.

One line is what one result told: an utterance and its translation into one language. Lines are kept apart and
put together when somebody reads, so that keeping one is a single write that may be done twice.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Protocol

import msgspec

from lingua_scheduler.core.model import SessionId

_VERSION = "t1"


class TranscriptOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether what was said is kept for those who took part, how much of it, and how long."""

    enabled: bool = True
    """Keep transcripts; off: no text is written, and there is nothing to ask for."""
    keep_s: Annotated[int, msgspec.Meta(ge=0, le=86_400)] = 600
    """How long a session's transcript may be read after its end; a room's ends with the room."""
    max_entries: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 5000
    """Most lines of one transcript; the oldest leave first."""
    max_bytes: Annotated[int, msgspec.Meta(ge=1024, le=64 * 2**20)] = 4 * 2**20
    """Most bytes of one transcript; the oldest lines leave first, the newest is kept whatever its size."""
    reads_per_minute: Annotated[int, msgspec.Meta(ge=1)] = 30
    """Transcripts each minute for one token, and for all wrong tokens from one address."""


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one result told."""

    speaker: SessionId
    index: int
    at_ms: int  # since 1970: when the speech began
    duration_ms: int = 0
    lang: str = ""  # in which it was said; empty: not known
    text: str = ""
    tgt_lang: str = ""
    translation: str = ""
    name: str = ""  # of the speaker, for people
    asked: str = ""  # the language that was asked for, when the node chose another

    @property
    def place(self) -> str:
        """What it is found by among the lines of its speaker."""
        return f"{self.index}:{self.asked or self.tgt_lang}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One utterance with its translations; times in ms since the transcript's beginning."""

    speaker: SessionId
    index: int
    began_ms: int
    ended_ms: int
    lang: str
    text: str
    translations: Mapping[str, str]  # by language, in the order of their names
    name: str = ""


@dataclass(frozen=True, slots=True)
class Transcript:
    """Everything that is kept of a session or a room, in the order in which it was said."""

    began_wall_ms: int
    entries: tuple[Entry, ...]
    dropped: int = 0  # older lines that had to leave

    @classmethod
    def of(cls, lines: Iterable[Line], *, began_wall_ms: int | None, dropped: int = 0) -> Transcript:
        """Put lines together, in whatever order and however often they come."""
        said: dict[tuple[int, str, int], list[Line]] = {}
        firsts: dict[tuple[str, int], int] = {}
        known = sorted(lines, key=lambda line: (line.at_ms, line.speaker, line.index, line.tgt_lang))
        for line in known:
            at_ms = firsts.setdefault((line.speaker, line.index), line.at_ms)
            said.setdefault((at_ms, line.speaker, line.index), []).append(line)
        earliest_ms = min((at_ms for at_ms, _, _ in said), default=0)
        start_ms = earliest_ms if began_wall_ms is None else min(began_wall_ms, earliest_ms or began_wall_ms)
        return cls(start_ms, tuple(_entry(said[place], start_ms) for place in sorted(said)), dropped)


class TranscriptLedger(Protocol):
    """Transcripts, as all instances see them. A line that is there already is left as it is."""

    async def keep(self, line: Line, *, began_ms: int) -> None:
        """Add a line to its speaker's transcript, which lives with the session and a while longer."""
        ...

    async def keep_in_room(self, code: str, room_id: str, line: Line) -> None:
        """Add a line to a room's transcript, for all who are in the room now; nothing when it has ended."""
        ...

    async def of_session(self, session_id: SessionId) -> Transcript | None:
        """Give what a session said; None when nothing is kept."""
        ...

    async def of_room(self, code: str, reader: SessionId) -> Transcript | None:
        """Give what was said in a room that lives, to one who is or was in it; None otherwise."""
        ...


def make_token(secret: bytes, session_id: SessionId) -> str:
    """Make the token with which a session reads its transcript, and those of rooms it is or was in."""
    named = f"{_VERSION}.{session_id}"
    return f"{named}.{_seal(secret, named)}"


def read_token(secret: bytes, token: str) -> SessionId | None:
    """Give the session of a token of ours; None, after the same time, for any other text."""
    named, _, seal = token.rpartition(".")
    genuine = hmac.compare_digest(_seal(secret, named).encode(), _bytes(seal))
    version, _, session_id = named.partition(".")
    return SessionId(session_id) if genuine and version == _VERSION else None


def _entry(lines: list[Line], start_ms: int) -> Entry:
    first = lines[0]
    translations = {line.tgt_lang: line.translation for line in reversed(lines) if line.translation}
    return Entry(
        speaker=first.speaker,
        index=first.index,
        began_ms=first.at_ms - start_ms,
        ended_ms=max(line.at_ms + line.duration_ms for line in lines) - start_ms,
        lang=next((line.lang for line in lines if line.lang), ""),
        text=next((line.text for line in lines if line.text), ""),
        translations=dict(sorted(translations.items())),
        name=next((line.name for line in lines if line.name), ""),
    )


def _seal(secret: bytes, named: str) -> str:
    digest = hmac.digest(secret, _bytes(named), hashlib.sha256)
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
