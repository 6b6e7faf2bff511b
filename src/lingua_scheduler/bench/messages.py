"""What of the scheduler's messages matters to the clients of a run; the rest is skipped, not read."""

from __future__ import annotations

import msgspec

RESULT = "result"
"""How an utterance ends that has a translation."""


def _opening(word: str) -> bytes:
    return f'{{"type":"{word}"'.encode()


WELCOME = _opening("session_init_ack")
ENDS = (_opening("translation_result"), _opening("missing_result"))
PROBLEM = _opening("error")
GOODBYE = _opening("session_close_ack")
ROOM = _opening("room_create_ack")


class Welcome(msgspec.Struct):
    """The session is open."""

    session_id: str
    resume_token: str = ""
    resumed: bool = False


class End(msgspec.Struct):
    """A result, or the reason why there is none."""

    session_id: str
    utterance_index: int
    text_asr: str = ""
    reason: str = RESULT


class Problem(msgspec.Struct):
    """Something went wrong."""

    code: str


class Room(msgspec.Struct):
    """The client is in a room."""

    room_code: str


read_welcome = msgspec.json.Decoder(Welcome).decode
read_end = msgspec.json.Decoder(End).decode
read_problem = msgspec.json.Decoder(Problem).decode
read_room = msgspec.json.Decoder(Room).decode
