"""What is said in a room, on its way to those who want it, wherever they are.

Who hears it is read from the room when it is delivered. A message is encoded once for all who hear it and
once more for those who only read it; other instances get one letter each, with the voice beside it in Redis.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import msgspec

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.model import AudioFormat, SessionId
from lingua_scheduler.core.rooms import Audience, Member, Mode, Speech, Target, audience
from lingua_scheduler.errors import InvalidMessage
from lingua_scheduler.flow.answer import Said
from lingua_scheduler.flow.hearing import Heard, unpacked
from lingua_scheduler.flow.job import Job
from lingua_scheduler.flow.lanes import Lanes
from lingua_scheduler.flow.post import Post
from lingua_scheduler.flow.room_courier import RoomCourier
from lingua_scheduler.flow.rooms import Rooms
from lingua_scheduler.flow.session import Session
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.codec import decode_from_server, encode
from lingua_scheduler.wire.opus import decode_opus
from lingua_scheduler.wire.peer import PeerHeard, PeerKept
from lingua_scheduler.wire.session import AsrPartial, TranslationResult

_STOP_S = 3.0


@dataclass(slots=True)
class _Parcel:
    """One end of an utterance in its forms; those that nobody needs are never made."""

    heard: Heard
    text: bytes  # for who reads
    voice: bytes | None = None  # for who listens; None: it has no voice
    plain: bytes | None = None  # the same for who knows samples only

    def for_member(self, session: Session, *, listens: bool) -> bytes:
        """Choose the form for one member."""
        if not listens or self.voice is None:
            return self.text
        return self.plain or self.voice if session.opening.plain_voice else self.voice


class RoomPost:
    """Tells rooms what was said."""

    def __init__(
        self,
        rooms: Rooms,
        post: Post,
        courier: RoomCourier,
        *,
        holds: Callable[[SessionId], bool],
        time: tuple[Clock, float],
        metrics: Metrics,
    ) -> None:
        self._rooms = rooms
        self._post = post
        self._courier = courier
        courier.receive = self.receive
        self._holds = holds  # a session lives here, or ended here a short while ago
        self._clock, self._patience_s = time
        self._metrics = metrics
        self._id = courier.instance_id
        self._lanes = Lanes("room post")

    def __len__(self) -> int:
        """Count what is on its way."""
        return len(self._lanes) + len(self._courier)

    # From a speaker here

    def tell(self, _: Session, said: Said) -> None:
        """Tell a room how an utterance ended, after what its speaker said before."""
        self._lanes.put(said.speaker, partial(self._tell, said))

    async def _tell(self, said: Said) -> None:
        room = await self._rooms.now(said.code)
        if room is not None and room.room_id == said.room_id and not self._too_old(said):
            self._metrics.room_results_total.inc()
            target = Target(said.lang, voice=True)
            await self._spread(said, audience(room, Speech(said.speaker, None), target))
        said.done()

    def _too_old(self, said: Said) -> bool:
        """Tell whether an earlier owner said it so long ago that the room has gone on."""
        if said.answer is not None or said.missing:
            return False
        told = _result(said.message)
        sent_ms = told.scheduler_sent_at_ms if told else None
        return sent_ms is not None and self._clock.wall_ms() - sent_ms > self._patience_s * 1000

    async def _spread(self, said: Said, to: Audience) -> None:
        parcel = self._parcel(said, to)
        own = {member.session_id for member in (*to.voice, *to.text) if self._here(said.code, member)}
        await self._hand_over(parcel, said.code, _ids(to.voice, own), _ids(to.text, own))
        others = [member for member in (*to.voice, *to.text) if member.session_id not in own]
        owners = {member.owner for member in others} - {self._id}
        letter = PeerHeard(
            room_code=said.code,
            speaker=said.speaker,
            utterance_index=said.index,
            tgt_lang=said.lang,
            message=msgspec.Raw(parcel.text),
            missing=parcel.heard.missing,
            parcel=await self._put_aside(said, parcel.voice) if owners and parcel.voice else None,
        )
        for owner in owners:
            theirs = {member.session_id for member in others if member.owner == owner}
            hear, read = _ids(to.voice, theirs), _ids(to.text, theirs)
            self._courier.send(owner, msgspec.structs.replace(letter, hear=hear, read=read))

    def _parcel(self, said: Said, to: Audience) -> _Parcel:
        answer = said.answer
        result = answer.message(self._clock.wall_ms()) if answer else _result(said.message)
        missing = said.missing or result is None
        heard = Heard(said.speaker, said.index, said.lang, missing)
        if result is None or not result.tts_audio:
            return _Parcel(heard, said.message)
        elsewhere = any(not self._here(said.code, member) for member in to.voice)
        text = said.message
        if to.text or elsewhere:
            self._metrics.room_encodings_total.inc()
            text = encode(msgspec.structs.replace(result, tts_audio=b""))
        return _Parcel(heard, text, said.message if to.voice else None)

    def _here(self, code: str, member: Member) -> bool:
        return self._rooms.member(code, member.session_id) is not None

    async def _put_aside(self, said: Said, voice: bytes) -> str | None:
        return await self._courier.put_aside(said.speaker, f"room.{said.index}.{said.lang}", voice)

    def caption(self, job: Job, partial_: AsrPartial) -> None:
        """Show what is being said to those who read along; some of it may be lost."""
        room = self._rooms.known(job.brief.room.code) if job.brief.room else None
        others = room.others(job.session.id) if room else ()
        readers = [member for member in others if member.mode is Mode.CAPTIONS and member.preferred_lang]
        if room is None or not readers:
            return
        message = encode(partial_)
        for member in readers:
            session = self._rooms.member(room.code, member.session_id)
            if session is not None:
                session.sink.post(message, droppable=True)
        letter = PeerHeard(
            room_code=room.code,
            speaker=job.session.id,
            utterance_index=job.index,
            tgt_lang=job.brief.tgt_lang,
            message=msgspec.Raw(message),
            fleeting=True,
        )
        away = [member for member in readers if not self._here(room.code, member)]
        for owner in {member.owner for member in away} - {self._id}:
            theirs = tuple(member.session_id for member in away if member.owner == owner)
            self._post.mention(owner, msgspec.structs.replace(letter, read=theirs))

    # To listeners here

    async def receive(self, letter: PeerHeard) -> None:
        """Tell members here what somebody elsewhere said; who has moved on is followed."""
        if letter.fleeting:
            for session_id in letter.read:
                session = self._rooms.member(letter.room_code, session_id)
                if session is not None:
                    session.sink.post(bytes(letter.message), droppable=True)
            return
        heard = Heard(letter.speaker, letter.utterance_index, letter.tgt_lang, letter.missing)
        parcel = _Parcel(heard, bytes(letter.message), letter.spoken or None)
        await self._hand_over(parcel, letter.room_code, letter.hear, letter.read)
        strangers = {each for each in (*letter.hear, *letter.read) if not self._holds(SessionId(each))}
        if strangers:
            self._courier.follow(
                msgspec.structs.replace(
                    letter,
                    hear=tuple(each for each in letter.hear if each in strangers),
                    read=tuple(each for each in letter.read if each in strangers),
                )
            )

    async def _hand_over(self, parcel: _Parcel, code: str, hear: Iterable[str], read: Iterable[str]) -> None:
        listeners = [each for each in (self._rooms.member(code, one) for one in hear) if each is not None]
        if parcel.voice is not None and any(session.opening.plain_voice for session in listeners):
            parcel.plain = await asyncio.to_thread(_as_samples, parcel.voice)
            self._metrics.room_encodings_total.inc(parcel.plain is not parcel.voice)
        for session in listeners:
            self._hand(session, code, parcel, listens=True)
        for session_id in read:
            reader = self._rooms.member(code, session_id)
            if reader is not None:
                self._hand(reader, code, parcel, listens=False)

    def _hand(self, session: Session, code: str, parcel: _Parcel, *, listens: bool) -> None:
        if session.room == code and session.hear(parcel.heard, parcel.for_member(session, listens=listens)):
            self._metrics.room_deliveries_total.inc()

    async def take_on(self, session: Session, letter: PeerKept) -> None:
        """Tell a session's client what its former owner kept for it."""
        for kept in unpacked(await self._courier.take_over(letter)):
            if session.room is not None:
                session.hear(kept.heard, kept.message)

    async def stop(self) -> None:
        """Give what is on its way a moment, then stop."""
        await self._lanes.settle(_STOP_S)
        await self._courier.stop()


def _ids(members: Iterable[Member], among: set[SessionId]) -> tuple[str, ...]:
    return tuple(member.session_id for member in members if member.session_id in among)


def _result(message: bytes) -> TranslationResult | None:
    try:
        told = decode_from_server(message)
    except InvalidMessage:
        return None
    return told if isinstance(told, TranslationResult) else None


def _as_samples(message: bytes) -> bytes:
    """Word a result for who plays samples of 16 kHz only; as text when its voice cannot be read."""
    result = _result(message)
    if result is None or result.tts_format != AudioFormat.OPUS:
        return message
    try:
        samples = decode_opus(result.tts_audio)
    except InvalidMessage:
        samples = b""
    return encode(msgspec.structs.replace(result, tts_audio=samples, tts_format=AudioFormat.PCM16.value))
