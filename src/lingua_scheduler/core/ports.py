"""What the flow needs from storage and from sockets, as protocols; the store and the edge implement them."""

from __future__ import annotations

from typing import Any, Protocol

from lingua_scheduler.core.company import InboxLedger, InstanceLedger
from lingua_scheduler.core.model import InstanceId, JobId, NodeId, PoolId, SessionId
from lingua_scheduler.core.placement import Ask, NodeFacts, Reservation
from lingua_scheduler.core.room_ledger import RoomLedger
from lingua_scheduler.core.stored import (
    NOBODY,
    Beat,
    Claimed,
    Finish,
    Holder,
    JobEnd,
    NewJob,
    NodeChanges,
    Remembered,
    StoredSession,
    Tenure,
)


class Sink(Protocol):
    """Where the flow posts messages for one connection; never blocks."""

    close_code: int | None  # what the connection was closed with, by whichever side said so first

    def post(self, message: Any, *, droppable: bool = False) -> bool:
        """Send one message; droppable ones give way to others. False: it will certainly not arrive."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Send what is queued, then close with this code."""


class NodeLedger(Protocol):
    """Nodes, their leases and their slots, as the pools in Redis know them."""

    async def register(self, facts: NodeFacts, *, lease_ms: int, takeover: bool) -> int:
        """Write the node with its owner and lease; return its epoch. NodeRefused when the id is taken."""
        ...

    async def beat(self, facts: NodeFacts, *, epoch: int, lease_ms: int, reported: bool = True) -> Beat:
        """Renew the lease with fresh facts; unless the node `reported`, its load is as before."""
        ...

    async def leave(self, node_id: NodeId, pool: PoolId, *, epoch: int) -> bool:
        """Remove the node unless a newer epoch has taken it over."""
        ...

    async def evict(self, node_id: NodeId, pool: PoolId, *, owner: InstanceId) -> bool:
        """Remove a node that this owner, who has died, left behind."""
        ...

    async def reserve(self, ask: Ask) -> Reservation | None:
        """Choose the least loaded node of the shelves and take one of its slots, atomically."""
        ...

    async def peek(self, ask: Ask) -> Reservation | None:
        """Tell what `reserve` would answer now; nothing is taken."""
        ...

    async def release(self, reservation: Reservation) -> bool:
        """Give the slot back; False when it was not held any more."""
        ...

    async def changes(self, pool: PoolId, *, since: int) -> NodeChanges | None:
        """Tell what changed since `since`; None when nothing did."""
        ...

    async def sweep(self, pool: PoolId) -> int:
        """Remove nodes whose lease is over and reservations whose time is over; return how many."""
        ...


class JobLedger(Protocol):
    """Jobs and their attempts, in their session's slot."""

    async def create(self, job: NewJob, reservation: Reservation | None) -> Claimed:
        """Claim the index and write the job, placed (attempt 1) or waiting.

        DependencyDown when the outcome is unknown, Fenced when the session has a newer owner.
        """
        ...

    async def attempt(
        self,
        session_id: SessionId,
        reservation: Reservation,
        affinity: Remembered = NOBODY,
        *,
        epoch: int,
    ) -> bool:
        """Make `reservation.attempt` the job's current one; False when it ended or somebody else has it."""
        ...

    async def step(self, session_id: SessionId, reservation: Reservation, state: str, *, epoch: int) -> bool:
        """Advance the current attempt to `state`; True when it is at or past it, False also when fenced."""
        ...

    async def finish(self, end: JobEnd) -> Finish:
        """End the job by an attempt's outcome, log what its client is told, and drop its audio."""
        ...

    async def audio(self, session_id: SessionId, job_id: JobId, *, attempt: int) -> bytes | None:
        """Give a job's audio to the holder of an attempt; None when the attempt is not current any more."""
        ...

    async def put_voice(self, session_id: SessionId, job_id: JobId, data: bytes) -> None:
        """Keep the spoken result of a job for the minute in which its session's owner fetches it."""
        ...

    async def take_voice(self, session_id: SessionId, job_id: JobId) -> bytes | None:
        """Give the spoken result of a job, as often as it is asked for; None when it is gone."""
        ...


class SessionLedger(Protocol):
    """Sessions: who owns them and what a new owner needs."""

    async def open(
        self, session_id: SessionId, owner: InstanceId, fields: dict[str, str], *, epoch: int
    ) -> int:
        """Write the session and its owner, at no lower epoch; return its epoch. Fenced: somebody else has it.

        `next_index` and `last_seq` among the fields only ever raise what Redis knows.
        """
        ...

    async def renew(self, sessions: dict[SessionId, int], owner: InstanceId) -> dict[SessionId, Tenure]:
        """Extend the lives of owned sessions, given with their epochs; return those that are not held."""
        ...

    async def take_over(
        self, session_id: SessionId, owner: InstanceId, *, epoch: int, try_id: str = ""
    ) -> StoredSession | None:
        """Become the owner of a session that is at this epoch, under the next one; None when it is not.

        Exactly one caller gets the session; whatever an older owner writes from then on is refused. A client
        that heard no answer comes again by the same `try_id`, and gets it until something was said since.
        """
        ...

    async def owner(self, session_id: SessionId) -> InstanceId | None:
        """Tell who owns a session; None when there is no such session."""
        ...

    async def holder(self, session_id: SessionId) -> Holder | None:
        """Tell how a session is owned; None when there is no such session."""
        ...

    async def close(self, session_id: SessionId, *, epoch: int) -> None:
        """Remove the session and all that belongs to it."""
        ...


class PairingLedger(Protocol):
    """Pairing codes, each of which leads to a node once."""

    async def offer(self, code: str, node_id: NodeId, *, life_s: int) -> bool:
        """Make a code lead to a node; False when it leads to one already."""
        ...

    async def redeem(self, code: str) -> NodeId | None:
        """Use a code up; None when it leads nowhere."""
        ...


class NoticeLedger(Protocol):
    """What one instance says for all of them."""

    async def first(self, subject: str, *, window_ms: int) -> bool:
        """Tell one caller, of all that ask about a subject within the window, that it is the first."""
        ...


class Ledgers(Protocol):
    """All of them together, and whether they can be reached."""

    @property
    def nodes(self) -> NodeLedger:
        """Nodes and slots."""
        ...

    @property
    def jobs(self) -> JobLedger:
        """Jobs and attempts."""
        ...

    @property
    def sessions(self) -> SessionLedger:
        """Sessions and owners."""
        ...

    @property
    def instances(self) -> InstanceLedger:
        """Instances."""
        ...

    @property
    def inbox(self) -> InboxLedger:
        """Letters between instances."""
        ...

    @property
    def rooms(self) -> RoomLedger:
        """Rooms."""
        ...

    @property
    def pairing(self) -> PairingLedger:
        """Pairing codes."""
        ...

    @property
    def notices(self) -> NoticeLedger:
        """Notices."""
        ...

    @property
    def up(self) -> bool:
        """The last call reached Redis."""
        ...
