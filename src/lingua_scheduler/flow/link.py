"""One node's connection: it registers within a deadline, then it lives until it is lost.

The instance that holds the link is the only writer of the node's status.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from lingua_scheduler.aio import Alarm
from lingua_scheduler.core.model import NodeId
from lingua_scheduler.core.ports import Sink
from lingua_scheduler.errors import InvalidMessage, LinguaError, NodeRefused, WireError
from lingua_scheduler.flow.aliases import Aliases
from lingua_scheduler.flow.assignments import Assignments
from lingua_scheduler.flow.holds import Hold, Holds
from lingua_scheduler.flow.membership import LinkHome, Membership
from lingua_scheduler.flow.registrar import ANY_ORDER, Registrar
from lingua_scheduler.log import get_logger
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.common import ErrorMessage, plain_code
from lingua_scheduler.wire.node import (
    AsrPartial,
    FromNode,
    JobAck,
    JobAssign,
    JobCancel,
    JobResult,
    JobStarted,
    ModelNotAvailable,
    NodeError,
    NodeHeartbeat,
    NodeRegister,
    NodeRegisterAck,
    PairingCodeRequest,
)

_log = get_logger(__name__)

_Change = NodeRegister | NodeHeartbeat | None  # None: write the status as it is now


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

    def links(self) -> list[Link]:
        """Every connection of a node that is open, registered or not."""
        return [link for link in self._links if not link.gone]

    def link(self, node_id: NodeId) -> Link | None:
        """The connection of a node, if it is registered here."""
        holder = self._home.routing.link(node_id)
        return next((link for link in self._links if link is holder), None)

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
        self._member: Membership | None = None
        self._work, self._aliases = Assignments(), Aliases()
        self.holds = Holds(sink, home, self._living, self._work)
        self.sent_away = False  # to another instance
        self.gone = False  # the connection is lost
        self._changes: deque[_Change] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._unregistered: Alarm | None = None
        self._expect_registration(CloseCode.HANDSHAKE_TIMEOUT, "no node_register in time")

    @property
    def node_id(self) -> NodeId:
        """The node's id; empty before it registered."""
        return self._member.node_id if self._member else NodeId("")

    @property
    def epoch(self) -> int:
        """The number of this registration; 0 before it."""
        return self._member.node.epoch if self._member else 0

    @property
    def busy(self) -> bool:
        """The node has not answered everything it was given."""
        return len(self._work) > 0

    # What the socket brings

    def received(self, message: FromNode) -> None:
        """Take one message; results go straight on, what changes the node is written in order."""
        if isinstance(message, NodeRegister):
            self._write(message)
        elif isinstance(message, NodeHeartbeat) and self._writing is not None:
            self._write(message)  # it may be meant for the registration that is being written
        elif self._member is None:
            raise _not_registered()
        elif message.node_id != self.node_id:
            raise _wrong_id()
        elif isinstance(message, NodeHeartbeat):
            self._write(message)
        else:
            self._take(self._member, message)

    def _take(self, member: Membership, message: FromNode) -> None:
        match message:
            case JobResult() | ModelNotAvailable():
                self._work.answered(message, in_order=not member.node.said.offers(ANY_ORDER))
                self._home.results.heard(self.node_id, self._aliases.heard(message))
                member.note_missing(message)
            case JobAck() | JobStarted() | AsrPartial():
                self._home.results.heard(self.node_id, self._aliases.heard(message))
            case PairingCodeRequest():
                self._home.pairing.request(self.node_id, self._sink)
            case NodeError():
                _log.warning("node_error", node=self.node_id, code=plain_code(message.code))
            case _:
                raise WireError(f"{type(message).__name__} is not handled by this server")

    def lost(self) -> None:
        """The connection is gone: its jobs move at once, the node itself is given a moment to return."""
        home, member = self._home, self._member
        self.gone = True
        self._registered()
        expected = self.sent_away or bool(self.holds)
        self.holds.clear()
        if member is None or not member.end():
            self._on_left(self)
            return
        member.lose("connection_lost", expected=expected)
        if self.sent_away:
            self._grace_over()
        else:
            home.alarms.set(home.clock.now() + home.rules.nodes.disconnect_grace_s, self._grace_over)

    # What routing asks

    def assign(self, message: JobAssign) -> bool:
        """Hand a job over, worded for the generation of this node; False when it will not arrive."""
        if self.holds:
            return False
        if self._member is not None:
            message = self._member.node.said.worded(message)
            if not self._member.node.said.offers(ANY_ORDER):
                message = self._aliases.assigned(message)
        posted = self._sink.post(message)
        if posted:
            self._work.given(message, self._home.clock.now())
        return posted

    def cancel(self, message: JobCancel) -> None:
        """Ask to stop an attempt."""
        self._work.cancelled(message)
        self._sink.post(message)

    def replaced(self) -> None:
        """A newer connection registered this node's id."""
        self._sink.close(CloseCode.REPLACED, "a newer connection registered this node id")

    def restore(self) -> None:
        """Redis has lost the node although it is connected: write it anew."""
        if self._member is not None and not self._member.silent and not self.gone:
            self._write(None)

    def drain(self, deadline_s: float) -> None:
        """Take no new jobs; what runs has until the deadline."""
        self.holds.drain(deadline_s)

    def resume(self) -> None:
        """Take back `drain`."""
        self.holds.resume()

    def send_away(self) -> None:
        """Close the connection, so that the node goes to another instance; jobs it still has move on."""
        self.sent_away = True
        self._sink.close(CloseCode.SERVICE_RESTART, Hold.INSTANCE.value)

    def _living(self) -> Membership | None:
        return None if self.gone else self._member

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
            elif self._member is None:
                raise _not_registered()
            else:
                await self._beat(self._member, change)
        except LinguaError as error:
            _log.info("node_refused", node=self.node_id, remote=self._remote, code=error.code)
            told = error if isinstance(error, WireError) else WireError("this cannot be done now: try again")
            self._sink.post(ErrorMessage(code=error.code, message=told.message, details=told.details))
            if isinstance(change, NodeRegister):
                self._home.metrics.node_registration_total.inc(error.code)

    async def _register(self, message: NodeRegister) -> None:
        home, before = self._home, self._member
        node = Registrar(
            message,
            home.ledger,
            owner=home.routing.instance_id,
            rules=home.rules,
            pools=home.pools,
            clock=home.clock,
        )
        same = before is not None and before.node_id == node.node_id
        await node.register(again=same)
        if before is not None:
            before.end()
        self._member = member = Membership(node, self, self._sink, home)
        if self.gone:
            await member.leave()
            return
        self._registered()
        member.enter(self._status_changed)
        home.metrics.node_registration_total.inc("accepted")
        self._sink.post(NodeRegisterAck(node_id=node.node_id, message="registered", status=node.status.value))
        _log.info("node_registered", node=node.node_id, epoch=node.epoch, remote=self._remote)
        self.holds.apply(member)
        if before is not None and not same:
            await before.leave()

    async def _beat(self, member: Membership, message: NodeHeartbeat | None) -> None:
        if message is not None:
            if message.node_id != member.node_id:
                raise _wrong_id()
            member.hear(message)
        if not await member.write(reported=message is not None, holding=len(self._work)):
            self.replaced()

    # Deadlines

    def _status_changed(self) -> None:
        self._write(None)
        if not self.gone and self._member is not None and self._member.silent:
            self._expect_registration(CloseCode.LEASE_LOST, "no heartbeat and no new node_register")

    def _expect_registration(self, code: CloseCode, otherwise: str) -> None:
        deadline = self._home.clock.now() + self._home.rules.nodes.registration_deadline_s
        self._unregistered = self._home.alarms.set(deadline, lambda: self._sink.close(code, otherwise))

    def _registered(self) -> None:
        if self._unregistered is not None:
            self._unregistered.cancel()
            self._unregistered = None

    def _grace_over(self) -> None:
        self._home.tasks.start(self.leave(), name=f"leave {self.node_id}")

    async def leave(self) -> None:
        """Remove the node, unless it has registered anew."""
        try:
            if self._member is not None:
                await self._member.leave()
        finally:
            self._on_left(self)


def _not_registered() -> NodeRefused:
    return NodeRefused("NODE_UNAVAILABLE", "not registered: send node_register first")


def _wrong_id() -> InvalidMessage:
    return InvalidMessage("node_id is not the one this connection registered")
