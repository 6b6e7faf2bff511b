"""Is it alive, is it ready, what did it count: for load balancers and Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from lingua_scheduler.metrics import Metrics

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Probes:
    """`/health`, `/ready` and `/metrics`."""

    def __init__(self, metrics: Metrics, complaints: Callable[[], list[str]]) -> None:
        self._metrics = metrics
        self._complaints = complaints

    def routes(self) -> list[web.RouteDef]:
        """Give the routes to add to the server."""
        return [
            web.get("/health", self._health),
            web.get("/ready", self._ready),
            web.get("/metrics", self._render),
        ]

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(text="OK")

    async def _ready(self, _request: web.Request) -> web.Response:
        complaints = self._complaints()
        return web.json_response(
            {"ready": not complaints, "complaints": complaints}, status=503 if complaints else 200
        )

    async def _render(self, _request: web.Request) -> web.Response:
        text = await asyncio.to_thread(self._metrics.render)
        return web.Response(body=text, headers={"Content-Type": METRICS_TYPE})
