"""What dispatch writes of a job in Redis before its node hears of it: the claim, the attempt, the audio."""

from __future__ import annotations

from lingua_scheduler.core.placement import Reservation
from lingua_scheduler.core.ports import JobLedger, NewJob, Remembered
from lingua_scheduler.flow.job import Job


class Filing:
    """Files jobs and their attempts; every call may be repeated when its answer was not heard."""

    def __init__(self, ledger: JobLedger, *, keep_s: float) -> None:
        self._ledger = ledger
        self._keep_ms = round(keep_s * 1000)

    async def placed(self, job: Job, reservation: Reservation) -> bool:
        """Make this the job's current attempt; False when somebody else has the job, or it has ended."""
        if job.stored and await self._attempt(job, reservation):
            return True
        claimed = await self._ledger.create(self._new(job), reservation)
        if claimed.fresh:  # its first writing, or Redis had forgotten it
            job.stored = True
            return True
        if claimed.job_id != job.id or job.stored:
            return False
        job.stored = True  # an earlier writing of our own, whose answer was not heard
        return await self._attempt(job, reservation)

    async def _attempt(self, job: Job, reservation: Reservation) -> bool:
        return await self._ledger.attempt(job.session.id, reservation, _affinity(job))

    async def waiting(self, job: Job) -> bool:
        """File a job that has no node yet; False when somebody else has its utterance."""
        if job.stored:
            return True
        claimed = await self._ledger.create(self._new(job), None)
        job.stored = claimed.job_id == job.id
        return job.stored

    async def withdraw(self, job: Job) -> None:
        """End the record of a job that ended while it was being written."""
        if job.stored:
            await self._ledger.finish(job.session.id, job.id, attempt=job.attempt, outcome="failed")

    def _new(self, job: Job) -> NewJob:
        session = job.session
        return NewJob(
            job_id=job.id,
            session_id=session.id,
            session_epoch=session.epoch,
            index=job.index,
            tgt_lang=job.brief.tgt_lang,
            record=job.record(),
            audio=job.brief.cut.audio,
            ttl_ms=self._keep_ms,
            affinity=_affinity(job),
            preferred_pool=session.preferred_pool,
            last_pair=str(job.pairs[0]),
        )


def _affinity(job: Job) -> Remembered:
    affinity = job.session.affinity
    return Remembered(affinity.recorded(job.brief.tgt_lang), affinity.ttl_ms)
