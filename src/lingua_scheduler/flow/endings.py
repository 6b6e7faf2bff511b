"""How a job ends: its outcome is written once, then the session hears of it, and its slot is freed.

The only caller of finish. When Redis is away, results are held and written when it returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from lingua_scheduler.aio import Tasks
from lingua_scheduler.core.model import SessionId
from lingua_scheduler.core.ordering import MissingReason
from lingua_scheduler.core.placement import Reservation
from lingua_scheduler.core.ports import Finish, Ledgers
from lingua_scheduler.errors import DependencyDown, StoreError
from lingua_scheduler.flow.job import Job, Stage
from lingua_scheduler.flow.roster import Roster
from lingua_scheduler.flow.routing import Routing
from lingua_scheduler.flow.snapshot import Snapshot
from lingua_scheduler.flow.waiting import WaitingRoom
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.session import UiEventKind

_log = get_logger(__name__)
_RETRY_S = 0.2


class Endings:
    """Ends jobs of this instance's sessions."""

    def __init__(
        self,
        ledgers: Ledgers,
        *,
        capacity: tuple[WaitingRoom, Snapshot],
        routing: Routing,
        roster: Roster,
        metrics: Metrics,
    ) -> None:
        self._ledgers = ledgers
        self._waiting, self._snapshot = capacity
        self._routing = routing
        self._roster = roster
        self._metrics = metrics
        self._tasks = Tasks()
        self._writing: dict[SessionId, set[asyncio.Task[None]]] = {}

    def finish(self, job: Job, outcome: str, tell: Callable[[], None]) -> None:
        """End a job by its current attempt's result; `tell` runs once the end is written."""
        job.stage = Stage.ENDING
        job.answered_by = job.reservation.node_id if job.reservation else None
        job.disarm()
        self._start(job, self._finish(job, outcome, tell))

    def finish_merged(self, last: Job) -> None:
        """End the pieces of a turn that are part of the answer to its last one.

        A node that works through a session in order will not answer them any more.
        """
        node = self._snapshot.node(last.answered_by) if last.answered_by else None
        if node is None or not node.sequential or last.brief.cut.reason.continues_turn:
            return
        for piece in list(last.session.jobs.values()):
            if _same_turn(piece, last) and piece.on_node(node.node_id) and piece.index < last.index:
                self.finish(piece, "completed_no_text", partial(last.session.delivery.silent, piece))

    def give_up(self, job: Job, reason: MissingReason, code: str) -> None:
        """End a job without a result: the client is told at once, the end is written behind.

        What an attempt that was given up has brought meanwhile is better than nothing.
        """
        if job.stage in (Stage.ENDING, Stage.ENDED):
            return
        stale = job.stale_result
        if stale is not None:
            self.finish(job, "completed", lambda: job.session.delivery.result(job, stale))
            return
        reservation, job.reservation = job.reservation, None
        self._ended(job)
        job.session.delivery.event(job, UiEventKind.ERROR, error_code=code)
        job.session.delivery.missing(job, reason)
        job.session.changed()
        self._start(job, self._write_end(job, reservation))

    def abandon(self, job: Job) -> None:
        """End a job nobody waits for any more: its node is asked to stop, the client hears nothing."""
        if job.stage in (Stage.ENDING, Stage.ENDED):
            return
        reservation, job.reservation = job.reservation, None
        self._ended(job)
        if reservation is not None:
            self._routing.cancel(
                reservation, job_id=job.id, trace_id=job.brief.trace_id, reason="session_closed"
            )
        self._start(job, self._write_end(job, reservation))

    def release(self, reservation: Reservation) -> None:
        """Give a slot back in the background and wake who waits for it."""
        self._tasks.start(self._release(reservation), name=f"release {reservation.job_id}")

    async def settle_session(self, session_id: SessionId) -> None:
        """Wait until the ends of a session's jobs are written."""
        while writing := self._writing.get(session_id):
            await asyncio.wait(writing)

    def _start(self, job: Job, writing: Coroutine[Any, Any, None]) -> None:
        session_id = job.session.id
        task = self._tasks.start(writing, name=f"end {job.id}")
        self._writing.setdefault(session_id, set()).add(task)
        task.add_done_callback(lambda task: self._written(session_id, task))

    def _written(self, session_id: SessionId, task: asyncio.Task[None]) -> None:
        tasks = self._writing.get(session_id, set())
        tasks.discard(task)
        if not tasks:
            self._writing.pop(session_id, None)

    async def stop(self) -> None:
        """Cancel what is still being written."""
        await self._tasks.stop()

    async def _finish(self, job: Job, outcome: str, tell: Callable[[], None]) -> None:
        reservation = job.reservation
        verdict = await self._write_outcome(job, outcome)
        self._ended(job)
        if verdict in (Finish.ACCEPTED, Finish.UNKNOWN):
            tell()
        else:
            self._metrics.results_dropped_total.inc(verdict.value)
            _log.warning("job_fenced", job=job.id, verdict=verdict.value)
            job.session.delivery.missing(job, MissingReason.JOB_FAILED)
        if job.afterthought is not None:
            job.afterthought()
            job.afterthought = None
        job.session.changed()
        if reservation is not None:
            await self._release(reservation)
            await self._mark_released(job, reservation)

    async def _write_outcome(self, job: Job, outcome: str) -> Finish:
        unanswered = False
        while True:
            try:
                verdict = await self._ledgers.jobs.finish(
                    job.session.id, job.id, attempt=job.attempt, outcome=outcome
                )
            except DependencyDown:
                unanswered = True  # it may have been written all the same
                await asyncio.sleep(_RETRY_S)
            except StoreError:
                _log.exception("finish_failed", job=job.id)
                return Finish.UNKNOWN
            else:
                return Finish.ACCEPTED if unanswered and verdict is Finish.DONE else verdict

    async def _write_end(self, job: Job, reservation: Reservation | None) -> None:
        if job.stored:
            await self._write_outcome(job, "failed")
        if reservation is not None:
            await self._release(reservation)
            await self._mark_released(job, reservation)

    async def _release(self, reservation: Reservation) -> None:
        while True:
            try:
                await self._ledgers.nodes.release(reservation)
                break
            except DependencyDown:
                await asyncio.sleep(_RETRY_S)
        facts = self._snapshot.node(reservation.node_id)
        if facts is not None:
            self._waiting.capacity(facts, 1)

    async def _mark_released(self, job: Job, reservation: Reservation) -> None:
        try:
            await self._ledgers.jobs.step(job.session.id, reservation, "RELEASED")
        except StoreError as error:
            _log.info("release_not_marked", job=job.id, reason=str(error))

    def _ended(self, job: Job) -> None:
        job.stage = Stage.ENDED
        job.disarm()
        job.forget_work()
        job.session.jobs.pop(job.id, None)
        self._roster.ended(job)
        self._waiting.leave(job)


def _same_turn(one: Job, other: Job) -> bool:
    return (one.brief.cut.turn_id, one.brief.tgt_lang) == (other.brief.cut.turn_id, other.brief.tgt_lang)
