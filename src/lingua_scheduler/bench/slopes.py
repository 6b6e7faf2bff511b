"""How fast something grows: slopes fitted by least squares."""

from __future__ import annotations

import math
from collections.abc import Sequence

_FEWEST = 2  # points that a line needs


def straight_slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Fit the slope of y = a + slope * x; None when there are not two different x."""
    if len({x for x, _ in points}) < _FEWEST:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


def log_slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Fit the exponent of y = c * x^slope on logarithms: 0 is flat, 1 is in proportion.

    Points that have no logarithm say nothing and are left out.
    """
    return straight_slope([(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0])


def crossing(points: Sequence[tuple[float, float]], level: float) -> float | None:
    """Give the x at which y first rises above a level, read off on logarithms; None when it never does."""
    before: tuple[float, float] | None = None
    for x, y in points:
        if y > level:
            if before is None or min(before[0], before[1]) <= 0:
                return x
            share = math.log(level / before[1]) / math.log(y / before[1])
            return float(before[0] * (x / before[0]) ** share)
        before = (x, y)
    return None
