"""One node's connection: it registers within a deadline, then it lives until it is lost.

The instance that holds the link is the only writer of the node's status.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from lingua_scheduler.aio import Alarm, Alarms, Deadline, Tasks
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.lifecycle import NodeStatus, StatusChange
from lingua_scheduler.core.model import NodeId
from lingua_scheduler.core.ports import Beat, NodeLedger, Sink
from lingua_scheduler.errors import InvalidMessage, LinguaError, NodeRefused, WireError
from lingua_scheduler.flow.failover import Failover
from lingua_scheduler.flow.registrar import Registrar
from lingua_scheduler.flow.registration import NodeRules
from lingua_scheduler.flow.results import Results
from lingua_scheduler.flow.routing import Routing
from lingua_scheduler.flow.snapshot import PlacementOptions, Snapshot
from lingua_scheduler.flow.waiting import WaitingRoom
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.common import ErrorMessage
from lingua_scheduler.wire.node import (
    AsrPartial,
    FromNode,
    JobAck,
    JobAssign,
    JobCancel,
    JobResult,
    JobStarted,
    NodeError,
    NodeHeartbeat,
    NodeRegister,
    NodeRegisterAck,
)
from lingua_scheduler.wire.node import NodeStatus as NodeStatusMessage

_log = get_logger(__name__)

EXACT_FLAGS = (
    "exact_flags"  # the node translates every cut; others need each sentence flagged as a manual cut
)

_Change = NodeRegister | NodeHeartbeat | None  # None: write the status as it is now


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
    rules: NodeRules
    placement: PlacementOptions
    tasks: Tasks


class NodeDoor:
    """Where new connections of nodes come in."""

    def __init__(self, home: LinkHome) -> None:
        self._home = home
        self._links: set[Link] = set()

    def open(self, sink: Sink, *, remote: str) -> Link:
        """Make the link of a new connection."""
        link = Link(sink, self._home, remote=remote, on_left=self._links.discard)
        self._links.add(link)
        return link

    async def stop(self) -> None:
        """Remove the nodes of this instance from Redis, now that their connections are closed."""
        await asyncio.gather(*(link.leave() for link in list(self._links)))


class Link:
    """A node's live connection as the flow sees it."""

    binary_audio = False

    def __init__(self, sink: Sink, home: LinkHome, *, remote: str, on_left: Callable[[Link], None]) -> None:
        self._sink = sink
        self._home = home
        self._remote = remote
        self._on_left = on_left
        self._node: Registrar | None = None
        self._gone = False
        self._changes: deque[_Change] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._watch = Deadline(home.alarms, self._scan)
        deadline = home.clock.now() + home.rules.nodes.registration_deadline_s
        self._unregistered: Alarm | None = home.alarms.set(deadline, self._too_late)

    @property
    def node_id(self) -> NodeId:
        """The node's id; empty before it registered."""
        return self._node.node_id if self._node else NodeId("")

    @property
    def epoch(self) -> int:
        """The number of this registration; 0 before it."""
        return self._node.epoch if self._node else 0

    # What the socket brings

    def received(self, message: FromNode) -> None:
        """Take one message; results go straight on, what changes the node is written in order."""
        if isinstance(message, NodeRegister):
            self._write(message)
            return
        if self._node is None and self._writing is None:
            raise NodeRefused("NODE_UNAVAILABLE", "not registered: send node_register first")
        if self._node is not None and message.node_id != self.node_id:
            raise InvalidMessage("node_id is not the one this connection registered")
        results = self._home.results
        match message:
            case NodeHeartbeat():
                self._write(message)
            case JobResult():
                results.result(self.node_id, message)
            case AsrPartial():
                results.partial(self.node_id, message)
            case JobAck():
                results.acknowledged(self.node_id, message)
            case JobStarted():
                results.started(self.node_id, message)
            case NodeError():
                _log.warning("node_error", node=self.node_id, code=message.code)
            case _:
                raise WireError(f"{type(message).__name__} is not handled by this server")

    def lost(self) -> None:
        """The connection is gone: its jobs move at once, the node itself is given a moment to return."""
        home, node = self._home, self._node
        self._gone = True
        self._watch.clear()
        self._registered()
        if node is None or not home.routing.disconnect(self):
            self._on_left(self)
        else:
            home.metrics.nodes_connected.dec()
            self._become(node.lose("connection_lost"))
            home.alarms.set(home.clock.now() + home.rules.nodes.disconnect_grace_s, self._grace_over)
        if node is not None:
            home.failover.node_lost(node.node_id, node.epoch)

    # What routing asks

    def assign(self, message: JobAssign) -> None:
        """Hand a job over, worded for the generation of this node."""
        if message.is_timeout_triggered and self._node and not self._node.said.offers(EXACT_FLAGS):
            message = msgspec.structs.replace(message, is_manual_cut=True)
        self._sink.post(message)

    def cancel(self, message: JobCancel) -> None:
        """Ask to stop an attempt."""
        self._sink.post(message)

    def replaced(self) -> None:
        """A newer connection registered this node's id."""
        self._sink.close(CloseCode.REPLACED, "a newer connection registered this node id")

    # What is written to Redis, one after the other

    def _write(self, change: _Change) -> None:
        self._changes.append(change)
        if self._writing is None:
            self._writing = self._home.tasks.start(self._write_all(), name=f"link {self._remote}")

    async def _write_all(self) -> None:
        try:
            while self._changes:
                await self._write_one(self._changes.popleft())
        finally:
            self._writing = None

    async def _write_one(self, change: _Change) -> None:
        try:
            if isinstance(change, NodeRegister):
                await self._register(change)
            elif self._node is None:
                raise NodeRefused("NODE_UNAVAILABLE", "not registered: send node_register first")
            else:
                await self._beat(self._node, change)
        except LinguaError as error:
            _log.info("node_refused", node=self.node_id, remote=self._remote, code=error.code)
            self._home.metrics.node_registration_total.inc(error.code)
            details = error.details if isinstance(error, WireError) else None
            self._sink.post(ErrorMessage(code=error.code, message=str(error), details=details))

    async def _register(self, message: NodeRegister) -> None:
        home, before = self._home, self._node
        node = Registrar(
            message,
            home.ledger,
            owner=home.routing.instance_id,
            rules=home.rules,
            placement=home.placement,
            clock=home.clock,
        )
        same = before is not None and before.node_id == node.node_id
        await node.register(again=same)
        if before is not None and not same:
            await self._abandon(before)
        self._node = node
        if self._gone:
            await node.leave()
            return
        home.metrics.node_registration_total.inc("accepted")
        self._registered()
        self._connect(node, before if same else None)
        self._sink.post(NodeRegisterAck(node_id=node.node_id, message="registered", status=node.status.value))
        _log.info("node_registered", node=node.node_id, epoch=node.epoch, remote=self._remote)

    def _connect(self, node: Registrar, before: Registrar | None) -> None:
        home = self._home
        replaced = home.routing.connect(self)
        if replaced is None:
            home.metrics.nodes_connected.inc()
        elif replaced is self and before is not None:
            home.failover.node_lost(node.node_id, before.epoch)
        else:
            home.failover.node_lost(node.node_id, replaced.epoch)
            replaced.replaced()
        home.snapshot.put(node.facts)
        self._watch.move(node.deadline)

    async def _abandon(self, before: Registrar) -> None:
        """The same connection registered another id: the first one is offline."""
        home = self._home
        if home.routing.disconnect(self):
            home.metrics.nodes_connected.dec()
        home.failover.node_lost(before.node_id, before.epoch)
        home.snapshot.drop(before.node_id)
        await before.leave()

    async def _beat(self, node: Registrar, message: NodeHeartbeat | None) -> None:
        if message is not None:
            if message.node_id != node.node_id:
                raise InvalidMessage("node_id is not the one this connection registered")
            self._tell(node.hear(message))
        if await node.beat() is Beat.REPLACED:
            self.replaced()
        elif not self._gone:
            self._watch.move(node.deadline)
            self._home.snapshot.put(node.facts)
            self._home.waiting.capacity(node.facts, node.facts.max_jobs)

    # Status

    def _registered(self) -> None:
        if self._unregistered is not None:
            self._unregistered.cancel()
            self._unregistered = None

    def _scan(self) -> None:
        if self._node is not None:
            self._become(self._node.scan())
            self._watch.move(self._node.deadline)

    def _become(self, change: StatusChange | None) -> None:
        """Tell and write a change that no message of the node caused."""
        if change is None:
            return
        self._tell(change)
        self._write(None)
        if change.after is NodeStatus.OFFLINE and not self._gone:
            self._home.failover.node_lost(self.node_id, self.epoch)

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

    def _grace_over(self) -> None:
        self._home.tasks.start(self.leave(), name=f"leave {self.node_id}")

    async def leave(self) -> None:
        """Remove the node, unless it has registered anew."""
        self._on_left(self)
        if self._node is None:
            return
        if self._home.routing.link(self.node_id) is None:
            self._home.snapshot.drop(self.node_id)
        try:
            await self._node.leave()
        except LinguaError as error:
            _log.info("leave_not_written", node=self.node_id, reason=str(error))

    def _too_late(self) -> None:
        self._sink.close(CloseCode.HANDSHAKE_TIMEOUT, "no node_register in time")
