"""Growth curves: one thing is made larger, all else stays, and a slope tells how fast the cost follows.

What the curves are is in `curves`; here is what a curve and its points are, how they are fitted, worded and
written. Every point is a run that is checked for what must hold: a void point is shown and not fitted.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import msgspec

from lingua_scheduler.bench.machine import Machine
from lingua_scheduler.bench.report import number
from lingua_scheduler.bench.slopes import log_slope, straight_slope
from lingua_scheduler.errors import ConfigError
from lingua_scheduler.log import printable

_CELL = 14
_MOST_SENTENCES = 3  # of each void point, for people; the file has all


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One figure that every point of a curve has."""

    name: str
    unit: str
    goal: float | None = None  # largest slope that is good
    fitted: bool = True


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a curve."""

    x: float
    values: dict[str, float] = {}
    void: tuple[str, ...] = ()  # what must hold and did not
    doubts: tuple[str, ...] = ()  # why the figures may be wrong


class Slope(msgspec.Struct, frozen=True, kw_only=True):
    """How fast one figure grows."""

    column: str
    value: float
    points: int  # that were fitted
    goal: float | None = None

    def line(self, straight: str = "") -> str:
        """Word it for people; a slope that is no exponent is so much of one thing for each of another."""
        of = straight and f" {straight}"
        said = f"slope of {self.column}: {self.value:.3f}{of} over {self.points} points"
        if self.goal is None:
            return said
        word = "met" if self.value <= self.goal else "MISSED"
        return f"{said} (goal at most {self.goal:g}: {word})"


class GrownCurve(msgspec.Struct, frozen=True, kw_only=True):
    """One curve with its points."""

    name: str
    about: str
    axis: str
    columns: tuple[Column, ...]
    points: tuple[Point, ...]
    straight: bool = False  # fitted as it is, not on logarithms
    remarks: tuple[str, ...] = ()  # what else the points say
    slopes: tuple[Slope, ...] = ()

    def fitted(self) -> GrownCurve:
        """Fit every column; void points and those without the figure are left out."""
        fit = straight_slope if self.straight else log_slope
        slopes = []
        for column in self.columns:
            points = self.line_of(column.name)
            value = fit(points) if column.fitted else None
            if value is not None:
                slope = Slope(column=column.name, value=value, points=len(points), goal=column.goal)
                slopes.append(slope)
        return msgspec.structs.replace(self, slopes=tuple(slopes))

    def line_of(self, column: str) -> list[tuple[float, float]]:
        """Give the points of one column that count."""
        found = [
            (each.x, each.values[column]) for each in self.points if not each.void and column in each.values
        ]
        return found if self.straight else [(x, y) for x, y in found if x > 0 and y > 0]

    @property
    def void(self) -> bool:
        """Some point is void."""
        return any(each.void for each in self.points)

    def lines(self) -> list[str]:
        """Word it for people."""
        heads = [
            self.axis,
            *(f"{each.name}, {each.unit}" if each.unit else each.name for each in self.columns),
        ]
        said = [f"{self.name}: {self.about}", ""]
        said += [f"  [{place}] {head}" for place, head in enumerate(heads)]
        said.append("".join(f"{f'[{place}]':>{_CELL}}" for place in range(len(heads))))
        for point in self.points:
            cells = [number(point.x), *(_cell(point, each.name) for each in self.columns)]
            mark = "  VOID" if point.void else "  doubtful" if point.doubts else ""
            said.append("".join(f"{cell:>{_CELL}}" for cell in cells) + mark)
        units = {
            each.name: f"{each.unit} for each {self.axis}" if self.straight else "" for each in self.columns
        }
        said += [each.line(units[each.column]) for each in self.slopes]
        said += self.remarks
        for point in self.points:
            at = f"at {number(point.x)}"
            said += [f"VOID {at}: {sentence}" for sentence in point.void[:_MOST_SENTENCES]]
            said += [f"doubtful {at}: {doubt}" for doubt in point.doubts]
        return said

    def csv(self) -> str:
        """Write the points as CSV, one line each."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([self.axis, *(_head(each) for each in self.columns), "void"])
        for point in self.points:
            cells = [_exact(point, each.name) for each in self.columns]
            writer.writerow([f"{point.x:g}", *cells, "yes" if point.void else ""])
        return text.getvalue()


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """All curves that were asked for."""

    machine: Machine
    made_at: str
    quick: bool
    curves: tuple[GrownCurve, ...]

    def lines(self) -> list[str]:
        """Word it for people."""
        said = [self.machine.line()]
        if self.quick:
            said.append("quick: few and small points, for a look; the slopes say little")
        for curve in self.curves:
            said += ["", *curve.lines()]
        return said


def write(grown: Growth, directory: Path, drawings: Sequence[str]) -> None:
    """Write one JSON file of everything, and a CSV and a drawing of every curve."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        encoded = msgspec.json.format(msgspec.json.encode(grown), indent=1)
        (directory / "growth.json").write_bytes(encoded + b"\n")
        for curve, drawing in zip(grown.curves, drawings, strict=True):
            (directory / f"{curve.name}.csv").write_text(curve.csv(), encoding="utf-8")
            (directory / f"{curve.name}.svg").write_text(drawing, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{printable(str(directory))}: cannot be written: {error.strerror}") from None


def _cell(point: Point, column: str) -> str:
    return number(point.values[column]) if column in point.values else "-"


def _exact(point: Point, column: str) -> str:
    return f"{point.values[column]:.6g}" if column in point.values else ""


def _head(column: Column) -> str:
    return f"{column.name} ({column.unit})" if column.unit else column.name
