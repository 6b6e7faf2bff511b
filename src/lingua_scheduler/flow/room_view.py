"""A room as its members see it: everybody sees the same, and what they themselves wish for."""

from __future__ import annotations

from collections.abc import Callable

from lingua_scheduler.core.model import SessionId
from lingua_scheduler.core.rooms import Member, Room
from lingua_scheduler.wire.codec import encode
from lingua_scheduler.wire.session import RoomMember, RoomMembers


def views(room: Room) -> Callable[[SessionId], bytes]:
    """Give what to send to each member; it is encoded once for all who have no wishes of their own."""
    common = encode(seen(room, None))
    wishful = {member.session_id for member in room.members if member.raw_voice}
    return lambda viewer: encode(seen(room, viewer)) if viewer in wishful else common


def seen(room: Room, viewer: SessionId | None) -> RoomMembers:
    """Word who is in a room; nobody but the viewer sees whose own voice it wants."""
    return RoomMembers(room_code=room.code, members=tuple(_member(member, viewer) for member in room.members))


def _member(member: Member, viewer: SessionId | None) -> RoomMember:
    wishes = member.raw_voice if viewer == member.session_id else None
    return RoomMember(
        participant_id=member.session_id,
        session_id=member.session_id,
        joined_at=member.joined_at,
        display_name=member.display_name,
        preferred_lang=member.preferred_lang,
        mode=member.mode.value,
        raw_voice_preferences={str(whose): wish for whose, wish in wishes.items()} if wishes else None,
    )
