"""The jobs of this instance's sessions, by id: those that live and, for a while, those that ended."""

from __future__ import annotations

from collections import deque

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.model import JobId, NodeId, SessionId
from lingua_scheduler.flow.job import Job, Stage


class Roster:
    """Finds a job by what a node says about it."""

    def __init__(self, clock: Clock, *, remember_s: float) -> None:
        self._clock = clock
        self._remember_s = remember_s
        self._jobs: dict[JobId, Job] = {}
        self._ended: deque[tuple[float, JobId]] = deque()

    def __len__(self) -> int:
        """Count the jobs that live."""
        return len(self._jobs) - len(self._ended)

    def add(self, job: Job) -> None:
        """Know a new job."""
        self._jobs[job.id] = job

    def get(self, job_id: str) -> Job | None:
        """Find a job that lives or ended a short while ago."""
        return self._jobs.get(JobId(job_id))

    def on_node(self, node_id: NodeId, epoch: int) -> list[Job]:
        """Every job whose current attempt is out on this registration of a node."""
        return [
            job
            for job in self._jobs.values()
            if job.stage is Stage.OUT
            and job.reservation is not None
            and (job.reservation.node_id, job.reservation.epoch) == (node_id, epoch)
        ]

    def ended(self, job: Job) -> None:
        """Keep an ended job only as long as a late result may come."""
        if job.id in self._jobs:
            self._ended.append((self._clock.now(), job.id))
        self._forget()

    def forget_session(self, session_id: SessionId) -> None:
        """Drop all jobs of a session that ended."""
        self._jobs = {job_id: job for job_id, job in self._jobs.items() if job.session.id != session_id}
        self._ended = deque(entry for entry in self._ended if entry[1] in self._jobs)

    def _forget(self) -> None:
        oldest = self._clock.now() - self._remember_s
        while self._ended and self._ended[0][0] <= oldest:
            self._jobs.pop(self._ended.popleft()[1], None)
