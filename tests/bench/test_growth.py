"""Growth curves: slopes, what is fitted, the files; and one quick curve with real processes."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from lingua_scheduler.bench.curves import CURVES, Curve
from lingua_scheduler.bench.drawing import drawn
from lingua_scheduler.bench.growing import grown_curve, named
from lingua_scheduler.bench.growth import Column, GrownCurve, Growth, Point, write
from lingua_scheduler.bench.machine import Machine
from lingua_scheduler.bench.measured import Asked
from lingua_scheduler.bench.process import BenchError
from lingua_scheduler.bench.slopes import crossing, log_slope, straight_slope
from lingua_scheduler.cli import main
from lingua_scheduler.errors import ConfigError

COLUMNS = (
    Column(name="cost", unit="us", goal=0.1),
    Column(name="wait", unit="ms"),
    Column(name="count", unit="", fitted=False),
)


def point(x: float, cost: float, **more: object) -> Point:
    return Point(x=x, values={"cost": cost, "wait": 2 * x, "count": 1.0}, **more)  # type: ignore[arg-type]


def grown(*points: Point, straight: bool = False) -> GrownCurve:
    return GrownCurve(
        name="mine", about="a <b>", axis="things", columns=COLUMNS, points=points, straight=straight
    ).fitted()


def slopes(curve: GrownCurve) -> dict[str, tuple[float, int]]:
    return {each.column: (round(each.value, 6), each.points) for each in curve.slopes}


def quietly(_: str) -> None:
    """Say nothing."""


def test_the_slope_on_logarithms_is_the_exponent() -> None:
    assert log_slope([(10, 5), (100, 50), (1000, 500)]) == pytest.approx(1)
    assert log_slope([(10, 7), (1000, 7)]) == 0
    assert log_slope([(1, 3), (2, 12), (4, 48)]) == pytest.approx(2)


def test_points_without_a_logarithm_say_nothing() -> None:
    assert log_slope([(0, 5), (10, -3), (10, 0)]) is None
    assert log_slope([(0, 9), (10, 1), (100, 10)]) == pytest.approx(1)


def test_one_place_has_no_slope() -> None:
    assert straight_slope([(5, 1), (5, 2)]) is None
    assert straight_slope([]) is None


def test_a_straight_slope_is_so_much_for_each() -> None:
    assert straight_slope([(0, 1), (1, 3), (5, 11)]) == pytest.approx(2)


@pytest.mark.parametrize(
    ("points", "level", "found"),
    [
        ([(10, 1), (100, 10), (1000, 1000)], 100, 316.2),
        ([(10, 1), (100, 2)], 50, None),
        ([(10, 60), (100, 70)], 50, 10),
        ([], 50, None),
    ],
)
def test_a_knee_lies_between_the_points_around_it(
    points: Sequence[tuple[float, float]], level: float, found: float | None
) -> None:
    assert crossing(points, level) == (found if found is None else pytest.approx(found, rel=1e-3))


def test_every_column_that_may_be_fitted_is() -> None:
    assert slopes(grown(point(10, 4), point(100, 4))) == {"cost": (0, 2), "wait": (1, 2)}
    assert slopes(grown(point(0, 4), point(10, 9), straight=True)) == {"cost": (0.5, 2), "wait": (2, 2)}


def test_a_void_point_is_marked_and_not_fitted() -> None:
    curve = grown(point(10, 4), point(100, 4), point(1000, 9999, void=("an utterance was lost",)))
    assert slopes(curve)["cost"] == (0, 2)
    assert curve.void
    said = "\n".join(curve.lines())
    assert "VOID at 1000: an utterance was lost" in said
    assert "9999  " in said
    assert list(csv.DictReader(curve.csv().splitlines()))[2]["void"] == "yes"


def test_goals_and_doubts_are_told() -> None:
    steep = "\n".join(grown(point(10, 1), point(100, 10, doubts=("it was loud",))).lines())
    assert "goal at most 0.1: MISSED" in steep
    assert "doubtful at 100: it was loud" in steep
    assert "goal at most 0.1: met" in "\n".join(grown(point(10, 1), point(100, 1)).lines())
    straight = grown(point(0, 1), point(1, 1), straight=True)
    assert "ms for each things" in "\n".join(straight.lines())


def test_files_of_a_curve_are_whole_and_need_nothing_else(tmp_path: Path) -> None:
    curve = grown(point(10, 4), point(100, 5), point(1000, 0, void=("bad",)))
    made = Growth(machine=Machine(cores=2), made_at="now", quick=True, curves=(curve,))
    write(made, tmp_path / "new", [drawn(curve)])
    assert msgspec.json.decode((tmp_path / "new" / "growth.json").read_bytes(), type=Growth) == made
    rows = list(csv.reader((tmp_path / "new" / "mine.csv").read_text().splitlines()))
    assert rows[0] == ["things", "cost (us)", "wait (ms)", "count", "void"]
    assert rows[1] == ["10", "4", "20", "1", ""]
    drawing = (tmp_path / "new" / "mine.svg").read_text()
    assert len(ET.fromstring(drawing).findall(".//{*}polyline")) == len(COLUMNS)
    assert "a &lt;b&gt;" in drawing
    assert "<script" not in drawing
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        write(made, tmp_path / "file", [drawn(curve)])


@pytest.mark.parametrize("curve", [grown(), grown(Point(x=5.0, void=("none",))), grown(point(0, 0))])
def test_a_curve_with_next_to_nothing_can_be_drawn(curve: GrownCurve) -> None:
    ET.fromstring(drawn(curve))
    assert curve.slopes == ()


def test_curves_are_known_by_name() -> None:
    assert named([]) == CURVES
    assert [curve.name for curve in named(["redis", "nodes", "redis"])] == ["redis", "nodes"]
    assert main(["bench", "growth", "sideways"]) == 2


def test_curves_are_told_apart_and_grow() -> None:
    assert len({curve.name for curve in CURVES}) == len(CURVES)
    for curve in CURVES:
        assert list(curve.points) == sorted(curve.points)
        assert len(curve.quick) == 2
        assert len({column.name for column in curve.columns}) == len(curve.columns)


async def test_what_goes_wrong_at_one_point_does_not_take_the_others_along() -> None:
    async def measure(x: float, _: Asked) -> Point:
        if x == 2:
            raise BenchError("an instance did not start")
        return point(x, 1)

    made = await grown_curve(curve_of(measure=measure), Asked(quick=False, say=quietly))
    assert [bool(each.void) for each in made.points] == [False, True, False]
    assert slopes(made)["cost"] == (0, 2)


async def test_a_curve_ends_where_it_is_full() -> None:
    async def measure(x: float, _: Asked) -> Point:
        return point(x, x)

    full = curve_of(measure=measure, full=lambda each: each.x >= 2)
    made = await grown_curve(full, Asked(quick=False, say=quietly))
    assert [each.x for each in made.points] == [1, 2]


def curve_of(**facts: object) -> Curve:
    common: dict[str, object] = {"points": (1, 2, 3), "quick": (1, 2), "columns": COLUMNS}
    return Curve(name="mine", about="", axis="things", **{**common, **facts})  # type: ignore[arg-type]


def speaking(frames: float, added_ms: float, late_ms: float = 1.0, *, busy: float = 0.9) -> Point:
    values = {"frames": frames, "added p99": added_ms, "clients late p99": late_ms}
    return Point(x=1, values={**values, "instance cpu, of one core": busy})


def test_the_knee_is_that_of_the_instance_or_of_what_makes_load() -> None:
    (curve,) = named(["speaking"])
    assert "no knee up to 200" in curve.remarks([speaking(100, 5), speaking(200, 20)])[0]
    assert "the instance was full" in curve.remarks([speaking(100, 5), speaking(200, 80)])[0]
    assert "generator was late itself" in curve.remarks([speaking(100, 5), speaking(200, 80, 30)])[0]
    assert "neither" in curve.remarks([speaking(100, 5), speaking(200, 80, busy=0.1)])[0]
    assert curve.remarks([]) == []
    assert curve.full(speaking(200, 80))
    assert not curve.full(speaking(200, 8))


def test_a_step_in_the_cost_of_a_byte_is_told() -> None:
    (curve,) = named(["length"])
    flat = [Point(x=x, values={"cpu for a byte": cost}) for x, cost in ((1, 90), (3, 20), (6, 19), (15, 20))]
    assert "no step" in curve.remarks(flat)[0]
    assert "a STEP" in curve.remarks([*flat, Point(x=30, values={"cpu for a byte": 40})])[0]
    assert curve.remarks(flat[:2]) == []


def test_a_quick_curve_is_measured_with_real_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At its larger point some nodes have sockets, and some stand in Redis only. No time is checked."""
    code = main(["bench", "growth", "nodes", "--quick", "--out", str(tmp_path)])
    assert "nodes: more nodes" in capsys.readouterr().out
    made = msgspec.json.decode((tmp_path / "growth.json").read_bytes(), type=Growth)
    (curve,) = made.curves
    assert [each.x for each in curve.points] == list(named(["nodes"])[0].quick)
    for each in curve.points:
        assert each.void == ()
        assert each.values["answered share"] == 1, each.values
        assert each.values["redis calls for a frame"] == 0
        assert each.values.keys() >= {column.name for column in curve.columns}
    assert code == 0
    assert {each.name for each in tmp_path.iterdir()} == {"growth.json", "nodes.csv", "nodes.svg"}
    rows = list(csv.reader((tmp_path / "nodes.csv").read_text().splitlines()))
    assert [len(row) for row in rows] == [len(curve.columns) + 2] * 3
    ET.parse(tmp_path / "nodes.svg")
