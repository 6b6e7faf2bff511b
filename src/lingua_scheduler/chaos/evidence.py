"""What is known of a finished run, arranged for the questions that are asked about it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property

from lingua_scheduler.chaos.aftermath import Aftermath
from lingua_scheduler.chaos.faults import Fault
from lingua_scheduler.chaos.history import Event, Op, in_order
from lingua_scheduler.chaos.speech import read_frames

RECOVERY, QUIET, LAST_LOOK = "recovery", "quiet", "last look"
"""Phases: everything is healed and speech goes on; speech has ended; the last look was taken."""

_SLOW_WAYS = (Fault.NODE_LATENCY.value, Fault.NODE_FREEZE.value)
_SLOW_FOR_S = 12.0  # more than any of them lasts


@dataclass(slots=True)
class Conversation:
    """One session as its client saw it."""

    session: str
    who: str
    client: int
    spoken: list[Event] = field(default_factory=list)  # utterances that were said to their end
    ends: list[Event] = field(default_factory=list)  # results and missing ones, in the order of arrival
    acked: int = -1  # the server has every frame up to this one
    closed: bool = False  # by agreement: everything that was said is accepted
    left: bool = False  # the client gave up waiting
    replaced: bool = False  # the client came back and had to begin anew

    @property
    def accepted(self) -> list[Event]:
        """Utterances that the server has taken."""
        return [said for said in self.spoken if self.closed or said.seq <= self.acked]

    def unanswered(self) -> list[Event]:
        """Accepted utterances for which no end can be found.

        A result proves which frames it answers. Missing ones do not, so between two results there must be at
        least as many of them as there are utterances without a result.
        """
        proven = {end.index: read_frames(end.frames) for end in self.ends if end.frames}
        answered = {frame for frames in proven.values() for frame in frames}
        missing = sorted(end.index for end in self.ends if end.op is Op.MISSING)
        lost: list[Event] = []
        for said in self.accepted:
            if answered.issuperset(range(said.first, said.seq + 1)):
                continue
            below = max((index for index, frames in proven.items() if frames[-1] < said.seq), default=-1)
            above = min((index for index, frames in proven.items() if frames[0] > said.seq), default=None)
            fitting = [i for i in missing if i > below and (above is None or i < above)]
            if fitting:
                missing.remove(fitting[0])
            else:
                lost.append(said)
        return lost


@dataclass(frozen=True)
class Evidence:
    """The histories of a run and the last look at it."""

    events: list[Event]
    aftermath: Aftermath = field(default_factory=Aftermath)
    lossless: bool = False  # nothing may be missing in this run

    @classmethod
    def of(cls, *events: Event, aftermath: Aftermath | None = None, lossless: bool = False) -> Evidence:
        """Arrange events given in any order."""
        return cls(in_order(events), aftermath or Aftermath(), lossless)

    @cached_property
    def conversations(self) -> dict[str, Conversation]:
        """Every session by its id."""
        found: dict[str, Conversation] = {}
        for event in self.events:
            if event.op is Op.OPENED:
                for before in found.values():
                    before.replaced |= before.who == event.who and not before.closed
                found[event.session] = Conversation(event.session, event.who, event.client)
            elif (conversation := found.get(event.session)) is not None and event.who == conversation.who:
                _take(conversation, event)
        return found

    @cached_property
    def jobs(self) -> dict[str, list[Event]]:
        """What nodes were handed, by job, in the order of time."""
        found: dict[str, list[Event]] = defaultdict(list)
        for event in self.of_kind(Op.ASSIGNED):
            found[event.job].append(event)
        return found

    def of_kind(self, *kinds: Op) -> list[Event]:
        """Give the events of some kinds, in order."""
        return [event for event in self.events if event.op in kinds]

    def phase(self, name: str) -> float | None:
        """When a phase began."""
        return next((event.t for event in self.of_kind(Op.PHASE) if event.reason == name), None)

    def held_up(self, event: Event) -> bool:
        """What reached a node then may have been under way for long: its network or process was slow."""
        process = event.node.removeprefix("n").partition("-")[0]
        slow = [fault for fault in self.faults(*_SLOW_WAYS) if str(fault.index) == process]
        return any(fault.t < event.t < fault.t + _SLOW_FOR_S for fault in slow)

    def faults(self, *names: str) -> list[Event]:
        """Give the beginnings of faults with these names; without names, of all."""
        return [event for event in self.of_kind(Op.FAULT) if not names or event.reason in names]


def _take(conversation: Conversation, event: Event) -> None:
    match event.op:
        case Op.SPOKE:
            conversation.spoken.append(event)
        case Op.RESULT | Op.MISSING:
            conversation.ends.append(event)
        case Op.ACKED | Op.RESUMED:
            conversation.acked = max(conversation.acked, event.seq)
        case Op.CLOSED:
            conversation.closed = not event.reason
        case Op.LEFT:
            conversation.left = True
        case _:
            pass
