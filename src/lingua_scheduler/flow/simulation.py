"""What would happen to a job: the way placement goes, with nothing taken and nothing counted."""

from __future__ import annotations

from dataclasses import dataclass

from lingua_scheduler.core.model import JobId, NodeId, Pair, PoolId
from lingua_scheduler.core.placement import Ask, Exclusion, Reservation
from lingua_scheduler.core.pools import PoolPlan
from lingua_scheduler.core.ports import NodeLedger
from lingua_scheduler.flow.routing import Routing
from lingua_scheduler.flow.snapshot import Need, Snapshot

CORE_TYPES = frozenset({"asr", "nmt", "tts"})


@dataclass(frozen=True, slots=True)
class Question:
    """A job that might be."""

    pair: Pair
    tenant_id: str | None = None
    routing_key: str = "default"
    required: tuple[str, ...] = ()  # service types, and services or models beyond them
    exclude: NodeId | None = None

    @property
    def types(self) -> frozenset[str]:
        """The service types among what is required; the core ones when none is named."""
        return CORE_TYPES.intersection(self.required) or CORE_TYPES

    @property
    def models(self) -> frozenset[str]:
        """What is required beyond service types."""
        return frozenset(self.required) - CORE_TYPES


@dataclass(frozen=True, slots=True)
class Attempt:
    """One pool that was asked."""

    pool: PoolId
    reason: str  # "selected", or why nobody could be
    candidates: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Who would get the job, and how that was found."""

    question: Question
    preferred: PoolId | None
    selected: Reservation | None
    attempts: tuple[Attempt, ...]
    breakdown: dict[Exclusion, int]


class Simulation:
    """Asks the pools as dispatch would."""

    def __init__(self, ledger: NodeLedger, snapshot: Snapshot, pools: PoolPlan, routing: Routing) -> None:
        self._ledger = ledger
        self._snapshot = snapshot
        self._pools = pools
        self._routing = routing

    async def ask(self, question: Question) -> Answer:
        """Find who would get the job now."""
        need = Need((question.pair,), question.types)
        route = self._pools.route(
            routing_key=question.routing_key,
            tenant_id=question.tenant_id,
            types=question.types,
            models=question.models,
        )
        attempts: list[Attempt] = []
        for pool in route.order:
            selected = await self._peek(pool, need, question)
            why = self._snapshot.explain(need, pool)
            reason = "selected" if selected else why.main_reason()
            attempts.append(Attempt(pool, reason, sum(why.reasons.values())))
            if selected is not None:
                return Answer(question, route.preferred, selected, tuple(attempts), why.reasons)
        breakdown = self._snapshot.explain(need, route.preferred).reasons if route.order else {}
        return Answer(question, route.preferred, None, tuple(attempts), breakdown)

    async def _peek(self, pool: PoolId, need: Need, question: Question) -> Reservation | None:
        shelves = self._snapshot.shelves(pool, need)
        if not shelves:
            return None
        return await self._ledger.peek(
            Ask(
                job_id=JobId("simulation"),
                attempt=1,
                pool=pool,
                shelves=shelves,
                reachable=self._routing.reachable,
                ttl_ms=1,
                without=frozenset({question.exclude} if question.exclude else ()),
            )
        )
