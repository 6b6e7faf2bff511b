"""What takes too long: counted, and logged with numbers."""

from __future__ import annotations

from typing import Annotated

import msgspec

from lingua_scheduler.instruments import CounterBy
from lingua_scheduler.log import get_logger

_log = get_logger(__name__)


class ObservabilityOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is worth a warning."""

    path_warn_ms: Annotated[int, msgspec.Meta(ge=1)] = 50
    """A section on the way of an utterance, or of a request, that takes longer is counted and logged."""
    lock_wait_warn_ms: Annotated[int, msgspec.Meta(ge=1)] = 10
    """Waiting longer for what somebody else has is counted and logged."""


class Slowness:
    """Counts and logs what took too long, as `event`."""

    def __init__(self, counter: CounterBy, warn_ms: int, event: str) -> None:
        self._counter = counter
        self._warn_s = warn_ms / 1000
        self._event = event
        self._times: dict[str, int] = {}

    def took(self, what: str, seconds: float) -> None:
        """Something took so long: count it if that is slow, and log the first ones of many."""
        if seconds <= self._warn_s:
            return
        self._counter.inc(what)
        self._times[what] = times = self._times.get(what, 0) + 1
        if times & (times - 1) == 0:  # powers of two: a slow hour is not an hour of warnings
            _log.warning(self._event, path=what, took_ms=round(seconds * 1000), times=times)
