"""What was understood so far, passed on at a pace a person can read: of many the newest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from lingua_scheduler.aio import Alarms, Deadline
from lingua_scheduler.clock import Clock
from lingua_scheduler.flow.job import Job
from lingua_scheduler.wire.node import AsrPartial as NodePartial
from lingua_scheduler.wire.session import AsrPartial


class PartialOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a client is told what was understood so far."""

    interval_ms: Annotated[int, msgspec.Meta(ge=0)] = 100
    """Shortest time between two partials of one session; of those in between the newest is kept."""


class Partials:
    """The partial results of one session."""

    __slots__ = ("_clock", "_due", "_interval_s", "_newest", "_post", "_sent_at")

    def __init__(
        self,
        options: PartialOptions,
        send: Callable[[Job, AsrPartial], bool],
        *,
        clock: Clock,
        alarms: Alarms,
    ) -> None:
        self._interval_s = options.interval_ms / 1000
        self._post = send
        self._clock = clock
        self._due = Deadline(alarms, self._send)
        self._newest: tuple[Job, AsrPartial] | None = None
        self._sent_at = float("-inf")

    def take(self, job: Job, message: NodePartial) -> None:
        """Pass a node's word on, now or when it is time."""
        partial = AsrPartial(
            session_id=job.session.id,
            utterance_index=job.index,
            job_id=job.id,
            text=message.text,
            is_final=message.is_final,
            trace_id=job.brief.trace_id,
        )
        self._newest = (job, partial)
        due = self._sent_at + self._interval_s
        if due <= self._clock.now():
            self._send()
        else:
            self._due.move(due)

    def clear(self) -> None:
        """Forget what was not sent."""
        self._newest = None
        self._due.clear()

    def _send(self) -> None:
        if self._newest is None:
            return
        (job, partial), self._newest = self._newest, None
        if self._post(job, partial):
            self._sent_at = self._clock.now()
