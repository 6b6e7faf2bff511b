"""An operator's orders to nodes: carried out here, or passed on to the instance that holds the node."""

from __future__ import annotations

from dataclasses import dataclass

from lingua_scheduler.core.model import InstanceId, NodeId
from lingua_scheduler.flow.company import Company
from lingua_scheduler.flow.drain import DrainState
from lingua_scheduler.flow.link import Link, NodeDoor
from lingua_scheduler.flow.post import Post
from lingua_scheduler.flow.snapshot import Snapshot
from lingua_scheduler.wire.peer import PeerOrder


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node's drain as people see it; how far it is, only the instance that holds the node knows."""

    node_id: NodeId
    instance_id: InstanceId
    url: str  # of that instance
    state: DrainState | None  # None: it is not the one that was asked
    cut_off: bool  # jobs had to move because the deadline came


class NodeOrders:
    """Drains nodes and takes that back, wherever they are connected."""

    def __init__(self, nodes: NodeDoor, snapshot: Snapshot, company: Company, post: Post) -> None:
        self._nodes = nodes
        self._snapshot = snapshot
        self._company = company
        self._post = post

    async def give(self, node_id: NodeId, drain_s: float | None) -> bool:
        """Order a node to drain within this time, or (None) to resume; False when it cannot be reached."""
        link = self._nodes.link(node_id)
        if link is None:
            facts = self._snapshot.node(node_id)
            order = PeerOrder(node_id=node_id, drain_s=drain_s)
            return facts is not None and await self._post.order(facts.owner, order)
        if drain_s is None:
            link.resume()
        else:
            link.drain(drain_s)
        return True

    def report(self, node_id: NodeId) -> NodeReport | None:
        """Tell where a node is and, if it is here, how far its drain is; None when nobody knows it."""
        link, facts = self._nodes.link(node_id), self._snapshot.node(node_id)
        if link is None and facts is None:
            return None
        owner = self._company.instance_id if link is not None or facts is None else facts.owner
        known = self._company.living.get(owner)
        return NodeReport(
            node_id=node_id,
            instance_id=owner,
            url=known.url if known is not None else "",
            state=_state(link) if link is not None else None,
            cut_off=link is not None and link.holds.cut_off,
        )


def _state(link: Link) -> DrainState:
    if not link.holds.by_operator:
        return DrainState.SERVING
    return DrainState.DRAINING if link.busy else DrainState.DRAINED
