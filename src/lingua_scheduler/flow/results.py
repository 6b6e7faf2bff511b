"""What nodes say about jobs: whose word counts, and what follows from it."""

from __future__ import annotations

from lingua_scheduler.aio import Tasks
from lingua_scheduler.core.hints import NODE_FAILURE_CODES
from lingua_scheduler.core.lifecycle import ResultKind
from lingua_scheduler.core.model import NodeId
from lingua_scheduler.core.ordering import MissingReason
from lingua_scheduler.core.ports import Ledgers
from lingua_scheduler.errors import StoreError
from lingua_scheduler.flow.endings import Endings
from lingua_scheduler.flow.failover import Failover
from lingua_scheduler.flow.job import Job, Stage
from lingua_scheduler.flow.roster import Roster
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.node import AsrPartial, JobAck, JobResult, JobStarted
from lingua_scheduler.wire.session import UiEventKind

_log = get_logger(__name__)


class Results:
    """Takes what a node says about a job of this instance's sessions."""

    def __init__(
        self, roster: Roster, endings: Endings, failover: Failover, *, ledgers: Ledgers, metrics: Metrics
    ) -> None:
        self._roster = roster
        self._endings = endings
        self._failover = failover
        self._ledgers = ledgers
        self._metrics = metrics
        self._tasks = Tasks()

    async def stop(self) -> None:
        """Cancel what is still being written."""
        await self._tasks.stop()

    def acknowledged(self, node_id: NodeId, message: JobAck) -> None:
        """The node took the job."""
        job = self._current(node_id, message.job_id, message.attempt_id)
        if job is None or job.accepted:
            return
        job.accepted = True
        job.session.delivery.event(job, UiEventKind.NODE_ACCEPTED)
        self._advance(job, "ACCEPTED")

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
        self._end(job, message, kind)
        if message.success or kind is ResultKind.EMPTY_ACK:
            self._endings.finish_merged(job)

    def _end(self, job: Job, message: JobResult, kind: ResultKind) -> None:
        delivery = job.session.delivery
        if kind is ResultKind.EMPTY_ACK:
            self._endings.finish(job, "completed_no_text", lambda: delivery.silent(job))
        elif message.success:
            if kind is ResultKind.COMPLETE or message.text_translated or message.tts_audio:
                self._endings.finish(job, "completed", lambda: delivery.result(job, message))
            else:
                self._endings.finish(
                    job, "completed_no_text", lambda: delivery.missing(job, MissingReason.SILENCE_DETECTED)
                )
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

        def tell() -> None:
            delivery = job.session.delivery
            if job.stale_result is not None:
                delivery.result(job, job.stale_result)
                return
            delivery.failed(job, message)
            delivery.event(
                job, UiEventKind.ERROR, error_code=code if code in NODE_FAILURE_CODES else None, failed=True
            )
            delivery.missing(job, MissingReason.JOB_FAILED)

        self._endings.finish(job, "failed", tell)

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
            self._advance(job, "RUNNING")

    def _advance(self, job: Job, state: str) -> None:
        self._tasks.start(self._step(job, state), name=f"{state} {job.id}")

    async def _step(self, job: Job, state: str) -> None:
        reservation = job.reservation
        if reservation is None:
            return
        try:
            await self._ledgers.jobs.step(job.session.id, reservation, state)
        except StoreError as error:
            _log.info("step_not_written", job=job.id, state=state, reason=str(error))
