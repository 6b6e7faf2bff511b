"""Which frames of audio a client need not keep any more: those in jobs that are written, and dropped quiet.

Frames leave the segmenter in the order in which they came: all before the oldest one that it holds have left.
"""

from __future__ import annotations

from lingua_scheduler.core.model import Frame, JobId


class Receipts:
    """Follows the frames of one session from the segmenter into jobs that are safe."""

    __slots__ = ("_left", "_open", "newest", "through")

    def __init__(self, through: int | None = None) -> None:
        self.through = through  # every frame up to this number is safe
        self.newest = through  # the number that came last
        self._left = through  # the newest frame that has left the segmenter
        self._open: dict[JobId, int | None] = {}  # what is safe with each job, in the order of their cuts

    def leave(self, oldest: Frame | None, *, into_job: bool = False) -> None:
        """All before the oldest frame held have left, as dropped quiet or into the job of a cut."""
        self._left = self.newest if oldest is None else oldest.after
        if not self._open and not into_job:
            self.through = self._left

    def cut(self, job_id: JobId) -> None:
        """What has left is in this job, or in one before it."""
        self._open[job_id] = self._left

    def settle(self, job_id: JobId) -> bool:
        """A job is written, or has ended without that; tell whether more is safe now."""
        if job_id not in self._open:
            return False
        before, self.through = self.through, self.with_job(job_id)
        if next(iter(self._open)) == job_id:
            del self._open[job_id]
        else:  # those before it speak for it
            self._merge(job_id)
        return self.through != before

    def with_job(self, job_id: JobId) -> int | None:
        """Tell up to which frame all is safe once this job is."""
        jobs = list(self._open)
        if not jobs or jobs[0] != job_id:
            return self.through
        return self._left if len(jobs) == 1 else self._open[job_id]

    def _merge(self, job_id: JobId) -> None:
        jobs = list(self._open)
        before = jobs[jobs.index(job_id) - 1]
        self._open[before] = self._open.pop(job_id)
