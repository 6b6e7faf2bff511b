"""How far jobs have come, written behind: people and later owners may read it, nothing waits for it.

A node says within milliseconds that it has a job and works on it, and soon after, that it is done. Only the
latest of what it said in a short while is written, and nothing of a job that has ended meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from lingua_scheduler.aio import Tasks
from lingua_scheduler.core.lifecycle import JobState
from lingua_scheduler.core.model import JobId
from lingua_scheduler.core.placement import Reservation
from lingua_scheduler.core.ports import JobLedger
from lingua_scheduler.errors import StoreError
from lingua_scheduler.flow.job import Job, Stage
from lingua_scheduler.log import get_logger

_log = get_logger(__name__)
_BEHIND_S = 0.05

_Step = tuple[Job, Reservation, JobState]


class Steps:
    """Writes the states of jobs between their placement and their end, and that their slots are free."""

    def __init__(self, ledger: JobLedger) -> None:
        self._ledger = ledger
        self._latest: dict[JobId, _Step] = {}
        self._tasks = Tasks()
        self.stop = self._tasks.stop

    def __len__(self) -> int:
        """Count what is to be written."""
        return len(self._latest) + len(self._tasks)

    def note(self, job: Job, reservation: Reservation, state: JobState) -> None:
        """An attempt has come this far."""
        if not self._latest:
            self._tasks.start(self._write_soon(), name="steps")
        self._latest[job.id] = (job, reservation, state)

    async def _write_soon(self) -> None:
        await asyncio.sleep(_BEHIND_S)
        steps, self._latest = self._latest, {}
        await asyncio.gather(*(self._write(*step) for step in _still_true(steps.values())))

    async def _write(self, job: Job, reservation: Reservation, state: JobState) -> None:
        session = job.session
        try:
            await self._ledger.step(session.id, reservation, state, epoch=session.epoch)
        except StoreError as error:
            _log.info("step_not_written", state=state, reason=str(error), **job.names)


def _still_true(steps: Iterable[_Step]) -> list[_Step]:
    return [
        (job, reservation, state)
        for job, reservation, state in steps
        if state is JobState.RELEASED or (job.stage is Stage.OUT and job.reservation is reservation)
    ]
