"""The attempts a node works on: which it takes, which it gives up, and what they have told so far."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from lingua_scheduler.node.answers import Key
from lingua_scheduler.wire.node import JobAssign, JobCancel

_NEVER = float("-inf")


class Admission(Enum):
    """What becomes of an assignment."""

    TAKEN = auto()
    REPEATED = auto()  # the very attempt is being worked on
    STALE = auto()  # a newer attempt of the job is being worked on, or this one was given up
    FULL = auto()


@dataclass(slots=True)
class Work:
    """One attempt from its assignment until its handler has ended."""

    assign: JobAssign
    began_at: float
    expires_at: float
    wanted: bool = True  # nobody gave it up
    partial_at: float = _NEVER
    partial: tuple[str, bool] | None = None  # the newest one that has not been told

    @property
    def key(self) -> Key:
        """Job and attempt."""
        return self.assign.job_id, self.assign.attempt_id

    @property
    def partial_due(self) -> float:
        """When the next partial may be told."""
        return self.partial_at + (self.assign.partial_update_interval_ms or 0) / 1000


class Workload:
    """Everything a node works on; what was given up counts until its handler has really ended."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._works: dict[Key, Work] = {}

    def __len__(self) -> int:
        return len(self._works)

    def wanted(self) -> list[Work]:
        """Give what somebody waits for."""
        return [work for work in self._works.values() if work.wanted]

    def get(self, key: Key) -> Work | None:
        """Find an attempt that somebody waits for."""
        work = self._works.get(key)
        return work if work is not None and work.wanted else None

    def admit(self, assign: JobAssign, now: float, timeout_s: float) -> tuple[Admission, list[Work]]:
        """Decide about an assignment; the list names older attempts of the job that it makes pointless."""
        same_job = [work for work in self._works.values() if work.assign.job_id == assign.job_id]
        if self.get((assign.job_id, assign.attempt_id)) is not None:
            return Admission.REPEATED, []
        if any(work.assign.attempt_id >= assign.attempt_id for work in same_job):
            return Admission.STALE, []
        given_up = [work for work in same_job if work.wanted]
        if len(self._works) - len(same_job) >= self.capacity:
            return Admission.FULL, []
        for work in given_up:
            work.wanted = False
        work = Work(assign, now, now + timeout_s)
        self._works[work.key] = work
        return Admission.TAKEN, given_up

    def cancel(self, order: JobCancel) -> list[Work]:
        """Give up what an order is about: an attempt and all before it, or any when it names none."""
        given_up = [
            work
            for work in self._works.values()
            if work.wanted
            and work.assign.job_id == order.job_id
            and (order.attempt_id is None or work.assign.attempt_id <= order.attempt_id)
        ]
        for work in given_up:
            work.wanted = False
        return given_up

    def ended(self, key: Key) -> Work | None:
        """The handler has ended: free its slot; give the work if somebody waits for its outcome."""
        work = self._works.pop(key, None)
        return work if work is not None and work.wanted else None
