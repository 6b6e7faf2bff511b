"""What crosses the ports: records as they are written and read, and what a ledger answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from lingua_scheduler.core.model import InstanceId, JobId, NodeId, PoolId, SessionId
from lingua_scheduler.core.placement import NodeFacts, Reservation
from lingua_scheduler.core.rooms import is_address, read_address


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
    first: InstanceId  # who had it when the client began to try; others may have taken it and died since
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
