"""What dispatch writes of a job in Redis before its node hears of it: the claim, the attempt, the audio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from lingua_scheduler.core.placement import Reservation
from lingua_scheduler.core.ports import JobLedger
from lingua_scheduler.core.stored import Claimed, JobEnd, NewJob, Remembered
from lingua_scheduler.errors import Fenced
from lingua_scheduler.flow.job import Job

_MOVING_S = 0.01  # for a session's next epoch to become known


class Filing:
    """Files jobs and their attempts; every call may be repeated when its answer was not heard.

    What is refused because another instance owns the session makes this one forget the session.
    """

    def __init__(self, ledger: JobLedger, *, keep_s: float) -> None:
        self._ledger = ledger
        self._keep_ms = round(keep_s * 1000)

    async def placed(self, job: Job, reservation: Reservation) -> bool:
        """Make this the job's current attempt; False when somebody else has the job, or it has ended."""
        return await self._as_owner(job, lambda: self._placed(job, reservation))

    async def waiting(self, job: Job) -> bool:
        """File a job that has no node yet; False when somebody else has its utterance."""
        return job.stored or await self._as_owner(job, lambda: self._waiting(job))

    async def withdraw(self, job: Job) -> None:
        """End the record of a job that ended while it was being written."""
        if job.stored:
            session = job.session
            await self._ledger.finish(
                JobEnd(session.id, session.epoch, job.id, job.attempt, "failed", log=job.ending)
            )

    async def _as_owner(self, job: Job, write: Callable[[], Awaitable[bool]]) -> bool:
        while True:
            epoch = job.session.epoch
            try:
                if await write():
                    job.session.stored(job)
                    return True
                fenced = False
            except Fenced:
                fenced = True
            if job.session.moves_on(epoch):
                await asyncio.sleep(_MOVING_S)
                continue
            if fenced:
                job.session.disowned()
            return False

    async def _placed(self, job: Job, reservation: Reservation) -> bool:
        if job.stored and await self._attempt(job, reservation):
            return True
        claimed = await self._create(job, reservation)
        if claimed.fresh:  # its first writing, or Redis had forgotten it
            job.stored = True
            return True
        if claimed.job_id != job.id or job.stored:
            return False
        job.stored = True  # an earlier writing of our own, whose answer was not heard
        return await self._attempt(job, reservation)

    async def _attempt(self, job: Job, reservation: Reservation) -> bool:
        session = job.session
        return await self._ledger.attempt(session.id, reservation, _affinity(job), epoch=session.epoch)

    async def _waiting(self, job: Job) -> bool:
        claimed = await self._create(job, None)
        job.stored = claimed.job_id == job.id
        return job.stored

    async def _create(self, job: Job, reservation: Reservation | None) -> Claimed:
        """Write a job, after the ends of those before it; a session that Redis has lost is restored."""
        while job.session.unwritten_ends and not job.session.ended:  # noqa: ASYNC110 rare, and soon over
            await asyncio.sleep(_MOVING_S)
        claimed = await self._ledger.create(self._new(job), reservation)
        if claimed.anew:
            job.session.restore()
        return claimed

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
            last_seq=session.safe_with(job),
            spoken=session.again is None,
        )


def _affinity(job: Job) -> Remembered:
    affinity = job.session.leaning.affinity
    return Remembered(affinity.recorded(job.brief.tgt_lang), affinity.ttl_ms)
