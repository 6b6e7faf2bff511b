"""Transcripts in Redis: a session's beside the session, a room's beside the room.

A transcript is a hash of lines by name, so that a line that is written twice is there once, and an order of
the names by the time at which they were said, so that the oldest can leave.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from lingua_scheduler.core.model import SessionId
from lingua_scheduler.core.rooms import is_room_code
from lingua_scheduler.core.transcript import Line, Transcript, TranscriptOptions
from lingua_scheduler.errors import CorruptValue
from lingua_scheduler.log import get_logger
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.jobs import LifeOptions
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts

_log = get_logger(__name__)
_decode = msgspec.json.Decoder(Line).decode
_ABOUT_ALL, _ABOUT_SOMEBODY = b"#", b"@"


class TranscriptStore:
    """Implements `core.transcript.TranscriptLedger`."""

    def __init__(
        self,
        connection: Connection,
        scripts: Scripts,
        keys: Keys,
        options: TranscriptOptions,
        lives: LifeOptions,
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._bounds = {"most": options.max_entries, "most_bytes": options.max_bytes}
        self._keep_ms = options.keep_s * 1000
        self._session_ttl_ms = lives.session_lease_s * 1000
        self._keep = scripts.load("transcript_keep")
        self._keep_in_room = scripts.load("transcript_keep_in_room")
        self._read_room = scripts.load("transcript_read_room")

    async def keep(self, line: Line, *, began_ms: int) -> None:
        """Add a line to its speaker's transcript, which lives with the session and a while longer."""
        keys, session_id = self._keys, line.speaker
        await self._keep(
            session=keys.session(session_id),
            transcript=keys.transcript(session_id),
            transcript_order=keys.transcript_order(session_id),
            name=line.place,
            at_ms=line.at_ms,
            line=msgspec.json.encode(line),
            began_ms=began_ms,
            session_ttl_ms=self._session_ttl_ms,
            keep_ms=self._keep_ms,
            **self._bounds,
        )

    async def keep_in_room(self, code: str, room_id: str, line: Line) -> None:
        """Add a line to a room's transcript, for all who are in the room now; nothing when it has ended."""
        await self._keep_in_room(
            **self._places(code),
            id=room_id,
            speaker=line.speaker,
            name=f"{line.speaker}:{line.place}",
            at_ms=line.at_ms,
            line=msgspec.json.encode(line),
            **self._bounds,
        )

    async def of_session(self, session_id: SessionId) -> Transcript | None:
        """Give what a session said; None when nothing is kept."""
        try:
            found = await self._connection.call("HGETALL", self._keys.transcript(session_id))
        except CorruptValue as error:
            _log.warning("transcript_unreadable", session=session_id, reason=str(error))
            return None
        return _transcript(found) if found else None

    async def of_room(self, code: str, reader: SessionId) -> Transcript | None:
        """Give what was said in a room that lives, to one who is or was in it; None otherwise."""
        if not is_room_code(code):
            return None
        try:
            found = await self._read_room(**self._places(code), session=reader)
        except CorruptValue as error:
            _log.warning("transcript_unreadable", session=reader, reason=str(error))
            return None
        return _transcript(found) if found else None

    def _places(self, code: str) -> dict[str, str]:
        keys = self._keys
        return {
            "room": keys.room(code),
            "members": keys.members(code),
            "room_transcript": keys.room_transcript(code),
            "room_transcript_order": keys.room_transcript_order(code),
        }


def _transcript(flat: list[bytes]) -> Transcript:
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    return Transcript.of(
        _lines(fields), began_wall_ms=_number(fields, b"#began"), dropped=_number(fields, b"#dropped") or 0
    )


def _lines(fields: dict[bytes, bytes]) -> Iterator[Line]:
    """Read the lines; one that cannot be read is left out, the others are not lost with it."""
    for name, value in fields.items():
        if not name.startswith((_ABOUT_ALL, _ABOUT_SOMEBODY)):
            try:
                yield _decode(value)
            except msgspec.DecodeError:
                _log.warning("transcript_line_unreadable", line=name.decode(errors="replace"))


def _number(fields: dict[bytes, bytes], name: bytes) -> int | None:
    value = fields.get(name, b"")
    return int(value) if value.isdigit() else None
