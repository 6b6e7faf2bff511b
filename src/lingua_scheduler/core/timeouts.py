"""How long a job may take: to find a node, to be acknowledged, to be answered, and over all its attempts."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

_Seconds = Annotated[float, msgspec.Meta(gt=0)]
_FLOAT_NOISE_DIGITS = 6


class TimeoutOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one job; the limit of an attempt grows with the audio it has to work through."""

    pending_s: Annotated[float, msgspec.Meta(ge=1)] = 10
    """How long a job may wait for a node."""
    ack_s: _Seconds = 2
    """How long a node that announced it acknowledges jobs may take to do so."""
    base_s: _Seconds = 30
    """How long an attempt may take when the audio's duration is unknown or adds nothing."""
    dynamic: bool = True
    """Give longer audio more time."""
    factor: Annotated[float, msgspec.Meta(ge=0)] = 0.5
    """Seconds added per second of audio."""
    min_s: _Seconds = 15
    """The shortest limit that the dynamic part may lead to."""
    max_s: _Seconds = 60
    """The longest limit that the dynamic part may lead to; at least `base_s`."""
    failover_max_attempts: Annotated[int, msgspec.Meta(ge=0)] = 3
    """How often a job may move to another node after its first."""
    reservation_margin_s: _Seconds = 30
    """How long a slot outlives its attempt's limit when nobody gives it back."""

    def __post_init__(self) -> None:
        """Refuse limits that would make longer audio get less time."""
        if self.max_s < self.base_s:
            raise ValueError(f"max_s: expected at least base_s ({self.base_s:g}), received {self.max_s:g}")
        if self.max_s < self.min_s:
            raise ValueError(f"max_s: expected at least min_s ({self.min_s:g}), received {self.max_s:g}")

    def job_timeout_s(self, duration_ms: float | None) -> float:
        """Tell how long one attempt may take for audio of this duration."""
        if not self.dynamic or duration_ms is None:
            return self.base_s
        wanted_s = math.ceil(round(self.base_s + duration_ms / 1000 * self.factor, _FLOAT_NOISE_DIGITS))
        return min(max(wanted_s, self.min_s), self.max_s)

    def ack_timeout_s(self, *, acknowledges: bool) -> float | None:
        """Tell how long to wait for an acknowledgement; None for nodes that never send one."""
        return self.ack_s if acknowledges else None

    def reservation_ttl_s(self, duration_ms: float | None) -> float:
        """Tell after how long a slot frees itself although nobody gave it back."""
        return self.job_timeout_s(duration_ms) + self.reservation_margin_s

    def job_life_s(self) -> float:
        """Tell the longest time that a job can stay open; its record must live longer."""
        return self.pending_s + (1 + self.failover_max_attempts) * self.max_s
