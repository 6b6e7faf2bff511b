"""One session: frames become utterances, utterances become jobs, jobs end in ordered results.

The session is the single writer of all of that. Its methods are synchronous and never wait, so events are
handled one at a time without a mailbox or a task of its own; whatever talks to another machine happens in
dispatch and endings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from lingua_scheduler.aio import Alarms
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.affinity import Affinity, AffinityOptions, Wish
from lingua_scheduler.core.model import JobId, PoolId, SessionId, new_job_id
from lingua_scheduler.core.modules import Pipeline as Steps
from lingua_scheduler.core.modules import Requirements, required
from lingua_scheduler.core.ports import Sink
from lingua_scheduler.core.pressure import Level, Pressure
from lingua_scheduler.core.segmenter import SegmenterOptions
from lingua_scheduler.core.timeouts import TimeoutOptions
from lingua_scheduler.errors import RateExceeded
from lingua_scheduler.flow.delivery import Delivery, DeliveryOptions
from lingua_scheduler.flow.intake import Intake
from lingua_scheduler.flow.job import Brief, Job
from lingua_scheduler.flow.opening import Opening, SessionOptions
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.session import (
    AudioChunk,
    Backpressure,
    BackpressureAction,
    ErrorMessage,
    Utterance,
)

_TOO_MUCH = "too many utterances wait for an answer"
_ACTIONS = {Level.CROWDED: BackpressureAction.SLOW_DOWN, Level.FULL: BackpressureAction.PAUSE}


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
        self._intake = Intake(
            opening, rules.session, self._start, home=(around.clock, around.alarms, around.metrics)
        )
        self._pressure = Pressure(
            rules.session.max_open_utterances, repeat_s=rules.session.backpressure_resume_ms / 1000
        )

    # What the client says

    def audio(self, chunk: AudioChunk) -> None:
        """Take one frame, unless too much is unanswered; a final one is always taken."""
        if self._has_room() or chunk.is_final:
            self._report_dropped(self._pressure.burst_over())
            self._intake.audio(chunk)
        else:
            self._drop()

    def utterance(self, message: Utterance) -> None:
        """Take a whole utterance or a piece of a stream, unless too much is unanswered."""
        if self._has_room():
            self._report_dropped(self._pressure.burst_over())
            self._intake.utterance(message)
        elif message.manual_cut:
            raise RateExceeded(_TOO_MUCH)
        else:
            self._drop()

    def playback(self, group_id: str, *, ended: bool) -> None:
        """The client plays a translation, or has played it."""
        self._intake.playback(ended=ended)
        self.delivery.playback(group_id, self._clock.now(), ended=ended)

    def finish_speech(self) -> None:
        """Cut what is buffered: the session ends."""
        self.closing = True
        self._intake.finish()

    def end(self) -> list[Job]:
        """Forget everything and return the jobs that were still open."""
        self.closing = True
        self._intake.end()
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
        return self._intake.last_seq

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

    def _start(self, brief: Brief) -> None:
        now = self._clock.now()
        job = Job(
            id=new_job_id(),
            session=self,
            brief=brief,
            pairs=replace(self.languages, src=brief.src_lang).pairs(brief.tgt_lang),
            needs=_needs(brief),
            created_at=now,
            created_wall_ms=self._clock.wall_ms(),
            pending_until=now + self._around.rules.timeouts.pending_s,
        )
        self.delivery.expect(job, now)
        self.jobs[job.id] = job
        self._metrics.web_task_finalized_total.inc(brief.cut.reason.value)
        self._around.launch(job)

    def _has_room(self) -> bool:
        """Tell a client that can hear it how full its session is; False when no more audio is taken."""
        level = self._pressure.level(len(self.jobs))
        if level and self.opening.wants_backpressure:
            warning = self._pressure.warning(level, self._clock.now())
            if warning is not None:
                resume_ms = self._around.rules.session.backpressure_resume_ms
                self.sink.post(Backpressure(action=_ACTIONS[warning].value, resume_after_ms=resume_ms))
        return level is not Level.FULL

    def _drop(self) -> None:
        self._metrics.audio_frames_dropped_total.inc("crowded")
        self._report_dropped(self._pressure.dropped(self._clock.now()))

    def _report_dropped(self, chunks: int) -> None:
        if chunks:
            details = {"dropped_chunks": chunks}
            self.sink.post(ErrorMessage(code=RateExceeded.code, message=_TOO_MUCH, details=details))


def _needs(brief: Brief) -> Requirements:
    """Tell what the pipeline and the features of a job ask of a node."""
    steps = Steps(**msgspec.structs.asdict(brief.pipeline))
    return required(steps, msgspec.structs.asdict(brief.features) if brief.features else {})
