"""Rooms: sessions that hear each other, each in its own language. Who needs which language, who hears what.

All of it is decided from one reading of the room:

* An utterance is translated once into each language that others in the room want, except the one it was
  spoken in. Those who want that one are shown the recognised text, if some job recognises it at all.
* Who listens without saying in which language hears nothing. If that is so for everybody but the speaker,
  the utterance is translated as outside of a room, for the speaker.
* Who hears a result is decided when it is delivered. Who has left, or wants another language by now, does
  not hear it; who has come since, does. A speaker who has left is still heard.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

import msgspec

from lingua_scheduler.core.model import InstanceId, Languages, SessionId
from lingua_scheduler.core.pairing import Quota, is_code, neighbourhood

_LOWEST_CODE, _HIGHEST_CODE = 100_000, 999_999
_ID_BYTES = 10  # 80 random bits
_MINUTE_S = 60.0


class RoomOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How large rooms are, how long they live, and how often their codes may be guessed."""

    capacity: Annotated[int, msgspec.Meta(ge=2, le=1000)] = 50
    """Most members of a room."""
    expiry_s: Annotated[float, msgspec.Meta(ge=1, le=86_400)] = 1800.0
    """A room ends when for so long nobody in it has spoken and nobody has joined."""
    guesses_per_minute: Annotated[int, msgspec.Meta(ge=1)] = 5
    """Wrong codes each minute from one session, and from one address."""
    guesses_per_connection: Annotated[int, msgspec.Meta(ge=1)] = 10
    """Wrong codes on one connection that close it with 4529."""
    signal_bytes: Annotated[int, msgspec.Meta(ge=1024, le=65_536)] = 32_768
    """Largest SDP or ICE candidate that is passed on from one member to another, as JSON."""
    signals_per_second: Annotated[int, msgspec.Meta(ge=1)] = 100
    """Most of them that one session may send each second."""


class Mode(StrEnum):
    """How a member takes in what others say."""

    VOICE = "voice"  # text, and the translation spoken
    CAPTIONS = "captions"  # text as it is being said, and the translation
    TEXT = "text"  # the translation as text


@dataclass(frozen=True, slots=True)
class Member:
    """One session in a room."""

    session_id: SessionId
    owner: InstanceId  # who holds the session
    epoch: int  # of that ownership
    number: int  # rises in the order of joining
    joined_at: str  # RFC 3339
    display_name: str | None = None
    preferred_lang: str | None = None  # in lower case, as all languages of sessions
    mode: Mode = Mode.VOICE
    raw_voice: Mapping[SessionId, bool] = field(default_factory=dict)  # whose own voice it wants; others: yes

    def mutes(self, other: SessionId) -> bool:
        """It does not want to hear that member's own voice."""
        return self.raw_voice.get(other) is False

    def preferences_for(self, viewer: SessionId) -> Mapping[SessionId, bool] | None:
        """Give its wishes about the voices of others to itself; nobody else learns who muted whom."""
        return self.raw_voice if viewer == self.session_id else None


@dataclass(frozen=True, slots=True)
class Room:
    """A room as it was at one moment."""

    code: str
    room_id: str
    version: int  # rises with every change but those of the two times
    members: tuple[Member, ...]  # first come first
    spoken_ms: int  # when somebody last spoke or joined, by Redis' clock
    remaining_ms: int  # until the room ends, if nobody speaks or joins; 0: it has ended

    def member(self, session_id: SessionId) -> Member | None:
        """Find a member; None when the session is not in the room."""
        return next((member for member in self.members if member.session_id == session_id), None)

    def others(self, session_id: SessionId) -> tuple[Member, ...]:
        """Give everybody but one."""
        return tuple(member for member in self.members if member.session_id != session_id)


@dataclass(frozen=True, slots=True)
class Speech:
    """Who speaks, and in which language; None: it may be one of several."""

    speaker: SessionId
    src: str | None

    @classmethod
    def of(cls, speaker: SessionId, languages: Languages) -> Speech:
        """Describe what a session says."""
        spoken = languages.spoken()
        return cls(speaker, spoken[0] if len(spoken) == 1 else None)


@dataclass(frozen=True, slots=True)
class Target:
    """A language that an utterance is translated into: one job."""

    lang: str
    voice: bool  # somebody wants to hear it spoken
    own: bool = False  # it is for the speaker, as outside of a room


@dataclass(frozen=True, slots=True)
class FanOut:
    """The jobs of one utterance; none when all who listen speak its language."""

    targets: tuple[Target, ...]

    @property
    def first(self) -> Target | None:
        """The target whose job recognises the speech."""
        return self.targets[0] if self.targets else None

    @property
    def followers(self) -> tuple[Target, ...]:
        """Targets whose jobs may be given the recognised text."""
        return self.targets[1:]


@dataclass(frozen=True, slots=True)
class Audience:
    """Who hears a result: with its voice, or as text only."""

    voice: tuple[Member, ...]
    text: tuple[Member, ...]


def plan(room: Room, speech: Speech, own_tgt: str) -> FanOut:
    """Decide into which languages an utterance is translated; `own_tgt` is what its session asked for.

    The first is the language of the listener who has been in the room longest, so that those who join do not
    move the recognition of a speaker from one node to another. The others follow by name.
    """
    others = room.others(speech.speaker)
    wanted = [other.preferred_lang for other in others if other.preferred_lang]
    if not wanted:
        return FanOut((Target(own_tgt, voice=_wants_voice(room.member(speech.speaker)), own=True),))
    langs = list(dict.fromkeys(lang for lang in wanted if lang != speech.src))
    return FanOut(
        tuple(
            Target(lang, voice=any(_wants_voice(each) for each in others if each.preferred_lang == lang))
            for lang in (*langs[:1], *sorted(langs[1:]))
        )
    )


def hears(member: Member, speech: Speech, target: Target) -> bool:
    """Tell whether a member of the room hears the result of a target now."""
    if member.session_id == speech.speaker:
        return target.own
    return member.preferred_lang == target.lang and not reads(member, speech)


def reads(member: Member, speech: Speech) -> bool:
    """Tell whether a member is shown the recognised text, because it needs no translation."""
    return (
        member.session_id != speech.speaker
        and member.preferred_lang is not None
        and member.preferred_lang == speech.src
    )


def audience(room: Room, speech: Speech, target: Target) -> Audience:
    """Give everybody in the room who hears the result of a target now.

    A speaker who is not in the room any more hears the results of its own targets outside of it.
    """
    listeners = [member for member in room.members if hears(member, speech, target)]
    return Audience(
        voice=tuple(each for each in listeners if _wants_voice(each)),
        text=tuple(each for each in listeners if not _wants_voice(each)),
    )


def readers(room: Room, speech: Speech) -> tuple[Member, ...]:
    """Give everybody in the room who is shown the recognised text now."""
    return tuple(member for member in room.members if reads(member, speech))


def may_signal(room: Room, sender: SessionId, to: SessionId) -> bool:
    """Tell whether two members may arrange to hear each other's own voice: neither has muted the other."""
    one, other = room.member(sender), room.member(to)
    if one is None or other is None or sender == to:
        return False
    return not one.mutes(to) and not other.mutes(sender)


def new_room_code() -> str:
    """Draw a code; it may be taken."""
    return str(_LOWEST_CODE + secrets.randbelow(_HIGHEST_CODE - _LOWEST_CODE + 1))


def is_room_code(text: str) -> bool:
    """Tell whether a text could be the code of a room: six digits."""
    return is_code(text)


def new_room_id() -> str:
    """Make a room id; codes are used again, ids are not."""
    return f"room-{secrets.token_hex(_ID_BYTES)}"


def address(lang: str, code: str, room_id: str) -> str:
    """Word for whom a result is: those of a room who want a language; `is_address` knows it from that."""
    return f"{lang}@{code}@{room_id}"


def is_address(text: str) -> bool:
    """Tell an address from a language."""
    return "@" in text


def read_address(text: str) -> tuple[str, str, str]:
    """Give the language, the code and the id of an address."""
    lang, code, room_id = text.split("@")
    return lang, code, room_id


class Guesses:
    """Counts wrong codes per session and per address; who has tried too many is not listened to."""

    def __init__(self, options: RoomOptions) -> None:
        self._sessions = Quota(options.guesses_per_minute, _MINUTE_S)
        self._addresses = Quota(options.guesses_per_minute, _MINUTE_S)

    def try_code(self, session_id: SessionId, address: str, now: float) -> bool:
        """Count a code as wrong until `was_right`; False: answer as if it were, without looking."""
        if not self._sessions.take(session_id, now):
            return False
        if self._addresses.take(neighbourhood(address), now):
            return True
        self._sessions.give_back(session_id)
        return False

    def was_right(self, session_id: SessionId, address: str) -> None:
        """The code that was tried led to a room, or could not be looked up."""
        self._sessions.give_back(session_id)
        self._addresses.give_back(neighbourhood(address))


def _wants_voice(member: Member | None) -> bool:
    return member is None or member.mode is Mode.VOICE
