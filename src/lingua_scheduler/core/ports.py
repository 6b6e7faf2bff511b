"""What the flow needs from storage and from sockets, as protocols; the store and the edge implement them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from lingua_scheduler.core.company import InboxLedger, InstanceLedger
from lingua_scheduler.core.model import InstanceId, JobId, NodeId, PoolId, SessionId
from lingua_scheduler.core.placement import Ask, NodeFacts, Reservation
from lingua_scheduler.core.room_ledger import RoomLedger
from lingua_scheduler.core.rooms import is_address, read_address


class Sink(Protocol):
    """Where the flow posts messages for one connection; never blocks."""

    close_code: int | None  # what the connection was closed with, by whichever side said so first

    def post(self, message: Any, *, droppable: bool = False) -> bool:
        """Send one message; droppable ones give way to others. False: it will certainly not arrive."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Send what is queued, then close with this code."""


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """What happened in a pool since a version."""

    version: int
    complete: bool  # `nodes` is the whole pool, not only what changed
    nodes: tuple[NodeFacts, ...]
    gone: tuple[NodeId, ...]


class Beat(StrEnum):
    """What became of a heartbeat."""

    RENEWED = "renewed"
    GONE = "gone"  # the lease had ended: register again
    REPLACED = "replaced"  # a newer registration owns the id


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


class Finish(StrEnum):
    """What became of an attempt's result."""

    ACCEPTED = "accepted"  # it is the job's result
    STALE = "stale"  # another attempt is current
    FENCED = "fenced"  # the session has a newer owner
    DONE = "done"  # the job was terminal before
    UNKNOWN = "unknown"  # no such job


class Remembered(msgspec.Struct, frozen=True):
    """The node a session's speech belongs to, kept as its `timeout_node_id`; None forgets it."""

    node_id: NodeId | None = None
    ttl_ms: int = 0


NOBODY = Remembered()


class NewJob(msgspec.Struct, frozen=True):
    """A job as it is written: its identity, what a new owner would need, and its audio."""

    job_id: JobId
    session_id: SessionId
    session_epoch: int
    index: int
    tgt_lang: str
    record: bytes
    audio: bytes
    ttl_ms: int
    affinity: Remembered = NOBODY
    preferred_pool: PoolId | None = None
    last_pair: str = ""
    last_seq: int | None = None  # every frame up to this one is in a job that is written, this one included
    spoken: bool = True  # the client has said something since it took the session up


class Logged(msgspec.Struct, frozen=True):
    """What a client is told about the end of an utterance, kept until the client has acknowledged it."""

    index: int
    tgt_lang: str
    message: bytes

    @property
    def name(self) -> str:
        """What it is found by in the log."""
        return f"{self.index}:{self.tgt_lang}"

    @property
    def lang(self) -> str:
        """The language of the utterance's end."""
        return read_address(self.tgt_lang)[0] if self.for_room else self.tgt_lang

    @property
    def for_room(self) -> bool:
        """It is kept until a room is told, and not for the client: see `core.rooms.address`."""
        return is_address(self.tgt_lang)


class JobEnd(msgspec.Struct, frozen=True):
    """The end of a job as its session's owner writes it."""

    session_id: SessionId
    session_epoch: int
    job_id: JobId
    attempt: int
    outcome: str
    log: Logged | None = None  # None: the client is told nothing
    forget: tuple[str, ...] = ()  # names of what may leave the log: acknowledged, or too much


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job that had not ended when its session changed hands."""

    job_id: JobId
    index: int
    tgt_lang: str
    attempt: int  # 0: it waits for its first node
    record: bytes
    audio: bytes
    reservation: Reservation | None  # of its current attempt


@dataclass(frozen=True, slots=True)
class StoredSession:
    """What a new owner needs to go on with a session."""

    epoch: int  # the new owner's
    before: InstanceId  # who had it
    fields: dict[str, str]
    next_index: int
    last_seq: int | None  # every frame up to this one is in a job
    jobs: tuple[StoredJob, ...]  # in the order of their indexes
    log: tuple[Logged, ...]  # in the order of their indexes
    lost: tuple[tuple[int, str], ...] = ()  # index and language of jobs that had not ended and are unreadable


class Claimed(msgspec.Struct, frozen=True):
    """The job that owns (session, index, language); `fresh` says whether this call made it."""

    job_id: JobId
    fresh: bool
    anew: bool = False  # Redis had lost the session: its record must be written


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


class Tenure(StrEnum):
    """Why a session is not held by who believed so."""

    GONE = "gone"  # Redis does not know it: write it anew
    TAKEN = "taken"  # another instance, or a later life of it here, owns it


@dataclass(frozen=True, slots=True)
class Holder:
    """Who owns a session, since which epoch, and for which try of its client."""

    owner: InstanceId
    epoch: int
    try_id: str


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
