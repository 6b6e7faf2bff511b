"""A session's way back: what nodes say about its jobs becomes messages, in order, each once.

While the client is away the messages go nowhere; the log knows what it has to be told when it returns. What
was said in a room is for others: it leaves in the same order, and the log has it until they were told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lingua_scheduler.aio import Alarms, Deadline
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.groups import GroupContext, GroupOptions, Groups, Heard, Membership
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
)
from lingua_scheduler.core.ports import Sink
from lingua_scheduler.core.result_log import ResultLog
from lingua_scheduler.core.stored import Logged
from lingua_scheduler.flow.answer import Answer, progress, translation, with_error, word
from lingua_scheduler.flow.end_counts import EndCounts
from lingua_scheduler.flow.job import Job
from lingua_scheduler.flow.nowhere import Nowhere
from lingua_scheduler.flow.partials import PartialOptions, Partials
from lingua_scheduler.flow.room_ends import RoomEnds
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.node import AsrPartial as NodePartial
from lingua_scheduler.wire.node import JobResult
from lingua_scheduler.wire.session import AsrPartial, UiEventKind

Payload = Answer | bytes | Logged  # a result; or what an earlier owner wanted to tell, the last in a room
End = Outcome[Payload]


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """The options of the way back."""

    ordering: OrderingOptions
    groups: GroupOptions
    partials: PartialOptions
    said: Callable[[Answer | bytes], None] = lambda _: None  # told of each result that leaves


class Delivery:
    """Results of one session's jobs in, messages for its client out."""

    __slots__ = (
        "_clock",
        "_closed",
        "_counts",
        "_gaps",
        "_groups",
        "_metrics",
        "_open",
        "_ordering",
        "_partials",
        "_said",
        "_streams",
        "hint_lang",
        "log",
        "room_ends",
        "sink",
    )

    def __init__(
        self,
        session_id: SessionId,
        options: DeliveryOptions,
        *,
        home: tuple[Clock, Alarms, Metrics],
        log: ResultLog | None,
    ) -> None:
        self.sink: Sink = Nowhere()
        self.log = log  # None: sessions end with their connection
        self.hint_lang = "en"
        self._ordering, self._said = options.ordering, options.said
        self._clock, alarms, self._metrics = home
        self._streams: dict[str, ResultStream[Payload]] = {}
        self._open: dict[tuple[str, int], Job] = {}  # by language and index, until the index has left
        self._groups = Groups(session_id, options.groups)
        self._gaps = Deadline(alarms, self._tick)
        self._partials = Partials(options.partials, self._post_partial, clock=self._clock, alarms=alarms)
        self._closed = False
        self._counts = EndCounts(self._metrics, self._clock)
        self.room_ends = RoomEnds(session_id, log, (self._clock, self._metrics), self._counts, self._said)

    @property
    def idle(self) -> bool:
        """Every open index has left."""
        return all(stream.idle for stream in self._streams.values())

    def expect(self, job: Job, now: float) -> None:
        """A job exists: its index will end in exactly one answer."""
        cut, stream = job.brief.cut, self._stream(job.brief.tgt_lang)
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

    # On the way

    def event(
        self, job: Job, kind: UiEventKind, *, error_code: str | None = None, failed: bool = False
    ) -> None:
        """Tell the speaker how far a job has come."""
        if self._closed:
            return
        event = progress(job, kind, self._clock.now())
        if failed or error_code:
            event = with_error(event, error_code, self.hint_lang)
        self.sink.post(event, droppable=True)

    def partial(self, job: Job, message: NodePartial) -> None:
        """Pass on what was understood so far; of several jobs that hear the same, what one of them says."""
        if job.follow is not None and message.is_final:
            job.follow.heard(message.text)
        if job.brief.room is None or job.brief.room.lead:
            self._partials.take(job, message)

    def _post_partial(self, job: Job, partial: AsrPartial) -> bool:
        if not self._streams[job.brief.tgt_lang].awaits(job.index):
            return False
        self.sink.post(partial, droppable=True)
        if job.brief.room is not None:
            self.room_ends.caption(job, partial)
        self.event(job, UiEventKind.ASR_PARTIAL)
        return True

    # How a job ends

    def answer(self, job: Job, result: JobResult) -> End:
        """Tell what a node's success means for the client; its text counts as said from now on."""
        now, wall_ms = self._clock.now(), self._clock.wall_ms()
        if job.follow is not None:
            job.follow.answered(result)
        if not self.unfilled(job):
            self._metrics.results_dropped_total.inc("expired")
            return Silent()
        if not (result.text_asr or "").strip() and not translation(result) and not result.tts_audio:
            return Missing(MissingReason.SILENCE_DETECTED)
        return Delivered(Answer(job, result, self._join(job, result, now, wall_ms), wall_ms))

    def failed(self, job: Job, result: JobResult) -> None:
        """A job failed with a result: what was understood still counts as said."""
        self._join(job, result, self._clock.now(), self._clock.wall_ms())

    def word(self, job: Job, end: End) -> Logged | None:
        """Word an end for the log; None when the client is told nothing or no log is kept."""
        if self.log is None or self._closed:
            return None
        if isinstance(end, Silent):
            if not self._ordering.report_no_text:
                return None
            end = Missing(MissingReason.NO_TEXT)
        payload = end.reason if isinstance(end, Missing) else end.payload
        if not isinstance(payload, Answer | MissingReason):
            return None
        if job.brief.room is not None:
            message = self.room_ends.word(job, payload)
        else:
            message = self._worded(job, payload)
        return Logged(job.index, job.brief.stream, message)

    def conclude(self, job: Job, end: End, logged: Logged | None) -> None:
        """Settle a job's index by an end that is written, and send what may leave."""
        if self._closed:
            return
        if self.log is not None and logged is not None:
            self.log.keep(logged)
        new = self.unfilled(job) and not job.brief.reads
        if new and isinstance(end, Delivered) and isinstance(end.payload, Answer):
            if (end.payload.result.text_asr or "").strip():
                self.event(job, UiEventKind.ASR_FINAL)
            if translation(end.payload.result):
                self.event(job, UiEventKind.NMT_DONE)
        self._resolve(job, end)
        if job.follow is not None:
            job.follow.ended(end)

    def result(self, job: Job, result: JobResult) -> None:
        """A node adds a result to a job that ended without one."""
        end = self.answer(job, result)
        self.conclude(job, end, self.word(job, end))

    def missing(self, job: Job, reason: MissingReason) -> None:
        """A job ended without a result, and nothing was written about that."""
        end = Missing(reason)
        self.conclude(job, end, self.word(job, end))

    def unfilled(self, job: Job) -> bool:
        """A result for this job would still reach the client."""
        return not self._closed and self._streams[job.brief.tgt_lang].unfilled(job.index, self._clock.now())

    def _resolve(self, job: Job, end: End) -> None:
        resolution = self._streams[job.brief.tgt_lang].resolve(job.index, end, self._clock.now())
        self._counts.resolved(job.index, end, resolution)
        self._send(resolution.releases, job.brief.tgt_lang, just_worded=job.index)

    # Away and back

    def acknowledge(self, index: int) -> None:
        """The client has the ends of all utterances up to this one."""
        if self.log is not None:
            self.log.acknowledge(index)

    def replay(self) -> None:
        """Say again what the client has not acknowledged, before anything new."""
        for message in self.log.unheard() if self.log is not None else ():
            self.sink.post(message)

    def take_up(self, jobs: Iterable[Job], ended: Iterable[Logged], received: int) -> None:
        """Go on where another owner stopped: what has ended leaves in order with what is still open.

        An open index that the client has passed was reported as missing; its result may still come late.
        """
        now = self._clock.now()
        known: dict[tuple[int, str], Logged | Job] = {(each.index, each.lang): each for each in ended}
        known |= {(job.index, job.brief.tgt_lang): job for job in jobs}
        ends: list[tuple[int, str, End]] = []
        for index, tgt_lang in sorted(known):
            each = known[index, tgt_lang]
            if isinstance(each, Job):
                self.expect(each, now)
                if index <= received and each.brief.room is None:
                    ends.append((index, tgt_lang, Missing(MissingReason.GAP_TIMEOUT)))
                    del self._open[tgt_lang, index]
            else:
                self._stream(tgt_lang).open(index, now)
                ends.append((index, tgt_lang, Delivered(each if each.for_room else each.message)))
        for index, tgt_lang, end in ends:
            self._send(self._streams[tgt_lang].resolve(index, end, now).releases, tgt_lang)

    def close(self) -> None:
        """Forget everything; what is still open is resolved without a word."""
        self._closed = True
        self._streams.clear()
        self._open.clear()
        self._groups.close()
        self._gaps.clear()
        self._partials.clear()

    # Inside

    def _stream(self, tgt_lang: str) -> ResultStream[Payload]:
        stream = self._streams.get(tgt_lang)
        if stream is None:
            stream = self._streams[tgt_lang] = ResultStream(self._ordering)
        return stream

    def _join(self, job: Job, result: JobResult, now: float, wall_ms: int) -> Membership | None:
        heard = Heard(job.index, result.text_asr or "", job.brief.tgt_lang, result.text_translated)
        return self._groups.join(heard, now, wall_ms)

    def _tick(self) -> None:
        now = self._clock.now()
        for tgt_lang, stream in self._streams.items():
            self._send(stream.tick(now), tgt_lang)

    def _send(
        self, releases: list[Release[Payload]], tgt_lang: str, *, just_worded: int | None = None
    ) -> None:
        for release in releases:
            job = self._open.pop((tgt_lang, release.index), None)
            if job is not None and job.trail is not None:
                job.trail.left(release.outcome)
            name = f"{release.index}:{tgt_lang}"
            if self.room_ends.leaves(job, release.outcome):
                continue
            if isinstance(release.outcome, Delivered) and not isinstance(release.outcome.payload, Logged):
                logged = self._logged(name) if release.index == just_worded else None
                self._post(release.outcome.payload, logged)
            elif isinstance(release.outcome, Missing) and job is not None:
                self._post_missing(job, release.outcome.reason, name)
            if self.log is not None:
                self.log.tell(name)
        deadlines = [stream.deadline for stream in self._streams.values() if stream.deadline is not None]
        self._gaps.move(min(deadlines, default=None))

    def _post(self, payload: Answer | bytes, logged: bytes | None) -> None:
        if isinstance(payload, Answer):
            self.sink.post(logged or self._worded(payload.job, payload))
            self._counts.answered(payload)
        else:
            self.sink.post(payload)
        self._said(payload)

    def _worded(self, job: Job, end: Answer | MissingReason) -> bytes:
        self._counts.worded(end)
        return word(job, end, self._clock.wall_ms())

    def _logged(self, name: str) -> bytes | None:
        return None if self.log is None else self.log.message(name)

    def _post_missing(self, job: Job, reason: MissingReason, name: str) -> None:
        self._counts.missing(reason)
        message = self._logged(name)
        if message is None:  # given up by the order of results: its job has not ended
            message = self._worded(job, reason)
            if self.log is not None:
                self.log.keep(Logged(job.index, job.brief.tgt_lang, message))
        self.sink.post(message)
