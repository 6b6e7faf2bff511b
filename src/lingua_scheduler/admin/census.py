"""The jobs of this instance as a load: how many come, how long they take, who waits and for how long.

Jobs are seen when they are launched and when their session hears of their end; in between they are only
looked at. What is remembered is bounded by time and by number, whatever languages clients may think of.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.autoscale import AutoscaleOptions, Demand
from lingua_scheduler.core.model import Pair, PoolId, SessionId
from lingua_scheduler.core.pools import NOWHERE, PoolPlan
from lingua_scheduler.flow.job import Job, Stage
from lingua_scheduler.flow.session import Session

_MOST_GROUPS = 256
_MOST_SAMPLES = 512
_LATENCIES = 1000
_SHORTEST_S = 5.0  # less time than this says nothing about a rate
_P95 = 0.95

Kind = tuple[PoolId, tuple[Pair, ...]]
"""Jobs that ask the same of nodes: the pool they ask first, and the pairs they need."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one kind of job is like now."""

    demand: Demand
    wait_p95_ms: int
    refused_per_min: float


@dataclass(slots=True, eq=False)
class _Kept:
    """What is remembered of one kind of job."""

    begun: float
    open: set[Job] = field(default_factory=set)
    arrivals: deque[float] = field(default_factory=deque)
    refusals: deque[float] = field(default_factory=deque)
    services: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_MOST_SAMPLES))
    waits: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_MOST_SAMPLES))

    def forget(self, before: float) -> None:
        """Let go of what is older."""
        for times in (self.arrivals, self.refusals):
            while times and times[0] < before:
                times.popleft()
        for samples in (self.services, self.waits):
            while samples and samples[0][0] < before:
                samples.popleft()

    @property
    def idle(self) -> bool:
        """Nothing is left to remember."""
        return not (self.open or self.arrivals or self.services)


def percentile(values: Iterable[float], part: float) -> float:
    """Give the smallest value that so large a part of all does not exceed; 0 when there are none."""
    ordered = sorted(values)
    return ordered[max(0, ceil(part * len(ordered)) - 1)] if ordered else 0.0


class Census:
    """Follows jobs from their launch to their end."""

    def __init__(self, clock: Clock, plan: PoolPlan, options: AutoscaleOptions) -> None:
        self._clock = clock
        self._plan = plan
        self._options = options
        self._kinds: dict[Kind, _Kept] = {}
        self._of_session: dict[SessionId, dict[Job, Kind]] = {}
        self._placed: set[Job] = set()
        self._refused: set[Job] = set()
        self.latencies_ms: deque[float] = deque(maxlen=_LATENCIES)  # of answered jobs, cut to end

    def launched(self, job: Job) -> None:
        """A job begins, here or after its session moved here."""
        kind, now = self._kind(job), self._clock.now()
        kept = self._kinds.get(kind)
        if kept is None:
            kept = self._kinds[kind] = _Kept(now)
        kept.open.add(job)
        kept.arrivals.append(now)
        self._of_session.setdefault(job.session.id, {})[job] = kind

    def changed(self, session: Session) -> None:
        """Some job of a session has ended."""
        jobs = self._of_session.get(session.id, {})
        for job in [each for each in jobs if each.ended]:
            self._ended(job, jobs[job])

    def look(self) -> dict[Kind, Load]:
        """See who waits, and tell what each kind of job is like now."""
        now, window_s = self._clock.now(), self._options.window_s
        for jobs in list(self._of_session.values()):
            for job, kind in list(jobs.items()):
                if job.ended:
                    self._forget(job, kind)
                else:
                    self._see(job, self._kinds[kind], now)
        loads = {}
        for kind, kept in list(self._kinds.items()):
            kept.forget(now - window_s)
            if kept.idle:
                del self._kinds[kind]
            else:
                loads[kind] = self._load(kept, now)
        return loads

    def _kind(self, job: Job) -> Kind:
        session = job.session
        tenant_id = session.opening.tenant_id
        order = self._plan.route(
            routing_key=tenant_id or session.id,
            tenant_id=tenant_id,
            types=job.needs.services,
            models=job.needs.models,
        ).order
        preferred = session.preferred_pool
        pool = preferred if preferred in order else next(iter(order), NOWHERE)
        kind = (NOWHERE if pool is None else pool, job.pairs)
        known = kind in self._kinds or len(self._kinds) < _MOST_GROUPS
        return kind if known else (kind[0], ())

    def _see(self, job: Job, kept: _Kept, now: float) -> None:
        """Take in what happened to a job since it was last looked at."""
        if job.told_waiting and job not in self._refused:
            self._refused.add(job)
            kept.refusals.append(now)
        if job.dispatched_wall_ms is not None and job not in self._placed:
            self._placed.add(job)
            kept.waits.append((now, max(0, job.dispatched_wall_ms - job.created_wall_ms) / 1000))

    def _ended(self, job: Job, kind: Kind) -> None:
        kept, now, wall_ms = self._kinds[kind], self._clock.now(), self._clock.wall_ms()
        self._see(job, kept, now)
        if job.answered_by is not None and job.dispatched_wall_ms is not None:
            kept.services.append((now, max(0, wall_ms - job.dispatched_wall_ms) / 1000))
            self.latencies_ms.append(max(0.0, now - job.created_at) * 1000)
        self._forget(job, kind)

    def _forget(self, job: Job, kind: Kind) -> None:
        self._kinds[kind].open.discard(job)
        self._placed.discard(job)
        self._refused.discard(job)
        jobs = self._of_session[job.session.id]
        del jobs[job]
        if not jobs:
            del self._of_session[job.session.id]

    def _load(self, kept: _Kept, now: float) -> Load:
        options = self._options
        seen_s = min(max(now - kept.begun, _SHORTEST_S), options.window_s)
        services = [service_s for _, service_s in kept.services]
        waiting = [job for job in kept.open if job.stage is Stage.WAITING]
        waits = [wait_s for _, wait_s in kept.waits] + [now - job.created_at for job in waiting]
        demand = Demand(
            arrivals_per_s=len(kept.arrivals) / seen_s,
            service_s=sum(services) / len(services) if services else options.service_s,
            running=len(kept.open) - len(waiting),
            waiting=len(waiting),
        )
        return Load(
            demand=demand,
            wait_p95_ms=round(percentile(waits, _P95) * 1000),
            refused_per_min=len(kept.refusals) * 60 / seen_s,
        )
