"""Towards which nodes and pools a session's jobs lean: pieces of one speech belong together."""

from __future__ import annotations

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.affinity import Affinity, AffinityOptions, Wish
from lingua_scheduler.core.model import PoolId
from lingua_scheduler.flow.job import Job


class Leaning:
    """What one session remembers of where its jobs went; words, unlike audio, may go anywhere."""

    __slots__ = ("_clock", "affinity", "pool")

    def __init__(self, options: AffinityOptions, clock: Clock) -> None:
        self.affinity = Affinity(options)
        self.pool: PoolId | None = None
        self._clock = clock

    def wish(self, job: Job) -> Wish | None:
        """Name the node that should have this job, if any."""
        if job.brief.text is not None:
            return None
        cut, now = job.brief.cut, self._clock.now()
        return self.affinity.wish(job.brief.tgt_lang, reason=cut.reason, turn_id=cut.turn_id, now=now)

    def placed(self, job: Job) -> None:
        """A job has its node: remember it for what belongs together."""
        if job.reservation is None:
            return
        self.pool = job.reservation.pool
        if job.brief.text is None:
            cut, node_id = job.brief.cut, job.reservation.node_id
            self.affinity.placed(
                job.brief.tgt_lang,
                node_id,
                reason=cut.reason,
                turn_id=cut.turn_id,
                now=self._clock.now(),
            )
