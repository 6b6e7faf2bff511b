"""Tables as plain text: columns as wide as their cells, and nothing in a cell that could move a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lingua_scheduler.log import printable


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Write rows under their heads."""
    cells = [tuple(heads), *(tuple(cell(each) for each in row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def cell(value: Any) -> str:
    """Write one value: nothing as a dash, numbers short, text without control characters."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    if isinstance(value, list):
        return ",".join(cell(each) for each in value) or "-"
    return printable(str(value))


def duration(seconds: float) -> str:
    """Write a time as people say it: 42 s, 7 min, 3 h, 2 d."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
