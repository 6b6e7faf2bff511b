"""Pairing codes over HTTP: an operator asks for the code of a node that has no screen of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from aiohttp import web

from lingua_scheduler.admin.endpoint import Endpoint
from lingua_scheduler.admin.guard import json_answer, problem
from lingua_scheduler.core.model import NodeId
from lingua_scheduler.errors import RateExceeded
from lingua_scheduler.flow.pairing import Pairing
from lingua_scheduler.flow.snapshot import Snapshot
from lingua_scheduler.wire.common import Id
from lingua_scheduler.wire.node import PairingCode

_CREATED = 201


class PairingOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For which node a code is wanted."""

    node_id: Id


class PairingAnswer(msgspec.Struct, frozen=True):
    """A code that works once, until its time is over."""

    node_id: str
    code: str
    expires_at_ms: int


_decode = msgspec.json.Decoder(PairingOrder).decode


class _Reply:
    """Takes what would be sent to the node."""

    close_code: int | None = None

    def __init__(self) -> None:
        self.said: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def post(self, message: Any, *, droppable: bool = False) -> bool:  # noqa: ARG002 it is a sink
        if not self.said.done():
            self.said.set_result(message)
        return True

    def close(self, code: int, reason: str) -> None:
        """There is nothing to close."""


class PairingDesk:
    """`/api/v1/pairing-codes`."""

    def __init__(self, pairing: Pairing, snapshot: Snapshot) -> None:
        self._pairing = pairing
        self._snapshot = snapshot

    def endpoints(self) -> list[Endpoint]:
        """Give what to serve."""
        return [
            Endpoint(
                method="POST",
                path="/api/v1/pairing-codes",
                about="Make a code by which one session is paired with a node.",
                handler=self._make,
                body=PairingOrder,
                answer=PairingAnswer,
                status=_CREATED,
                problems=(404, 429, 503),
            )
        ]

    async def _make(self, request: web.Request) -> web.Response:
        node_id = NodeId(_decode(await request.read()).node_id)
        if self._snapshot.node(node_id) is None:
            return problem(404, "Not Found", "no node with this id is known")
        reply = _Reply()
        try:
            self._pairing.request(node_id, reply)
        except RateExceeded as refusal:
            return problem(429, "Too Many Requests", str(refusal))
        said = await reply.said
        if not isinstance(said, PairingCode):
            return problem(503, "Service Unavailable", "no pairing code can be given now: ask again")
        return json_answer(PairingAnswer(node_id, said.code, said.expires_at_ms), status=_CREATED)
