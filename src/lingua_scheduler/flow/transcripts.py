"""What results told, kept for those who took part: written behind delivery, read by token.

Delivery hands over each result that leaves and goes on. A line that Redis cannot take now is tried again for
a while; texts are never logged. What was said in a room is kept with the room only, and ends with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from lingua_scheduler.aio import Tasks
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.model import Languages, SessionId
from lingua_scheduler.core.rooms import read_address
from lingua_scheduler.core.stored import Logged
from lingua_scheduler.core.transcript import (
    Line,
    Transcript,
    TranscriptLedger,
    TranscriptOptions,
    make_token,
    read_token,
)
from lingua_scheduler.errors import DependencyDown, StoreError
from lingua_scheduler.flow.answer import Answer
from lingua_scheduler.flow.session import Session
from lingua_scheduler.log import get_logger

_log = get_logger(__name__)

_PAUSES_S = (0.2, 1.0, 5.0, 15.0)  # between the tries to write a line while Redis is away
_WAITING_CHARS = 4 * 2**20  # of lines that are not written yet
_STOP_S = 2.0
_NOBODY = SessionId("nobody")  # is looked up for wrong tokens, so that they take as long as right ones
_AUTO = "auto"


class _Told(msgspec.Struct, tag_field="type", tag="translation_result", frozen=True, kw_only=True):
    """What a transcript needs of a result that an earlier owner of the session has worded."""

    session_id: SessionId
    utterance_index: int
    text_asr: str = ""
    text_translated: str = ""
    tgt_lang: str = ""
    speaker_name: str = ""
    scheduler_sent_at_ms: int | None = None


_told = msgspec.json.Decoder(_Told).decode


class Transcripts:
    """Keeps what is said, and gives it to whoever brings the token of a session that took part."""

    def __init__(
        self,
        ledger: TranscriptLedger,
        options: TranscriptOptions,
        *,
        secret: Callable[[], bytes],
        clock: Clock,
    ) -> None:
        self.options = options
        self._ledger = ledger
        self._secret = secret
        self._clock = clock
        self._tasks = Tasks()
        self._waiting_chars = 0

    def __len__(self) -> int:
        """Count the lines that are not written yet."""
        return len(self._tasks)

    def token(self, session: Session) -> str | None:
        """Give the token of a session that begins or goes on here; None when no transcripts are kept."""
        if not self.options.enabled:
            return None
        if session.began_ms is None:
            session.began_ms = self._clock.wall_ms()
        return make_token(self._secret(), session.id)

    # What is said

    def said(self, payload: Answer | bytes | Logged) -> None:
        """Keep a result that leaves, with the room it was said in, else with its session; returns at once."""
        if not self.options.enabled:
            return
        if isinstance(payload, Answer):
            self._said_now(payload)
        elif isinstance(payload, Logged) and payload.for_room:
            _, code, room_id = read_address(payload.tgt_lang)
            self.said_in_room(code, room_id, self._line_of(payload.message))
        else:
            self._said_alone(self._line_of(payload if isinstance(payload, bytes) else payload.message))

    def _said_now(self, answer: Answer) -> None:
        line, room = _line_of_answer(answer), answer.job.brief.room
        if room is None:
            self._said_alone(line, answer.job.session.began_ms)
        else:
            self.said_in_room(room.code, room.room_id, line)

    def said_in_room(self, code: str, room_id: str, line: Line | None) -> None:
        """Keep a line with the room it was said in, for all who are there now; returns at once."""
        if line is not None and self.options.enabled:
            self._write(line, lambda: self._ledger.keep_in_room(code, room_id, line))

    def _said_alone(self, line: Line | None, began_ms: int | None = None) -> None:
        if line is not None:
            self._write(line, lambda: self._ledger.keep(line, began_ms=began_ms or line.at_ms))

    def _line_of(self, message: bytes) -> Line | None:
        """Read what an earlier owner has worded; None when it is no result."""
        try:
            told = _told(message)
        except msgspec.DecodeError:
            return None
        return Line(
            speaker=told.session_id,
            index=told.utterance_index,
            at_ms=told.scheduler_sent_at_ms or self._clock.wall_ms(),
            text=told.text_asr.strip(),
            tgt_lang=told.tgt_lang,
            translation=told.text_translated.strip(),
            name=told.speaker_name,
        )

    def _write(self, line: Line, write: Callable[[], Awaitable[None]]) -> None:
        size = len(line.text) + len(line.translation)
        if not size:
            return
        if self._waiting_chars + size > _WAITING_CHARS:
            _lost(line, "too much waits for Redis")
            return
        self._waiting_chars += size
        task = self._tasks.start(_written(line, write), name=f"keep {line.speaker} {line.index}")
        task.add_done_callback(lambda _: self._wrote(size))

    def _wrote(self, size: int) -> None:
        self._waiting_chars -= size

    # Who asks for it

    def reader(self, token: str) -> SessionId | None:
        """Give the session that a token was made for; None when it is none of ours."""
        return read_token(self._secret(), token)

    async def of_session(self, reader: SessionId | None) -> Transcript | None:
        """Give what a reader's session said; None when there is nothing for it, for whatever reason."""
        if not self.options.enabled:
            return None
        found = await self._ledger.of_session(reader or _NOBODY)
        return found if reader else None

    async def of_room(self, code: str, reader: SessionId | None) -> Transcript | None:
        """Give what was said in a room the reader is or was in; None when there is nothing for it."""
        if not self.options.enabled:
            return None
        found = await self._ledger.of_room(code, reader or _NOBODY)
        return found if reader else None

    async def stop(self) -> None:
        """Give what is being written a moment, then stop."""
        await self._tasks.settle(_STOP_S)


async def _written(line: Line, write: Callable[[], Awaitable[None]]) -> None:
    for pause_s in (*_PAUSES_S, None):
        try:
            await write()
        except DependencyDown as error:
            if pause_s is None:
                _lost(line, str(error))
            else:
                await asyncio.sleep(pause_s)
        except StoreError as error:
            _lost(line, str(error))
            return
        else:
            return


def _lost(line: Line, reason: str) -> None:
    _log.warning("transcript_line_lost", session=line.speaker, index=line.index, reason=reason)


def _line_of_answer(answer: Answer) -> Line:
    job, result = answer.job, answer.result
    cut, room = job.brief.cut, job.brief.room
    lang, tgt_lang = _direction(answer, job.session.languages)
    return Line(
        speaker=job.session.id,
        index=job.index,
        at_ms=max(0, job.created_wall_ms - cut.duration_ms),
        duration_ms=cut.duration_ms,
        lang=lang,
        text=(result.text_asr or job.brief.text or "").strip(),
        tgt_lang=tgt_lang,
        translation="" if tgt_lang == lang else (result.text_translated or "").strip(),
        asked="" if tgt_lang == job.brief.tgt_lang else job.brief.tgt_lang,
        name=(room.name if room else None) or "",
    )


def _direction(answer: Answer, languages: Languages) -> tuple[str, str]:
    """Tell what was spoken and what it was translated into, which of two the node may have chosen."""
    src, tgt = answer.job.brief.src_lang, answer.job.brief.tgt_lang
    if src != _AUTO:
        return src, tgt
    detected = (answer.result.extra or {}).get("detected_src_lang")
    if not isinstance(detected, str) or detected not in languages.spoken():
        return "", tgt
    others = [lang for lang in (languages.lang_a, languages.lang_b) if lang and lang != detected]
    both_ways = detected == tgt and answer.job.brief.room is None and others
    return detected, others[0] if both_ways else tgt
