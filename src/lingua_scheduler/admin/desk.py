"""The desk where operators, dashboards and autoscalers ask: the admin side, built and served as one API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from lingua_scheduler.admin.autoscale import Autoscaler
from lingua_scheduler.admin.boards import Boards
from lingua_scheduler.admin.census import Census
from lingua_scheduler.admin.cluster import ClusterViews, version_number
from lingua_scheduler.admin.counters import CounterViews
from lingua_scheduler.admin.endpoint import ELSEWHERE, Endpoint, answered
from lingua_scheduler.admin.guard import AdminOptions, Guard
from lingua_scheduler.admin.lookouts import Lookouts
from lingua_scheduler.admin.nodes import NodeViews
from lingua_scheduler.admin.openapi import document
from lingua_scheduler.admin.operations import Operations
from lingua_scheduler.admin.pairing import PairingDesk
from lingua_scheduler.admin.pools import Pools
from lingua_scheduler.admin.probes import Probes
from lingua_scheduler.admin.read_model import ReadModel, Sources, Surveyor
from lingua_scheduler.admin.sessions import language_about
from lingua_scheduler.admin.siblings import SiblingMetrics
from lingua_scheduler.admin.trends import TrendKeeper
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.autoscale import AutoscaleOptions
from lingua_scheduler.core.catalogue import Standing
from lingua_scheduler.core.company import Presence
from lingua_scheduler.core.model import InstanceId, Languages
from lingua_scheduler.core.pools import PoolPlan, PoolsOptions
from lingua_scheduler.flow.company import Company
from lingua_scheduler.flow.drain import Drain, DrainOptions
from lingua_scheduler.flow.losses import Losses
from lingua_scheduler.flow.node_orders import NodeOrders
from lingua_scheduler.flow.pairing import Pairing
from lingua_scheduler.flow.roster import Roster
from lingua_scheduler.flow.session import Session
from lingua_scheduler.flow.simulation import Simulation
from lingua_scheduler.flow.snapshot import Snapshot
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.slowness import ObservabilityOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskHome:
    """What the desk uses of its instance."""

    instance_id: InstanceId
    pid: int
    clock: Clock
    metrics: Metrics
    company: Company
    presence: Callable[[], Presence]
    snapshot: Snapshot
    plan: PoolPlan
    sessions: Callable[[], Iterable[Session]]
    languages: Mapping[Languages, int]  # how many sessions speak and want what
    roster: Roster
    census: Census
    survey: Surveyor
    simulation: Simulation
    pairing: Pairing
    drain: Drain
    orders: NodeOrders
    complaints: Callable[[], list[str]]
    processes: SiblingMetrics
    losses: Losses
    services: Callable[[], Standing]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskRules:
    """The options that the desk follows or shows."""

    admin: AdminOptions
    autoscale: AutoscaleOptions
    observability: ObservabilityOptions
    pools: PoolsOptions
    drain: DrainOptions
    key_prefix: str
    pause_ms: int
    heartbeat_timeout_s: float


class Desk:
    """Everything that can be asked over HTTP, behind one guard."""

    def __init__(
        self, home: DeskHome, rules: DeskRules, guard: Guard, *, for_talkers: Iterable[Endpoint] = ()
    ) -> None:
        self._home = home
        self._guard = guard
        self._scaler = Autoscaler(
            home.instance_id, home.census, rules.autoscale, clock=home.clock, metrics=home.metrics
        )
        self.model = ReadModel(
            Sources(
                home.snapshot,
                home.company,
                home.presence,
                home.survey,
                self._scaler.look,
                home.services,
                lambda: home.losses.instances,
            ),
            home.clock,
            home.metrics,
        )
        self._trends = TrendKeeper(home.metrics, home.clock)
        pools = Pools(rules.pools, home.plan, self.model, home.simulation)
        nodes = NodeViews(round(rules.heartbeat_timeout_s * 1000))
        lookouts = Lookouts(
            self.model,
            nodes=nodes,
            cluster=ClusterViews(rules.key_prefix, nodes),
            counters=CounterViews(
                home.metrics,
                home.census.latencies_ms,
                pause_ms=rules.pause_ms,
                rules=rules.observability,
            ),
            here=(home.sessions, home.roster, home.clock),
        )
        self.endpoints: list[Endpoint] = [
            *Probes(home.processes, home.complaints, open_metrics=rules.admin.open_metrics).endpoints(),
            *lookouts.endpoints(),
            *pools.endpoints(),
            *Boards(self.model, self._trends, pools, (home.instance_id, home.complaints)).endpoints(),
            *PairingDesk(home.pairing, home.snapshot).endpoints(),
            *Operations(home.drain, home.orders, rules.drain).endpoints(),
            *for_talkers,
        ]
        self.endpoints.append(
            Endpoint(
                method="GET",
                path="/api/v1/openapi.json",
                about="This document.",
                handler=self._document,
                answer=dict[str, Any],
            )
        )
        self._text = msgspec.json.encode(document(self.endpoints))

    def routes(self) -> list[web.RouteDef]:
        """Give the routes to add to the server; the last one answers for all that nobody else serves."""
        routes = []
        for each in self.endpoints:
            handler = answered(each.handler if each.open else self._guard.only(each.handler))
            made = web.get if each.method == "GET" else {"POST": web.post, "DELETE": web.delete}[each.method]
            routes.append(made(each.path, handler))
        return [*routes, ELSEWHERE]

    async def refresh(self) -> None:
        """Look at the deployment again."""
        await self.model.refresh()
        losses = self._home.losses
        losses.review(*self.model.present(losses.nodes))
        self._trends.look(self.model.picture)

    def about(self) -> dict[str, int]:
        """Tell the other instances what people want to know of this one."""
        return {
            "pid": self._home.pid,
            "version": version_number(),
            **self._scaler.about(),
            **self._trends.about(),
            **language_about(self._home.languages),
        }

    async def _document(self, request: web.Request) -> web.Response:
        return await self.model.answer(request, "openapi", lambda _: msgspec.Raw(self._text))
