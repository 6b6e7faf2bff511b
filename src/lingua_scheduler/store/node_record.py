"""How a node is written in Redis: its facts for snapshots, and its line in the pool for placement."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from lingua_scheduler.core.model import InstanceId, NodeId, PoolId
from lingua_scheduler.core.placement import Exclusion, NodeFacts
from lingua_scheduler.log import get_logger

_log = get_logger(__name__)

OFFLINE = "offline"
_JOB_SCORE = 10**12  # of a job on a shelf; the rest is the last use of the node
_DOORS = {
    None: "open",
    Exclusion.CAPACITY_EXCEEDED: "busy",
    Exclusion.RESOURCE_THRESHOLD_EXCEEDED: "busy",
    Exclusion.OFFLINE: OFFLINE,
}


class _Facts(msgspec.Struct, frozen=True):
    owner: str
    asr: list[str]
    semantic: list[str]
    types: list[str]
    max_jobs: int
    closed: str
    region: str
    gpu_tier: str
    private: bool
    sequential: bool
    acknowledges: bool


_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(_Facts).decode


def jobs_by(score: bytes) -> int:
    """Tell how many jobs a node has by its score on its shelf."""
    return int(float(score)) // _JOB_SCORE


def door(facts: NodeFacts) -> str:
    """Say whether a node may be chosen: `open`, `busy` (soon again), `shut` or `offline`."""
    return _DOORS.get(facts.closed, "shut")


def written(facts: NodeFacts) -> bytes:
    """Write the facts down."""
    return _encode(
        _Facts(
            owner=facts.owner,
            asr=sorted(facts.asr),
            semantic=sorted(facts.semantic),
            types=sorted(facts.types),
            max_jobs=facts.max_jobs,
            closed=facts.closed or "",
            region=facts.region,
            gpu_tier=facts.gpu_tier,
            private=facts.private,
            sequential=facts.sequential,
            acknowledges=facts.acknowledges,
        )
    )


def read(node_id: NodeId, pool: PoolId, raw: bytes) -> NodeFacts | None:
    """Read facts that an instance wrote; what is not of this version is treated as absent."""
    try:
        stored = _decode(raw)
        closed = Exclusion(stored.closed) if stored.closed else None
    except (msgspec.DecodeError, ValueError):
        _log.warning("corrupt_facts", node=node_id)
        return None
    return NodeFacts(
        node_id=node_id,
        pool=pool,
        owner=InstanceId(stored.owner),
        asr=frozenset(stored.asr),
        semantic=frozenset(stored.semantic),
        types=frozenset(stored.types),
        max_jobs=stored.max_jobs,
        closed=closed,
        region=stored.region,
        gpu_tier=stored.gpu_tier,
        private=stored.private,
        sequential=stored.sequential,
        acknowledges=stored.acknowledges,
    )


class Line(NamedTuple):
    """What a pool's script wrote about a node, word by word."""

    lease_end_ms: str
    max_jobs: str
    owner: str
    epoch: str
    shelf: str
    foreign_jobs: str
    door: str

    @classmethod
    def read(cls, raw: bytes | None) -> Line | None:
        """Read a line; None when there is none, or it is not of this version."""
        words = [] if raw is None else raw.decode(errors="replace").split(" ")
        return cls(*words) if len(words) == len(cls._fields) else None
