"""How members of a room arrange to hear each other's own voice: passed on between them, unread and bounded.

Sender and receiver must be in the room, and neither may have muted the other: a half-muted pair would wait
for ever. The receiver's instance checks again, since a wish is known there first.
"""

from __future__ import annotations

from functools import partial

import msgspec

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.company import Posted
from lingua_scheduler.core.hints import hint
from lingua_scheduler.core.model import SessionId
from lingua_scheduler.core.pairing import Quota
from lingua_scheduler.core.rooms import Member, Room, RoomOptions, may_signal
from lingua_scheduler.errors import InvalidMessage, RateExceeded, StoreError
from lingua_scheduler.flow.lanes import Lanes
from lingua_scheduler.flow.post import Post
from lingua_scheduler.flow.rooms import Rooms
from lingua_scheduler.flow.session import Session
from lingua_scheduler.log import get_logger
from lingua_scheduler.wire.codec import encode
from lingua_scheduler.wire.peer import PeerSignal
from lingua_scheduler.wire.session import RoomError, WebrtcAnswer, WebrtcIce, WebrtcOffer

_log = get_logger(__name__)

Signal = WebrtcOffer | WebrtcAnswer | WebrtcIce

_NOT_IN_ROOM = "NOT_IN_ROOM"
_NO_PEER = "PEER_UNAVAILABLE"
_MOST_WAITING = 200  # signals of one session while Redis is slow


class Signalling:
    """Passes offers, answers and candidates on."""

    def __init__(self, rooms: Rooms, post: Post, options: RoomOptions, clock: Clock) -> None:
        self._rooms = rooms
        self._post = post
        self._limit_bytes = options.signal_bytes
        self._quota = Quota(options.signals_per_second, 1.0)
        self._clock = clock
        self._lanes = Lanes("signals")

    def received(self, session: Session, message: Signal) -> None:
        """Pass a message on, in the order of its sender's; too large or too many are refused."""
        crowded = self._lanes.depth(session.id) >= _MOST_WAITING
        if crowded or not self._quota.take(session.id, self._clock.now()):
            raise RateExceeded("too many signals")
        letter = encode(msgspec.structs.replace(message, to=session.id))
        if len(letter) > self._limit_bytes:
            raise InvalidMessage("Invalid message format: the signal is too large", details={"kind": "size"})
        code = message.room_code.strip()
        if session.room != code:
            self._refuse(session, _NOT_IN_ROOM)
            return
        room, to = self._rooms.known(code), SessionId(message.to)
        here = self._rooms.member(code, to) if to != session.id else None
        if room is not None and here is not None and not self._lanes.busy(session.id):
            if may_signal(room, session.id, to):
                here.sink.post(letter)
            return
        self._lanes.put(session.id, partial(self._pass_on, session, code, to, letter))

    async def _pass_on(self, session: Session, code: str, to: SessionId, letter: bytes) -> None:
        room = self._rooms.known(code)
        if room is None or room.member(to) is None:
            room = await self._rooms.now(code)
        receiver = room.member(to) if room else None
        if room is None or receiver is None or to == session.id:
            self._refuse(session, _NO_PEER)
        elif may_signal(room, session.id, to):
            await self._send(room, session, receiver, letter)

    async def _send(self, room: Room, session: Session, receiver: Member, letter: bytes) -> None:
        here = self._rooms.member(room.code, receiver.session_id)
        if here is not None:
            here.sink.post(letter)
            return
        signal = PeerSignal(
            room_code=room.code,
            sender=session.id,
            receiver=receiver.session_id,
            message=msgspec.Raw(letter),
        )
        try:
            posted = await self._post.send(receiver.owner, signal)
        except StoreError as error:
            _log.info("signal_not_sent", reason=str(error))
            return
        if posted is not Posted.SENT:
            self._refuse(session, _NO_PEER)

    def receive(self, letter: PeerSignal) -> None:
        """Give a member here what one elsewhere sent it."""
        room = self._rooms.known(letter.room_code)
        session = self._rooms.member(letter.room_code, letter.receiver)
        if room is None or session is None:
            return
        sender, receiver = room.member(SessionId(letter.sender)), room.member(session.id)
        muted = (
            sender is not None
            and receiver is not None
            and not may_signal(room, sender.session_id, receiver.session_id)
        )
        if not muted:
            session.sink.post(bytes(letter.message))

    def _refuse(self, session: Session, code: str) -> None:
        text = hint(code, session.opening.hint_lang) or code
        session.sink.post(RoomError(code=code, message=text))

    async def stop(self) -> None:
        """Cancel what is on its way."""
        await self._lanes.stop()
