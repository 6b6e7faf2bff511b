"""From a job to an assignment on a node's socket; the only caller of reserve.

Jobs of one session towards one language leave in index order: each such lane has one task while it has work
and none while it is idle. A job that finds no node waits; the ones behind it in its lane wait with it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Annotated, Protocol

import msgspec

from lingua_scheduler.aio import Tasks
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.model import NodeId, PoolId, SessionId
from lingua_scheduler.core.placement import Ask, Refusal, Reservation, merge
from lingua_scheduler.core.ports import Ledgers, NewJob
from lingua_scheduler.core.timeouts import TimeoutOptions
from lingua_scheduler.errors import DependencyDown, StoreError
from lingua_scheduler.flow.job import Job, Stage
from lingua_scheduler.flow.routing import Routing
from lingua_scheduler.flow.snapshot import Snapshot
from lingua_scheduler.flow.waiting import WaitingRoom
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics

_log = get_logger(__name__)

_Lane = tuple[SessionId, str]


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
        options: tuple[DispatchOptions, TimeoutOptions],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._ledgers = ledgers
        self._routing = routing
        self._snapshot = snapshot
        self._options, self._timeouts = options
        self._clock = clock
        self._metrics = metrics
        self._lanes: dict[_Lane, deque[Job]] = {}
        self._tasks = Tasks()
        self.waiting = WaitingRoom()
        self._watcher: Watcher

    def attend(self, watcher: Watcher) -> None:
        """Report to `watcher` from now on; called once, before the first job."""
        self._watcher = watcher

    def submit(self, job: Job, *, again: bool = False) -> None:
        """Queue a job for placement; one that failed over goes to the front of its lane."""
        lane = (job.session.id, job.brief.tgt_lang)
        queue = self._lanes.get(lane)
        if queue is None:
            self._lanes[lane] = queue = deque()
            self._tasks.start(self._run(lane, queue), name=f"lane {job.session.id}")
        if again:
            queue.insert(1 if queue and queue[0].stage is Stage.WAITING and queue[0] is not job else 0, job)
        else:
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
                except StoreError:
                    _log.exception("placement_failed", job=job.id)
                    self._watcher.lost(job)
        finally:
            del self._lanes[lane]

    async def _place(self, job: Job) -> None:
        while job.stage is Stage.WAITING:
            try:
                outcome = await self._reserve(job)
                if isinstance(outcome, Reservation):
                    if await self._hand_over(job, outcome):
                        return
                    continue
                await self._store_waiting(job)
            except DependencyDown:
                self._watcher.waiting(job, DependencyDown.code)
                await asyncio.sleep(self._options.store_retry_ms / 1000)
                continue
            self._metrics.no_available_node_total.inc(outcome.main_reason())
            self._watcher.waiting(job, "NO_AVAILABLE_NODE")
            if job.stage is Stage.WAITING:
                await self.waiting.wait(job)

    async def _reserve(self, job: Job) -> Reservation | Refusal:
        refusals = []
        wish = job.session.wish(job)
        without = job.tried | self._out_of_turn(job)
        for pool in self._pools(job):
            candidates = self._snapshot.candidates(pool, job.pairs, without=without)
            if wish and wish.node_id not in without and wish.node_id not in candidates:
                facts = self._snapshot.node(wish.node_id)
                if facts and facts.pool == pool and facts.serves(job.pairs):
                    candidates = (wish.node_id, *candidates)
            if not candidates:
                continue
            outcome = await self._ledgers.nodes.reserve(
                Ask(
                    job_id=job.id,
                    attempt=job.attempt + 1,
                    pool=pool,
                    candidates=candidates,
                    types=job.types,
                    reachable=self._routing.reachable,
                    ttl_ms=round(self._timeouts.reservation_ttl_s(job.brief.cut.duration_ms) * 1000),
                    prefer=wish.node_id if wish else None,
                    bound=wish is not None and wish.bound,
                )
            )
            if isinstance(outcome, Reservation):
                self._metrics.reserve_attempt_total.inc("success")
                return outcome
            refusals.append(outcome)
        self._metrics.reserve_attempt_total.inc("fail")
        return merge(refusals)

    def _pools(self, job: Job) -> list[PoolId]:
        pools = list(self._snapshot.pools)
        preferred = job.session.preferred_pool
        if preferred in pools:
            pools.remove(preferred)
            pools.insert(0, preferred)
        return pools

    def _out_of_turn(self, job: Job) -> set[NodeId]:
        """Nodes that take one session's utterances without gaps only, and would have to wait for this one."""
        newest: dict[NodeId, int] = {}
        for other in job.session.jobs.values():
            if other.reservation is not None and other is not job and other.stage is not Stage.ENDED:
                node_id = other.reservation.node_id
                newest[node_id] = max(newest.get(node_id, -1), other.index)
        return {
            node_id
            for node_id, index in newest.items()
            if index not in (job.index - 1, job.index)
            and (facts := self._snapshot.node(node_id)) is not None
            and facts.sequential
        }

    async def _hand_over(self, job: Job, reservation: Reservation) -> bool:
        """Make the reservation the job's attempt and send it; False when another node must be asked."""
        job.attempt, job.reservation = reservation.attempt, reservation
        job.session.placed(job)
        if not await self._store_attempt(job, reservation):
            job.reservation = None
            await self._ledgers.nodes.release(reservation)
            self._refused(job)
            return True
        if job.stage is not Stage.WAITING:  # it ended while Redis was asked
            await self._ledgers.nodes.release(reservation)
            return True
        now = self._clock.now()
        if not self._routing.assign(reservation, job.assignment(reservation, now)):
            job.tried.add(reservation.node_id)
            job.reservation = None
            await self._ledgers.nodes.release(reservation)
            return False
        job.stage = Stage.OUT
        job.dispatched_wall_ms = self._clock.wall_ms()
        self._metrics.dispatch_latency_seconds.observe(now - job.created_at)
        self._watcher.dispatched(job)
        return True

    async def _store_attempt(self, job: Job, reservation: Reservation) -> bool:
        if job.stored:
            return await self._ledgers.jobs.attempt(job.session.id, reservation)
        claimed = await self._ledgers.jobs.create(self._new_job(job), reservation)
        job.stored = claimed.fresh or claimed.job_id == job.id
        return job.stored

    async def _store_waiting(self, job: Job) -> None:
        if not job.stored:
            claimed = await self._ledgers.jobs.create(self._new_job(job), None)
            job.stored = True
            if claimed.job_id != job.id:
                self._refused(job)

    def _refused(self, job: Job) -> None:
        """Somebody else has this utterance: another job, or another owner of the session."""
        self._metrics.duplicate_job_blocked_total.inc()
        if job.stage is Stage.WAITING:
            self._watcher.lost(job)

    def _new_job(self, job: Job) -> NewJob:
        session = job.session
        return NewJob(
            job_id=job.id,
            session_id=session.id,
            session_epoch=session.epoch,
            index=job.index,
            tgt_lang=job.brief.tgt_lang,
            record=job.record(),
            audio=job.brief.cut.audio,
            ttl_ms=self._options.job_keep_s * 1000,
            affinity=session.affinity.recorded(job.brief.tgt_lang),
            preferred_pool=session.preferred_pool,
            last_pair=str(job.pairs[0]),
        )
