"""The report of a benchmark: figures with their units, what makes them doubtful or void, and a table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from lingua_scheduler.bench.machine import Machine
from lingua_scheduler.bench.profile import Profile
from lingua_scheduler.errors import ConfigError
from lingua_scheduler.log import printable

Better = Literal["less", "more", ""]
Curve = list[tuple[float, float]]

_WIDTH = 46


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure: the median of all runs, and their range."""

    value: float
    unit: str
    better: Better = ""  # which way is progress; nothing: neither
    low: float = 0.0
    high: float = 0.0
    beyond: bool = False  # it was more than this, and nobody knows how much

    @classmethod
    def one(cls, value: float, unit: str, better: Better = "", *, beyond: bool = False) -> Figure:
        """The figure of a single run."""
        return cls(value=value, unit=unit, better=better, low=value, high=value, beyond=beyond)

    def words(self) -> str:
        """Word the value for people."""
        return f"more than {number(self.value)}" if self.beyond else number(self.value)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a profile showed in one run or several."""

    name: str
    profile: Profile
    machine: Machine
    made_at: str = ""
    runs: int = 1
    figures: dict[str, Figure] = {}
    missing: dict[str, int] = {}  # utterances without a result, by reason
    refused: dict[str, int] = {}  # clients that were turned away, by reason
    scripts: dict[str, float] = {}  # calls of Redis for each job, by script
    void: tuple[str, ...] = ()  # what must hold and did not: the figures mean nothing
    doubts: tuple[str, ...] = ()  # why the figures may be wrong
    curves: dict[str, dict[str, Curve]] = {}  # for plots, by plot and line

    def lines(self) -> list[str]:
        """Word it for people."""
        lines = [f"{self.name}: {self.profile.about}", self.machine.line(), ""]
        ranged = self.runs > 1
        for name, figure in self.figures.items():
            words = f"{name:<{_WIDTH}}{figure.words():>12} {figure.unit}"
            lines.append(f"{words:<76}{number(figure.low)} to {number(figure.high)}" if ranged else words)
        for title, counts in (("without a result", self.missing), ("turned away", self.refused)):
            if counts:
                said = ", ".join(f"{times} x {reason}" for reason, times in sorted(counts.items()))
                lines.append(f"{title}: {said}")
        if self.scripts:
            said = ", ".join(f"{calls:.2f} {name}" for name, calls in sorted(self.scripts.items()))
            lines.append(f"scripts for each job: {said}")
        lines += ["", *(f"doubtful: {doubt}" for doubt in self.doubts)]
        if self.void:
            lines += ["VOID: what must hold did not", *(f"  {sentence}" for sentence in self.void)]
        else:
            lines.append("every utterance ended once and in order; nothing is left behind")
        return lines

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        try:
            path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")
        except OSError as error:
            raise ConfigError(f"{printable(str(path))}: cannot be written: {error.strerror}") from None

    @classmethod
    def read(cls, path: Path) -> Report:
        """Read one; ConfigError when it is none."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except OSError as error:
            raise ConfigError(f"{printable(str(path))}: cannot be read: {error.strerror}") from None
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"{printable(str(path))}: not a report of lingua bench: {printable(str(error))}"
            ) from None


def together(reports: Sequence[Report]) -> Report:
    """Make one report of several runs: the median of each figure, and its range."""
    first, *_ = reports
    figures = {}
    for name, figure in first.figures.items():
        values = [each.figures[name].value for each in reports if name in each.figures]
        figures[name] = Figure(
            value=statistics.median(values),
            unit=figure.unit,
            better=figure.better,
            low=min(values),
            high=max(values),
            beyond=any(each.figures[name].beyond for each in reports if name in each.figures),
        )
    return msgspec.structs.replace(
        first,
        runs=len(reports),
        figures=figures,
        missing=_added([each.missing for each in reports]),
        refused=_added([each.refused for each in reports]),
        void=tuple(dict.fromkeys(sentence for each in reports for sentence in each.void)),
        doubts=tuple(dict.fromkeys(doubt for each in reports for doubt in each.doubts)),
    )


def _added(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for each in counts for name in each)
    return {name: sum(each.get(name, 0) for each in counts) for name in names}


def number(value: float) -> str:
    """Word a number with as many digits as it deserves."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e9:  # noqa: PLR2004
        return str(int(value))
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"  # noqa: PLR2004
