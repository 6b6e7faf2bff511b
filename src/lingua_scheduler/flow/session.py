"""One session: frames become utterances, utterances become jobs, jobs end in ordered results.

The session is the single writer of all of that. Its methods are synchronous and never wait, so events are
handled one at a time without a mailbox or a task of its own; whatever talks to another machine happens in
dispatch and endings.
"""

from __future__ import annotations

from functools import partial

from lingua_scheduler.core.model import JobId, NodeId, PoolId, SessionId, new_job_id
from lingua_scheduler.core.ports import Sink
from lingua_scheduler.core.result_log import ResultLog
from lingua_scheduler.core.resume import Try
from lingua_scheduler.errors import RateExceeded
from lingua_scheduler.flow.crowding import TOO_MUCH, Crowding
from lingua_scheduler.flow.delivery import Delivery
from lingua_scheduler.flow.hearing import Heard, Hearing
from lingua_scheduler.flow.intake import Intake, Progress
from lingua_scheduler.flow.job import Brief, Job
from lingua_scheduler.flow.leaning import Leaning
from lingua_scheduler.flow.nowhere import Nowhere
from lingua_scheduler.flow.opening import Opening
from lingua_scheduler.flow.receipting import QUIET_S, Receipting
from lingua_scheduler.flow.surroundings import Surroundings
from lingua_scheduler.flow.trail import Trail
from lingua_scheduler.wire.node import JobResult
from lingua_scheduler.wire.session import AudioChunk, Utterance


class Session:
    """One client's conversation."""

    __slots__ = (
        "_around",
        "_clock",
        "_crowding",
        "_intake",
        "_metrics",
        "_receipting",
        "_undecided",
        "again",
        "began_ms",
        "breadth",
        "closing",
        "delivery",
        "ended",
        "epoch",
        "hearing",
        "id",
        "jobs",
        "languages",
        "leaning",
        "moving",
        "opening",
        "room",
        "stirs_at",
        "unsure",
        "unwritten_ends",
    )

    def __init__(
        self,
        session_id: SessionId,
        opening: Opening,
        around: Surroundings,
        *,
        progress: Progress | None = None,
        log: ResultLog | None = None,
    ) -> None:
        self.id = session_id
        self.opening = opening
        self.languages = opening.languages
        self.epoch = 1
        self.moving: Try | None = None  # for which Redis is asked to raise the epoch
        self.unsure = False  # it was asked and did not answer: perhaps the epoch is raised
        self.again: tuple[int, Try] | None = None  # an older epoch that counts for the same try: see Resume
        self.began_ms: int | None = None  # when it was opened or taken up here, if a transcript is kept
        self.closing = False
        self.ended = False
        self.stirs_at = 0.0  # from then on a message is worth noting that the client is active: see Sessions
        self.jobs: dict[JobId, Job] = {}
        self.unwritten_ends = 0  # of jobs that ended before they were written
        self.room: str | None = None  # the code of the room it is in
        self.breadth = 1  # jobs that its last utterance had
        self._undecided = 0  # utterances whose jobs are not made yet
        rules = around.rules
        self._around = around
        self._clock, self._metrics = around.clock, around.metrics
        self.leaning = Leaning(rules.affinity, around.clock)
        if log is None and rules.resume.window_s:
            log = ResultLog(rules.resume)
        home = (around.clock, around.alarms, around.metrics)
        self.delivery = Delivery(session_id, rules.delivery, home=home, log=log)
        self.delivery.hint_lang = opening.hint_lang
        self.delivery.room_ends.tell = partial(around.tell_room, self)
        self.delivery.room_ends.caption = around.caption
        self.hearing = Hearing(rules.resume, around.clock, keep=opening.resumes)
        self._intake = Intake(opening, rules.session, self._start, home=home, progress=progress or Progress())
        self._receipting = Receipting(
            session_id, self._intake.receipts, lambda: self.sink, around.clock, wanted=opening.resumes
        )
        self._crowding = Crowding(
            opening, rules.session, lambda: self.sink, home=(around.clock, around.metrics)
        )

    # What the client says

    def audio(self, chunk: AudioChunk, now: float) -> None:
        """Take one frame, unless too much is unanswered; a final one is always taken."""
        if len(self.jobs) + self._undecided <= self._crowding.pressure.few:
            self._intake.audio(chunk, now)
            if self._receipting.wanted:
                self._receipting.give(pace_s=QUIET_S)
        elif self._crowding.admits(self._unanswered) or chunk.is_final:
            self._crowding.over()
            self._intake.audio(chunk, now)
            self._receipting.give(pace_s=QUIET_S)
        else:
            self._crowding.drop()

    def utterance(self, message: Utterance) -> None:
        """Take a whole utterance or a piece of a stream, unless too much is unanswered."""
        if self._crowding.admits(self._unanswered):
            self._crowding.over()
            self._intake.utterance(message)
        elif message.manual_cut:
            raise RateExceeded(TOO_MUCH)
        else:
            self._crowding.drop()

    def acknowledge(self, index: int, *, speaker: str | None = None) -> None:
        """The client has the ends of all utterances up to this one, of its own or of somebody in its room."""
        if speaker is not None and speaker != self.id:
            self.hearing.acknowledge(speaker, index)
            return
        self.delivery.acknowledge(min(index, self.next_index - 1))

    def playback(self, group_id: str, *, ended: bool) -> None:
        """The client plays a translation, or has played it."""
        self._intake.playback(ended=ended)
        self.delivery.playback(group_id, self._clock.now(), ended=ended)

    def cut_speech(self) -> None:
        """End the utterance that is being spoken; what follows begins another."""
        self._intake.finish()

    def finish_speech(self) -> None:
        """Cut what is buffered: the session ends."""
        self.closing = True
        self._intake.finish()

    def end(self) -> list[Job]:
        """Forget everything and return the jobs that were still open."""
        self.closing = self.ended = True
        self._intake.end()
        self.leaning.affinity.clear()
        self.delivery.close()
        orphans = [job for job in self.jobs.values() if not job.ended]
        self.jobs.clear()
        return orphans

    @property
    def names(self) -> dict[str, str]:
        """What every log line about it carries."""
        return {"session": self.id, "trace_id": self.opening.trace_id}

    @property
    def idle(self) -> bool:
        """Nothing is being translated and nothing is held."""
        return self.delivery.idle and not self._undecided

    @property
    def _unanswered(self) -> int:
        return len(self.jobs) // self.breadth + self._undecided

    @property
    def settled(self) -> bool:
        """Everything that was said has its answer, and nothing is being said."""
        return self.idle and not self.jobs and not self._intake.speaking

    @property
    def preferred_pool(self) -> PoolId | None:
        """Where its last job went."""
        return self.leaning.pool

    @property
    def last_seq(self) -> int | None:
        """The highest frame number taken."""
        return self._intake.last_seq

    @property
    def next_index(self) -> int:
        """The number of the next utterance."""
        return self._intake.next_index

    # The connection

    @property
    def sink(self) -> Sink:
        """Where the client is; nowhere while it is away."""
        return self.delivery.sink

    @property
    def attached(self) -> bool:
        """The client is there."""
        return not isinstance(self.sink, Nowhere)

    def attach(self, sink: Sink) -> Sink:
        """Speak to this connection from now on; return the one before."""
        before, self.delivery.sink = self.sink, sink
        self._receipting.again()
        return before

    def detach(self) -> None:
        """The client is away: what it said last ends by its silence, and results wait for its return."""
        self.delivery.sink = Nowhere()
        self._intake.playback(ended=True)

    def catch_up(self) -> None:
        """Tell a client that has returned what it has missed."""
        self.delivery.replay()
        for kept in self.hearing.unheard():
            self.sink.post(kept.message)
        self._receipting.give()

    def hear(self, heard: Heard, message: bytes) -> bool:
        """Tell the client what somebody else in its room said, once."""
        fresh = self.hearing.take(heard, message)
        if fresh:
            self.sink.post(message)
        return fresh

    # The owner

    def accepts(self, epoch: int, attempt: Try) -> bool:
        """A token of this epoch may be used for this session."""
        repeated = self.again is not None and self.again[0] == epoch and attempt.follows(self.again[1])
        return not self.closing and (epoch == self.epoch or repeated)

    def moves_on(self, epoch: int) -> bool:
        """What was refused under this epoch may be written under the next one, which is ours too."""
        return not self.ended and (self.moving is not None or self.unsure or self.epoch != epoch)

    def restore(self) -> None:
        """Redis has lost the session: write it anew."""
        self._around.restore(self)

    def disowned(self) -> None:
        """Another instance owns this session: everything of it is forgotten here."""
        self._around.disowned(self)

    def pass_on(self, node_id: NodeId, result: JobResult) -> None:
        """Send a result to the instance that owns this session now."""
        self._around.elsewhere(node_id, result)

    # What is safe in Redis

    @property
    def safe_through(self) -> int | None:
        """Every frame up to this number is in a job that is written."""
        return self._receipting.through

    def safe_with(self, job: Job) -> int | None:
        """What will be safe once this job is written."""
        return self._intake.receipts.with_job(job.id)

    def stored(self, job: Job) -> None:
        """A job is written, or has ended without that: the client need not keep its audio."""
        if not self.ended:
            self._receipting.settle(job.id)

    def changed(self) -> None:
        """A job of this session ended."""
        self._around.changed(self)

    # Inside

    def job(self, job_id: JobId, brief: Brief, *, created_wall_ms: int) -> Job:
        """Make a job of this session from its brief."""
        now, wall_ms = self._clock.now(), self._clock.wall_ms()
        job = Job(
            id=job_id,
            session=self,
            brief=brief,
            pairs=brief.languages(self.languages).pairs(brief.tgt_lang),
            needs=brief.needs(),
            created_at=now - max(0, wall_ms - created_wall_ms) / 1000,
            created_wall_ms=created_wall_ms,
            pending_until=now + self._around.rules.timeouts.pending_s,
        )
        if self._around.tracer is not None:
            job.trail = Trail.of(self._around.tracer, job, self._clock)
        self.jobs[job.id] = job
        return job

    def reword(self, job: Job, brief: Brief) -> None:
        """Change what a job that has not been handed over is about."""
        job.brief, job.needs = brief, brief.needs()
        job.pairs = brief.languages(self.languages).pairs(brief.tgt_lang)

    def begin(self, job_id: JobId, brief: Brief, *, launch: bool = True) -> Job:
        """Make a job of something that was said, and hand it over unless that is for later."""
        job = self.job(job_id, brief, created_wall_ms=self._clock.wall_ms())
        self.delivery.expect(job, self._clock.now())
        if launch:
            self._around.launch(job)
        return job

    def launch(self, job: Job) -> None:
        """Hand a job over; its time to find a node begins now."""
        job.pending_until = self._clock.now() + self._around.rules.timeouts.pending_s
        self._around.launch(job)

    def forgo(self, job_id: JobId) -> None:
        """Nobody needs what was said: there is no job."""
        self._receipting.settle(job_id)

    def decided(self) -> None:
        """It is known which jobs an utterance has."""
        self._undecided -= 1

    def _start(self, brief: Brief) -> None:
        first, fan_out = new_job_id(), self._around.fan_out
        self._intake.receipts.cut(first)
        self._metrics.web_task_finalized_total.inc(brief.cut.reason.value)
        if self.room is None and not fan_out.busy(self.id):
            self.breadth = 1
            self.begin(first, brief)
        else:
            self._undecided += 1
            fan_out.cut(self, first, brief)
