"""What a session uses of the instance it lives in, and the rules it follows there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lingua_scheduler.aio import Alarms
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.affinity import AffinityOptions
from lingua_scheduler.core.model import InstanceId, NodeId, SessionId
from lingua_scheduler.core.resume import ResumeOptions
from lingua_scheduler.core.segmenter import SegmenterOptions
from lingua_scheduler.core.timeouts import TimeoutOptions
from lingua_scheduler.flow.delivery import DeliveryOptions
from lingua_scheduler.flow.job import Job
from lingua_scheduler.flow.opening import SessionOptions
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.node import JobResult

if TYPE_CHECKING:
    from lingua_scheduler.flow.session import Session


@dataclass(frozen=True, slots=True)
class SessionRules:
    """The options that every session of an instance follows."""

    session: SessionOptions
    segmentation: SegmenterOptions
    delivery: DeliveryOptions
    affinity: AffinityOptions
    timeouts: TimeoutOptions
    resume: ResumeOptions


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a session uses of the instance it lives in."""

    clock: Clock
    alarms: Alarms
    metrics: Metrics
    rules: SessionRules
    launch: Callable[[Job], None]  # hand a new job over
    adopt: Callable[[Job], None]  # hand a job over that an earlier owner of the session has placed
    changed: Callable[[Session], None]  # a job of the session ended
    disowned: Callable[[Session], None]  # another instance owns the session
    taken: Callable[[InstanceId, SessionId, int], None]  # a session of that instance lives here now
    elsewhere: Callable[[NodeId, JobResult], None]  # a result for a session that lives elsewhere now
