"""What an instance needs to live among others: who else is there, and letters between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from lingua_scheduler.core.model import InstanceId


@dataclass(frozen=True, slots=True)
class Presence:
    """One instance as the others see it."""

    instance_id: InstanceId
    boot: str  # differs between two lives under the same id
    url: str
    started_ms: int
    draining: bool = False
    about: dict[str, int] = field(default_factory=dict)  # for people: sessions, nodes, jobs


class Renewal(StrEnum):
    """How an instance's presence was found when it was renewed."""

    HELD = "held"
    LOST = "lost"  # it had lapsed, or Redis has lost it with everything else; it is written anew
    TAKEN = "taken"  # another process has the id; nothing is written


class InstanceLedger(Protocol):
    """Which instances live, by Redis' clock."""

    async def enter(self, presence: Presence) -> None:
        """Become known to the others; InstanceIdTaken while another process lives under the id."""
        ...

    async def renew(self, presence: Presence) -> Renewal:
        """Stay known, unless another process has the id; a presence that is not there is written anew."""
        ...

    async def leave(self, presence: Presence) -> None:
        """Stop being known, unless another process has the id."""
        ...

    async def company(self) -> dict[InstanceId, Presence]:
        """Every instance that lives now."""
        ...

    async def missing(self) -> list[InstanceId]:
        """Instances that were known, do not live any more and have not been adopted."""
        ...

    async def adopt(self, instance_id: InstanceId, *, by: InstanceId) -> bool:
        """Take charge of what a dead instance left; True for exactly one caller at a time."""
        ...

    async def forget(self, instance_id: InstanceId) -> None:
        """Remove a dead instance, whose inbox is empty now, for good; one that lives again stays."""
        ...

    async def shared_secret(self, proposal: bytes) -> bytes:
        """Agree with every other instance on one secret; the first proposal wins and lives on with us."""
        ...


class Posted(StrEnum):
    """What became of a letter."""

    SENT = "sent"
    GONE = "gone"  # the addressee does not live
    FULL = "full"  # its inbox has no room


@dataclass(frozen=True, slots=True)
class Letter:
    """One message in an inbox."""

    id: str
    body: bytes
    source: InstanceId
    deliveries: int  # how often it was handed out, this time included
    age_ms: int


class InboxLedger(Protocol):
    """One stream of letters per instance; handed out at least once, in order, until they are settled."""

    async def send(self, to: InstanceId, body: bytes) -> Posted:
        """Append a letter to an instance's inbox, unless it does not live or has no room."""
        ...

    async def take(self, *, block_s: float) -> list[Letter]:
        """Wait for new letters of our own; a lost stream or group is made again."""
        ...

    async def retake(self, *, idle_ms: int) -> list[Letter]:
        """Hand out again our own letters that were taken so long ago and are not settled; all of them."""
        ...

    async def settle(self, letters: list[Letter]) -> None:
        """These are dealt with: remove them."""
        ...

    async def bury(self, letter: Letter, reason: str) -> None:
        """Move a letter that cannot be dealt with to the dead letters."""
        ...

    async def inherit(self, instance_id: InstanceId) -> list[Letter]:
        """Give the next letters of a dead instance's inbox; empty when there are none."""
        ...

    async def settle_inherited(self, instance_id: InstanceId, letters: list[Letter]) -> None:
        """Remove letters of a dead instance that are dealt with."""
        ...
