"""How a session's utterances ended, worded for those in a room who want to know."""

from __future__ import annotations

from collections.abc import Callable

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.model import SessionId
from lingua_scheduler.core.ordering import Delivered, Missing, MissingReason, Outcome
from lingua_scheduler.core.result_log import ResultLog
from lingua_scheduler.core.rooms import read_address
from lingua_scheduler.core.stored import Logged
from lingua_scheduler.flow.answer import Answer, Said, word
from lingua_scheduler.flow.end_counts import EndCounts
from lingua_scheduler.flow.job import Job
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.session import AsrPartial


class RoomEnds:
    """Hands the ends of one session's utterances to its room; the log has each until the room was told."""

    __slots__ = ("_clock", "_counts", "_log", "_metrics", "_session_id", "_told", "caption", "tell")

    def __init__(
        self,
        session_id: SessionId,
        log: ResultLog | None,
        home: tuple[Clock, Metrics],
        counts: EndCounts,
        told: Callable[[Answer | bytes], None],
    ) -> None:
        self._session_id = session_id
        self._log = log
        self._clock, self._metrics = home
        self._counts = counts
        self._told = told
        self.tell: Callable[[Said], None]
        self.caption: Callable[[Job, AsrPartial], None]

    def word(self, job: Job, end: Answer | MissingReason) -> bytes:
        """Encode an end."""
        self._metrics.room_encodings_total.inc()
        return word(job, end, self._clock.wall_ms())

    def leaves(self, job: Job | None, outcome: Outcome[Answer | bytes | Logged]) -> bool:
        """Take an end that leaves in its order, if it was said in a room."""
        payload = outcome.payload if isinstance(outcome, Delivered) else None
        if isinstance(payload, Logged):
            self.say_again(payload)
            return True
        if isinstance(payload, Answer):
            job = payload.job
        if job is None or job.brief.room is None:
            return False
        if isinstance(payload, Answer):
            self.say(job, Delivered(payload))
            self._counts.answered(payload)
            self._told(payload)
        elif isinstance(outcome, Missing):
            self.say(job, outcome)
            self._counts.missing(outcome.reason)
        return True

    def say(self, job: Job, outcome: Delivered[Answer] | Missing) -> None:
        """Tell those in the room who want it how an utterance ended."""
        room = job.brief.room
        if room is None:
            return
        answer = outcome.payload if isinstance(outcome, Delivered) else None
        name = f"{job.index}:{job.brief.stream}"
        message = None if self._log is None else self._log.message(name)
        if message is None:
            end = outcome.payload if isinstance(outcome, Delivered) else outcome.reason
            message = self.word(job, end)
        self.tell(
            Said(
                room.code,
                room.room_id,
                self._session_id,
                job.index,
                job.brief.tgt_lang,
                message=message,
                answer=answer,
                missing=answer is None,
                done=lambda: self._done(name),
            )
        )

    def say_again(self, logged: Logged) -> None:
        """Tell a room what an earlier owner of the session may not have told it."""
        lang, code, room_id = read_address(logged.tgt_lang)
        self.tell(
            Said(
                code,
                room_id,
                self._session_id,
                logged.index,
                lang,
                message=logged.message,
                done=lambda: self._done(logged.name),
            )
        )

    def _done(self, name: str) -> None:
        if self._log is not None:
            self._log.done(name)
