"""Where one job may look for a node: the questions to the pools, in their order. It asks nobody itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from lingua_scheduler.core.affinity import Wish
from lingua_scheduler.core.model import NodeId, PoolId
from lingua_scheduler.core.placement import Ask, Exclusion, NodeFacts
from lingua_scheduler.core.pools import NOWHERE, PoolPlan
from lingua_scheduler.core.timeouts import TimeoutOptions
from lingua_scheduler.flow.job import Job, Stage
from lingua_scheduler.flow.routing import Routing
from lingua_scheduler.flow.snapshot import Need, Snapshot

_STILL_BINDING = (None, Exclusion.CAPACITY_EXCEEDED, Exclusion.RESOURCE_THRESHOLD_EXCEEDED)


@dataclass(frozen=True, slots=True)
class Search:
    """One look around for one job."""

    asks: tuple[Ask, ...]
    without: frozenset[NodeId]  # nodes that will not do for this job now
    bound_to: NodeId | None  # the only node that will do


class Searches:
    """Plans searches by what the snapshot shows."""

    def __init__(
        self, snapshot: Snapshot, routing: Routing, timeouts: TimeoutOptions, pools: PoolPlan
    ) -> None:
        self._pools = pools
        self._snapshot = snapshot
        self._routing = routing
        self._timeouts = timeouts

    def plan(self, job: Job, *, offered: NodeId | None, missed: Collection[NodeId]) -> Search:
        """Word the questions for the next attempt.

        `offered` is known to have a free slot, `missed` had one and could not be reached.
        """
        wish = job.session.leaning.wish(job)
        need = Need(job.pairs, job.needs.services, job.session.opening.paired_with)
        without = frozenset(job.tried | self._out_of_turn(job)).union(missed)
        if wish is not None and wish.node_id in without:
            wish = None
        bound = self._binding(wish, need)
        named = (wish.node_id if wish else None, offered)
        blank = Ask(
            job_id=job.id,
            attempt=job.attempt + 1,
            pool=NOWHERE,
            shelves=(),
            reachable=self._routing.reachable,
            ttl_ms=round(self._timeouts.reservation_ttl_s(job.brief.cut.duration_ms) * 1000),
            without=without,
            prefer=named[0],
            again=job.unheard,
        )
        if bound is not None:
            shelves = self._snapshot.shelves(bound.pool, need, named=named)
            ask = replace(blank, pool=bound.pool, shelves=shelves, bound=True)
            return Search((ask,), without, bound.node_id)
        route = self._route(job)
        asks = (*self._ask_paired(blank, need, route), *self._ask_anybody(blank, need, route, named))
        return Search(asks, without, None)

    def _ask_paired(self, blank: Ask, need: Need, route: tuple[PoolId, ...]) -> Iterator[Ask]:
        """Ask the node that the session is paired with, wherever it is, before anybody else."""
        facts = self._snapshot.node(need.paired_with) if need.paired_with else None
        if facts is None or facts.closed is not None or facts.node_id in blank.without:
            return
        may_leave = facts.pool in route or not self._pools.strict
        if may_leave and need.refuses(facts) is None and facts.owner in blank.reachable:
            yield replace(blank, pool=facts.pool, shelves=(facts.shelf,), prefer=facts.node_id, only=True)

    def _ask_anybody(
        self, blank: Ask, need: Need, route: tuple[PoolId, ...], named: Collection[NodeId | None]
    ) -> Iterator[Ask]:
        public = replace(need, paired_with=None)
        nearest = self._snapshot.nearest(public)
        for wanted in (nearest, public) if nearest else (public,):
            for pool in route:
                if shelves := self._snapshot.shelves(pool, wanted, named=named):
                    yield replace(blank, pool=pool, shelves=shelves)

    def _binding(self, wish: Wish | None, need: Need) -> NodeFacts | None:
        """Find the node that nobody else may stand in for, while it can be expected to take the job."""
        if wish is None or not wish.bound:
            return None
        facts = self._snapshot.node(wish.node_id)
        if facts is None or facts.closed not in _STILL_BINDING or need.refuses(facts) is not None:
            return None
        return facts if facts.owner in self._routing.reachable else None

    def _route(self, job: Job) -> tuple[PoolId, ...]:
        """Order the pools the job may ask: its session's last one first, then by tenant or session."""
        session = job.session
        tenant_id = session.opening.tenant_id
        order = self._pools.route(
            routing_key=tenant_id or session.id,
            tenant_id=tenant_id,
            types=job.needs.services,
            models=job.needs.models,
        ).order
        preferred = session.preferred_pool
        if preferred is None or preferred not in order:
            return order
        return (preferred, *(pool for pool in order if pool != preferred))

    def _out_of_turn(self, job: Job) -> set[NodeId]:
        """Name nodes that take a session's utterances in order only, and would miss some or come too late.

        Each language has an order of its own: see `Aliases`.
        """
        newest: dict[NodeId, int] = {}
        alike = [each for each in job.session.jobs.values() if each.brief.tgt_lang == job.brief.tgt_lang]
        for other in alike:
            if other.reservation is not None and other is not job and other.stage is not Stage.ENDED:
                node_id = other.reservation.node_id
                newest[node_id] = max(newest.get(node_id, -1), other.index)
        gaps = {node_id for node_id, index in newest.items() if index not in (job.index - 1, job.index)}
        return {
            node_id
            for node_id in gaps | job.overtaken_on
            if (facts := self._snapshot.node(node_id)) is not None and facts.sequential
        }
