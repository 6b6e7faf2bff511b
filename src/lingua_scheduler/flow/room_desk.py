"""What clients ask about rooms: open one, join it by its code, leave it, change what they said of themselves.

The answers tell nobody whether a room exists that is not theirs: a wrong code, too many codes and a room one
is not in all sound the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from weakref import WeakValueDictionary

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.hints import generic_hint, hint
from lingua_scheduler.core.model import InstanceId, SessionId
from lingua_scheduler.core.pairing import neighbourhood
from lingua_scheduler.core.ports import Sink
from lingua_scheduler.core.room_ledger import Change, Newcomer, Refusal
from lingua_scheduler.core.rooms import Guesses, Mode, Room, RoomOptions, is_room_code
from lingua_scheduler.errors import (
    DependencyDown,
    InvalidMessage,
    RateExceeded,
    StoreError,
    UnsupportedFeature,
)
from lingua_scheduler.flow.lanes import Lanes
from lingua_scheduler.flow.rooms import Rooms
from lingua_scheduler.flow.session import Session
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.rooms import (
    RoomChange,
    RoomCreate,
    RoomCreateAck,
    RoomError,
    RoomJoin,
    RoomLeave,
    RoomRawVoicePreference,
)

RoomMessage = RoomCreate | RoomJoin | RoomLeave | RoomChange | RoomRawVoicePreference

_INVALID_CODE = "INVALID_ROOM_CODE"
_NOT_IN_ROOM = "NOT_IN_ROOM"
_MOST_WAITING = 50  # messages of one session while Redis is slow


@dataclass(slots=True)
class Caller:
    """One connection, as far as guesses count."""

    sink: Sink
    remote: str
    wrong_codes: int = 0


class RoomDesk:
    """Does what clients ask for, for each session in order."""

    def __init__(
        self,
        rooms: Rooms,
        lanes: Lanes,
        options: RoomOptions,
        *,
        clock: Clock,
        owner: InstanceId,
        waited: Callable[[str, float], None],
    ) -> None:
        self._rooms = rooms
        self._ledger = rooms.ledger
        self._lanes = lanes
        self._options = options
        self._guesses = Guesses(options)
        self._clock = clock
        self._owner = owner
        self._waited = waited
        self._joining: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by address

    def received(self, session: Session, message: RoomMessage, caller: Caller) -> None:
        """Take one message; what it asks for is done after what the session asked for before."""
        if self._lanes.depth(session.id) >= _MOST_WAITING:
            raise RateExceeded("too many messages about rooms wait for an answer")
        work: Callable[[], Awaitable[None]]
        match message:
            case RoomCreate():
                mode, lang = _mode(message.mode), _lang(message.preferred_lang)
                work = partial(self._create, session, self._newcomer(session, message, mode, lang))
            case RoomJoin():
                mode, lang = _mode(message.mode), _lang(message.preferred_lang)
                newcomer = self._newcomer(session, message, mode, lang)
                work = partial(self._join, session, message.room_code.strip(), newcomer, caller)
            case RoomLeave():
                work = partial(self._leave, session, message.room_code.strip())
            case RoomChange():
                change = Change(
                    display_name=None if message.display_name is None else message.display_name.strip(),
                    preferred_lang=_lang(message.preferred_lang),
                    mode=_mode(message.mode) if message.mode else None,
                )
                work = partial(self._change, session, message.room_code.strip(), change)
            case RoomRawVoicePreference():
                wish = (SessionId(message.target_session_id), message.receive_raw_voice)
                work = partial(self._change, session, message.room_code.strip(), Change(raw_voice=wish))
        self._lanes.put(session.id, partial(self._try, session, work))

    async def _try(self, session: Session, work: Callable[[], Awaitable[None]]) -> None:
        if session.ended or session.closing:
            return
        try:
            await work()
        except StoreError as error:
            self._refuse(session, error.code)

    def _newcomer(
        self, session: Session, message: RoomCreate | RoomJoin, mode: Mode, lang: str | None
    ) -> Newcomer:
        name = (message.display_name or "").strip() or None
        return Newcomer(session.id, self._owner, session.epoch, name, lang, mode)

    async def _create(self, session: Session, newcomer: Newcomer) -> None:
        if session.room is not None:
            self._refuse(session, Refusal.ALREADY)
        else:
            self._welcome(session, await self._ledger.create(newcomer))

    async def _join(self, session: Session, code: str, newcomer: Newcomer, caller: Caller) -> None:
        if session.room is not None:
            self._refuse(session, Refusal.ALREADY)
        elif not is_room_code(code):
            self._refuse(session, _INVALID_CODE)
        else:
            whose = neighbourhood(caller.remote)
            turn = self._joining.setdefault(whose, asyncio.Lock())
            came_at = self._clock.now()
            async with turn:  # codes that are being looked up would count as wrong
                self._waited("room_join", self._clock.now() - came_at)
                found = await self._found(session, code, newcomer, caller)
            if isinstance(found, Room):
                self._welcome(session, found)
            elif found is Refusal.NOT_FOUND:
                self._wrong(session, caller)
            else:
                self._refuse(session, found)

    async def _found(self, session: Session, code: str, newcomer: Newcomer, caller: Caller) -> Room | Refusal:
        """Join; a code that led somewhere, or could not be looked up, does not count as a guess."""
        found: Room | Refusal = Refusal.NOT_FOUND
        if not self._guesses.try_code(session.id, caller.remote, self._clock.now()):
            return found
        try:
            found = await self._ledger.join(code, newcomer)
            if found is Refusal.ALREADY:  # we joined, and never heard of it
                found = await self._ledger.move(code, session.id, owner=self._owner, epoch=session.epoch)
        except DependencyDown:
            self._guesses.was_right(session.id, caller.remote)
            session.room = code  # perhaps we are in it
            self._rooms.leave(session)
            raise
        if found is not Refusal.NOT_FOUND:
            self._guesses.was_right(session.id, caller.remote)
        return found

    def _welcome(self, session: Session, room: Room) -> None:
        self._rooms.enter(session, room.code, room)
        if session.ended or not (session.attached or session.opening.resumes):
            self._rooms.leave(session)  # it has left while Redis was asked
            return
        session.sink.post(RoomCreateAck(room_code=room.code, room_id=room.room_id))
        self._rooms.tell(room)
        self._rooms.remember(session)

    async def _leave(self, session: Session, code: str) -> None:
        if session.room is None or session.room != code:
            self._refuse(session, _NOT_IN_ROOM)
            return
        self._rooms.leave(session)
        self._rooms.remember(session)

    async def _change(self, session: Session, code: str, change: Change) -> None:
        if session.room != code:
            self._refuse(session, Refusal.NOT_FOUND)
            return
        room = await self._ledger.change(code, session.id, change)
        if isinstance(room, Room):
            self._rooms.tell(room)
        else:
            self._refuse(session, room)

    def _wrong(self, session: Session, caller: Caller) -> None:
        caller.wrong_codes += 1
        self._refuse(session, Refusal.NOT_FOUND)
        if caller.wrong_codes >= self._options.guesses_per_connection:
            caller.sink.close(CloseCode.TOO_MANY_GUESSES, "too many wrong room codes")

    def _refuse(self, session: Session, code: str) -> None:
        lang = session.opening.hint_lang
        session.sink.post(RoomError(code=code, message=hint(code, lang) or generic_hint(lang)))


def _mode(said: str | None) -> Mode:
    try:
        return Mode(said or Mode.VOICE)
    except ValueError:
        supported = [mode.value for mode in Mode]
        raise UnsupportedFeature(
            f"mode must be one of {', '.join(supported)}", details={"supported": supported}
        ) from None


def _lang(said: str | None) -> str | None:
    if said is not None and said.lower() == "auto":
        raise InvalidMessage("preferred_lang must name a language")
    return said.lower() if said else None
