"""The life of a job and of a node as explicit tables: which step leads where, and whose word counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

import msgspec

from lingua_scheduler.core.model import NodeId
from lingua_scheduler.errors import IllegalTransition


class JobState(StrEnum):
    """How far the current attempt of a job has come."""

    CREATED = "CREATED"
    DISPATCHED = "DISPATCHED"
    ACCEPTED = "ACCEPTED"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    RELEASED = "RELEASED"


class Step(StrEnum):
    """What happens to an attempt."""

    DISPATCH = "dispatch"  # the assignment was handed over
    ACCEPT = "accept"  # the node acknowledged it
    RUN = "run"  # the node started, or sent a partial result
    FINISH = "finish"  # there is an outcome, good or bad
    RELEASE = "release"  # its slot was given back
    RETRY = "retry"  # the next attempt begins


_ORDER = list(JobState)
_OPEN = frozenset({JobState.CREATED, JobState.DISPATCHED, JobState.ACCEPTED, JobState.RUNNING})
_STEPS: Mapping[Step, tuple[frozenset[JobState], JobState]] = {
    Step.DISPATCH: (frozenset({JobState.CREATED}), JobState.DISPATCHED),
    Step.ACCEPT: (frozenset({JobState.DISPATCHED}), JobState.ACCEPTED),
    Step.RUN: (frozenset({JobState.DISPATCHED, JobState.ACCEPTED}), JobState.RUNNING),
    Step.FINISH: (_OPEN, JobState.FINISHED),
    Step.RELEASE: (frozenset({JobState.FINISHED}), JobState.RELEASED),
    Step.RETRY: (_OPEN, JobState.CREATED),
}


def advance(state: JobState, step: Step) -> JobState:
    """Take a step; a state already at or past the step's target stays; IllegalTransition otherwise."""
    allowed, target = _STEPS[step]
    if state in allowed:
        return target
    if step is not Step.RETRY and _ORDER.index(state) >= _ORDER.index(target):
        return state
    expected = " or ".join(known for known in _ORDER if known in allowed)
    raise IllegalTransition("job", expected=expected, received=f"{step} in {state}")


class JobStatus(StrEnum):
    """What a job has come to, over all its attempts."""

    PENDING = "pending"
    ASSIGNED = "assigned"
    PROCESSING = "processing"
    COMPLETED = "completed"
    COMPLETED_NO_TEXT = "completed_no_text"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Nothing more will be done for the job."""
        return self in TERMINAL


TERMINAL = frozenset(
    {JobStatus.COMPLETED, JobStatus.COMPLETED_NO_TEXT, JobStatus.FAILED, JobStatus.CANCELLED}
)
"""The statuses that end a job."""


class ResultKind(StrEnum):
    """What a node's result says about the text."""

    COMPLETE = "complete"
    EMPTY = "empty"  # no text, and the node does not say why
    EMPTY_ACK = "empty_ack"  # the node says that there is nothing to say

    @classmethod
    def of(cls, text_asr: str | None, reason: str | None) -> ResultKind:
        """Classify a result by its recognised text and `extra.reason`."""
        if reason in ("NO_TEXT_ASSIGNED", "ASR_EMPTY"):
            return cls.EMPTY_ACK
        return cls.COMPLETE if text_asr and text_asr.strip() else cls.EMPTY


@dataclass(frozen=True, slots=True)
class Attempt:
    """One placement of a job: the node that has it, and its fencing number."""

    node_id: NodeId
    number: int


@dataclass(frozen=True, slots=True)
class JobStanding:
    """What is known of a job when a node speaks about it."""

    status: JobStatus
    attempt: Attempt | None  # the current one; None while the job waits for a node
    unfilled: bool = True  # a result would still reach the session

    def is_current(self, sender: Attempt) -> bool:
        """Tell whether an ack, a start or a result of this sender is about the live attempt."""
        return not self.status.terminal and sender == self.attempt


class ResultUse(StrEnum):
    """What a result is good for."""

    FINISH = "finish"  # it ends the job, and its utterance
    FILL = "fill"  # the job has ended without text; only the utterance still gains by it
    DROP = "drop"


def use_of(job: JobStanding | None, sender: Attempt, kind: ResultKind) -> ResultUse:
    """Decide whether a result counts: by attempt, and never twice."""
    if job is None:
        return ResultUse.DROP
    if job.is_current(sender):
        return ResultUse.FINISH
    if not job.unfilled or kind is not ResultKind.COMPLETE:
        return ResultUse.DROP
    if job.status is JobStatus.FAILED:
        return ResultUse.FILL
    if job.status is JobStatus.COMPLETED_NO_TEXT and sender == job.attempt:
        return ResultUse.FILL
    return ResultUse.DROP


class NodeStatus(StrEnum):
    """How a node stands; only a ready one is given jobs."""

    REGISTERING = "registering"
    READY = "ready"
    DEGRADED = "degraded"
    DRAINING = "draining"
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """What a heartbeat says about a node's ability to work."""

    has_gpu: bool
    gpu_percent: float | None
    installed: frozenset[str]  # service types with at least one installed service
    ready: Mapping[str, bool]  # service type -> ready, as the node declares it


_CORE_TYPES = frozenset({"asr", "nmt", "tts"})
_FULL_PERCENT = 100


def is_healthy(facts: HealthFacts, status: NodeStatus, *, require_gpu: bool = True) -> bool:
    """Judge a heartbeat: to become ready all core services must be ready, later one service type will do."""
    if require_gpu and not (facts.has_gpu and _is_percentage(facts.gpu_percent)):
        return False
    if status is not NodeStatus.REGISTERING:
        return any(facts.ready.values())
    core = facts.installed & _CORE_TYPES
    return bool(core) and all(facts.ready.get(service, False) for service in core)


def _is_percentage(value: float | None) -> bool:
    return value is not None and 0 <= value <= _FULL_PERCENT


class NodeHealthOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a node is trusted, and when no longer."""

    require_gpu: bool = True
    """Only machines with a GPU are healthy; switch off for CPU nodes."""
    health_check_count: Annotated[int, msgspec.Meta(ge=1)] = 1
    """Healthy heartbeats in a row that make a registering node ready."""
    warmup_timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 60
    """After how long a node that did not become ready counts as degraded."""
    heartbeat_timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 45
    """After how long without a heartbeat a node is offline."""
    consecutive_failure_count: Annotated[int, msgspec.Meta(ge=1)] = 3
    """Unhealthy heartbeats in a row that degrade a ready node."""
    failure_window_size: Annotated[int, msgspec.Meta(ge=1)] = 5
    """How many of the last heartbeats are looked at for `failure_count`."""
    failure_count: Annotated[int, msgspec.Meta(ge=1)] = 3
    """Unhealthy heartbeats among the last `failure_window_size` that degrade a ready node."""


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A node's status changed; `reason` is for people."""

    before: NodeStatus
    after: NodeStatus
    reason: str


@dataclass(slots=True)
class NodeHealth:
    """The status of one node from its registration on; only the node's owner advances it."""

    options: NodeHealthOptions
    registered_at: float
    heartbeat_timeout_s: float | None = None  # shorter than configured for nodes that beat faster
    status: NodeStatus = field(default=NodeStatus.REGISTERING, init=False)
    _beat_at: float = field(init=False)
    _streak: int = field(default=0, init=False)  # healthy ones while registering, unhealthy ones while ready
    _before_drain: NodeStatus = field(default=NodeStatus.REGISTERING, init=False)

    def __post_init__(self) -> None:
        self._beat_at = self.registered_at

    @property
    def deadline(self) -> float | None:
        """When `scan` has something to do if no heartbeat comes first; None once offline."""
        if self.status is NodeStatus.OFFLINE:
            return None
        if self.status is NodeStatus.REGISTERING:
            return min(self._silent_at, self._warm_at)
        return self._silent_at

    def heartbeat(self, facts: HealthFacts, now: float) -> StatusChange | None:
        """Take one heartbeat into account."""
        if self.status is NodeStatus.OFFLINE:
            return None
        self._beat_at = now
        if self.status is NodeStatus.DRAINING:
            return None
        healthy = is_healthy(facts, self.status, require_gpu=self.options.require_gpu)
        if self.status is NodeStatus.REGISTERING:
            self._streak = self._streak + 1 if healthy else 0
            proven = self._streak >= self.options.health_check_count
            return self._become(NodeStatus.READY, "healthy") if proven else None
        if self.status is NodeStatus.DEGRADED:
            return self._become(NodeStatus.READY, "healthy") if healthy else None
        self._streak = 0 if healthy else self._streak + 1
        return self._become(NodeStatus.DEGRADED, "unhealthy") if self._has_failed() else None

    def scan(self, now: float) -> StatusChange | None:
        """Take the time that passed into account."""
        if self.status is NodeStatus.OFFLINE:
            return None
        if now >= self._silent_at:
            return self._become(NodeStatus.OFFLINE, "heartbeat_timeout")
        if self.status is NodeStatus.REGISTERING and now >= self._warm_at:
            return self._become(NodeStatus.DEGRADED, "warmup_timeout")
        return None

    def lose(self, reason: str) -> StatusChange | None:
        """Its connection is gone: offline until it registers again."""
        return None if self.status is NodeStatus.OFFLINE else self._become(NodeStatus.OFFLINE, reason)

    def drain(self, reason: str) -> StatusChange | None:
        """Give it no new jobs; what it has may finish."""
        if self.status is NodeStatus.OFFLINE:
            raise IllegalTransition(
                "node", expected="any status but offline", received=f"drain in {self.status}"
            )
        if self.status is NodeStatus.DRAINING:
            return None
        self._before_drain = self.status
        return self._become(NodeStatus.DRAINING, reason)

    def cancel_drain(self, reason: str) -> StatusChange:
        """Take the drain back; the node stands as it stood before."""
        if self.status is not NodeStatus.DRAINING:
            raise IllegalTransition("node", expected="draining", received=f"cancel_drain in {self.status}")
        return self._become(self._before_drain, reason)

    @property
    def _silent_at(self) -> float:
        return self._beat_at + (self.heartbeat_timeout_s or self.options.heartbeat_timeout_s)

    @property
    def _warm_at(self) -> float:
        return self.registered_at + self.options.warmup_timeout_s

    def _has_failed(self) -> bool:
        in_window = min(self._streak, self.options.failure_window_size)
        return (
            self._streak >= self.options.consecutive_failure_count or in_window >= self.options.failure_count
        )

    def _become(self, status: NodeStatus, reason: str) -> StatusChange:
        before, self.status, self._streak = self.status, status, 0
        return StatusChange(before, status, reason)
