"""How an utterance ends, on its way to the client, and the message that becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from lingua_scheduler.core.groups import Membership
from lingua_scheduler.core.hints import hint
from lingua_scheduler.core.model import SessionId
from lingua_scheduler.core.ordering import MissingReason
from lingua_scheduler.flow.job import Job
from lingua_scheduler.wire.codec import encode
from lingua_scheduler.wire.common import NetworkTimings
from lingua_scheduler.wire.node import JobResult
from lingua_scheduler.wire.session import MissingResult, TranslationResult, UiEvent, UiEventKind


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Answer:
    """A result that waits for its turn."""

    job: Job
    result: JobResult
    membership: Membership | None
    received_wall_ms: int

    def message(self, sent_wall_ms: int) -> TranslationResult:
        """Word it for the client; the scheduler's own ids count, not what the node repeats."""
        job, result, place = self.job, self.result, self.membership
        return TranslationResult(
            session_id=job.session.id,
            utterance_index=job.index,
            job_id=job.id,
            text_asr=result.text_asr or "",
            text_translated=result.text_translated or "",
            tts_audio=result.tts_audio or b"",
            tts_format=result.tts_format or "pcm16",
            trace_id=job.brief.trace_id,
            group_id=place.group_id if place else None,
            part_index=place.part_index if place else None,
            speaker_session_id=job.session.id,
            speaker_name=job.brief.room.name if job.brief.room else None,
            tgt_lang=job.brief.tgt_lang,
            extra=result.extra,
            service_timings=result.service_timings,
            network_timings=self._network_timings(),
            scheduler_sent_at_ms=sent_wall_ms,
            asr_quality_level=result.asr_quality_level,
            reason_codes=result.reason_codes,
            quality_score=result.quality_score,
            rerun_count=result.rerun_count,
            segments_meta=result.segments_meta,
        )

    @property
    def spoken(self) -> bool:
        """It has a voice."""
        return bool(self.result.tts_audio)

    def _network_timings(self) -> NetworkTimings | None:
        job = self.job
        if job.dispatched_wall_ms is None:
            return None
        first_ms, done_ms = job.brief.cut.first_client_ms, self.result.node_completed_at_ms
        return NetworkTimings(
            web_to_scheduler_ms=_positive(job.created_wall_ms - first_ms) if first_ms is not None else None,
            scheduler_to_node_ms=_positive(job.dispatched_wall_ms - job.created_wall_ms),
            node_to_scheduler_ms=_positive(self.received_wall_ms - done_ms) if done_ms is not None else None,
        )


@dataclass(frozen=True, slots=True)
class Place:
    """An utterance towards one language, and the trace it is followed by."""

    session_id: SessionId
    index: int
    tgt_lang: str
    trace_id: str

    @classmethod
    def of(cls, job: Job) -> Place:
        """The place of a job."""
        return cls(job.session.id, job.index, job.brief.tgt_lang, job.brief.trace_id)

    def missing(self, reason: MissingReason, wall_ms: int) -> MissingResult:
        """Word that there is no result and will be none."""
        return MissingResult(
            session_id=self.session_id,
            utterance_index=self.index,
            reason=reason.value,
            created_at_ms=wall_ms,
            trace_id=self.trace_id,
            speaker_session_id=self.session_id,
            tgt_lang=self.tgt_lang,
        )


def word(job: Job, end: Answer | MissingReason, wall_ms: int) -> bytes:
    """Word how a job ended, as it is sent and logged."""
    if isinstance(end, Answer):
        return encode(end.message(wall_ms))
    return encode(Place.of(job).missing(end, wall_ms))


def progress(job: Job, kind: UiEventKind, now: float) -> UiEvent:
    """Word how far a job has come."""
    return UiEvent(
        trace_id=job.brief.trace_id,
        session_id=job.session.id,
        job_id=job.id,
        utterance_index=job.index,
        event=kind.value,
        elapsed_ms=max(0, round((now - job.created_at) * 1000)),
        status="ok",
    )


def with_error(event: UiEvent, code: str | None, lang: str) -> UiEvent:
    """Word that something went wrong on the way; a code that has no hint for people is left out."""
    advice = hint(code, lang) if code else None
    return msgspec.structs.replace(event, status="error", error_code=code if advice else None, hint=advice)


@dataclass(frozen=True, slots=True)
class Said:
    """How an utterance ended, for those in a room who want to know it in one language."""

    code: str
    room_id: str
    speaker: SessionId
    index: int
    lang: str
    message: bytes  # as it is sent, with its voice
    answer: Answer | None = None  # what it was made from; None: there is no result, or others made it
    missing: bool = False
    done: Callable[[], None] = _nothing  # the room was told


def translation(result: JobResult) -> str:
    """Give what a result says in the other language; empty when it says nothing."""
    return (result.text_translated or "").strip()


def _positive(milliseconds: float) -> float | None:
    return milliseconds if milliseconds > 0 else None
