"""How a job ends: its outcome is written once, then the session hears of it, and its slot is freed.

What the client is told is written with it, so that a client that is away, or comes back to another instance,
gets it all the same. When Redis is away, results are held and written when it returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from lingua_scheduler.aio import Tasks
from lingua_scheduler.core.lifecycle import JobState
from lingua_scheduler.core.model import SessionId
from lingua_scheduler.core.ordering import Delivered, Missing, MissingReason, Silent
from lingua_scheduler.core.placement import Reservation
from lingua_scheduler.core.ports import Ledgers
from lingua_scheduler.core.stored import Finish, JobEnd, Logged
from lingua_scheduler.crash import CrashPoint, crash_point
from lingua_scheduler.errors import DependencyDown, StoreError
from lingua_scheduler.flow.answer import Answer
from lingua_scheduler.flow.delivery import End
from lingua_scheduler.flow.job import Job, Stage
from lingua_scheduler.flow.roster import Roster
from lingua_scheduler.flow.routing import Routing
from lingua_scheduler.flow.snapshot import Snapshot
from lingua_scheduler.flow.steps import Steps
from lingua_scheduler.flow.waiting import WaitingRoom
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.session import UiEventKind

_log = get_logger(__name__)
_RETRY_S = 0.2
_STOP_S = 2.0
_MOVING_S = 0.01  # for a session's next epoch to become known


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
        self.steps = Steps(ledgers.jobs)
        self._waiting, self._snapshot = capacity
        self._routing = routing
        self._roster = roster
        self._metrics = metrics
        self._tasks = Tasks()
        self._writing: dict[SessionId, set[asyncio.Task[None]]] = {}

    def finish(self, job: Job, outcome: str, end: End, before: Callable[[], None] | None = None) -> None:
        """End a job by its current attempt's result; once that is written, `before` runs and all is told."""
        job.stage = Stage.ENDING
        job.answered_by = job.reservation.node_id if job.reservation else None
        job.disarm()
        _log.debug("job_answered", outcome=outcome, node=job.answered_by, **job.names)
        if job.trail is not None:
            job.trail.answered(outcome)
        self._start(job, self._finish(job, outcome, end, before))

    def finish_merged(self, last: Job) -> None:
        """End the pieces of a turn that are part of the answer to its last one.

        A node that works through a session in order will not answer them any more.
        """
        node = self._snapshot.node(last.answered_by) if last.answered_by else None
        if node is None or not node.sequential or last.brief.cut.reason.continues_turn:
            return
        for piece in list(last.session.jobs.values()):
            if _same_turn(piece, last) and piece.on_node(node.node_id) and piece.index < last.index:
                self.finish(piece, "completed_no_text", Silent())

    def give_up(self, job: Job, reason: MissingReason, code: str) -> None:
        """End a job without a result: the client is told at once, the end is written behind.

        What an attempt that was given up has brought meanwhile is better than nothing.
        """
        if job.stage in (Stage.ENDING, Stage.ENDED):
            return
        delivery = job.session.delivery
        if job.stale_result is not None:
            self.finish(job, "completed", delivery.answer(job, job.stale_result))
            return
        _log.info("job_given_up", reason=reason.value, code=code, **job.names)
        reservation, job.reservation = job.reservation, None
        end = Missing(reason)
        job.ending = delivery.word(job, end)
        job.session.unwritten_ends += not job.stored
        self._ended(job, written=job.stored)
        delivery.event(job, UiEventKind.ERROR, error_code=code)
        delivery.conclude(job, end, job.ending)
        job.session.changed()
        self._start(job, self._write_end(job, reservation, unwritten=not job.stored))

    def abandon(self, job: Job) -> None:
        """End a job nobody waits for any more: its node is asked to stop, the client hears nothing."""
        if job.trail is not None:
            job.trail.abandoned()
        if job.stage in (Stage.ENDING, Stage.ENDED):
            return
        reservation, job.reservation = job.reservation, None
        self._ended(job)
        if reservation is not None:
            self._routing.cancel(
                reservation, job_id=job.id, trace_id=job.brief.trace_id, reason="session_closed"
            )
        self._start(job, self._write_end(job, reservation))

    def forget(self, job: Job) -> None:
        """Drop a job whose session another instance owns: nothing is written, nobody is told."""
        job.reservation = None
        self._ended(job)

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
        """Give what is still being written a moment to be done."""
        await self._tasks.settle(_STOP_S)
        await self.steps.stop()

    async def _finish(self, job: Job, outcome: str, end: End, before: Callable[[], None] | None) -> None:
        reservation, delivery = job.reservation, job.session.delivery
        logged = delivery.word(job, end)
        verdict = await self._write_outcome(job, outcome, logged)
        if verdict is Finish.FENCED:
            _pass_on(job, end)
            return
        self._ended(job)
        if verdict in (Finish.ACCEPTED, Finish.UNKNOWN):
            crash_point(CrashPoint.AFTER_FINISH)
            if before is not None:
                before()
            delivery.conclude(job, end, logged)
            crash_point(CrashPoint.AFTER_TELL)
        else:
            self._metrics.results_dropped_total.inc(verdict.value)
            _log.warning("job_fenced", verdict=verdict.value, **job.names)
            delivery.missing(job, MissingReason.JOB_FAILED)
        if job.afterthought is not None:
            job.afterthought()
            job.afterthought = None
        job.session.changed()
        if reservation is not None:
            await self._release(reservation)
            self.steps.note(job, reservation, JobState.RELEASED)

    async def _write_outcome(self, job: Job, outcome: str, logged: Logged | None) -> Finish:
        """Write the end; FENCED when the session has another owner, and is forgotten here."""
        session, log, unanswered = job.session, job.session.delivery.log, False
        forget = log.forgotten() if log is not None else ()
        while True:
            end = JobEnd(session.id, session.epoch, job.id, job.attempt, outcome, logged, forget)
            try:
                verdict = await self._ledgers.jobs.finish(end)
            except DependencyDown:
                unanswered = True  # it may have been written all the same
                await asyncio.sleep(_RETRY_S)
            except StoreError:
                _log.exception("finish_failed", **job.names)
                return Finish.UNKNOWN
            else:
                if verdict is Finish.FENCED:
                    if session.moves_on(end.session_epoch):
                        await asyncio.sleep(_MOVING_S)
                        continue
                    session.disowned()
                return Finish.ACCEPTED if unanswered and verdict is Finish.DONE else verdict

    async def _write_end(self, job: Job, reservation: Reservation | None, *, unwritten: bool = False) -> None:
        """Write how a job ended; only then its audio is not needed any more, even if it was never written."""
        try:
            if job.stored or unwritten:
                if await self._write_outcome(job, "failed", job.ending) is Finish.FENCED:
                    return
                job.session.stored(job)
        finally:
            job.session.unwritten_ends -= unwritten
        if reservation is not None:
            await self._release(reservation)
            self.steps.note(job, reservation, JobState.RELEASED)

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

    def _ended(self, job: Job, *, written: bool = True) -> None:
        job.stage = Stage.ENDED
        job.disarm()
        job.forget_work()
        job.session.jobs.pop(job.id, None)
        if written:
            job.session.stored(job)
        self._roster.ended(job)
        self._waiting.leave(job)


def _pass_on(job: Job, end: End) -> None:
    """Let the session's new owner have a result that came here."""
    if isinstance(end, Delivered) and isinstance(end.payload, Answer) and job.answered_by is not None:
        job.session.pass_on(job.answered_by, end.payload.result)


def _same_turn(one: Job, other: Job) -> bool:
    return (one.brief.cut.turn_id, one.brief.tgt_lang) == (other.brief.cut.turn_id, other.brief.tgt_lang)
