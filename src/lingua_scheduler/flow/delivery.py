"""A session's way back: what nodes say about its jobs becomes messages, in order, each once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

from lingua_scheduler.aio import Alarms, Deadline
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.groups import GroupContext, GroupOptions, Groups, Heard, Membership
from lingua_scheduler.core.hints import hint
from lingua_scheduler.core.model import SessionId
from lingua_scheduler.core.ordering import (
    Delivered,
    Missing,
    MissingReason,
    OrderingOptions,
    Outcome,
    Release,
    ResultStream,
    Silent,
    Verdict,
)
from lingua_scheduler.core.ports import Sink
from lingua_scheduler.flow.answer import Answer
from lingua_scheduler.flow.job import Job
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.node import AsrPartial as NodePartial
from lingua_scheduler.wire.node import JobResult
from lingua_scheduler.wire.session import AsrPartial, MissingResult, UiEvent, UiEventKind


class PartialOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a client is told what was understood so far."""

    interval_ms: Annotated[int, msgspec.Meta(ge=0)] = 100
    """Shortest time between two partials of one session; of those in between the newest is kept."""


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """The options of the way back."""

    ordering: OrderingOptions
    groups: GroupOptions
    partials: PartialOptions


class Delivery:
    """Results of one session's jobs in, messages for its client out."""

    def __init__(
        self,
        session_id: SessionId,
        sink: Sink,
        options: DeliveryOptions,
        *,
        home: tuple[Clock, Alarms, Metrics],
    ) -> None:
        self._session_id = session_id
        self._sink = sink
        self._options = options
        self._clock, alarms, self._metrics = home
        self._streams: dict[str, ResultStream[Answer]] = {}
        self._open: dict[tuple[str, int], Job] = {}  # by language and index, until the index has left
        self._groups = Groups(session_id, options.groups)
        self._gaps = Deadline(alarms, self._tick)
        self._partial_due = Deadline(alarms, self._send_partial)
        self._partial: tuple[Job, AsrPartial] | None = None
        self._partial_at = float("-inf")
        self._closed = False
        self.hint_lang = "en"

    @property
    def idle(self) -> bool:
        """Every open index has left."""
        return all(stream.idle for stream in self._streams.values())

    def expect(self, job: Job, now: float) -> None:
        """A job exists: its index will end in exactly one answer."""
        stream = self._streams.get(job.brief.tgt_lang)
        if stream is None:
            stream = self._streams[job.brief.tgt_lang] = ResultStream(self._options.ordering)
        cut = job.brief.cut
        stream.open(cut.index, now, turn_id=cut.turn_id, continues=cut.reason.continues_turn)
        self._open[job.brief.tgt_lang, cut.index] = job
        self._groups.forget_idle(now)

    def context(self, job: Job, now: float) -> GroupContext | None:
        """What a new job is told about what was said before."""
        return self._groups.current(now, job.brief.tgt_lang)

    def playback(self, group_id: str, now: float, *, ended: bool) -> None:
        """The client plays, or has played, a group."""
        if ended:
            self._groups.playback_ended(group_id, now)
        else:
            self._groups.playback_started(group_id, now)

    def event(
        self, job: Job, kind: UiEventKind, *, error_code: str | None = None, failed: bool = False
    ) -> None:
        """Tell the speaker how far a job has come."""
        if self._closed:
            return
        elapsed_ms = max(0, round((self._clock.now() - job.created_at) * 1000))
        advice = hint(error_code, self.hint_lang) if error_code else None
        self._sink.post(
            UiEvent(
                trace_id=job.brief.trace_id,
                session_id=self._session_id,
                job_id=job.id,
                utterance_index=job.index,
                event=kind.value,
                elapsed_ms=elapsed_ms,
                status="error" if failed or error_code else "ok",
                error_code=error_code if advice else None,
                hint=advice,
            ),
            droppable=True,
        )

    def partial(self, job: Job, message: NodePartial) -> None:
        """Pass on what was understood so far, at a pace a person can read: of many the newest."""
        partial = AsrPartial(
            session_id=self._session_id,
            utterance_index=job.index,
            job_id=job.id,
            text=message.text,
            is_final=message.is_final,
            trace_id=job.brief.trace_id,
        )
        self._partial = (job, partial)
        due = self._partial_at + self._options.partials.interval_ms / 1000
        if due <= self._clock.now():
            self._send_partial()
        else:
            self._partial_due.move(due)

    def _send_partial(self) -> None:
        if self._partial is None:
            return
        (job, partial), self._partial = self._partial, None
        if not self._streams[job.brief.tgt_lang].awaits(job.index):
            return
        self._partial_at = self._clock.now()
        self._sink.post(partial, droppable=True)
        self.event(job, UiEventKind.ASR_PARTIAL)

    def result(self, job: Job, result: JobResult) -> None:
        """A job succeeded with something to say, or to hear."""
        now, wall_ms = self._clock.now(), self._clock.wall_ms()
        text, translation = (result.text_asr or "").strip(), (result.text_translated or "").strip()
        if not self.unfilled(job):
            self._metrics.results_dropped_total.inc("expired")
            return
        if not text and not translation and not result.tts_audio:
            self.resolve(job, Missing(MissingReason.SILENCE_DETECTED))
            return
        if text:
            self.event(job, UiEventKind.ASR_FINAL)
        if translation:
            self.event(job, UiEventKind.NMT_DONE)
        membership = self._join(job, result, now, wall_ms)
        self.resolve(job, Delivered(Answer(job, result, membership, wall_ms)))

    def failed(self, job: Job, result: JobResult) -> None:
        """A job failed with a result: what was understood still counts as said."""
        self._join(job, result, self._clock.now(), self._clock.wall_ms())

    def silent(self, job: Job) -> None:
        """A node says that nothing was said."""
        self.resolve(job, Silent())

    def missing(self, job: Job, reason: MissingReason) -> None:
        """A job ended without a result."""
        self.resolve(job, Missing(reason))

    def resolve(self, job: Job, outcome: Outcome[Answer]) -> None:
        """Settle a job's index and send what may leave."""
        if self._closed:
            return
        stream = self._streams[job.brief.tgt_lang]
        resolution = stream.resolve(job.index, outcome, self._clock.now())
        if resolution.verdict is Verdict.LATE:
            self._metrics.results_late_total.inc()
        elif resolution.verdict is not Verdict.ACCEPTED and isinstance(outcome, Delivered):
            self._metrics.results_dropped_total.inc(resolution.verdict.value)
        elif isinstance(outcome, Delivered) and not any(r.index == job.index for r in resolution.releases):
            self._metrics.results_held_total.inc()
        self._send(resolution.releases, job.brief.tgt_lang)

    def unfilled(self, job: Job) -> bool:
        """A result for this job would still reach the client."""
        return not self._closed and self._streams[job.brief.tgt_lang].unfilled(job.index, self._clock.now())

    def close(self) -> None:
        """Forget everything; what is still open is resolved without a word."""
        self._closed = True
        self._streams.clear()
        self._open.clear()
        self._groups.close()
        self._gaps.clear()
        self._partial_due.clear()
        self._partial = None

    def _join(self, job: Job, result: JobResult, now: float, wall_ms: int) -> Membership | None:
        heard = Heard(job.index, result.text_asr or "", job.brief.tgt_lang, result.text_translated)
        return self._groups.join(heard, now, wall_ms)

    def _tick(self) -> None:
        now = self._clock.now()
        for tgt_lang, stream in self._streams.items():
            self._send(stream.tick(now), tgt_lang)

    def _send(self, releases: list[Release[Answer]], tgt_lang: str) -> None:
        for release in releases:
            job = self._open.pop((tgt_lang, release.index), None)
            if isinstance(release.outcome, Delivered):
                self._sink.post(release.outcome.payload.message(self._clock.wall_ms()))
                self._metrics.translation_results_total.inc()
                self._metrics.answer_latency_seconds.observe(
                    self._clock.now() - release.outcome.payload.job.created_at
                )
            elif isinstance(release.outcome, Missing) and job is not None:
                self._post_missing(job, release.outcome.reason)
        deadlines = [stream.deadline for stream in self._streams.values() if stream.deadline is not None]
        self._gaps.move(min(deadlines, default=None))

    def _post_missing(self, job: Job, reason: MissingReason) -> None:
        self._metrics.missing_results_total.inc(reason.value)
        if reason is MissingReason.GAP_TIMEOUT:
            self._metrics.result_gap_timeout_total.inc()
        self._sink.post(
            MissingResult(
                session_id=self._session_id,
                utterance_index=job.index,
                reason=reason.value,
                created_at_ms=self._clock.wall_ms(),
                trace_id=job.brief.trace_id,
                speaker_session_id=self._session_id,
                tgt_lang=job.brief.tgt_lang,
            )
        )
