"""The jobs of this instance's sessions, by id: those that live and, for a while, those that ended."""

from __future__ import annotations

from collections import deque

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.model import InstanceId, JobId, NodeId, SessionId
from lingua_scheduler.flow.job import Job


class Roster:
    """Finds a job by what a node says about it."""

    def __init__(self, clock: Clock, *, remember_s: float) -> None:
        self._clock = clock
        self._remember_s = remember_s
        self._jobs: dict[JobId, Job] = {}
        self._by_session: dict[SessionId, set[JobId]] = {}
        self._ended: deque[tuple[float, JobId]] = deque()  # oldest first; some may be forgotten already
        self._living = 0

    def __len__(self) -> int:
        """Count the jobs that live."""
        return self._living

    def add(self, job: Job) -> None:
        """Know a new job."""
        self._jobs[job.id] = job
        self._by_session.setdefault(job.session.id, set()).add(job.id)
        self._living += 1

    def get(self, job_id: str) -> Job | None:
        """Find a job that lives or ended a short while ago."""
        return self._jobs.get(JobId(job_id))

    def on_node(self, node_id: NodeId, epoch: int) -> list[Job]:
        """Every job whose current attempt is out on this registration of a node."""
        return [
            job
            for job in self._jobs.values()
            if job.on_node(node_id) and job.reservation is not None and job.reservation.epoch == epoch
        ]

    def on_instance(self, instance_id: InstanceId) -> list[Job]:
        """Every job whose current attempt is out on a node of this instance."""
        return [
            job
            for job in self._jobs.values()
            if job.reservation is not None and job.reservation.owner == instance_id and not job.ended
        ]

    def ended(self, job: Job) -> None:
        """Keep an ended job only as long as a late result may come."""
        if self._jobs.get(job.id) is job:
            self._living -= 1
            self._ended.append((self._clock.now(), job.id))
        oldest = self._clock.now() - self._remember_s
        while self._ended and self._ended[0][0] <= oldest:
            self._forget(self._ended.popleft()[1])

    def forget_session(self, session_id: SessionId) -> None:
        """Drop all jobs of a session that ended."""
        for job_id in self._by_session.pop(session_id, ()):
            if not self._jobs.pop(job_id).ended:
                self._living -= 1
        if not self._jobs:
            self._ended.clear()

    def _forget(self, job_id: JobId) -> None:
        job = self._jobs.pop(job_id, None)
        if job is None:
            return
        of_session = self._by_session[job.session.id]
        of_session.discard(job_id)
        if not of_session:
            del self._by_session[job.session.id]
