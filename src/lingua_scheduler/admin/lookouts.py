"""What can be looked at over HTTP: numbers, instances, nodes, sessions, jobs, signals and dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from aiohttp import web

from lingua_scheduler.admin.autoscale import ScalingAnswer, asked_group
from lingua_scheduler.admin.cluster import Cluster, ClusterViews, DeadLetterPage, dead_letters
from lingua_scheduler.admin.counters import Counters, CounterViews
from lingua_scheduler.admin.endpoint import LIMIT, PAGE, Endpoint, Handler, limit, path_word, query_word, word
from lingua_scheduler.admin.guard import json_answer, problem
from lingua_scheduler.admin.nodes import FILTER, NodeDetail, NodeFilter, NodePage, NodeViews
from lingua_scheduler.admin.read_model import ReadModel
from lingua_scheduler.admin.sessions import JobRow, SessionPage, job_row, session_page
from lingua_scheduler.admin.stats import Stats, stats
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.model import NodeId
from lingua_scheduler.flow.roster import Roster
from lingua_scheduler.flow.session import Session


class Lookouts:
    """Answers from the latest picture; jobs, which are gone in a moment, from memory."""

    def __init__(
        self,
        model: ReadModel,
        *,
        nodes: NodeViews,
        cluster: ClusterViews,
        counters: CounterViews,
        here: tuple[Callable[[], Iterable[Session]], Roster, Clock],
    ) -> None:
        self._model = model
        self._nodes_view = nodes
        self._cluster_view = cluster
        self._counters = counters
        self._sessions_here, self._roster, self._clock = here

    def endpoints(self) -> list[Endpoint]:
        """Give what to serve."""
        return [*self._of_all(), *self._of_some()]

    def _of_all(self) -> list[Endpoint]:
        return [
            _look(
                "stats", "Languages, nodes, services and spare power, of all instances.", self._stats, Stats
            ),
            _look("metrics", "What this instance has counted since its start.", self._metrics, Counters),
            _look(
                "cluster", "Every instance, and a page of all nodes.", self._cluster, Cluster, parameters=PAGE
            ),
            _look("nodes", "A page of all nodes.", self._nodes, NodePage, parameters=(*PAGE, *FILTER)),
            _look(
                "sessions",
                "A page of this instance's sessions.",
                self._sessions,
                SessionPage,
                parameters=PAGE,
            ),
            _look(
                "dead-letters",
                "How many letters nobody could deal with, and the newest of them.",
                self._dead_letters,
                DeadLetterPage,
                parameters=(LIMIT,),
            ),
        ]

    def _of_some(self) -> list[Endpoint]:
        return [
            _look(
                "nodes/{node_id}",
                "One node, and why it is not chosen.",
                self._node,
                NodeDetail,
                parameters=(path_word("node_id", "Id of the node."),),
                problems=(404,),
            ),
            _look(
                "jobs/{job_id}",
                "One job of this instance's sessions, while it lives and a short while after.",
                self._job,
                JobRow,
                parameters=(path_word("job_id", "Id of the job."),),
                problems=(404,),
            ),
            _look(
                "autoscale",
                "How many nodes the load asks for, as flat numbers of one group.",
                self._autoscale,
                ScalingAnswer,
                parameters=(
                    query_word("pool", "Number of a pool, or all."),
                    query_word("pair", "Like zh:en, or all."),
                ),
            ),
        ]

    async def _stats(self, request: web.Request) -> web.Response:
        return await self._model.answer(request, "stats", stats)

    async def _metrics(self, request: web.Request) -> web.Response:
        return await self._model.answer(request, "metrics", self._counters.counters)

    async def _cluster(self, request: web.Request) -> web.Response:
        page = limit(request), word(request, "cursor")
        return await self._model.answer(
            request, ("cluster", *page), lambda picture: self._cluster_view.cluster(picture, *page)
        )

    async def _nodes(self, request: web.Request) -> web.Response:
        page = limit(request), word(request, "cursor"), NodeFilter.of(request)
        return await self._model.answer(
            request, ("nodes", *page), lambda picture: self._nodes_view.page(picture, *page)
        )

    async def _node(self, request: web.Request) -> web.Response:
        node_id = NodeId(request.match_info["node_id"])
        found = self._nodes_view.detail(self._model.picture, node_id)
        if found is None:
            return problem(404, "Not Found", "no node with this id is known")
        return await self._model.answer(request, ("node", node_id), lambda _: found)

    async def _sessions(self, request: web.Request) -> web.Response:
        page = limit(request), word(request, "cursor")
        return await self._model.answer(
            request, ("sessions", *page), lambda _: session_page(self._sessions_here(), *page)
        )

    async def _job(self, request: web.Request) -> web.Response:
        job = self._roster.get(request.match_info["job_id"])
        if job is None:
            return problem(404, "Not Found", "no session of this instance has, or had lately, this job")
        answer = json_answer(job_row(job, self._clock))
        answer.headers["Cache-Control"] = "no-store"
        return answer

    async def _autoscale(self, request: web.Request) -> web.Response:
        group = asked_group(request)
        return await self._model.answer(
            request, ("autoscale", *group), lambda picture: picture.scaling.answer(*group)
        )

    async def _dead_letters(self, request: web.Request) -> web.Response:
        most = limit(request)
        return await self._model.answer(request, ("dead", most), lambda picture: dead_letters(picture, most))


def _look(path: str, about: str, handler: Handler, answer: Any, **more: Any) -> Endpoint:
    path = f"/api/v1/{path}"
    return Endpoint(method="GET", path=path, about=about, handler=handler, answer=answer, **more)
