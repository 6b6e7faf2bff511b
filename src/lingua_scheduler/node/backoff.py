"""Pauses that double and differ, so that many nodes do not come back at the same moment."""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    """Gives the length of the next pause; `reset` after a success."""

    def __init__(self, min_s: float, max_s: float, chance: Callable[[], float] = random.random) -> None:
        self._min_s = min_s
        self._max_s = max_s
        self._chance = chance  # from 0 to below 1
        self._next_s = min_s

    def pause_s(self) -> float:
        """Give the next pause: somewhere between half of the present step and all of it."""
        step_s = self._next_s
        self._next_s = min(self._max_s, step_s * 2)
        return step_s * (0.5 + self._chance() / 2)

    def reset(self) -> None:
        """Begin with the shortest pause again."""
        self._next_s = self._min_s

    def stretch(self) -> None:
        """Go to the longest pause at once."""
        self._next_s = self._max_s
