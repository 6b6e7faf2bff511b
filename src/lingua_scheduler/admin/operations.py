"""Orders of operators over HTTP: drain this instance or a node, and take that back."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import msgspec
from aiohttp import web

from lingua_scheduler.admin.endpoint import Endpoint, path_word
from lingua_scheduler.admin.guard import json_answer, problem
from lingua_scheduler.core.model import NodeId
from lingua_scheduler.errors import StoreError
from lingua_scheduler.flow.drain import Drain, DrainOptions, DrainReport
from lingua_scheduler.flow.node_orders import NodeOrders, NodeReport

_ACCEPTED = 202
_LONGEST_DEADLINE_S = 3600


class DrainOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of an order to drain."""

    deadline_s: Annotated[float, msgspec.Meta(ge=0, le=_LONGEST_DEADLINE_S)] | None = None


_decode = msgspec.json.Decoder(DrainOrder).decode


class Operations:
    """`/api/v1/drain` and `/api/v1/nodes/{node_id}/drain`."""

    def __init__(self, drain: Drain, nodes: NodeOrders, options: DrainOptions) -> None:
        self._drain = drain
        self._nodes = nodes
        self._deadline_s = options.deadline_s

    def endpoints(self) -> list[Endpoint]:
        """Give what to serve."""
        here = partial(Endpoint, path="/api/v1/drain", answer=DrainReport)
        node = partial(
            Endpoint,
            path="/api/v1/nodes/{node_id}/drain",
            answer=NodeReport,
            parameters=(path_word("node_id", "Id of the node."),),
        )
        about = "Take {} out of service: what is under way finishes, nothing new comes."
        accepted: dict[str, Any] = {"status": _ACCEPTED, "body": DrainOrder}
        instance, the_node = "this instance", "a node"
        return [
            here(method="POST", about=about.format(instance), handler=self._start, **accepted),
            here(method="GET", about="Tell how far the drain of this instance is.", handler=self._show),
            here(method="DELETE", about="Take the drain of this instance back.", handler=self._cancel),
            node(
                method="POST",
                about=about.format(the_node),
                handler=self._drain_node,
                problems=(404, 503),
                **accepted,
            ),
            node(
                method="GET",
                about="Tell how far a node's drain is.",
                handler=self._show_node,
                problems=(404,),
            ),
            node(
                method="DELETE",
                about="Take the drain of a node back.",
                handler=self._resume_node,
                status=_ACCEPTED,
                problems=(404, 503),
            ),
        ]

    async def _start(self, request: web.Request) -> web.Response:
        order = await _order(request)
        self._drain.start(order.deadline_s)
        return json_answer(self._drain.report(), status=_ACCEPTED)

    async def _show(self, _request: web.Request) -> web.Response:
        return json_answer(self._drain.report())

    async def _cancel(self, _request: web.Request) -> web.Response:
        self._drain.cancel()
        return json_answer(self._drain.report())

    async def _drain_node(self, request: web.Request) -> web.Response:
        order = await _order(request)
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


async def _order(request: web.Request) -> DrainOrder:
    return _decode(await request.read() or b"{}")
