"""The rooms that members of this instance are in: entered, left, watched until they end, told of changes.

Redis decides who is in a room. What is known here is the last reading of it: good enough to word a message,
and to go on with while Redis is away. A member whose instance has died stays until its client could have come
back; then any instance that has members in the room removes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from lingua_scheduler.aio import Deadline, Tasks
from lingua_scheduler.core.hints import room_over
from lingua_scheduler.core.model import InstanceId, SessionId
from lingua_scheduler.core.room_ledger import Refusal, RoomLedger
from lingua_scheduler.core.rooms import Room
from lingua_scheduler.errors import DependencyDown, StoreError
from lingua_scheduler.flow.absences import Absence, Absences
from lingua_scheduler.flow.room_home import RoomHome
from lingua_scheduler.flow.room_view import views
from lingua_scheduler.flow.session import Session
from lingua_scheduler.log import get_logger
from lingua_scheduler.wire.session import RoomExpired

_log = get_logger(__name__)

_RETRY_S = 0.2
_TRIES = 300  # a minute without Redis
_SLACK_S = 0.05  # after which a room that was to end has ended
_STOP_S = 3.0
_CALM_S = 0.002  # shortest time between two views of a room, for each of its members


@dataclass(slots=True)
class _Here:
    """A room that members of this instance are in."""

    expiry: Deadline
    sessions: dict[SessionId, Session] = field(default_factory=dict)
    room: Room | None = None  # as it was last read
    untold: bool = False  # members here are about to be told
    told_at: float = 0.0  # when they were told last, by the loop's clock


class Rooms:
    """Every room that a session of this instance is in."""

    def __init__(self, ledger: RoomLedger, home: RoomHome) -> None:
        self.ledger = ledger
        self._home = home
        self._here: dict[str, _Here] = {}
        self._tasks = Tasks()
        self._reading: set[str] = set()
        self._absences = Absences(home.window_s, is_stray=self._is_stray)
        self.remember: Callable[[Session], None]  # write down which room a session is in
        home.metrics.room_members.set_function(
            lambda: sum(len(here.sessions) for here in self._here.values())
        )

    def __len__(self) -> int:
        """Count the rooms."""
        return len(self._here)

    def known(self, code: str) -> Room | None:
        """Give a room as it was last read, if somebody here is in it."""
        here = self._here.get(code)
        return here.room if here else None

    def member(self, code: str, session_id: str) -> Session | None:
        """Find a member that lives here."""
        here = self._here.get(code)
        return here.sessions.get(SessionId(session_id)) if here else None

    # Coming and going

    def enter(self, session: Session, code: str, room: Room | None = None) -> None:
        """A session is in a room now."""
        here = self._here.get(code)
        if here is None:
            here = self._here[code] = _Here(Deadline(self._home.alarms, partial(self._time_over, code)))
        session.room = code
        here.sessions[session.id] = session
        if room is not None:
            self.note(room)

    def forget(self, session: Session) -> str | None:
        """A session is not in a room here any more; give the code of the room it was in."""
        code, session.room = session.room, None
        here = self._here.get(code or "")
        if here is not None and here.sessions.get(session.id) is session:
            del here.sessions[session.id]
            if not here.sessions:
                here.expiry.clear()
                del self._here[code or ""]
        return code

    def leave(self, session: Session) -> None:
        """A session leaves its room, if it is in one; the others are told."""
        code = self.forget(session)
        if code is not None:
            session.hearing.forget()
            leaving = partial(self._leave, code, session.id, session.epoch)
            self._home.lanes.put(session.id, leaving)

    def move(self, session: Session) -> None:
        """A session that was taken up, here or from elsewhere, is where its room finds it now."""
        if session.room is not None:
            self.enter(session, session.room)
            self._home.lanes.put(session.id, partial(self._move, session, session.room))

    async def _leave(self, code: str, session_id: SessionId, epoch: int) -> None:
        for _ in range(_TRIES):
            try:
                room = await self.ledger.leave(code, session_id, epoch=epoch)
            except DependencyDown:
                await asyncio.sleep(_RETRY_S)
                continue
            if isinstance(room, Room):
                self.tell(room)
            return

    async def _move(self, session: Session, code: str) -> None:
        for _ in range(_TRIES):
            if session.ended or session.room != code:
                return
            try:
                room = await self.ledger.move(
                    code, session.id, owner=self._home.instance_id, epoch=session.epoch
                )
            except DependencyDown:
                await asyncio.sleep(_RETRY_S)
                continue
            if isinstance(room, Room):
                self.tell(room)
            else:
                self._dismiss(session)
            return

    @property
    def busy(self) -> bool:
        """Something is being written, read or told."""
        lanes, untold = len(self._home.lanes), any(here.untold for here in self._here.values())
        return bool(lanes or len(self._tasks) or untold)

    # What Redis says

    async def speaking(self, session: Session) -> Room | None:
        """Give the room of a session that has said something, which lives on; None when it is in none."""
        code = session.room
        if code is None:
            return None
        known = self.known(code)
        try:
            room = await self.ledger.speak(code, session.id, known=known)
        except StoreError as error:
            _log.info("room_not_asked", reason=str(error))
            return known
        if isinstance(room, Refusal):
            await self.now(code)
            if session.room == code:
                self._dismiss(session)
            return None
        self.note(room)
        return room

    async def now(self, code: str) -> Room | None:
        """Read a room; as it was last known when Redis is away, None when it has ended."""
        known = self.known(code)
        try:
            room = await self.ledger.read(code, known=known)
        except StoreError as error:
            _log.info("room_not_read", reason=str(error))
            return known
        if room is None:
            self._over(code)
        else:
            self.note(room)
        return room

    def note(self, room: Room) -> None:
        """Remember a reading of a room, unless a newer one is known."""
        here = self._here.get(room.code)
        if here is None or (here.room is not None and here.room.version > room.version):
            return
        here.room = room
        here.expiry.move(self._home.clock.now() + room.remaining_ms / 1000 + _SLACK_S)
        for session in list(here.sessions.values()):
            member = room.member(session.id)
            if member is None:
                self._dismiss(session)
            elif member.epoch > session.epoch:  # another instance has it
                self.forget(session)

    def changed(self, code: str) -> None:
        """Another instance has changed a room: read it and tell who is here."""
        if code in self._here and code not in self._reading:
            self._reading.add(code)
            self._tasks.start(self._read_again(code), name=f"room {code}")

    async def _read_again(self, code: str) -> None:
        self._reading.discard(code)
        if await self.now(code) is not None:
            self._tell_here(code)

    # Telling

    def tell(self, room: Room) -> None:
        """Tell all members that a room has changed."""
        self.note(room)
        self._tell_here(room.code)
        for owner in {member.owner for member in room.members} - {self._home.instance_id}:
            self._home.announce(owner, room.code)

    def _tell_here(self, code: str) -> None:
        """Tell the members here; when many come at once, of all of them together."""
        here, loop = self._here.get(code), asyncio.get_running_loop()
        if here is not None and not here.untold:
            here.untold = True
            members = len(here.room.members) if here.room else 1
            loop.call_at(here.told_at + members * _CALM_S, self._told, here)

    def _told(self, here: _Here) -> None:
        here.untold, here.told_at = False, asyncio.get_running_loop().time()
        if here.room is None:
            return
        view = views(here.room)
        for session in here.sessions.values():
            session.sink.post(view(session.id))

    # The end

    def _time_over(self, code: str) -> None:
        self._tasks.start(self._check(code), name=f"expiry {code}")

    async def _check(self, code: str) -> None:
        """See whether a room has ended."""
        here = self._here.get(code)
        await self.now(code)
        if here is not None and here is self._here.get(code) and here.expiry.when is None:
            here.expiry.move(self._home.clock.now() + 1.0)  # Redis was away, or its clock is behind

    def _over(self, code: str) -> None:
        here = self._here.get(code)
        for session in list(here.sessions.values()) if here else ():
            self._dismiss(session)

    def _dismiss(self, session: Session) -> None:
        """Tell a session that it is in a room no more."""
        code = self.forget(session)
        if code is not None:
            session.hearing.forget()
            session.sink.post(RoomExpired(room_code=code, message=room_over(session.opening.hint_lang)))
            self.remember(session)

    # Members whose instance has died

    def instance_lost(self, instance_id: InstanceId) -> None:
        """An instance has died, and its members have until their time is over to come back elsewhere."""
        self._absences.lost(instance_id, self._members())
        self.look()

    def look(self) -> None:
        """Remove members whom nobody holds and whose clients have had the time to come back."""
        members = dict(self._members())
        for name in self._absences.over(members, self._home.reachable(), self._home.clock.now()):
            self._tasks.start(self._remove(name, members[name]), name=f"absent {name[1]}")

    async def _remove(self, name: Absence, owner: InstanceId) -> None:
        """Remove a member; should its instance live after all, it hears of it."""
        await self._leave(*name)
        if owner in self._home.reachable():
            self._home.announce(owner, name[0])

    def _members(self) -> Iterator[tuple[Absence, InstanceId]]:
        for code, here in self._here.items():
            for member in here.room.members if here.room else ():
                yield (code, member.session_id, member.epoch), member.owner

    def _is_stray(self, name: Absence, owner: InstanceId) -> bool:
        return owner == self._home.instance_id and self.member(name[0], name[1]) is None

    async def settle(self) -> None:
        """Give what is being written a moment, then stop."""
        await self._home.lanes.settle(_STOP_S)
        await self._tasks.stop()
