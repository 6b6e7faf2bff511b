"""What all connections of an instance share."""

from __future__ import annotations

from dataclasses import dataclass, field

from lingua_scheduler.aio import Alarms
from lingua_scheduler.clock import Clock
from lingua_scheduler.edge.outbox import Outbox
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.codec import DEFAULT_OPTIONS, WireOptions


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The clock, alarms, counters and rules of one instance, and what it is about to send."""

    clock: Clock
    alarms: Alarms
    metrics: Metrics
    wire: WireOptions = DEFAULT_OPTIONS
    outbox: Outbox = field(default_factory=Outbox)
