"""Two reports side by side: ratios, and which of them say more than noise does."""

from __future__ import annotations

from dataclasses import dataclass

from lingua_scheduler.bench.report import Figure, Report

MARGIN = 0.1
"""A difference below this part is taken for noise."""

_WORDS = {1: "better", -1: "WORSE", 0: ""}


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of both reports."""

    name: str
    before: Figure
    after: Figure
    verdict: int  # 1 better, -1 worse, 0 neither

    @property
    def ratio(self) -> float:
        """How many times the first the second is."""
        if not self.before.value:
            return 1.0 if not self.after.value else float("inf")
        return self.after.value / self.before.value

    def line(self) -> str:
        """Word it for people."""
        return (
            f"{self.name:<40}{self.before.value:>12.4g}{self.after.value:>12.4g} {self.before.unit:<6}"
            f"{self.ratio:>8.2f} x  {_WORDS[self.verdict]}"
        ).rstrip()


def compared(before: Report, after: Report, margin: float = MARGIN) -> list[Row]:
    """Compare every figure that both have."""
    return [
        Row(name, figure, after.figures[name], _verdict(figure, after.figures[name], margin))
        for name, figure in before.figures.items()
        if name in after.figures
    ]


def lines(before: Report, after: Report, margin: float = MARGIN) -> list[str]:
    """Word a comparison for people, with all that speaks against it."""
    rows = compared(before, after, margin)
    head = f"{'':<40}{'first':>12}{'second':>12}{'':<7}{'ratio':>8}"
    said = [head, *(row.line() for row in rows)]
    for word, report in (("first", before), ("second", after)):
        said += [f"the {word} is VOID: {sentence}" for sentence in report.void[:1]]
        said += [f"the {word} is doubtful: {doubt}" for doubt in report.doubts]
    if before.profile != after.profile:
        said.append("the profiles differ")
    if (before.machine.processor, before.machine.cores) != (after.machine.processor, after.machine.cores):
        said.append("the machines differ")
    return said


def _verdict(before: Figure, after: Figure, margin: float) -> int:
    """Judge a change: beyond the margin, and (of several runs) beyond the range of both."""
    change = after.value - before.value
    small = abs(change) <= margin * abs(before.value)
    overlap = before.low != before.high and after.low <= before.high and before.low <= after.high
    if not before.better or small or overlap:
        return 0
    return 1 if (change < 0) == (before.better == "less") else -1
