"""What the flow needs from storage about rooms: one call for each thing that a member does."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from lingua_scheduler.core.model import InstanceId, SessionId
from lingua_scheduler.core.rooms import Mode, Room


class Refusal(StrEnum):
    """Why nothing was done, in the words of `room_error`.

    To a session that is not in it, a room that exists looks like one that does not.
    """

    NOT_FOUND = "ROOM_NOT_FOUND"  # no such room, or not a member of it
    FULL = "ROOM_FULL"
    ALREADY = "ALREADY_IN_ROOM"
    NO_PEER = "PEER_UNAVAILABLE"  # the wish is about somebody who is not another member


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A session that wants to be a member, and who holds it under which epoch; languages in lower case."""

    session_id: SessionId
    owner: InstanceId
    epoch: int
    display_name: str | None = None
    preferred_lang: str | None = None
    mode: Mode = Mode.VOICE


@dataclass(frozen=True, slots=True)
class Change:
    """What a member wants to be different; None leaves a thing as it is, empty text takes it away."""

    display_name: str | None = None
    preferred_lang: str | None = None
    mode: Mode | None = None
    raw_voice: tuple[SessionId, bool] | None = None  # whether it wants to hear this member's own voice


class RoomLedger(Protocol):
    """Rooms, as all instances see them.

    A room lives for `expiry_s` since it was opened, joined or spoken in, and while it has members. `known` is
    what the caller remembers of a room: if nothing has changed, only its times are asked for.
    """

    async def create(self, newcomer: Newcomer) -> Room:
        """Open a room under a code that was free, with its first member; StoreError when none was found."""
        ...

    async def join(self, code: str, newcomer: Newcomer) -> Room | Refusal:
        """Become the last member: NOT_FOUND, ALREADY, FULL."""
        ...

    async def leave(self, code: str, session_id: SessionId, *, epoch: int) -> Room | Refusal:
        """Stop being a member; a room without members has ended. NOT_FOUND also for a newer owner's session.

        Nobody has a wish about the voice of somebody who left.
        """
        ...

    async def change(self, code: str, session_id: SessionId, change: Change) -> Room | Refusal:
        """Change what a member said about itself, all of it or nothing: NOT_FOUND, NO_PEER."""
        ...

    async def move(
        self, code: str, session_id: SessionId, *, owner: InstanceId, epoch: int
    ) -> Room | Refusal:
        """Tell who holds a member's session now; NOT_FOUND also when somebody newer does."""
        ...

    async def speak(self, code: str, session_id: SessionId, *, known: Room | None = None) -> Room | Refusal:
        """A member speaks: the room lives on. Give the room: NOT_FOUND."""
        ...

    async def read(self, code: str, *, known: Room | None = None) -> Room | None:
        """Give the room; None when there is none."""
        ...
