"""When a client talks faster than it is answered: what it is told, and how often."""

from __future__ import annotations

from enum import IntEnum

_LONGEST_BURST_S = 5.0


class Level(IntEnum):
    """How full a session is."""

    CALM = 0
    CROWDED = 1  # half of the limit
    FULL = 2  # no more audio is taken


class Pressure:
    """Turns the number of unanswered utterances into rare warnings, and dropped frames into rare reports."""

    __slots__ = ("_burst_since", "_dropped", "_limit", "_repeat_s", "_told", "_told_at", "few")

    def __init__(self, limit: int, *, repeat_s: float) -> None:
        self._limit = limit
        self._repeat_s = repeat_s
        self._told = Level.CALM
        self._told_at = float("-inf")
        self._dropped = 0
        self._burst_since = 0.0
        self.few = self._most_calm  # so many unanswered, or fewer, need no word; none while a report is due

    @property
    def _most_calm(self) -> int:
        return (self._limit - 1) // 2

    def level(self, unanswered: int) -> Level:
        """Judge how full the session is."""
        if unanswered >= self._limit:
            return Level.FULL
        return Level.CROWDED if unanswered * 2 >= self._limit else Level.CALM

    def warning(self, level: Level, now: float) -> Level | None:
        """Name the level the client is to be told now: at once when it got worse, else only now and then."""
        if now - self._told_at >= self._repeat_s:
            self._told = Level.CALM
        if level <= self._told:
            return None
        self._told, self._told_at = level, now
        return level

    def dropped(self, now: float) -> int:
        """Count a frame that was not taken; return how many to report now, mostly none."""
        if not self._dropped:
            self._burst_since = now
        self._dropped += 1
        self.few = -1
        return self.burst_over() if now - self._burst_since >= _LONGEST_BURST_S else 0

    def burst_over(self) -> int:
        """Return how many frames were dropped since the last report."""
        dropped, self._dropped = self._dropped, 0
        self.few = self._most_calm
        return dropped
