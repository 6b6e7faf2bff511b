"""Reports: the median and range of several runs, files that can be read again, pages, and comparisons."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from lingua_scheduler.bench.compare import compared, lines
from lingua_scheduler.bench.machine import Machine, Places, places
from lingua_scheduler.bench.page import page
from lingua_scheduler.bench.profile import Profile
from lingua_scheduler.bench.quantile import quantile
from lingua_scheduler.bench.report import Better, Figure, Report, number, together
from lingua_scheduler.cli import main
from lingua_scheduler.errors import ConfigError


def report(value: float, *, better: Better = "less", **more: object) -> Report:
    figures = {"cpu for a frame": Figure.one(value, "us", better)}
    return Report(
        name="mine", profile=Profile(about="a <b>"), machine=Machine(cores=2), figures=figures, **more
    )


def test_several_runs_give_the_median_and_the_range() -> None:
    made = together([report(30, missing={"x": 1}), report(10), report(20, missing={"x": 2}, void=("bad",))])
    assert made.figures["cpu for a frame"] == Figure(value=20, unit="us", better="less", low=10, high=30)
    assert (made.runs, made.missing, made.void) == (3, {"x": 3}, ("bad",))


def test_a_figure_that_nobody_knows_the_end_of_is_more_than_what_is_known(tmp_path: Path) -> None:
    figures = {"loop lag p99": Figure.one(5000, "ms", "less", beyond=True)}
    made = Report(name="mine", profile=Profile(), machine=Machine(), figures=figures)
    assert "more than 5000 ms" in "\n".join(made.lines())
    assert "more than 5000" in page(made)
    made.write(tmp_path / "a.json")
    assert Report.read(tmp_path / "a.json") == made
    assert together([made, made]).figures["loop lag p99"].beyond


def test_numbers_have_the_digits_they_deserve() -> None:
    assert [number(each) for each in (3.0, 1234.5, 12.34, 0.1234, float("inf"))] == [
        *("3", "1234", "12.3", "0.123", "inf")
    ]


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = report(12.5, curves={"milliseconds over time": {"added": [(1.0, 2.0)]}})
    made.write(tmp_path / "a.json")
    assert Report.read(tmp_path / "a.json") == made


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(ConfigError, match="not a report"):
        Report.read(tmp_path / "a.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        Report.read(tmp_path / "b.json")
    with pytest.raises(ConfigError, match="cannot be written"):
        report(1).write(tmp_path / "none" / "a.json")


def test_a_void_or_doubtful_run_says_so() -> None:
    said = "\n".join(report(1, void=("index 3 ended twice",), doubts=("clients were late",)).lines())
    assert "VOID" in said
    assert "index 3 ended twice" in said
    assert "doubtful: clients were late" in said
    assert "VOID" not in "\n".join(report(1).lines())


@pytest.mark.parametrize(
    ("before", "after", "better", "verdict"),
    [
        (100, 80, "less", 1),
        (100, 120, "less", -1),
        (100, 120, "more", 1),
        (100, 80, "more", -1),
        (100, 95, "less", 0),
        (100, 300, "", 0),
        (0, 0, "less", 0),
        (0, 1, "less", -1),
    ],
)
def test_a_change_is_judged_by_its_direction_beyond_the_noise(
    before: float, after: float, better: Better, verdict: int
) -> None:
    (row,) = compared(report(before, better=better), report(after, better=better), margin=0.1)
    assert row.verdict == verdict


def test_ranges_that_overlap_are_no_change() -> None:
    before = together([report(100), report(200), report(300)])
    assert compared(before, together([report(90), report(120), report(130)]))[0].verdict == 0
    assert compared(before, together([report(50), report(60), report(99)]))[0].verdict == 1


def test_a_comparison_tells_what_speaks_against_it() -> None:
    other = Report(
        name="other", profile=Profile(seed=2), machine=Machine(cores=4), figures=report(50).figures
    )
    said = "\n".join(lines(report(100, void=("x",), doubts=("y",)), other))
    for words in (
        "0.50 x  better",
        "the first is VOID: x",
        "doubtful: y",
        "profiles differ",
        "machines differ",
    ):
        assert words in said


def test_two_reports_are_compared_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(100).write(tmp_path / "a.json")
    report(150).write(tmp_path / "b.json")
    assert main(["bench", "compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 0
    assert "1.50 x  WORSE" in capsys.readouterr().out
    assert main(["bench", "compare", str(tmp_path / "a.json")]) == 2
    assert main(["bench", "run", "--profile", "none"]) == 2
    assert main(["bench", "run"]) == 0
    assert "standard" in capsys.readouterr().out


def test_a_page_is_whole_and_needs_nothing_else() -> None:
    curves = {
        "milliseconds by share of utterances": {"whole": [(0.5, 10.0), (0.99, 50.0), (0.9999, 90.0)]},
        "cores over time": {"instances": [(1.0, 0.5), (2.0, 0.6)], "clients": [(1.0, 0.1), (2.0, 0.2)]},
        "nothing": {"empty": []},
    }
    made = page(report(1, curves=curves, void=("it's <wrong>",)))
    assert made.count("<svg") == 2
    assert "a &lt;b&gt;" in made
    assert "it&#x27;s &lt;wrong&gt;" in made
    assert "<script" not in made
    assert "http" not in made
    for drawing in made.split("<svg")[1:]:
        ET.fromstring("<svg" + drawing.split("</svg>")[0] + "</svg>")


def test_instances_are_kept_apart_from_the_load_as_far_as_there_are_processors() -> None:
    assert places(frozenset({0})) == Places()
    two = places(frozenset({0, 1}))
    assert (two.instances, two.clients, two.fleet, two.redis) == ({0}, {1}, {1}, {1})
    eight = places(frozenset(range(8)))
    assert eight.instances == {0, 1, 2, 3, 4}
    assert len({eight.clients, eight.fleet, eight.redis}) == 3


def test_quantiles_of_few_values() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([1.0], 0.999) == 1.0
    assert quantile(list(map(float, range(1000))), 0.99) == 990.0
