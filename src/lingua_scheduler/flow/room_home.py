"""What rooms use of the instance they are seen from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lingua_scheduler.aio import Alarms
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.model import InstanceId
from lingua_scheduler.flow.lanes import Lanes
from lingua_scheduler.metrics import Metrics


@dataclass(frozen=True, slots=True)
class RoomHome:
    """What rooms use of their instance."""

    instance_id: InstanceId
    clock: Clock
    alarms: Alarms
    metrics: Metrics
    lanes: Lanes  # by session: what it does about rooms, and what it says in them
    window_s: float  # in which the client of a member may come back
    reachable: Callable[[], frozenset[InstanceId]]
    announce: Callable[[InstanceId, str], None]  # tell another instance that a room has changed
