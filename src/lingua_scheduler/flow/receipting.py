"""Receipts for audio: a client that comes back with its token need not keep what is written."""

from __future__ import annotations

from collections.abc import Callable

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.model import JobId, SessionId
from lingua_scheduler.core.ports import Sink
from lingua_scheduler.core.receipts import Receipts
from lingua_scheduler.wire.session import AudioAck

QUIET_S = 1.0
"""Shortest time between two receipts for frames in which nobody spoke."""


class Receipting:
    """Tells one client up to which frame all is safe, once for each."""

    __slots__ = ("_clock", "_given", "_given_at", "_receipts", "_session_id", "_sink", "wanted")

    def __init__(
        self,
        session_id: SessionId,
        receipts: Receipts,
        sink: Callable[[], Sink],
        clock: Clock,
        *,
        wanted: bool,
    ) -> None:
        self._session_id = session_id
        self._receipts = receipts
        self._sink = sink
        self._clock = clock
        self.wanted = wanted  # the client understands receipts
        self._given: int | None = None  # the last one
        self._given_at = float("-inf")

    @property
    def through(self) -> int | None:
        """Every frame up to this number is in a job that is written."""
        return self._receipts.through

    def settle(self, job_id: JobId) -> None:
        """A job is written, or has ended without that, or is not needed: its audio need not be kept."""
        if self._receipts.settle(job_id):
            self.give()

    def give(self, *, pace_s: float = 0.0) -> None:
        """Tell the client, unless it knows, or was told something within this time."""
        through = self._receipts.through
        if not self.wanted or through is None or through == self._given:
            return
        now = self._clock.now()
        if now >= self._given_at + pace_s:
            self._given, self._given_at = through, now
            self._sink().post(AudioAck(session_id=self._session_id, seq=through), droppable=True)

    def again(self) -> None:
        """There is a new connection, which knows of none."""
        self._given = None
