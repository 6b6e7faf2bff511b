"""When an attempt fails: the next one on another node, or the end.

A node that had a job is never asked again for the same job.
"""

from __future__ import annotations

from collections.abc import Callable

from lingua_scheduler.aio import Alarms
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.hints import NODE_FAILURE_CODES
from lingua_scheduler.core.model import InstanceId, NodeId
from lingua_scheduler.core.ordering import MissingReason
from lingua_scheduler.core.timeouts import TimeoutOptions
from lingua_scheduler.errors import DependencyDown
from lingua_scheduler.flow.dispatch import Dispatch
from lingua_scheduler.flow.endings import Endings
from lingua_scheduler.flow.job import Job, Stage
from lingua_scheduler.flow.post import Post
from lingua_scheduler.flow.roster import Roster
from lingua_scheduler.flow.routing import Routing
from lingua_scheduler.flow.snapshot import Snapshot
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.peer import PeerReturn
from lingua_scheduler.wire.session import UiEventKind

_log = get_logger(__name__)


class Failover:
    """Watches the jobs of this instance's sessions and moves them when their node fails them."""

    def __init__(
        self,
        dispatch: Dispatch,
        endings: Endings,
        *,
        tables: tuple[Roster, Routing, Snapshot],
        post: Post,
        time: tuple[Clock, Alarms],
        options: TimeoutOptions,
        metrics: Metrics,
    ) -> None:
        self._dispatch = dispatch
        self._endings = endings
        self._roster, self._routing, self._snapshot = tables
        self._post = post
        self._clock, self._alarms = time
        self._options = options
        self._metrics = metrics
        dispatch.attend(self)

    def launch(self, job: Job) -> None:
        """Take a new job: it has until its pending deadline to find a node."""
        self._roster.add(job)
        self._await_node(job)
        self._dispatch.submit(job)

    def adopt(self, job: Job) -> None:
        """Take a job that an earlier owner of its session placed: its node has its time again to answer."""
        self._roster.add(job)
        if job.reservation is None or job.reservation.owner not in self._routing.reachable:
            self.retry(job, why="node_lost", code="NODE_UNAVAILABLE")
        else:
            self._await_result(job, since=self._clock.now())

    def node_lost(self, node_id: NodeId, epoch: int) -> None:
        """Move every job of a node of ours that is gone; other instances hear of theirs."""
        for job in self._roster.on_node(node_id, epoch):
            self.retry(job, why="node_lost", code="NODE_UNAVAILABLE")
        self._post.node_lost(node_id, epoch)

    def instance_lost(self, instance_id: InstanceId) -> None:
        """Move every job on nodes of an instance that has died."""
        for job in self._roster.on_instance(instance_id):
            self.retry(job, why="instance_lost", code="NODE_UNAVAILABLE")

    def returned(self, letter: PeerReturn) -> None:
        """An attempt is not on its node any more; one that never got there costs nothing."""
        job = self._roster.get(letter.job_id)
        if job is not None and job.attempt == letter.attempt_id and job.on_node(NodeId(letter.node_id)):
            self.retry(job, why=letter.why, code="NODE_UNAVAILABLE", failed=letter.why == "node_lost")

    def retry(self, job: Job, *, why: str, code: str, failed: bool = True) -> None:
        """Give the current attempt up; the next one goes to another node while the budget lasts.

        An attempt that has not even `failed`, because its node was full, costs nothing of it.
        """
        reservation = job.reservation
        if job.stage is not Stage.OUT or reservation is None:
            return
        self._metrics.failover_total.inc(why)
        _log.info("failover", attempt=job.attempt, node=reservation.node_id, why=why, **job.names)
        if job.trail is not None:
            job.trail.given_up(why, code)
        job.tried.add(reservation.node_id)
        if failed and job.failovers >= self._options.failover_max_attempts:
            reason = MissingReason.JOB_TIMEOUT if code == "JOB_TIMEOUT" else MissingReason.JOB_FAILED
            self._endings.give_up(job, reason, code)
            return
        if code in NODE_FAILURE_CODES:
            job.session.delivery.event(job, UiEventKind.ERROR, error_code=code)
        job.reservation = None
        job.failovers += failed
        job.accepted = job.running = False
        job.stage = Stage.WAITING
        self._endings.release(reservation)
        job.pending_until = self._clock.now() + self._options.pending_s
        self._await_node(job)
        self._dispatch.submit(job)

    def _await_node(self, job: Job) -> None:
        self._watch(job, job.pending_until, lambda: self._pending_over(job))

    def _pending_over(self, job: Job) -> None:
        if job.stage is not Stage.WAITING:
            return
        away = job.told_waiting == DependencyDown.code
        reason = MissingReason.DEPENDENCY_DOWN if away else MissingReason.NO_AVAILABLE_NODE
        self._endings.give_up(job, reason, "JOB_TIMEOUT")

    def lost(self, job: Job) -> None:
        """A job cannot be placed at all: it ends."""
        self._endings.give_up(job, MissingReason.JOB_FAILED, "INTERNAL_ERROR")

    def waiting(self, job: Job, code: str) -> None:
        """Tell the client at once, and once, that its job waits."""
        if job.told_waiting != code and job.stage is Stage.WAITING:
            job.told_waiting = code
            if job.trail is not None:
                job.trail.waits(code)
            job.session.delivery.event(job, UiEventKind.ERROR, error_code=code)

    def dispatched(self, job: Job) -> None:
        """Start the clock of an attempt: first for the acknowledgement, if its node promised one."""
        if job.reservation is None:
            return
        node_id, now = job.reservation.node_id, self._clock.now()
        facts = self._snapshot.node(node_id)
        ack_s = self._options.ack_timeout_s(acknowledges=facts is not None and facts.acknowledges)
        if ack_s is None:
            self._await_result(job, since=now)
        else:
            self._watch(job, now + ack_s, lambda: self._ack_over(job, since=now))
        for other in job.session.jobs.values():
            if other.index < job.index and other.brief.tgt_lang == job.brief.tgt_lang:
                other.overtaken_on.add(node_id)
        job.session.delivery.event(job, UiEventKind.DISPATCHED)

    def _await_result(self, job: Job, *, since: float) -> None:
        limit_s = self._options.job_timeout_s(job.brief.cut.duration_ms)
        self._watch(job, since + limit_s, lambda: self._timed_out(job, why="timeout", code="JOB_TIMEOUT"))

    def _ack_over(self, job: Job, *, since: float) -> None:
        if job.accepted or job.running:
            self._await_result(job, since=since)
        else:
            self._metrics.ack_timeout_total.inc()
            self._timed_out(job, why="ack_timeout", code="NODE_UNAVAILABLE")

    def _watch(self, job: Job, when: float, callback: Callable[[], None]) -> None:
        job.disarm()
        job.alarm = self._alarms.set(when, callback)

    def _timed_out(self, job: Job, *, why: str, code: str) -> None:
        if job.stage is not Stage.OUT or job.reservation is None:
            return
        self._routing.cancel(
            job.reservation, job_id=job.id, trace_id=job.brief.trace_id, reason="job_timeout"
        )
        self.retry(job, why=why, code=code)
