"""Which value a share of measurements does not exceed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """Give the value that this share of the values does not exceed."""
    if share == 0.5:  # noqa: PLR2004
        return statistics.median(values)
    return sorted(values)[min(len(values) - 1, round(share * len(values)))]
