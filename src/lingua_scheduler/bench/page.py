"""A report as one page with plots: self-contained, without a script, readable in any browser."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from html import escape

from lingua_scheduler.bench.report import Curve, Report

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 720, 280, 64, 36, 14
_COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df")
_BY_SHARE = "milliseconds by share of utterances"
_MOST_NINES = 4.0
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#1f2328}
table{border-collapse:collapse;margin:1rem 0}
td,th{padding:.2rem .8rem;border-bottom:1px solid #d1d9e0;text-align:left}
td.n{text-align:right;font-variant-numeric:tabular-nums}
svg{max-width:100%;height:auto}
text{font:12px system-ui,sans-serif}
.void,.doubt{border:1px solid;padding:.5rem 1rem}
.void{background:#ffebe9}
.doubt{background:#fff8c5}
"""


def page(report: Report) -> str:
    """Write the page."""
    plots = [
        f"<h2>{escape(title)}</h2>{_plot(title, lines)}"
        for title, lines in report.curves.items()
        if any(len(line) > 1 for line in lines.values())
    ]
    body = [
        f"<h1>lingua bench: {escape(report.name)}</h1>",
        f"<p>{escape(report.profile.about)}</p>",
        f"<p>{escape(report.machine.line())}; {escape(report.made_at)}</p>",
        _box("void", "This run is void: what must hold did not.", report.void),
        _box("doubt", "These figures are doubtful.", report.doubts),
        _table(report),
        *plots,
    ]
    title = f"<title>lingua bench: {escape(report.name)}</title>"
    head = f'<!doctype html><html lang="en"><meta charset="utf-8">{title}<style>{_STYLE}</style>'
    return f"{head}{''.join(body)}</html>\n"


def _box(kind: str, title: str, sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f'<div class="{kind}"><strong>{title}</strong><ul>{items}</ul></div>' if items else ""


def _table(report: Report) -> str:
    ranged = "<th>range</th>" if report.runs > 1 else ""
    rows = []
    for name, figure in report.figures.items():
        span = f'<td class="n">{figure.low:.4g} to {figure.high:.4g}</td>' if ranged else ""
        value = f'<td class="n">{figure.words()}</td><td>{escape(figure.unit)}</td>'
        rows.append(f"<tr><td>{escape(name)}</td>{value}{span}</tr>")
    for title, counts in (("without a result", report.missing), ("turned away", report.refused)):
        rows += [
            f'<tr><td>{title}: {escape(why)}</td><td class="n">{n}</td></tr>' for why, n in counts.items()
        ]
    return f"<table><tr><th>figure</th><th>value</th><th>unit</th>{ranged}</tr>{''.join(rows)}</table>"


def _plot(title: str, lines: dict[str, Curve]) -> str:
    """Draw lines; shares are drawn by their nines, and milliseconds by their logarithm."""
    across: Callable[[float], float] = _nines if title == _BY_SHARE else float
    logarithmic = title.startswith("milliseconds")
    up: Callable[[float], float] = _log if logarithmic else float
    points = {name: [(across(x), up(y)) for x, y in line] for name, line in lines.items() if line}
    every = [point for line in points.values() for point in line]
    low_x, high_x = min(x for x, _ in every), max(x for x, _ in every)
    low_y, high_y = (min(y for _, y in every) if logarithmic else 0.0), max(y for _, y in every)

    def place(x: float, y: float) -> tuple[float, float]:
        right = (x - low_x) / ((high_x - low_x) or 1.0)
        above = (y - low_y) / ((high_y - low_y) or 1.0)
        return (
            _LEFT + right * (_WIDTH - _LEFT - 10),
            _HEIGHT - _BOTTOM - above * (_HEIGHT - _BOTTOM - _TOP),
        )

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">']
    for step in range(5):
        value = low_y + (high_y - low_y) * step / 4
        x, y = place(low_x, value)
        said = f"{10**value:.3g}" if logarithmic else f"{value:.3g}"
        parts.append(f'<line x1="{x}" x2="{_WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d1d9e0"/>')
        parts.append(f'<text x="{x - 6}" y="{y + 4:.1f}" text-anchor="end">{said}</text>')
    parts += _ticks(low_x, high_x, lambda x: place(x, low_y), by_share=title == _BY_SHARE)
    for number, (name, line) in enumerate(points.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        parts.append(
            f'<text x="{_LEFT + 10 + number * 130}" y="{_TOP}" fill="{colour}">{escape(name)}</text>'
        )
    return "".join([*parts, "</svg>"])


def _ticks(
    low: float, high: float, place: Callable[[float], tuple[float, float]], *, by_share: bool
) -> Iterable[str]:
    marks = (
        {_nines(share): f"{share:.4%}".rstrip("0%").rstrip(".") + " %" for share in (0.5, 0.9, 0.99, 0.999)}
        if by_share
        else {low + (high - low) * step / 4: f"{low + (high - low) * step / 4:.0f} s" for step in range(5)}
    )
    for at, word in marks.items():
        x, y = place(at)
        yield f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{word}</text>'


def _nines(share: float) -> float:
    return min(_MOST_NINES, -math.log10(max(1e-9, 1 - share)))


def _log(value: float) -> float:
    return math.log10(max(value, 0.001))
