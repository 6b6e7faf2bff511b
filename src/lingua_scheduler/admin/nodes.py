"""Nodes for people: how each stands, what it does, and why it is not chosen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from lingua_scheduler.admin.endpoint import BadParameter, Parameter, query_word, word
from lingua_scheduler.admin.read_model import Picture
from lingua_scheduler.admin.said import Said, number, rows, table, text
from lingua_scheduler.aio import unhurried
from lingua_scheduler.core.model import NodeId
from lingua_scheduler.core.placement import Exclusion, NodeFacts
from lingua_scheduler.store.survey import About

_MOST_SERVICES = 64
_READY, _OUT = "ready", "out"
_STATES = (_READY, _OUT, *(reason.value for reason in Exclusion))

_WHY = {
    Exclusion.OFFLINE: "it cannot be reached: its connection, its lease or its instance is gone",
    Exclusion.STATUS_NOT_READY: "its status is not ready: it registers, is degraded, or is being drained",
    Exclusion.NOT_IN_PUBLIC_POOL: "it is private: only sessions that are paired with it may use it",
    Exclusion.GPU_UNAVAILABLE: "it has no GPU that can be used",
    Exclusion.MODEL_NOT_AVAILABLE: "it lacks a service that is asked for",
    Exclusion.CAPACITY_EXCEEDED: "it is full: every slot is taken, or its GPU has a queue",
    Exclusion.RESOURCE_THRESHOLD_EXCEEDED: "its processor, GPU or memory is too busy",
    Exclusion.LANG_PAIR_UNSUPPORTED: "it has named no languages yet",
}


class ServiceRow(msgspec.Struct, frozen=True):
    """A service that a node has."""

    service_id: str
    service_type: str
    status: str


class CapabilityRow(msgspec.Struct, frozen=True):
    """A type of service, and whether the node can do it now."""

    service_type: str
    ready: bool
    reason: str | None
    ready_impl_ids: list[str]


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A node as people see it."""

    node_id: str
    instance_id: str
    pool_id: int
    platform: str
    version: str
    online: bool
    status: str
    excluded: str | None  # why it would not be chosen now; null: it may be
    cpu_usage: float | None
    gpu_usage: float | None
    memory_usage: float | None
    current_jobs: int
    max_concurrent_jobs: int
    last_heartbeat: int  # ms since 1970; 0: none was seen
    services: list[ServiceRow]
    capabilities: list[CapabilityRow]


class NodeDetail(msgspec.Struct, frozen=True):
    """One node with everything it says of itself, and why it is not chosen in words."""

    node: NodeRow
    why: str | None
    private: bool
    region: str
    gpu_tier: str
    asr_languages: list[str]
    semantic_languages: list[str]
    ready_types: list[str]
    hardware: dict[str, Any]


class NodePage(msgspec.Struct, frozen=True):
    """Nodes in the order of their ids; `next` is the cursor of the page after, null on the last one."""

    total: int
    matched: int  # of all, those that were asked for
    nodes: list[NodeRow]
    next: str | None


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """Which nodes somebody wants to see."""

    find: str = ""  # in the id, platform, instance or a service, in lower case
    state: str = ""  # `ready`, `out`, or the reason why a node is not chosen

    @classmethod
    def of(cls, request: web.Request) -> NodeFilter:
        """Read it from the address; BadParameter when there is no such state."""
        find, state = word(request, "find").lower(), word(request, "state")
        if state and state not in _STATES:
            raise BadParameter(f"state: expected one of {', '.join(_STATES)}")
        return cls(find, state)

    def takes(self, picture: Picture, facts: NodeFacts) -> bool:
        """Whether this node is wanted."""
        reason = exclusion(picture, facts) if self.state else None
        in_state = {"": True, _READY: reason is None, _OUT: reason is not None}
        return in_state.get(self.state, reason == self.state) and self._finds(picture, facts)

    def _finds(self, picture: Picture, facts: NodeFacts) -> bool:
        if not self.find:
            return True
        said = picture.abouts.get(facts.node_id, About()).said
        services = (text(each, "service_id") for each in rows(said, "services"))
        places = (facts.node_id, facts.owner, text(said, "platform"), *services)
        return any(self.find in each.lower() for each in places)


FILTER = (
    query_word("find", "Text in the id, the platform, the instance or a service of the node."),
    Parameter(
        "state",
        "Nodes that may be chosen, those that may not, or the reason why not.",
        {"type": "string", "enum": list(_STATES)},
    ),
)
"""What a caller may say of the nodes to list."""


class NodeViews:
    """Makes rows of nodes."""

    def __init__(self, lease_ms: int) -> None:
        self._lease_ms = lease_ms  # of a node that did not ask for a shorter one

    async def page(
        self, picture: Picture, limit: int, cursor: str, wanted: NodeFilter | None = None
    ) -> NodePage:
        """Show some nodes, from the one after the cursor on."""
        matched: Sequence[NodeFacts] = picture.nodes
        if wanted is not None and wanted != NodeFilter():
            matched = [facts async for facts in unhurried(picture.nodes) if wanted.takes(picture, facts)]
        first = bisect_right(matched, cursor, key=lambda facts: facts.node_id)
        shown = matched[first : first + limit]
        return NodePage(
            total=len(picture.nodes),
            matched=len(matched),
            nodes=[self.row(picture, facts) for facts in shown],
            next=shown[-1].node_id if len(matched) > first + limit else None,
        )

    def detail(self, picture: Picture, node_id: NodeId) -> NodeDetail | None:
        """Show one node; None when nobody knows it."""
        facts = picture.node(node_id)
        if facts is None:
            return None
        about = picture.abouts.get(node_id, About())
        reason = exclusion(picture, facts)
        return NodeDetail(
            node=self.row(picture, facts),
            why=_WHY[reason] if reason is not None else None,
            private=facts.private,
            region=facts.region,
            gpu_tier=facts.gpu_tier,
            asr_languages=sorted(facts.asr),
            semantic_languages=sorted(facts.semantic),
            ready_types=sorted(facts.types),
            hardware=table(about.said, "hardware"),
        )

    def row(self, picture: Picture, facts: NodeFacts) -> NodeRow:
        """Show one node in a list."""
        about = picture.abouts.get(facts.node_id, About())
        said, usage = about.said, table(about.said, "usage")
        reason = exclusion(picture, facts)
        online = reason is not Exclusion.OFFLINE
        return NodeRow(
            node_id=facts.node_id,
            instance_id=facts.owner,
            pool_id=facts.pool,
            platform=text(said, "platform"),
            version=text(said, "version"),
            online=online,
            status=text(said, "status") or ("ready" if facts.closed is None else facts.closed.value),
            excluded=reason.value if reason is not None else None,
            cpu_usage=number(usage, "cpu_percent"),
            gpu_usage=number(usage, "gpu_percent"),
            memory_usage=number(usage, "mem_percent"),
            current_jobs=about.jobs,
            max_concurrent_jobs=facts.max_jobs,
            last_heartbeat=self._heartbeat_ms(about),
            services=[_service(each) for each in rows(said, "services")[:_MOST_SERVICES]],
            capabilities=[_capability(each) for each in rows(said, "capabilities")[:_MOST_SERVICES]],
        )

    def _heartbeat_ms(self, about: About) -> int:
        told = about.said.get("heartbeat_ms")
        if isinstance(told, int):
            return told
        return max(0, about.lease_end_ms - self._lease_ms) if about.lease_end_ms else 0


def exclusion(picture: Picture, facts: NodeFacts) -> Exclusion | None:
    """Tell why a node would not be chosen now, whatever the job; None when it may be."""
    if facts.owner not in picture.reachable:
        return Exclusion.OFFLINE
    if facts.closed is not None:
        return facts.closed
    about = picture.abouts.get(facts.node_id)
    if about is not None and about.jobs >= facts.max_jobs:
        return Exclusion.CAPACITY_EXCEEDED
    return Exclusion.NOT_IN_PUBLIC_POOL if facts.private else None


def _service(said: Said) -> ServiceRow:
    return ServiceRow(*(text(said, name) for name in ("service_id", "type", "status")))


def _capability(said: Said) -> CapabilityRow:
    reason = said.get("reason")
    return CapabilityRow(
        service_type=text(said, "type"),
        ready=said.get("ready") is True,
        reason=None if reason is None else str(reason),
        ready_impl_ids=[str(each) for each in said.get("ready_impl_ids") or ()],
    )
