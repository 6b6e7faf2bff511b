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
from lingua_scheduler.core.segmentation import SegmenterOptions
from lingua_scheduler.core.timeouts import TimeoutOptions
from lingua_scheduler.flow.answer import Said
from lingua_scheduler.flow.delivery import DeliveryOptions
from lingua_scheduler.flow.fan_out import FanOut
from lingua_scheduler.flow.hearing import Kept
from lingua_scheduler.flow.job import Job
from lingua_scheduler.flow.opening import SessionOptions
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.tracing.spans import Tracer
from lingua_scheduler.wire.node import JobResult
from lingua_scheduler.wire.session import AsrPartial

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
    restore: Callable[[Session], None]  # Redis has lost the session: write it anew
    elsewhere: Callable[[NodeId, JobResult], None]  # a result for a session that lives elsewhere now
    fan_out: FanOut  # makes the jobs of what is said in rooms
    tell_room: Callable[[Session, Said], None]  # those in a room who want it
    caption: Callable[[Job, AsrPartial], None]  # those in a room who read along
    move: Callable[[Session], None]  # tell its room where a session that was taken up is now
    hand_on: Callable[[SessionId, list[Kept], InstanceId | None], None]  # what a moved session missed
    tracer: Tracer | None = None  # None: nothing is traced
