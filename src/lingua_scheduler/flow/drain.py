"""An instance on its way out: nothing new comes in, what is here finishes or moves to another instance.

Clients that can resume are told to come back; their jobs are in Redis and follow them. Clients of the first
generation are given until everything they said is answered. Nodes get no new jobs and leave when they have
none, to work for another instance. Where no other instance could take them, they stay until the sessions have
what they need of them. The deadline cuts off what is left.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Protocol

import msgspec

from lingua_scheduler.aio import Alarm, Alarms
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.model import SessionId
from lingua_scheduler.crash import CrashPoint, crash_point
from lingua_scheduler.flow.holds import Hold
from lingua_scheduler.flow.link import NodeDoor
from lingua_scheduler.flow.roster import Roster
from lingua_scheduler.flow.session import Session
from lingua_scheduler.flow.sessions import Sessions
from lingua_scheduler.log import get_logger
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.session import GoingAway

_log = get_logger(__name__)

_STEP_S = 0.1
_LAST_CALL_S = 3.0  # before the deadline: open utterances are ended, so that their answers can still come
_REASON = "instance drains"


class DrainOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an instance, or a node, is taken out of service."""

    deadline_s: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 25
    """How long what is under way may take to finish, unless the order says otherwise."""
    spread_ms: Annotated[int, msgspec.Meta(ge=0)] = 2000
    """Clients leave at random moments within this time, so that they do not all come back at once."""


class DrainState(StrEnum):
    """How far a drain has come."""

    SERVING = "serving"
    DRAINING = "draining"
    DRAINED = "drained"


@dataclass(frozen=True, slots=True)
class DrainReport:
    """A drain as people see it."""

    state: DrainState
    sessions: int  # that have a connection here
    nodes: int
    jobs: int  # of sessions of this instance
    cut_off: int  # sessions and nodes that were not done when the deadline came
    deadline_in_s: float | None  # None: nothing is being drained


class Gate(Protocol):
    """Where new connections come in."""

    def drain(self) -> None:
        """Refuse new connections."""

    def resume(self) -> None:
        """Take back `drain`."""

    def hang_up(self) -> None:
        """Close the connections that are left."""


@dataclass(frozen=True, slots=True)
class DrainHome:
    """What a drain uses of its instance."""

    clock: Clock
    alarms: Alarms
    gate: Gate
    sessions: Sessions
    nodes: NodeDoor
    roster: Roster
    refuge: Callable[[], bool]  # another instance lives that is not being drained itself
    changed: Callable[[], object]  # the others should hear of it


@dataclass(slots=True, eq=False)
class _Guest:
    """A session on its way out."""

    leaves_at: float | None = None  # None: it has reason to stay
    last_called: bool = False
    sent_off: bool = False


class Drain:
    """Empties an instance within a deadline; can be taken back at any time."""

    def __init__(self, home: DrainHome, options: DrainOptions) -> None:
        self._home = home
        self._options = options
        self._guests: dict[SessionId, _Guest] = {}
        self._deadline = 0.0
        self._next: Alarm | None = None
        self._over = asyncio.Event()
        self.state = DrainState.SERVING
        self.cut_off = 0

    def start(self, deadline_s: float | None = None) -> None:
        """Begin; while a drain goes on, only its deadline is set anew."""
        within_s = self._options.deadline_s if deadline_s is None else deadline_s
        self._deadline = self._home.clock.now() + within_s
        if self.state is DrainState.SERVING:
            self.cut_off = 0
            self._home.gate.drain()
            _log.info("drain_started", within_s=within_s)
        before, self.state = self.state, DrainState.DRAINING
        self._over.clear()
        if before is DrainState.SERVING:
            self._home.changed()
        self._step()

    def cancel(self) -> None:
        """Serve again; whoever has left already comes back or stays where it is."""
        if self.state is DrainState.SERVING:
            return
        self.state = DrainState.SERVING
        self._over.set()
        self._guests.clear()
        self._disarm()
        for link in self._home.nodes.links():
            link.holds.let_go(Hold.INSTANCE)
        self._home.gate.resume()
        self._home.changed()
        _log.info("drain_cancelled")

    async def over(self) -> bool:
        """Return when the drain has come to its end: True when the instance is empty, False if taken back."""
        await self._over.wait()
        return self.state is DrainState.DRAINED

    def report(self) -> DrainReport:
        """Tell how far it is."""
        home, draining = self._home, self.state is DrainState.DRAINING
        return DrainReport(
            state=self.state,
            sessions=len(home.sessions.attached()),
            nodes=len(home.nodes.links()),
            jobs=len(home.roster),
            cut_off=self.cut_off,
            deadline_in_s=max(0.0, self._deadline - home.clock.now()) if draining else None,
        )

    def complaints(self) -> list[str]:
        """Say why new work should go elsewhere, if it should."""
        return [] if self.state is DrainState.SERVING else [self.state.value]

    def _step(self) -> None:
        """Do what can be done now, and look again soon."""
        self._disarm()
        home, now = self._home, self._home.clock.now()
        overdue, sheltered = now >= self._deadline, home.refuge()
        guests, links = home.sessions.attached(), home.nodes.links()
        if not guests and not links:
            self.state = DrainState.DRAINED
            self._over.set()
            home.gate.hang_up()
            _log.info("drain_finished", cut_off=self.cut_off)
            return
        self._guests = {guest.id: self._guests.get(guest.id) or _Guest() for guest in guests}
        for session in guests:
            if self._guests[session.id].sent_off:
                continue
            if overdue:
                self.cut_off += not (session.settled or session.opening.resumes)
                self._send_off(session)
            else:
                self._see_off(session, now, sheltered=sheltered)
        if overdue or sheltered or not guests:
            self._release_nodes(overdue=overdue)
        self._next = home.alarms.set(now + _STEP_S, self._step)

    def _disarm(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _see_off(self, session: Session, now: float, *, sheltered: bool) -> None:
        """Let a session go as soon as it has what it waits for, or can get it elsewhere."""
        guest, resumes = self._guests[session.id], session.opening.resumes
        last_call = now >= self._deadline - _LAST_CALL_S
        if not session.settled and not (resumes and (sheltered or last_call)):
            if last_call and not guest.last_called:
                guest.last_called = True
                session.cut_speech()
            return
        if guest.leaves_at is None:
            after_s = random.uniform(0, self._spread_s(now))  # noqa: S311  # spreads a storm, guards nothing
            guest.leaves_at = now + after_s
            if resumes:
                session.sink.post(GoingAway(retry_after_ms=round(after_s * 1000)))
        if now >= guest.leaves_at:
            self._send_off(session)

    def _spread_s(self, now: float) -> float:
        return max(0.0, min(self._options.spread_ms / 1000, self._deadline - now))

    def _send_off(self, session: Session) -> None:
        self._guests[session.id].sent_off = True
        session.sink.close(CloseCode.SERVICE_RESTART, _REASON)
        crash_point(CrashPoint.MID_DRAIN)

    def _release_nodes(self, *, overdue: bool) -> None:
        """Give no node new jobs; those that have none leave."""
        for link in self._home.nodes.links():
            if link.sent_away:
                continue
            link.holds.hold(Hold.INSTANCE)
            self.cut_off += link.busy and overdue
            if overdue or not link.busy:
                link.send_away()
