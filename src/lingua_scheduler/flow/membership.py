"""A registered node's place in its instance: reachable, shown to placement and watched, until it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lingua_scheduler.aio import Alarms, Deadline, Tasks
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.lifecycle import NodeStatus, StatusChange
from lingua_scheduler.core.model import NodeId
from lingua_scheduler.core.placement import NodeFacts
from lingua_scheduler.core.pools import PoolPlan
from lingua_scheduler.core.ports import NodeLedger, Sink
from lingua_scheduler.core.stored import Beat
from lingua_scheduler.errors import DependencyDown, LinguaError, NodeRefused
from lingua_scheduler.flow.failover import Failover
from lingua_scheduler.flow.losses import Losses
from lingua_scheduler.flow.model_reports import ModelReports, missing_service
from lingua_scheduler.flow.pairing import Pairing
from lingua_scheduler.flow.registrar import Registrar
from lingua_scheduler.flow.registration import NodeRules
from lingua_scheduler.flow.results import Results
from lingua_scheduler.flow.routing import NodeLink, Routing
from lingua_scheduler.flow.snapshot import Snapshot
from lingua_scheduler.flow.waiting import WaitingRoom
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.node import JobResult, ModelNotAvailable, NodeHeartbeat
from lingua_scheduler.wire.node import NodeStatus as NodeStatusMessage

_log = get_logger(__name__)

_TRY_AGAIN_S = 1.0  # while Redis is away
_FAREWELLS = frozenset(
    {
        CloseCode.NORMAL,
        CloseCode.GOING_AWAY,
        CloseCode.SERVICE_RESTART,
        CloseCode.UNAUTHORISED,
        CloseCode.FORBIDDEN,
    }
)
"""Close codes with which a node goes, or is sent away, because somebody wants it."""


@dataclass(frozen=True, slots=True)
class LinkHome:
    """What links use of the instance they live in."""

    clock: Clock
    alarms: Alarms
    metrics: Metrics
    ledger: NodeLedger
    routing: Routing
    snapshot: Snapshot
    waiting: WaitingRoom
    results: Results
    failover: Failover
    pairing: Pairing
    reports: ModelReports
    rules: NodeRules
    pools: PoolPlan
    tasks: Tasks
    losses: Losses


class Membership:
    """What one registration means to the instance that holds it."""

    def __init__(self, node: Registrar, link: NodeLink, sink: Sink, home: LinkHome) -> None:
        self.node = node
        self._link = link
        self._sink = sink
        self._home = home
        self._watch = Deadline(home.alarms, self._scan)
        self._mark_over = Deadline(home.alarms, self._unmark)
        self._try_again = Deadline(home.alarms, self._write_anew)
        self._on_change: Callable[[], None]
        self._missed = False  # nobody wanted its connection to end

    @property
    def node_id(self) -> NodeId:
        """The node's id."""
        return self.node.node_id

    @property
    def silent(self) -> bool:
        """The node was given up because nothing was heard of it; only a new registration helps."""
        return self.node.status is NodeStatus.OFFLINE

    def enter(self, on_change: Callable[[], None]) -> None:
        """Make the node reachable; `on_change` hears when its status changed without its doing."""
        home = self._home
        self._on_change = on_change
        replaced = home.routing.connect(self._link)
        if replaced is None:
            home.metrics.nodes_connected.inc()
        elif replaced is not self._link:
            replaced.replaced()
        home.snapshot.put(self.node.facts)
        self._watch.move(self.node.deadline)

    def hear(self, message: NodeHeartbeat) -> None:
        """Take a heartbeat into account; NodeRefused when the registration has ended."""
        if self.silent:
            raise NodeRefused("NODE_UNAVAILABLE", "the registration has ended: send node_register again")
        self._tell(self.node.hear(message))

    async def write(self, *, reported: bool, holding: int) -> bool:
        """Write how the node stands, by its own report or by what is known here; let placement know.

        False when a newer registration has the id. While Redis is away it is tried again and again; the
        DependencyDown is only for a node that reported.
        """
        try:
            outcome = await self.node.beat(reported=reported, holding=holding)
        except DependencyDown:
            self._try_again.move(self._home.clock.now() + _TRY_AGAIN_S)
            if reported:
                raise
            return True
        self._try_again.clear()
        if outcome is Beat.REPLACED:
            return False
        self._show(self.node.facts)
        return True

    def _show(self, facts: NodeFacts) -> None:
        home = self._home
        if home.routing.link(self.node_id) is self._link:
            before = home.snapshot.node(self.node_id)
            self._watch.move(self.node.deadline)
            home.snapshot.put(facts)
            if before is not None and before.shelf != facts.shelf:
                home.waiting.review(facts)
        home.waiting.capacity(facts, facts.max_jobs)

    def note_missing(self, message: JobResult | ModelNotAvailable) -> None:
        """Offer less of the node for a while if this says that it lacks a service."""
        report = missing_service(message)
        if report is None:
            return
        if self._home.reports.take(self.node, report):
            self._on_change()
        self._mark_over.move(self.node.unavailability.deadline(self._home.clock.now()))

    def end(self) -> bool:
        """Stop watching and move the node's jobs; False when a newer connection has its place."""
        self._watch.clear()
        self._mark_over.clear()
        held = self._home.routing.disconnect(self._link)
        if held:
            self._home.metrics.nodes_connected.dec()
        self.move_jobs()
        return held

    def move_jobs(self) -> None:
        """Give the attempts that are out on the node to others."""
        for epoch in self.node.epochs:
            self._home.failover.node_lost(self.node_id, epoch)

    def lose(self, reason: str, *, expected: bool) -> None:
        """Mark the node as out of reach until it registers again; who was not expected to go is missed."""
        self._missed = not expected and self._sink.close_code not in _FAREWELLS
        self._become(self.node.lose(reason))

    def drain(self, reason: str) -> None:
        """Give the node no new jobs; what it has may finish."""
        self._become(self.node.drain(reason))

    def cancel_drain(self, reason: str) -> None:
        """Let the node stand as it stood before it was drained."""
        self._become(self.node.cancel_drain(reason))

    async def leave(self) -> None:
        """Remove the node, unless it has registered anew."""
        try:
            if await self.node.leave():
                self._home.snapshot.drop(self.node_id)
                if self._missed:
                    _log.warning("node_lost", node=self.node_id)
                    self._home.losses.node(self.node_id)
        except LinguaError as error:
            _log.info("leave_not_written", node=self.node_id, reason=str(error))

    def _scan(self) -> None:
        change = self.node.scan()
        self._watch.move(self.node.deadline)
        self._become(change)
        if change is not None and change.after is NodeStatus.OFFLINE:
            self.move_jobs()

    def _write_anew(self) -> None:
        self._on_change()

    def _unmark(self) -> None:
        self._mark_over.move(self.node.unavailability.deadline(self._home.clock.now()))
        if not self.silent:
            self._on_change()

    def _become(self, change: StatusChange | None) -> None:
        if change is not None:
            self._tell(change)
            self._on_change()

    def _tell(self, change: StatusChange | None) -> None:
        if change is None:
            return
        _log.info("node_status", node=self.node_id, status=change.after.value, why=change.reason)
        self._sink.post(
            NodeStatusMessage(
                node_id=self.node_id,
                status=change.after.value,
                reason=change.reason,
                timestamp=self._home.clock.wall_ms() // 1000,
            )
        )
