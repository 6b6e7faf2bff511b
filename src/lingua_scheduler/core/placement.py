"""Where a job may go: the pool of a node, what placement knows of a node, and why one was not chosen."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

import msgspec

from lingua_scheduler.core.model import InstanceId, JobId, NodeId, Pair, PoolId

_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_MASK64 = 0xFFFFFFFFFFFFFFFF


def stable_hash(key: str, seed: int) -> int:
    """FNV-1a, 64 bits, over the key's bytes and the seed's eight little-endian bytes."""
    value = _FNV_OFFSET
    for byte in key.encode() + seed.to_bytes(8, "little"):
        value = ((value ^ byte) * _FNV_PRIME) & _MASK64
    return value


@lru_cache(maxsize=4096)
def _shelf(
    asr: frozenset[str], semantic: frozenset[str], types: frozenset[str], whose: str, where: tuple[str, str]
) -> str:
    """Name a shelf; every heartbeat asks, and there are few kinds of nodes."""
    alike = (sorted(asr), sorted(semantic), sorted(types), whose, where)
    return hashlib.blake2s(repr(alike).encode(), digest_size=8).hexdigest()


class Exclusion(StrEnum):
    """Why a node was not chosen; the order breaks ties when the main reason is named."""

    OFFLINE = "offline"
    STATUS_NOT_READY = "status_not_ready"
    NOT_IN_PUBLIC_POOL = "not_in_public_pool"
    GPU_UNAVAILABLE = "gpu_unavailable"
    MODEL_NOT_AVAILABLE = "model_not_available"
    CAPACITY_EXCEEDED = "capacity_exceeded"
    RESOURCE_THRESHOLD_EXCEEDED = "resource_threshold_exceeded"
    LANG_PAIR_UNSUPPORTED = "lang_pair_unsupported"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What placement must know of a node. `closed` names the reason that keeps it from being chosen."""

    node_id: NodeId
    pool: PoolId
    owner: InstanceId
    asr: frozenset[str]  # languages it hears
    semantic: frozenset[str]  # languages it can translate into
    types: frozenset[str]  # service types that are ready
    max_jobs: int
    running_jobs: int = 0  # as the node reports it; what exceeds our reservations is foreign load
    closed: Exclusion | None = None
    region: str = ""  # where it stands, as its operator calls it
    gpu_tier: str = ""  # how strong it is, as its operator calls it
    private: bool = False  # serves only sessions paired with it
    sequential: bool = False  # takes a session's utterances only one after the other, without gaps
    acknowledges: bool = False  # says at once that it has taken a job
    about: dict[str, Any] = field(default_factory=dict)  # for people: hardware, usage, versions

    @property
    def free(self) -> int:
        """How many more jobs it would take now."""
        return max(0, self.max_jobs - self.running_jobs) if self.closed is None else 0

    def serves(self, pairs: tuple[Pair, ...]) -> bool:
        """Every direction asked for is one this node can do."""
        return all(pair.src in self.asr and pair.tgt in self.semantic for pair in pairs)

    @property
    def shelf(self) -> str:
        """Name the shelf on which it stands with the nodes that are alike for placement; or alone."""
        whose = self.node_id if self.private else ""
        return _shelf(self.asr, self.semantic, self.types, whose, (self.region, self.gpu_tier))


class Ask(msgspec.Struct, frozen=True):
    """One question to a pool: reserve a slot for this attempt on the best node of these shelves."""

    job_id: JobId
    attempt: int
    pool: PoolId
    shelves: tuple[str, ...]
    reachable: frozenset[InstanceId]  # instances that can be handed an assignment
    ttl_ms: int
    without: frozenset[NodeId] = frozenset()  # nodes that must not be chosen
    again: bool = False  # the same question may have been answered unheard
    prefer: NodeId | None = None  # taken first if it has a free slot
    bound: bool = False  # while `prefer` lives, nobody else will do
    only: bool = False  # `prefer` now, or nobody


class Reservation(msgspec.Struct, frozen=True):
    """One slot of one node, held by one attempt until it is released or its time is over."""

    node_id: NodeId
    pool: PoolId
    owner: InstanceId
    epoch: int
    shelf: str
    job_id: JobId
    attempt: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nobody could be reserved; how often each reason was met."""

    reasons: dict[Exclusion, int] = field(default_factory=dict)

    def main_reason(self) -> str:
        """Name the reason met most often, for people and metrics."""
        if not self.reasons:
            return "no_nodes"
        return max(
            Exclusion, key=lambda reason: (self.reasons.get(reason, 0), -list(Exclusion).index(reason))
        ).value
