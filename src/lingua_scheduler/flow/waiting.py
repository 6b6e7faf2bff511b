"""Jobs that found no node: woken when capacity appears, the earliest deadline first, never polled.

A job sits down before it asks for a node, so that nothing that becomes free while it asks is missed. What it
was offered and did not use goes on to the next one.
"""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_left, insort
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Self

from lingua_scheduler.core.model import NodeId, Pair
from lingua_scheduler.core.placement import NodeFacts
from lingua_scheduler.flow.job import Job


@dataclass(eq=False, slots=True)
class Offer:
    """Capacity of a node, shown to one waiting job after the other until somebody takes it."""

    facts: NodeFacts
    shown: set[Job] = field(default_factory=set)


class Seat:
    """One job's place in the room, from its first question until it has a node or ends."""

    def __init__(self, room: WaitingRoom, job: Job) -> None:
        self.job = job
        self.bound_to: NodeId | None = None  # the only node that will do
        self.offer: Offer | None = None  # what the next question may use
        self.queued = False
        self.urgency = (0.0, 0)  # its place while it is queued
        self._room = room
        self._woken = asyncio.Event()
        self._new_offer: Offer | None = None

    def __enter__(self) -> Self:
        """Sit down."""
        return self

    def __exit__(self, *failure: object) -> None:
        """Leave the room, whatever became of the job."""
        self._room._left(self)  # noqa: SLF001 the two are one mechanism
        reservation = self.job.reservation
        self.rise(reservation.node_id if reservation is not None else None)

    def listen(self) -> None:
        """Hear of everything that happens from now on; called before each question."""
        self._woken.clear()
        unused, self.offer, self._new_offer = self.offer, self._new_offer, None
        if unused is not None:
            self._room.pass_on(unused)
        self._room._take_place(self)  # noqa: SLF001

    def refused(self, *, without: Collection[NodeId] = (), bound_to: NodeId | None = None) -> None:
        """Nothing was free for this job; nodes that were not asked may still be for others."""
        self.bound_to = bound_to
        offer, self.offer = self.offer, None
        if offer is not None:
            node_id = offer.facts.node_id
            if node_id in without or bound_to not in (None, node_id):
                self._room.pass_on(offer)

    async def wait(self) -> None:
        """Return when it is worth asking again, or when the job must look up."""
        self._room.idle += 1
        try:
            await self._woken.wait()
        finally:
            self._room.idle -= 1

    def wake(self, offer: Offer | None) -> None:
        """Say that it is worth asking, perhaps because of an offer."""
        self._new_offer = offer
        self._woken.set()

    def rise(self, taken: NodeId | None) -> None:
        """Leave the room; offers of other nodes than the one that was taken go on."""
        self._room._give_up_place(self)  # noqa: SLF001
        for offer in (self.offer, self._new_offer):
            if offer is not None and offer.facts.node_id != taken:
                self._room.pass_on(offer)
        self.offer = self._new_offer = None

    def fits(self, facts: NodeFacts) -> bool:
        """Tell whether the job could go to a node like this."""
        job = self.job
        return (
            facts.node_id not in job.tried
            and job.needs.services <= facts.types
            and (not facts.private or job.session.opening.paired_with == facts.node_id)
            and self.bound_to in (None, facts.node_id)
        )


class WaitingRoom:
    """Seats by the pairs their jobs need, the most urgent first."""

    def __init__(self) -> None:
        self.idle = 0  # jobs that do nothing but wait
        self._order = itertools.count()
        self._queues: dict[tuple[Pair, ...], list[Seat]] = {}
        self._seats: dict[Job, Seat] = {}

    def __len__(self) -> int:
        return self.idle

    def seat(self, job: Job) -> Seat:
        """Give a job a seat while it looks for a node."""
        seat = self._seats[job] = Seat(self, job)
        return seat

    def leave(self, job: Job) -> None:
        """Make one job look up: it ended, or something happened to the node it is bound to."""
        seat = self._seats.get(job)
        if seat is not None:
            self._give_up_place(seat)
            seat.wake(None)

    def capacity(self, facts: NodeFacts, slots: int) -> None:
        """Wake up to `slots` of the most urgent jobs that this node could take.

        A node that cannot be chosen any more releases those who would take no other.
        """
        if facts.closed is not None:
            for seat in [each for each in self._seats.values() if each.bound_to == facts.node_id]:
                self.leave(seat.job)
            return
        offer = Offer(facts)
        for _ in range(slots):
            if not self.pass_on(offer):
                return

    def review(self, facts: NodeFacts) -> None:
        """Release those who would take no other node, now that this one can do less than before."""
        bound = [seat for seat in self._seats.values() if seat.bound_to == facts.node_id]
        for seat in bound:
            if not seat.fits(facts) or not facts.serves(seat.job.pairs):
                self.leave(seat.job)

    def pass_on(self, offer: Offer) -> bool:
        """Show an offer to the most urgent job that has not seen it; False when there is none."""
        facts = offer.facts
        fitting = [
            seat
            for pairs, queue in self._queues.items()
            if facts.serves(pairs)
            and (seat := next((each for each in queue if _may_see(each, offer)), None)) is not None
        ]
        if not fitting:
            return False
        seat = min(fitting, key=_urgency)
        offer.shown.add(seat.job)
        self._give_up_place(seat)
        seat.wake(offer)
        return True

    def _left(self, seat: Seat) -> None:
        if self._seats.get(seat.job) is seat:  # not the one of a later attempt
            del self._seats[seat.job]

    def _take_place(self, seat: Seat) -> None:
        self._give_up_place(seat)
        seat.queued, seat.urgency = True, (seat.job.pending_until, next(self._order))
        insort(self._queues.setdefault(seat.job.pairs, []), seat, key=_urgency)

    def _give_up_place(self, seat: Seat) -> None:
        if not seat.queued:
            return
        queue = self._queues[seat.job.pairs]
        del queue[bisect_left(queue, seat.urgency, key=_urgency)]
        seat.queued = False
        if not queue:
            del self._queues[seat.job.pairs]


def _urgency(seat: Seat) -> tuple[float, int]:
    return seat.urgency


def _may_see(seat: Seat, offer: Offer) -> bool:
    return seat.job not in offer.shown and seat.fits(offer.facts)
