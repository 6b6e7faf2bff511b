"""What nodes say about jobs: whose word counts, and what follows from it.

A word about a job of another instance's session is passed on to that instance.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lingua_scheduler.core.hints import NODE_FAILURE_CODES
from lingua_scheduler.core.lifecycle import JobState, ResultKind
from lingua_scheduler.core.model import NodeId
from lingua_scheduler.core.ordering import Missing, MissingReason, Silent
from lingua_scheduler.crash import CrashPoint, crash_point
from lingua_scheduler.flow.endings import Endings
from lingua_scheduler.flow.failover import Failover
from lingua_scheduler.flow.job import Job, Stage
from lingua_scheduler.flow.roster import Roster
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.common import plain_code
from lingua_scheduler.wire.node import AsrPartial, JobAck, JobResult, JobStarted, ModelNotAvailable
from lingua_scheduler.wire.peer import NodeWord
from lingua_scheduler.wire.session import UiEventKind

_log = get_logger(__name__)


class Results:
    """Takes what a node says about a job of this instance's sessions."""

    def __init__(
        self,
        roster: Roster,
        endings: Endings,
        failover: Failover,
        *,
        elsewhere: Callable[[NodeId, NodeWord], None],
        metrics: Metrics,
    ) -> None:
        self._roster = roster
        self._endings = endings
        self._failover = failover
        self._elsewhere = elsewhere
        self._metrics = metrics

    def heard(self, node_id: NodeId, word: NodeWord) -> None:
        """A node that is connected here says something about a job of any session."""
        if self._roster.get(word.job_id) is None:
            self._elsewhere(node_id, word)
        else:
            self.hear(node_id, word)

    def hear(self, node_id: NodeId, word: NodeWord) -> None:
        """A node says something about a job of a session that lives here, or did."""
        match word:
            case JobResult():
                self.result(node_id, word)
            case JobAck():
                self.acknowledged(node_id, word)
            case JobStarted():
                self.started(node_id, word)
            case AsrPartial():
                self.partial(node_id, word)
            case ModelNotAvailable():
                self.model_missing(node_id, word.job_id)

    def acknowledged(self, node_id: NodeId, message: JobAck) -> None:
        """The node took the job."""
        job = self._current(node_id, message.job_id, message.attempt_id)
        if job is None or job.accepted:
            return
        job.accepted = True
        if job.trail is not None:
            job.trail.step("accepted")
        job.session.delivery.event(job, UiEventKind.NODE_ACCEPTED)
        self._advance(job, JobState.ACCEPTED)

    def started(self, node_id: NodeId, message: JobStarted) -> None:
        """The node works on the job."""
        job = self._current(node_id, message.job_id, message.attempt_id)
        if job is not None:
            self._runs(job)

    def partial(self, node_id: NodeId, message: AsrPartial) -> None:
        """The node understood something so far."""
        job = self._roster.get(message.job_id)
        if job is None or not job.on_node(node_id):
            self._metrics.results_dropped_total.inc("partial")
            return
        self._runs(job)
        job.session.delivery.partial(job, message)

    def model_missing(self, node_id: NodeId, job_id: str) -> None:
        """The node cannot do the job because it lacks a model: the older form of a failed result."""
        job = self._roster.get(job_id)
        if job is None or not job.on_node(node_id):
            self._metrics.results_dropped_total.inc("stale" if job else "unknown")
            return
        self._failover.retry(job, why="model_not_available", code="MODEL_NOT_AVAILABLE")

    def result(self, node_id: NodeId, message: JobResult) -> None:
        """The node is done with the job."""
        job = self._roster.get(message.job_id)
        if job is None or job.session.id != message.session_id or job.index != message.utterance_index:
            self._metrics.results_dropped_total.inc("unknown")
            return
        if job.brief.text is not None and not message.text_asr:
            message = msgspec.structs.replace(message, text_asr=job.brief.text)
        kind = ResultKind.of(message.text_asr, message.reason)
        if job.ended:
            self._after_the_end(job, node_id, message, kind)
            return
        if job.stage is Stage.ENDING and job.answered_by == node_id and kind is ResultKind.COMPLETE:
            job.afterthought = lambda: self._after_the_end(job, node_id, message, kind)
            return
        # First-generation nodes answer merged jobs with the attempt number of the job that triggered them.
        numbered = message.attempt_id == job.attempt or kind is ResultKind.EMPTY_ACK
        if not job.on_node(node_id) or not numbered:
            self._stale(job, node_id, message, kind)
            return
        self._finish(job, message, kind)

    def _finish(self, job: Job, message: JobResult, kind: ResultKind) -> None:
        crash_point(CrashPoint.AFTER_RESULT_RECEIVED)
        self._end(job, message, kind)
        if message.success or kind is ResultKind.EMPTY_ACK:
            self._endings.finish_merged(job)

    def _end(self, job: Job, message: JobResult, kind: ResultKind) -> None:
        if kind is ResultKind.EMPTY_ACK:
            self._endings.finish(job, "completed_no_text", Silent())
        elif message.success:
            if kind is ResultKind.COMPLETE or message.text_translated or message.tts_audio:
                self._endings.finish(job, "completed", job.session.delivery.answer(job, message))
            else:
                self._endings.finish(job, "completed_no_text", Missing(MissingReason.SILENCE_DETECTED))
        else:
            self._failed(job, message)

    def _failed(self, job: Job, message: JobResult) -> None:
        code = message.error.code if message.error else ""
        text = message.error.message if message.error else ""
        if code == "NODE_OVERLOADED":
            self._metrics.node_overload_reject_total.inc()
            self._failover.retry(job, why="node_overloaded", code=code, failed=False)
            return
        if code == "MODEL_NOT_AVAILABLE" or text.startswith("DUPLICATE_"):
            why = "model_not_available" if code == "MODEL_NOT_AVAILABLE" else "duplicate"
            self._failover.retry(job, why=why, code=code)
            return

        _log.info("job_failed", code=plain_code(code), **job.names)
        if job.trail is not None:
            job.trail.answered("failed", plain_code(code))
        delivery = job.session.delivery
        if job.stale_result is not None:
            self._endings.finish(job, "failed", delivery.answer(job, job.stale_result))
            return

        def tell() -> None:
            shown = code if code in NODE_FAILURE_CODES else None
            delivery.event(job, UiEventKind.ERROR, error_code=shown, failed=True)

        delivery.failed(job, message)
        self._endings.finish(job, "failed", Missing(MissingReason.JOB_FAILED), tell)

    def _stale(self, job: Job, node_id: NodeId, message: JobResult, kind: ResultKind) -> None:
        """Keep the result of an attempt that was given up: better than nothing if no other comes."""
        if node_id in job.tried and message.success and kind is ResultKind.COMPLETE:
            job.stale_result = message
        self._metrics.results_dropped_total.inc("stale")

    def _after_the_end(self, job: Job, node_id: NodeId, message: JobResult, kind: ResultKind) -> None:
        """Fill an utterance that ended without text, if its place is still open."""
        had_it = node_id in job.tried or job.answered_by == node_id
        if had_it and message.success and kind is ResultKind.COMPLETE and job.session.delivery.unfilled(job):
            job.session.delivery.result(job, message)
            return
        self._metrics.results_dropped_total.inc("ended")

    def _current(self, node_id: NodeId, job_id: str, attempt: int) -> Job | None:
        job = self._roster.get(job_id)
        if job is None or job.attempt != attempt or not job.on_node(node_id):
            self._metrics.results_dropped_total.inc("stale_step")
            return None
        return job

    def _runs(self, job: Job) -> None:
        if not job.running:
            job.running = True
            if job.trail is not None:
                job.trail.step("started")
            self._advance(job, JobState.RUNNING)

    def _advance(self, job: Job, state: JobState) -> None:
        if job.reservation is not None:
            self._endings.steps.note(job, job.reservation, state)
