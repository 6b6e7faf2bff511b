"""A growth curve as a drawing: self-contained, one field for each unit, both axes by their logarithms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape

from lingua_scheduler.bench.growth import Column, GrownCurve
from lingua_scheduler.bench.report import number

_WIDTH, _FIELD, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 250, 70, 28, 44, 34
_COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df")
_TITLE = 26
_STEPS = 4  # lines across a field that begins at nothing
_FEWEST_MARKS = 2
_LEAST_DECADE = 0.3  # so that a flat line stays flat

_FONT = 'role="img" font-family="system-ui,sans-serif" font-size="12"'

Place = Callable[[float, float], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class _Axis:
    """From a value to its place between 0 and 1."""

    low: float
    high: float
    logarithmic: bool

    def at(self, value: float) -> float:
        if not self.logarithmic:
            return (value - self.low) / ((self.high - self.low) or 1.0)
        low, high = math.log10(self.low), math.log10(self.high)
        return (math.log10(value) - low) / ((high - low) or 1.0)

    def marks(self) -> list[float]:
        if not self.logarithmic:
            return [self.low + (self.high - self.low) * step / _STEPS for step in range(_STEPS + 1)]
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        every = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
        inside = [value for value in every if self.low <= value <= self.high]
        if len(inside) < _FEWEST_MARKS:
            return [self.low, self.high]
        whole = [value for value in inside if f"{value:e}".startswith("1")]
        return whole if len(inside) > 2 * _STEPS else inside


def drawn(curve: GrownCurve) -> str:
    """Draw a curve; void points are crosses that no line goes through."""
    fields = _fields(curve)
    height = _TITLE + _FIELD * max(1, len(fields))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {_FONT}>',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="18" font-size="14">{escape(f"{curve.name}: {curve.about}")}</text>',
    ]
    for place, (unit, columns) in enumerate(fields.items()):
        parts.append(f'<g transform="translate(0 {_TITLE + place * _FIELD})">')
        parts += _field(curve, unit, columns)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _fields(curve: GrownCurve) -> dict[str, list[Column]]:
    fields: dict[str, list[Column]] = {}
    for column in curve.columns:
        if any(column.name in point.values for point in curve.points):
            fields.setdefault(column.unit, []).append(column)
    return fields


def _field(curve: GrownCurve, unit: str, columns: list[Column]) -> Iterator[str]:
    names = [column.name for column in columns]
    seen = [(point.x, point.values[name]) for point in curve.points for name in names if name in point.values]
    across = _axis([x for x, _ in seen], logarithmic=not curve.straight)
    up = _axis([y for _, y in seen], logarithmic=not curve.straight)

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + across.at(max(x, across.low)) * (_WIDTH - _LEFT - _RIGHT),
            _FIELD - _BOTTOM - up.at(max(y, up.low)) * (_FIELD - _TOP - _BOTTOM),
        )

    yield from _grid(across, up, place)
    yield f'<text x="{_LEFT}" y="{_TOP - 8}" fill="#59636e">{escape(unit)}</text>'
    yield f'<text x="{_WIDTH - _RIGHT}" y="{_FIELD - 4}" text-anchor="end">{escape(curve.axis)}</text>'
    slopes = {each.column: each.value for each in curve.slopes}
    for turn, name in enumerate(names):
        colour = _COLOURS[turn % len(_COLOURS)]
        line = [place(x, y) for x, y in curve.line_of(name)]
        void = [point for point in curve.points if point.void and name in point.values]
        yield from _line(line, colour)
        yield from _crosses([place(point.x, point.values[name]) for point in void], colour)
        said = f"{name}, slope {slopes[name]:.2f}" if name in slopes else name
        yield (
            f'<text x="{_LEFT + 10 + turn % 2 * 320}" y="{14 + turn // 2 * 14}" fill="{colour}">'
            f"{escape(said)}</text>"
        )


def _axis(values: list[float], *, logarithmic: bool) -> _Axis:
    good = [value for value in values if value > 0] if logarithmic else values
    if not logarithmic or not good:
        return _Axis(0.0, max([*good, 0.0]) or 1.0, logarithmic=False)
    low, high = min(good), max(good)
    wider = max(0.0, _LEAST_DECADE - math.log10(high / low)) / 2
    return _Axis(low * 10**-wider, high * 10**wider, logarithmic=True)


def _grid(across: _Axis, up: _Axis, place: Place) -> Iterator[str]:
    for value in up.marks():
        x, y = place(across.low, value)
        yield f'<line x1="{x:.1f}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d1d9e0"/>'
        yield f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{number(value)}</text>'
    for value in across.marks():
        x, y = place(value, up.low)
        yield f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{number(value)}</text>'


def _line(points: list[tuple[float, float]], colour: str) -> Iterator[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    if path:
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
    for x, y in points:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'


def _crosses(points: list[tuple[float, float]], colour: str) -> Iterator[str]:
    for x, y in points:
        path = f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
        yield f'<path d="{path}" stroke="{colour}" stroke-width="1.6"/>'
