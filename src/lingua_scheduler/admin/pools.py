"""Pools and placement for people: `/api/v1/phase3/pools` and `/api/v1/phase3/simulate`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from aiohttp import web

from lingua_scheduler.core.model import NodeId, Pair, PoolId
from lingua_scheduler.core.placement import Exclusion, NodeFacts
from lingua_scheduler.core.pools import PoolPlan, PoolsOptions
from lingua_scheduler.errors import DependencyDown
from lingua_scheduler.flow.simulation import Answer, Question, Simulation
from lingua_scheduler.flow.snapshot import Snapshot

_SAMPLE = 5
_WORD_CHARS = 128


class Pools:
    """Shows what placement sees and would do."""

    def __init__(
        self, options: PoolsOptions, plan: PoolPlan, snapshot: Snapshot, simulation: Simulation
    ) -> None:
        self._options = options
        self._plan = plan
        self._snapshot = snapshot
        self._simulation = simulation

    def routes(self) -> list[web.RouteDef]:
        """Give the routes to add to the server."""
        return [
            web.get("/api/v1/phase3/pools", self._pools),
            web.get("/api/v1/phase3/simulate", self._simulate),
        ]

    async def _pools(self, _request: web.Request) -> web.Response:
        nodes: dict[PoolId, list[NodeFacts]] = {pool: [] for pool in self._plan.known}
        for facts in self._snapshot.nodes():
            nodes[facts.pool].append(facts)
        return _json(
            {
                "config": msgspec.to_builtins(self._options),
                "pools": [self._pool(pool, members) for pool, members in sorted(nodes.items())],
            }
        )

    def _pool(self, pool: PoolId, members: list[NodeFacts]) -> dict[str, Any]:
        names = {named.pool_id: named.name for named in self._options.by_capability}
        required = sorted(self._plan.required_services(pool))
        ready = [facts for facts in members if facts.closed is None]
        shown: dict[str, Any] = {"pool_id": pool}
        if names.get(pool):
            shown["pool_name"] = names[pool]
        if required:
            shown["pool_required_services"] = required
        return {
            **shown,
            "total_nodes": len(members),
            "online_nodes": sum(facts.closed is not Exclusion.OFFLINE for facts in members),
            "ready_nodes": len(ready),
            "core_services_installed": dict(Counter(kind for facts in members for kind in facts.types)),
            "core_services_ready": dict(Counter(kind for facts in ready for kind in facts.types)),
            "sample_node_ids": sorted(facts.node_id for facts in members)[:_SAMPLE],
        }

    async def _simulate(self, request: web.Request) -> web.Response:
        query = request.query
        words = [value for name in query for value in query.getall(name)]
        if any(len(word) > _WORD_CHARS for word in words):
            return _problem(400, f"a value is longer than {_WORD_CHARS} characters")
        tenant_id = query.get("tenant_id") or None
        question = Question(
            pair=Pair(query.get("src_lang", "zh").lower(), query.get("tgt_lang", "en").lower()),
            tenant_id=tenant_id,
            routing_key=query.get("routing_key") or tenant_id or query.get("session_id") or "default",
            required=tuple(query.getall("required", [])),
            exclude=NodeId(query["exclude_node_id"]) if query.get("exclude_node_id") else None,
        )
        try:
            answer = await self._simulation.ask(question)
        except DependencyDown:
            return _problem(503, "Redis cannot be reached")
        return _json(self._shown(answer))

    def _shown(self, answer: Answer) -> dict[str, Any]:
        selected = answer.selected
        return {
            "routing_key": answer.question.routing_key,
            "required": list(answer.question.required),
            "selected_node_id": selected.node_id if selected else None,
            "debug": {
                "pool_count": len(self._plan.pools),
                "preferred_pool": answer.preferred,
                "selected_pool": selected.pool if selected else None,
                "fallback_used": selected is not None and selected.pool != answer.preferred,
                "attempts": [[tried.pool, tried.reason, tried.candidates] for tried in answer.attempts],
            },
            "breakdown": {reason.value: answer.breakdown.get(reason, 0) for reason in Exclusion},
        }


def _json(data: dict[str, Any]) -> web.Response:
    return web.Response(body=msgspec.json.encode(data), content_type="application/json")


def _problem(status: int, detail: str) -> web.Response:
    body = msgspec.json.encode({"type": "about:blank", "status": status, "detail": detail})
    return web.Response(body=body, status=status, content_type="application/problem+json")
