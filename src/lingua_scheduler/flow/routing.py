"""Hands messages to nodes by name: on this instance directly, else by a letter to the node's owner."""

from __future__ import annotations

from typing import Protocol

from lingua_scheduler.core.model import InstanceId, JobId, NodeId
from lingua_scheduler.core.placement import Reservation
from lingua_scheduler.flow.company import Company
from lingua_scheduler.wire.node import JobAssign, JobCancel


class NodeLink(Protocol):
    """A node's live connection as routing sees it."""

    @property
    def node_id(self) -> NodeId:
        """The node's id."""
        ...

    @property
    def epoch(self) -> int:
        """The number of its registration."""
        ...

    def assign(self, message: JobAssign) -> bool:
        """Hand a job over; False when it will not arrive."""
        ...

    def cancel(self, message: JobCancel) -> None:
        """Ask to stop an attempt."""

    def drain(self, deadline_s: float) -> None:
        """Take no new jobs; what runs has until the deadline."""

    def resume(self) -> None:
        """Take back `drain`."""

    def replaced(self) -> None:
        """Learn that a newer connection has the node's id."""

    def restore(self) -> None:
        """Write the node anew: Redis has lost it."""


class FarNodes(Protocol):
    """The way to nodes of other instances."""

    async def assign(self, reservation: Reservation, message: JobAssign) -> bool:
        """Hand a job over; False when it will not arrive."""
        ...

    def cancel(self, reservation: Reservation, *, job_id: JobId, trace_id: str, reason: str) -> None:
        """Ask to stop an attempt."""


class Routing:
    """Who is connected here, and how to reach who is not."""

    def __init__(self, company: Company, far: FarNodes) -> None:
        self.instance_id = company.instance_id
        self._company = company
        self._far = far
        self._links: dict[NodeId, NodeLink] = {}

    @property
    def reachable(self) -> frozenset[InstanceId]:
        """Instances whose nodes can be handed a job."""
        return self._company.reachable

    async def assured(self) -> None:
        """Return when this instance is sure that it may act; at once as a rule."""
        if not self._company.sure:
            await self._company.assured()

    def connect(self, link: NodeLink) -> NodeLink | None:
        """Make a link the way to its node; return the one it replaces."""
        replaced = self._links.get(link.node_id)
        self._links[link.node_id] = link
        return replaced

    def disconnect(self, link: NodeLink) -> bool:
        """Forget a link unless a newer one has taken its place."""
        if self._links.get(link.node_id) is not link:
            return False
        del self._links[link.node_id]
        return True

    def link(self, node_id: NodeId) -> NodeLink | None:
        """The live connection of a node, if it is here."""
        return self._links.get(node_id)

    def links(self) -> list[NodeLink]:
        """Every node connected here."""
        return list(self._links.values())

    async def assign(self, reservation: Reservation, message: JobAssign) -> bool:
        """Hand a job to the node that holds its slot; False when the node cannot be reached."""
        if reservation.owner != self.instance_id:
            return await self._far.assign(reservation, message)
        link = self._links.get(reservation.node_id)
        if link is None or link.epoch != reservation.epoch:
            return False
        return link.assign(message)

    def cancel(self, reservation: Reservation, *, job_id: JobId, trace_id: str, reason: str) -> None:
        """Ask a node to stop working on an attempt; best effort."""
        if reservation.owner != self.instance_id:
            self._far.cancel(reservation, job_id=job_id, trace_id=trace_id, reason=reason)
            return
        link = self._links.get(reservation.node_id)
        if link is not None:
            link.cancel(
                JobCancel(job_id=job_id, attempt_id=reservation.attempt, trace_id=trace_id, reason=reason)
            )
