"""Pools and placement for people: `/api/v1/phase3/pools` and `/api/v1/phase3/simulate`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from lingua_scheduler.admin.endpoint import BadParameter, Endpoint, Parameter, query_word, word
from lingua_scheduler.admin.guard import json_answer, problem
from lingua_scheduler.admin.read_model import Picture, ReadModel
from lingua_scheduler.admin.said import rows, text
from lingua_scheduler.aio import unhurried
from lingua_scheduler.core.model import NodeId, Pair, PoolId
from lingua_scheduler.core.placement import Exclusion, NodeFacts
from lingua_scheduler.core.pools import PoolPlan, PoolsOptions
from lingua_scheduler.errors import DependencyDown
from lingua_scheduler.flow.simulation import Answer, Question, Simulation

_SAMPLE = 5
_MOST_REQUIRED = 32
_WORD_CHARS = 128
_QUERY = (
    query_word("routing_key", "What the pool is found by."),
    query_word("tenant_id", "Tenant of the job; also its routing key, unless that is named."),
    query_word("session_id", "Session of the job; its routing key when nothing else is named."),
    Parameter(
        "required",
        "A service type, service or model that the job needs; may be said again.",
        {
            "type": "array",
            "maxItems": _MOST_REQUIRED,
            "items": {"type": "string", "maxLength": _WORD_CHARS},
        },
    ),
    query_word("src_lang", "Language spoken; zh unless named."),
    query_word("tgt_lang", "Language wanted; en unless named."),
    query_word("exclude_node_id", "A node that must not be chosen."),
)


class PoolRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pool and how many nodes it has."""

    pool_id: int
    pool_name: str = ""
    pool_required_services: list[str] = []
    total_nodes: int = msgspec.field()
    online_nodes: int = msgspec.field()
    ready_nodes: int = msgspec.field()
    core_services_installed: dict[str, int] = msgspec.field()
    core_services_ready: dict[str, int] = msgspec.field()
    sample_node_ids: list[str] = msgspec.field()


class PoolsAnswer(msgspec.Struct, frozen=True):
    """The configured pools, and what is in them."""

    config: PoolsOptions
    pools: list[PoolRow]


class SimulationSteps(msgspec.Struct, frozen=True):
    """How the answer was found; an attempt is a pool, what it said and how many nodes it has."""

    pool_count: int
    preferred_pool: int | None
    selected_pool: int | None
    fallback_used: bool
    attempts: list[tuple[int, str, int]]


class SimulationAnswer(msgspec.Struct, frozen=True):
    """Who would get a job, and why the others would not."""

    routing_key: str
    required: list[str]
    selected_node_id: str | None
    debug: SimulationSteps
    breakdown: dict[str, int]


@dataclass(slots=True)
class _Members:
    """The nodes of one pool that were looked at so far, in the order of their ids."""

    total: int = 0
    online: int = 0
    ready: int = 0
    installed: Counter[str] = field(default_factory=Counter)
    able: Counter[str] = field(default_factory=Counter)
    sample: list[str] = field(default_factory=list)

    def add(self, facts: NodeFacts, installed: frozenset[str]) -> None:
        """Count one more."""
        self.total += 1
        self.online += facts.closed is not Exclusion.OFFLINE
        self.installed.update(installed)
        if facts.closed is None:
            self.ready += 1
            self.able.update(facts.types)
        if len(self.sample) < _SAMPLE:
            self.sample.append(facts.node_id)


class Pools:
    """Shows what placement sees and would do."""

    def __init__(
        self, options: PoolsOptions, plan: PoolPlan, model: ReadModel, simulation: Simulation
    ) -> None:
        self._options = options
        self._plan = plan
        self._model = model
        self._simulation = simulation

    def endpoints(self) -> list[Endpoint]:
        """Give what to serve."""
        return [
            Endpoint(
                method="GET",
                path="/api/v1/phase3/pools",
                about="Show the pools and the nodes in them.",
                handler=self._show,
                answer=PoolsAnswer,
            ),
            Endpoint(
                method="GET",
                path="/api/v1/phase3/simulate",
                about="Tell which node a job would get now; nothing is taken and nothing is counted.",
                handler=self._simulate,
                answer=SimulationAnswer,
                parameters=_QUERY,
                problems=(503,),
            ),
        ]

    async def _show(self, request: web.Request) -> web.Response:
        return await self._model.answer(request, "pools", self.pools)

    async def pools(self, picture: Picture) -> PoolsAnswer:
        """Count the nodes of every pool."""
        members = {pool: _Members() for pool in self._plan.known}
        async for facts in unhurried(picture.nodes):
            members[facts.pool].add(facts, installed_types(picture, facts))
        return PoolsAnswer(self._options, [self._pool(*each) for each in sorted(members.items())])

    def _pool(self, pool: PoolId, members: _Members) -> PoolRow:
        names = {named.pool_id: named.name for named in self._options.by_capability}
        return PoolRow(
            pool_id=pool,
            pool_name=names.get(pool) or "",
            pool_required_services=sorted(self._plan.required_services(pool)),
            total_nodes=members.total,
            online_nodes=members.online,
            ready_nodes=members.ready,
            core_services_installed=dict(members.installed),
            core_services_ready=dict(members.able),
            sample_node_ids=members.sample,
        )

    async def _simulate(self, request: web.Request) -> web.Response:
        try:
            answer = await self._simulation.ask(_question(request))
        except DependencyDown:
            return problem(503, "Service Unavailable", "Redis cannot be reached")
        return json_answer(self._shown(answer))

    def _shown(self, answer: Answer) -> SimulationAnswer:
        selected = answer.selected
        return SimulationAnswer(
            routing_key=answer.question.routing_key,
            required=list(answer.question.required),
            selected_node_id=selected.node_id if selected else None,
            debug=SimulationSteps(
                pool_count=len(self._plan.pools),
                preferred_pool=answer.preferred,
                selected_pool=selected.pool if selected else None,
                fallback_used=selected is not None and selected.pool != answer.preferred,
                attempts=[(tried.pool, tried.reason, tried.candidates) for tried in answer.attempts],
            ),
            breakdown={reason.value: answer.breakdown.get(reason, 0) for reason in Exclusion},
        )


def installed_types(picture: Picture, facts: NodeFacts) -> frozenset[str]:
    """Name the types of service that a node has, ready or not."""
    about = picture.abouts.get(facts.node_id)
    named = {text(service, "type") for service in rows(about.said, "services")} if about else set()
    return facts.types | (named - {""})


def _question(request: web.Request) -> Question:
    tenant_id, exclude = word(request, "tenant_id"), word(request, "exclude_node_id")
    src, tgt = word(request, "src_lang") or "zh", word(request, "tgt_lang") or "en"
    required: list[Any] = request.query.getall("required", [])
    if len(required) > _MOST_REQUIRED or any(len(each) > _WORD_CHARS for each in required):
        raise BadParameter(f"required: at most {_MOST_REQUIRED} words of {_WORD_CHARS} characters")
    routing_key = word(request, "routing_key") or tenant_id or word(request, "session_id") or "default"
    return Question(
        pair=Pair(src.lower(), tgt.lower()),
        tenant_id=tenant_id or None,
        routing_key=routing_key,
        required=tuple(required),
        exclude=NodeId(exclude) if exclude else None,
    )
