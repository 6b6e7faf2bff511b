"""`lingua node --demo`: a node that answers by a fixed rule, as a process of its own."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

import msgspec

from lingua_scheduler.errors import ConfigError, NodeRefused
from lingua_scheduler.log import LogOptions, configure, printable
from lingua_scheduler.node.demo import DEMO_LANGUAGES, demo_node
from lingua_scheduler.node.node import DEFAULT_URL, Node
from lingua_scheduler.node.options import LinkOptions
from lingua_scheduler.node.uplink import NodeGaveUp
from lingua_scheduler.secret import Secret
from lingua_scheduler.wire.address import NODE_PATH, endpoint
from lingua_scheduler.wire.common import Id, Lang

_LEFT, _UNWANTED = 0, 1


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """Which node to run."""

    url: str = DEFAULT_URL
    node_id: str | None = None
    languages: tuple[str, ...] = DEMO_LANGUAGES
    capacity: int = 4
    token: Secret = Secret("")  # noqa: RUF009 it is a str


def run_node(request: NodeRequest) -> int:
    """Run the demo node until a signal; 0 when it left in order, 1 when the scheduler does not want it."""
    _check(request)
    configure(LogOptions())
    try:
        asyncio.run(_run(request))
    except (NodeRefused, NodeGaveUp) as failure:
        print(f"lingua: {printable(str(failure))}", file=sys.stderr)
        return _UNWANTED
    return _LEFT


async def _run(request: NodeRequest) -> None:
    node = demo_node(
        request.url,
        node_id=request.node_id,
        languages=request.languages,
        capacity=request.capacity,
        options=LinkOptions(token=request.token),
    )
    announcing = asyncio.create_task(_announce(node, request))
    try:
        await node.run()
    finally:
        announcing.cancel()


async def _announce(node: Node, request: NodeRequest) -> None:
    print(f"demo node for {', '.join(request.languages)}: connecting to {request.url}", flush=True)
    await node.registered.wait()
    print(f"registered as {node.node_id}; Ctrl-C finishes its jobs and leaves", flush=True)


def _check(request: NodeRequest) -> None:
    try:
        endpoint(request.url, NODE_PATH)
    except ValueError as error:
        raise ConfigError(f"--url: {error}") from None
    if request.capacity < 1:
        raise ConfigError("--capacity: must be at least 1")
    if not request.languages:
        raise ConfigError("--languages: at least one, such as en,pt")
    for flag, value, kind in (
        ("--languages", request.languages, tuple[Lang, ...]),
        ("--node-id", request.node_id, Id | None),
    ):
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            raise ConfigError(f"{flag}: letters, digits, - and _ only") from None
