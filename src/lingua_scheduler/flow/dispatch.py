"""From a job to an assignment on a node's socket; the only caller of reserve.

Jobs of one session towards one language leave in index order: each such lane has one task while it has work
and none while it is idle. A job that finds no node waits; the ones behind it in its lane wait with it. A job
that comes back from a failed node has a lane of its own: perhaps no node is left that may have it, and later
speech must not wait for that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Annotated, Protocol

import msgspec

from lingua_scheduler.aio import Tasks
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.model import NodeId, SessionId
from lingua_scheduler.core.placement import Reservation
from lingua_scheduler.core.ports import Ledgers
from lingua_scheduler.crash import CrashPoint, crash_point
from lingua_scheduler.errors import DependencyDown, StoreError
from lingua_scheduler.flow.filing import Filing
from lingua_scheduler.flow.job import Job, Stage
from lingua_scheduler.flow.routing import Routing
from lingua_scheduler.flow.search import Searches
from lingua_scheduler.flow.snapshot import Need, Snapshot
from lingua_scheduler.flow.waiting import Seat, WaitingRoom
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics

_log = get_logger(__name__)

_Lane = tuple[SessionId, str]
_NO_NODE = "NO_AVAILABLE_NODE"


class DispatchOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How placement behaves when Redis or nodes are away."""

    store_retry_ms: Annotated[int, msgspec.Meta(ge=10)] = 200
    """Pause before a call to an unreachable Redis is tried again."""
    job_keep_s: Annotated[int, msgspec.Meta(ge=60)] = 300
    """How long a job's record and audio may live in Redis without its owner."""


class Watcher(Protocol):
    """Who follows the fate of placed jobs."""

    def dispatched(self, job: Job) -> None:
        """An attempt was handed to its node."""

    def waiting(self, job: Job, code: str) -> None:
        """No node can take the job now; `code` says why."""

    def lost(self, job: Job) -> None:
        """The job cannot be placed at all."""


class Dispatch:
    """Places jobs of this instance's sessions, attempt by attempt."""

    def __init__(
        self,
        ledgers: Ledgers,
        routing: Routing,
        snapshot: Snapshot,
        *,
        searches: Searches,
        options: DispatchOptions,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._nodes = ledgers.nodes
        self._routing = routing
        self._snapshot = snapshot
        self._options = options
        self._searches = searches
        self._filing = Filing(ledgers.jobs, keep_s=self._options.job_keep_s)
        self._clock = clock
        self._metrics = metrics
        self._lanes: dict[_Lane, deque[Job]] = {}
        self._tasks = Tasks()
        self.waiting = WaitingRoom()
        self._watcher: Watcher

    def attend(self, watcher: Watcher) -> None:
        """Report to `watcher` from now on; called once, before the first job."""
        self._watcher = watcher

    def submit(self, job: Job) -> None:
        """Queue a job for placement; one that comes back from a node has a lane of its own."""
        lane = (job.session.id, job.id if job.attempt else job.brief.tgt_lang)
        queue = self._lanes.get(lane)
        if queue is None:
            self._lanes[lane] = queue = deque()
            self._tasks.start(self._run(lane, queue), name=f"lane {job.session.id}")
        queue.append(job)

    async def stop(self) -> None:
        """Cancel every lane."""
        await self._tasks.stop()

    async def _run(self, lane: _Lane, queue: deque[Job]) -> None:
        try:
            while queue:
                job = queue.popleft()
                try:
                    await self._place(job)
                except Exception:  # noqa: BLE001 one job's fault must not hold up its lane
                    _log.exception("placement_failed", **job.names)
                    self._watcher.lost(job)
        finally:
            del self._lanes[lane]

    async def _place(self, job: Job) -> None:
        """Ask and wait until the job has a node or has ended."""
        missed: set[NodeId] = set()  # had a slot, but could not be reached
        with self.waiting.seat(job) as seat:
            while job.stage is Stage.WAITING:
                seat.listen()
                try:
                    if not await self._may_place(job):
                        return
                    began = self._clock.now()
                    reservation = await self._reserve(job, seat, missed)
                    if reservation is not None:
                        crash_point(CrashPoint.AFTER_RESERVE)
                        if await self._hand_over(job, reservation, began):
                            return
                        missed.add(reservation.node_id)
                        continue
                    if not await self._file_waiting(job):
                        return
                except DependencyDown:
                    await self._redis_away(job)
                    continue
                self._report(job)
                if job.stage is Stage.WAITING:
                    await seat.wait()
                    missed.clear()

    async def _may_place(self, job: Job) -> bool:
        """Be sure of what we own; False when the job's session turns out to be another's."""
        await self._routing.assured()
        return job.stage is Stage.WAITING

    async def _redis_away(self, job: Job) -> None:
        self._watcher.waiting(job, DependencyDown.code)
        await asyncio.sleep(self._options.store_retry_ms / 1000)

    def _report(self, job: Job) -> None:
        if job.told_waiting != _NO_NODE:
            need = Need(job.pairs, job.needs.services, job.session.opening.paired_with)
            why = self._snapshot.explain(need)
            self._metrics.no_available_node_total.inc(why.main_reason())
        self._watcher.waiting(job, _NO_NODE)

    async def _reserve(self, job: Job, seat: Seat, missed: set[NodeId]) -> Reservation | None:
        offered = seat.offer.facts.node_id if seat.offer else None
        search = self._searches.plan(job, offered=offered, missed=missed)
        for ask in search.asks:
            job.unheard = True
            try:
                reservation = await self._nodes.reserve(ask)
            except DependencyDown:
                self._metrics.reserve_attempt_total.inc("error")
                raise
            job.unheard = False
            self._metrics.phase3_pool_attempt_total.inc(str(ask.pool), "success" if reservation else "fail")
            if reservation is not None:
                self._metrics.reserve_attempt_total.inc("success")
                elsewhere = "false" if ask.pool == search.asks[0].pool else "true"
                self._metrics.phase3_pool_selected_total.inc(str(ask.pool), "hit", elsewhere)
                return reservation
        self._metrics.reserve_attempt_total.inc("fail")
        first = str(search.asks[0].pool) if search.asks else "none"
        self._metrics.phase3_pool_selected_total.inc(first, "miss", "false")
        seat.refused(without=search.without, bound_to=search.bound_to)
        return None

    async def _hand_over(self, job: Job, reservation: Reservation, began: float) -> bool:
        """Make the reservation, asked for when it `began`, the job's attempt and send it.

        False when another node must be asked.
        """
        if job.stage is not Stage.WAITING:  # it ended while Redis was asked
            self._give_back(job, reservation)
            return True
        job.attempt, job.reservation = reservation.attempt, reservation
        job.session.leaning.placed(job)
        if not await self._file_attempt(job, reservation):
            job.reservation = None
            self._give_back(job, reservation)
            return True
        crash_point(CrashPoint.AFTER_CREATE)
        now = self._clock.now()
        if job.trail is not None:
            job.trail.placed(reservation, began, now)
        job.stage = Stage.OUT  # from now on its node may answer, even before we hear that it was told
        told = await self._routing.assign(reservation, job.assignment(reservation, now))
        crash_point(CrashPoint.AFTER_ASSIGN)
        if job.stage is not Stage.OUT or job.reservation is not reservation:
            return True  # it was answered, given up or moved meanwhile
        if not told:
            job.stage, job.reservation = Stage.WAITING, None
            if job.trail is not None:
                job.trail.given_up("unreachable", "NODE_UNAVAILABLE")
            self._give_back(job, reservation)
            return False
        job.dispatched_wall_ms = self._clock.wall_ms()
        self._metrics.dispatch_latency_seconds.observe(now - job.created_at)
        self._metrics.stage_seconds.observe("wait", max(0.0, began - job.created_at))
        self._metrics.stage_seconds.observe("placement", now - began)
        self._metrics.took("placement", now - began)
        _log.debug("job_placed", node=reservation.node_id, attempt=reservation.attempt, **job.names)
        self._watcher.dispatched(job)
        return True

    async def _file_attempt(self, job: Job, reservation: Reservation) -> bool:
        """Write the attempt, however long Redis is away; False when the job is not to be sent."""
        while job.stage is Stage.WAITING:
            try:
                if not await self._filing.placed(job, reservation):
                    self._refused(job)
                    return False
                break
            except DependencyDown:
                await self._redis_away(job)
        if job.stage is Stage.WAITING:
            return True
        self._tasks.start(self._withdraw(job), name=f"withdraw {job.id}")
        return False

    async def _file_waiting(self, job: Job) -> bool:
        if not await self._filing.waiting(job):
            self._refused(job)
        elif job.stage is not Stage.WAITING:
            self._tasks.start(self._withdraw(job), name=f"withdraw {job.id}")
        return job.stage is Stage.WAITING

    def _refused(self, job: Job) -> None:
        """Somebody else has this utterance: another job, or another owner of the session."""
        self._metrics.duplicate_job_blocked_total.inc()
        if job.stage is Stage.WAITING:
            self._watcher.lost(job)

    def _give_back(self, job: Job, reservation: Reservation) -> None:
        self._tasks.start(self._release(job, reservation), name=f"give back {reservation.job_id}")

    async def _release(self, job: Job, reservation: Reservation) -> None:
        """Free a slot that was not used, and offer it to who waits."""
        try:
            await self._nodes.release(reservation)
        except StoreError as error:  # it frees itself when its time is over
            _log.info("slot_not_released", node=reservation.node_id, reason=str(error), **job.names)
            return
        facts = self._snapshot.node(reservation.node_id)
        if facts is not None:
            self.waiting.capacity(facts, 1)

    async def _withdraw(self, job: Job) -> None:
        try:
            await self._filing.withdraw(job)
        except StoreError as error:  # its record expires
            _log.info("job_not_withdrawn", reason=str(error), **job.names)
