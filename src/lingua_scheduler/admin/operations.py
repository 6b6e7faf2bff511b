"""Orders of operators over HTTP: drain this instance or a node, and take that back."""

from __future__ import annotations

from typing import Annotated

import msgspec
from aiohttp import web

from lingua_scheduler.admin.guard import Guard, json_answer, problem
from lingua_scheduler.core.model import NodeId
from lingua_scheduler.errors import StoreError
from lingua_scheduler.flow.drain import Drain, DrainOptions
from lingua_scheduler.flow.node_orders import NodeOrders

_ACCEPTED = 202
_LONGEST_DEADLINE_S = 3600


class _Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of an order to drain."""

    deadline_s: Annotated[float, msgspec.Meta(ge=0, le=_LONGEST_DEADLINE_S)] | None = None


_decode = msgspec.json.Decoder(_Order).decode


class Operations:
    """`/api/v1/drain` and `/api/v1/nodes/{node_id}/drain`."""

    def __init__(self, guard: Guard, drain: Drain, nodes: NodeOrders, options: DrainOptions) -> None:
        self._guard = guard
        self._drain = drain
        self._nodes = nodes
        self._deadline_s = options.deadline_s

    def routes(self) -> list[web.RouteDef]:
        """Give the routes to add to the server."""
        only, here, node = self._guard.only, "/api/v1/drain", "/api/v1/nodes/{node_id}/drain"
        return [
            web.post(here, only(self._start)),
            web.get(here, only(self._show)),
            web.delete(here, only(self._cancel)),
            web.post(node, only(self._drain_node)),
            web.get(node, only(self._show_node)),
            web.delete(node, only(self._resume_node)),
        ]

    async def _start(self, request: web.Request) -> web.Response:
        order = await _order(request)
        if isinstance(order, web.Response):
            return order
        self._drain.start(order.deadline_s)
        return json_answer(self._drain.report(), status=_ACCEPTED)

    async def _show(self, _request: web.Request) -> web.Response:
        return json_answer(self._drain.report())

    async def _cancel(self, _request: web.Request) -> web.Response:
        self._drain.cancel()
        return json_answer(self._drain.report())

    async def _drain_node(self, request: web.Request) -> web.Response:
        order = await _order(request)
        if isinstance(order, web.Response):
            return order
        within_s = self._deadline_s if order.deadline_s is None else order.deadline_s
        return await self._give(_node_id(request), within_s)

    async def _resume_node(self, request: web.Request) -> web.Response:
        return await self._give(_node_id(request), None)

    async def _show_node(self, request: web.Request) -> web.Response:
        report = self._nodes.report(_node_id(request))
        return _unknown() if report is None else json_answer(report)

    async def _give(self, node_id: NodeId, drain_s: float | None) -> web.Response:
        if self._nodes.report(node_id) is None:
            return _unknown()
        try:
            given = await self._nodes.give(node_id, drain_s)
        except StoreError:
            given = False
        if not given:
            return problem(503, "Service Unavailable", "the instance that holds the node cannot be reached")
        report = self._nodes.report(node_id)
        return _unknown() if report is None else json_answer(report, status=_ACCEPTED)


def _node_id(request: web.Request) -> NodeId:
    return NodeId(request.match_info["node_id"])


def _unknown() -> web.Response:
    return problem(404, "Not Found", "no node with this id is known")


async def _order(request: web.Request) -> _Order | web.Response:
    try:
        return _decode(await request.read() or b"{}")
    except msgspec.DecodeError as error:
        return problem(400, "Bad Request", str(error))
