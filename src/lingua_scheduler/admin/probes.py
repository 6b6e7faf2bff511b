"""Is it alive, is it ready, what did it count: for load balancers and Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
from aiohttp import web

from lingua_scheduler.admin.endpoint import Endpoint
from lingua_scheduler.admin.guard import json_answer
from lingua_scheduler.metrics import Metrics

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Readiness(msgspec.Struct, frozen=True):
    """Whether new work may come here, and what speaks against it."""

    ready: bool
    complaints: list[str]


class Probes:
    """`/health`, `/ready` and `/metrics`."""

    def __init__(self, metrics: Metrics, complaints: Callable[[], list[str]], *, open_metrics: bool) -> None:
        self._metrics = metrics
        self._complaints = complaints
        self._open_metrics = open_metrics

    def endpoints(self) -> list[Endpoint]:
        """Give what to serve."""
        return [
            Endpoint(
                method="GET",
                path="/health",
                about="Say that the process lives; Redis is not asked.",
                handler=self._health,
                answer=None,
                media="text/plain",
                open=True,
            ),
            Endpoint(
                method="GET",
                path="/ready",
                about="Say whether new sessions and nodes may come; 503 with the reasons when not.",
                handler=self._ready,
                answer=Readiness,
                others={503: Readiness},
                open=True,
            ),
            Endpoint(
                method="GET",
                path="/metrics",
                about="Every metric in the text format of Prometheus.",
                handler=self._render,
                answer=None,
                media="text/plain",
                open=self._open_metrics,
            ),
        ]

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(text="OK")

    async def _ready(self, _request: web.Request) -> web.Response:
        complaints = self._complaints()
        return json_answer(Readiness(not complaints, complaints), status=503 if complaints else 200)

    async def _render(self, _request: web.Request) -> web.Response:
        text = await asyncio.to_thread(self._metrics.render)
        return web.Response(body=text, headers={"Content-Type": METRICS_TYPE})
