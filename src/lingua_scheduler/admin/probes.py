"""Is it alive, is it ready, what did it count: for load balancers and Prometheus."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from aiohttp import web

from lingua_scheduler.admin.endpoint import BadParameter, Endpoint, Parameter, word
from lingua_scheduler.admin.guard import json_answer, problem
from lingua_scheduler.admin.siblings import SiblingMetrics

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_WORKER = Parameter(
    "worker",
    "Number of a process of `serve --workers`; without it, whichever is reached.",
    {"type": "integer", "minimum": 1},
)


class Readiness(msgspec.Struct, frozen=True):
    """Whether new work may come here, and what speaks against it."""

    ready: bool
    complaints: list[str]


class Target(msgspec.Struct, frozen=True):
    """One thing to scrape, in the form of Prometheus' HTTP service discovery."""

    targets: list[str]
    labels: dict[str, str]


class Probes:
    """`/health`, `/ready` and `/metrics`, and where else there are metrics."""

    def __init__(
        self, metrics: SiblingMetrics, complaints: Callable[[], list[str]], *, open_metrics: bool
    ) -> None:
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
                parameters=(_WORKER,),
                problems=(404, 502),
                open=self._open_metrics,
            ),
            Endpoint(
                method="GET",
                path="/api/v1/prometheus/targets",
                about="What Prometheus is to scrape here: each process behind this port.",
                handler=self._targets,
                answer=list[Target],
                open=self._open_metrics,
            ),
        ]

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(text="OK")

    async def _ready(self, _request: web.Request) -> web.Response:
        complaints = self._complaints()
        return json_answer(Readiness(not complaints, complaints), status=503 if complaints else 200)

    async def _render(self, request: web.Request) -> web.Response:
        siblings = self._metrics.siblings
        said = word(request, _WORKER.name)
        if _WORKER.name in request.query and not (said.isascii() and said.isdecimal() and int(said) > 0):
            raise BadParameter(f"{_WORKER.name}: expected a number from 1 on")
        number = int(said or siblings.number)
        if number > siblings.count:
            return problem(404, "Not Found", f"there are {siblings.count} workers")
        text = await self._metrics.of(number)
        if text is None:
            return problem(502, "Bad Gateway", f"worker {number} does not answer")
        return web.Response(body=text, headers={"Content-Type": METRICS_TYPE})

    async def _targets(self, request: web.Request) -> web.Response:
        siblings, scheme = self._metrics.siblings, {"__scheme__": request.scheme}
        if siblings.count == 1:
            return json_answer([Target([request.host], scheme)])
        numbers = [str(number) for number in range(1, siblings.count + 1)]
        return json_answer(
            [
                Target(
                    [request.host],
                    {**scheme, "__param_worker": number, "instance": f"{request.host}/{number}"},
                )
                for number in numbers
            ]
        )
