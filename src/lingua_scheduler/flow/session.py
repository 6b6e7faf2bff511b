"""One session: frames become utterances, utterances become jobs, jobs end in ordered results.

The session is the single writer of all of that. Its methods are synchronous and never wait, so events are
handled one at a time without a mailbox or a task of its own; whatever talks to another machine happens in
dispatch and endings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lingua_scheduler.aio import Alarms, Deadline
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.affinity import Affinity, AffinityOptions, Wish
from lingua_scheduler.core.audio import DurationMeter, is_silent
from lingua_scheduler.core.model import AudioFormat, Cut, Frame, JobId, PoolId, SessionId, new_job_id
from lingua_scheduler.core.modules import Pipeline as Steps
from lingua_scheduler.core.modules import required
from lingua_scheduler.core.ports import Sink
from lingua_scheduler.core.reorder import Reorder
from lingua_scheduler.core.segmenter import Segmenter, SegmenterOptions
from lingua_scheduler.core.sequence import SequenceWindow
from lingua_scheduler.core.timeouts import TimeoutOptions
from lingua_scheduler.errors import InvalidMessage, RateExceeded, UnsupportedFeature
from lingua_scheduler.flow.delivery import Delivery, DeliveryOptions
from lingua_scheduler.flow.job import Brief, Job
from lingua_scheduler.flow.opening import Opening, SessionOptions
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.common import Pipeline
from lingua_scheduler.wire.session import AudioChunk, Backpressure, BackpressureAction, Utterance

_PAUSE_MS = 2000


@dataclass(frozen=True, slots=True)
class SessionRules:
    """The options that every session of an instance follows."""

    session: SessionOptions
    segmentation: SegmenterOptions
    delivery: DeliveryOptions
    affinity: AffinityOptions
    timeouts: TimeoutOptions


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a session uses of the instance it lives in."""

    clock: Clock
    alarms: Alarms
    metrics: Metrics
    rules: SessionRules
    launch: Callable[[Job], None]  # hand a new job over
    changed: Callable[[Session], None]  # a job of the session ended


class Session:
    """One client's conversation."""

    def __init__(self, session_id: SessionId, opening: Opening, sink: Sink, around: Surroundings) -> None:
        self.id = session_id
        self.opening = opening
        self.languages = opening.languages
        self.sink = sink
        self.epoch = 0
        self.closing = False
        self.preferred_pool: PoolId | None = None
        self.jobs: dict[JobId, Job] = {}
        rules = around.rules
        self._around = around
        self._clock, self._metrics = around.clock, around.metrics
        self.affinity = Affinity(rules.affinity)
        self.delivery = Delivery(
            session_id, sink, rules.delivery, home=(around.clock, around.alarms, around.metrics)
        )
        self.delivery.hint_lang = opening.hint_lang
        self._segmenter = Segmenter(opening.segmentation, fmt=opening.audio_format, rate=opening.sample_rate)
        self._meter = DurationMeter(opening.audio_format, opening.sample_rate)
        self._sequence = SequenceWindow()
        self._whole: Reorder[Utterance] = Reorder(
            timeout_s=rules.session.utterance_reorder_timeout_ms / 1000,
            most=rules.session.utterance_reorder_max,
        )
        self._silence = Deadline(around.alarms, self._silence_over)
        self._reorder_over = Deadline(around.alarms, self._stop_waiting_for_index)
        self._crowded = False
        self._types: dict[Pipeline, frozenset[str]] = {}

    # What the client says

    def audio(self, chunk: AudioChunk) -> None:
        """Take one frame; it may end the utterance."""
        now, data = self._clock.now(), chunk.audio
        if self.opening.audio_format is AudioFormat.PCM16 and len(data) % 2:
            raise InvalidMessage("Invalid message format: pcm16 audio has an odd number of bytes")
        if not self._sequence.fresh(chunk.seq):
            self._metrics.audio_frames_dropped_total.inc("repeated")
            return
        if self._crowd() and not chunk.is_final:
            self._metrics.audio_frames_dropped_total.inc("crowded")
            raise RateExceeded("too many utterances wait for an answer", details={"dropped_chunks": 1})
        self._metrics.audio_frames_total.inc()
        self._metrics.audio_bytes_total.inc(len(data))
        frame = Frame(data, self._meter.add(data), self._is_silent(data), chunk.client_ms)
        if chunk.is_final:
            cuts = self._segmenter.finish(frame, now)
            if not cuts:
                self._metrics.empty_finalize_total.inc()
        else:
            cuts = self._segmenter.feed(frame, now)
        self._launch(cuts)

    def utterance(self, message: Utterance) -> None:
        """Take a whole utterance; it leaves in index order."""
        if message.audio_format not in set(AudioFormat):
            raise UnsupportedFeature("audio_format must be 'opus' or 'pcm16'")
        now = self._clock.now()
        self._whole.expect(self._segmenter.next_index)
        released = self._whole.add(message.utterance_index, message, now)
        if released is None:
            self._metrics.duplicate_finalize_suppressed_total.inc()
            return
        self._launch_whole(released)

    def playback(self, group_id: str, *, ended: bool) -> None:
        """The client plays a translation, or has played it: its silence means nothing meanwhile."""
        now = self._clock.now()
        if ended:
            self._segmenter.playback_ended(now)
        else:
            self._segmenter.playback_started(now)
        self.delivery.playback(group_id, now, ended=ended)
        self._silence.move(self._segmenter.deadline)

    def finish_speech(self) -> None:
        """Cut what is buffered: the session ends."""
        self.closing = True
        self._launch(self._segmenter.close(self._clock.now()))

    def end(self) -> list[Job]:
        """Forget everything and return the jobs that were still open."""
        self.closing = True
        self._silence.clear()
        self._reorder_over.clear()
        self.affinity.clear()
        self.delivery.close()
        orphans = [job for job in self.jobs.values() if not job.ended]
        self.jobs.clear()
        return orphans

    @property
    def idle(self) -> bool:
        """Nothing is being translated and nothing is held."""
        return self.delivery.idle

    @property
    def last_seq(self) -> int | None:
        """The highest frame number taken."""
        return self._sequence.highest

    def changed(self) -> None:
        """A job of this session ended."""
        self._around.changed(self)

    # What placement asks

    def wish(self, job: Job) -> Wish | None:
        """Name the node that should have this job, if any."""
        cut = job.brief.cut
        return self.affinity.wish(
            job.brief.tgt_lang, reason=cut.reason, turn_id=cut.turn_id, now=self._clock.now()
        )

    def placed(self, job: Job) -> None:
        """A job has its node: remember it for what belongs together."""
        if job.reservation is None:
            return
        cut = job.brief.cut
        self.preferred_pool = job.reservation.pool
        self.affinity.placed(
            job.brief.tgt_lang,
            job.reservation.node_id,
            reason=cut.reason,
            turn_id=cut.turn_id,
            now=self._clock.now(),
        )

    # Inside

    def _is_silent(self, data: bytes) -> bool:
        return not self._segmenter.speaking and is_silent(self.opening.audio_format, data)

    def _silence_over(self) -> None:
        self._launch(self._segmenter.tick(self._clock.now()))

    def _stop_waiting_for_index(self) -> None:
        self._launch_whole(self._whole.tick(self._clock.now()))

    def _launch(self, cuts: list[Cut]) -> None:
        for cut in cuts:
            self._meter = DurationMeter(self.opening.audio_format, self.opening.sample_rate)
            self._start(Brief.of_cut(cut, self.opening))
        self._silence.move(self._segmenter.deadline)

    def _launch_whole(self, released: list[tuple[int, Utterance]]) -> None:
        for index, message in released:
            if self._segmenter.take_index(index) is None:
                self._metrics.duplicate_finalize_suppressed_total.inc()
                continue
            self._start(Brief.of_message(message, self.opening))
        self._reorder_over.move(self._whole.deadline)

    def _start(self, brief: Brief) -> None:
        now = self._clock.now()
        job = Job(
            id=new_job_id(),
            session=self,
            brief=brief,
            pairs=self.languages.pairs(brief.tgt_lang),
            types=self._services(brief),
            created_at=now,
            created_wall_ms=self._clock.wall_ms(),
            pending_until=now + self._around.rules.timeouts.pending_s,
        )
        self.jobs[job.id] = job
        self._metrics.web_task_finalized_total.inc(brief.cut.reason.value)
        self.delivery.expect(job, now)
        self._around.launch(job)

    def _services(self, brief: Brief) -> frozenset[str]:
        pipeline, features = brief.pipeline, brief.features
        steps = Steps(**{name: getattr(pipeline, name) for name in pipeline.__struct_fields__})
        wanted = {name: getattr(features, name) for name in features.__struct_fields__} if features else {}
        return required(steps, wanted).services

    def _crowd(self) -> bool:
        """Tell a client that can hear it to slow down; True when no more audio is taken."""
        limit = self._around.rules.session.max_open_utterances
        open_jobs = len(self.jobs)
        crowded = open_jobs * 2 >= limit
        if crowded != self._crowded:
            self._crowded = crowded
            if crowded and self.opening.wants_backpressure:
                self.sink.post(
                    Backpressure(action=BackpressureAction.SLOW_DOWN.value, resume_after_ms=_PAUSE_MS)
                )
        if open_jobs >= limit and self.opening.wants_backpressure:
            self.sink.post(
                Backpressure(action=BackpressureAction.PAUSE.value, resume_after_ms=_PAUSE_MS), droppable=True
            )
        return open_jobs >= limit
