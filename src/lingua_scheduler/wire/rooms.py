"""Messages about rooms and the WebRTC signalling between their members, on `/ws/session`.

None of the incoming ones carries a session id: they act on the session of their socket. Room codes are
bounded text here; whether one is six digits is for the flow to say (`INVALID_ROOM_CODE`).
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from lingua_scheduler.wire.common import Code, Count, Id, Lang, Message, Name, Record, ShortText


class RoomCreate(Message, tag="room_create", frozen=True, kw_only=True):
    """Open a room and become its first member."""

    client_ts: Count
    display_name: Name | None = None
    preferred_lang: Lang | None = None
    mode: Name | None = None


class RoomJoin(Message, tag="room_join", frozen=True, kw_only=True):
    """Become a member of a room."""

    room_code: Name
    display_name: Name | None = None
    preferred_lang: Lang | None = None
    mode: Name | None = None


class RoomLeave(Message, tag="room_leave", frozen=True, kw_only=True):
    """Leave a room."""

    room_code: Name


class RoomChange(Message, tag="room_change", frozen=True, kw_only=True):
    """Change what the sender said of itself; what is left out stays."""

    room_code: Name
    display_name: Name | None = None
    preferred_lang: Lang | None = None
    mode: Name | None = None


class RoomRawVoicePreference(Message, tag="room_raw_voice_preference", frozen=True, kw_only=True):
    """Say whether the sender wants to hear another member's own voice."""

    room_code: Name
    target_session_id: Id
    receive_raw_voice: bool


class WebrtcOffer(Message, tag="webrtc_offer", frozen=True, kw_only=True):
    """An SDP offer; from a client `to` is the receiver, to a client it is the sender."""

    room_code: Name
    to: Id
    sdp: Any


class WebrtcAnswer(Message, tag="webrtc_answer", frozen=True, kw_only=True):
    """An SDP answer; from a client `to` is the receiver, to a client it is the sender."""

    room_code: Name
    to: Id
    sdp: Any


class WebrtcIce(Message, tag="webrtc_ice", frozen=True, kw_only=True):
    """An ICE candidate; from a client `to` is the receiver, to a client it is the sender."""

    room_code: Name
    to: Id
    candidate: Any


class RoomCreateAck(Message, tag="room_create_ack", frozen=True, kw_only=True):
    """The receiver is in this room now, whether it opened or joined it."""

    room_code: Name
    room_id: Id | None = None


class RoomMember(Record, frozen=True, kw_only=True):
    """One member as the receiver may see it; `joined_at` is RFC 3339 text (older servers: a number)."""

    participant_id: Id
    session_id: Id
    joined_at: Name | Count
    display_name: Name | None = None
    preferred_lang: Lang | None = None
    mode: Name | None = None
    raw_voice_preferences: dict[Id, bool] | None = None


class RoomMembers(Message, tag="room_members", frozen=True, kw_only=True):
    """Everybody who is in the room now, first come first."""

    room_code: Name
    members: Annotated[tuple[RoomMember, ...], Meta(max_length=1000)]


class RoomError(Message, tag="room_error", frozen=True, kw_only=True):
    """A room message had no effect; `code` says why."""

    code: Code
    message: ShortText


class RoomExpired(Message, tag="room_expired", frozen=True, kw_only=True):
    """The room is closed because nobody spoke."""

    room_code: Name
    message: ShortText
