"""Rooms in Redis: each in a slot of its own, every change one script, the same for all instances.

A member is one line: `<number> <joined in ms> <owner> <epoch> <mode> <language> <name>`; a language of `*`
means none. A wish about a voice is a field `<whose wish> <whose voice>` with 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from lingua_scheduler.core.model import InstanceId, SessionId
from lingua_scheduler.core.room_ledger import Change, Newcomer, Refusal
from lingua_scheduler.core.rooms import (
    Member,
    Mode,
    Room,
    RoomOptions,
    is_room_code,
    new_room_code,
    new_room_id,
)
from lingua_scheduler.errors import CorruptValue, StoreError
from lingua_scheduler.log import get_logger
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Script, Scripts

_DRAWS = 20  # codes that may turn out to be taken
_LONGEST_PAUSE_MS = 1000  # between two renewals of a room in which somebody speaks
_NO_LANG = "*"
_PARTS = 7  # of a member's line

_log = get_logger(__name__)


class RoomStore:
    """Implements `core.room_ledger.RoomLedger`."""

    def __init__(
        self, scripts: Scripts, keys: Keys, options: RoomOptions, *, draw: Callable[[], str] = new_room_code
    ) -> None:
        self._keys = keys
        self._draw = draw
        self._capacity = options.capacity
        self._ttl_ms = round(options.expiry_s * 1000)
        self._pause_ms = min(_LONGEST_PAUSE_MS, self._ttl_ms // 10)
        self._create = scripts.load("room_create")
        self._join = scripts.load("room_join")
        self._leave = scripts.load("room_leave")
        self._change = scripts.load("room_change")
        self._move = scripts.load("room_move")
        self._speak = scripts.load("room_speak")
        self._read = scripts.load("room_read")

    async def create(self, newcomer: Newcomer) -> Room:
        """Open a room under a code that was free, with its first member; StoreError when none was found."""
        card = _card(newcomer)
        for _ in range(_DRAWS):
            code = self._draw()
            reply = await self._create(
                **self._places(code),
                id=new_room_id(),
                session=newcomer.session_id,
                card=card,
                ttl_ms=self._ttl_ms,
            )
            if reply is not None:
                return _room(code, reply, None)
        raise StoreError("every room code that was tried is taken")

    async def join(self, code: str, newcomer: Newcomer) -> Room | Refusal:
        """Become the last member: NOT_FOUND, ALREADY, FULL."""
        return await self._ask(
            self._join,
            code,
            session=newcomer.session_id,
            card=_card(newcomer),
            capacity=self._capacity,
            ttl_ms=self._ttl_ms,
        )

    async def leave(self, code: str, session_id: SessionId, *, epoch: int) -> Room | Refusal:
        """Stop being a member; a room without members has ended. NOT_FOUND also when a newer owner has it."""
        return await self._ask(self._leave, code, session=session_id, epoch=epoch)

    async def change(self, code: str, session_id: SessionId, change: Change) -> Room | Refusal:
        """Change what a member said about itself, all of it or nothing: NOT_FOUND, NO_PEER."""
        lang = _NO_LANG if change.preferred_lang == "" else change.preferred_lang
        target, receive = change.raw_voice or ("", False)
        return await self._ask(
            self._change,
            code,
            session=session_id,
            mode=_set(change.mode),
            lang=_set(lang),
            name=_set(change.display_name),
            target=target,
            receive=int(receive),
        )

    async def move(
        self, code: str, session_id: SessionId, *, owner: InstanceId, epoch: int
    ) -> Room | Refusal:
        """Tell who holds a member's session now; NOT_FOUND also when somebody newer does."""
        return await self._ask(self._move, code, session=session_id, owner=owner, epoch=epoch)

    async def speak(self, code: str, session_id: SessionId, *, known: Room | None = None) -> Room | Refusal:
        """A member speaks: the room lives on. Give the room: NOT_FOUND."""
        return await self._ask(
            self._speak,
            code,
            known=known,
            session=session_id,
            since=_since(known),
            ttl_ms=self._ttl_ms,
            pause_ms=self._pause_ms,
        )

    async def read(self, code: str, *, known: Room | None = None) -> Room | None:
        """Give the room; None when there is none."""
        found = await self._ask(self._read, code, known=known, since=_since(known))
        return None if isinstance(found, Refusal) else found

    async def _ask(
        self, script: Script, code: str, *, known: Room | None = None, **values: Any
    ) -> Room | Refusal:
        if not is_room_code(code):
            return Refusal.NOT_FOUND
        reply = await script(**self._places(code), **values)
        return Refusal(reply.decode()) if isinstance(reply, bytes) else _room(code, reply, known)

    def _places(self, code: str) -> dict[str, str]:
        keys = self._keys
        return {
            "room": keys.room(code),
            "members": keys.members(code),
            "wishes": keys.wishes(code),
            "room_transcript": keys.room_transcript(code),
            "room_transcript_order": keys.room_transcript_order(code),
        }


def _card(newcomer: Newcomer) -> str:
    """Write what the newcomer says of itself, the rest of its line."""
    lang = newcomer.preferred_lang or _NO_LANG
    said = (newcomer.owner, newcomer.epoch, newcomer.mode.value, lang, newcomer.display_name or "")
    return " ".join(map(str, said))


def _set(value: str | None) -> str:
    return "" if value is None else f"={value}"


def _since(known: Room | None) -> int:
    return 0 if known is None else known.version


def _room(code: str, reply: list[Any], known: Room | None) -> Room:
    version, remaining_ms, spoken_ms, *news = reply
    if not (version or b"").isdigit() or not (spoken_ms or b"").isdigit() or None in news:
        raise CorruptValue(f"room {code} has lost what it is")
    times = {"spoken_ms": int(spoken_ms), "remaining_ms": max(0, remaining_ms)}
    if not news and known is not None:
        return replace(known, **times)
    room_id, members, wishes = news
    return Room(code, room_id.decode(), int(version), _members(members, wishes), **times)


def _members(lines: list[bytes], wishes: list[bytes]) -> tuple[Member, ...]:
    raw_voice: dict[str, dict[SessionId, bool]] = {}
    for wish, receive in _pairs(wishes):
        whose, _, about = wish.decode(errors="replace").partition(" ")
        raw_voice.setdefault(whose, {})[SessionId(about)] = receive == b"1"
    members = []
    for raw_id, line in _pairs(lines):
        session_id = SessionId(raw_id.decode(errors="replace"))
        try:
            members.append(_member(session_id, line, raw_voice.get(session_id, {})))
        except (ValueError, OverflowError, OSError):
            _log.warning("room_member_unreadable", session=session_id)
    return tuple(sorted(members, key=lambda member: member.number))


def _member(session_id: SessionId, line: bytes, raw_voice: dict[SessionId, bool]) -> Member:
    number, joined_ms, owner, epoch, mode, lang, name = line.decode().split(" ", _PARTS - 1)
    joined = datetime.fromtimestamp(int(joined_ms) / 1000, UTC)
    return Member(
        session_id=session_id,
        owner=InstanceId(owner),
        epoch=int(epoch),
        number=int(number),
        joined_at=joined.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        display_name=name or None,
        preferred_lang=None if lang == _NO_LANG else lang,
        mode=Mode(mode),
        raw_voice=raw_voice,
    )


def _pairs(flat: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)
