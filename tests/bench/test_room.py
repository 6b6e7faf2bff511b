"""The report about a large room names what was not met."""

from __future__ import annotations

from lingua_scheduler.bench.room import Report

COUNTS = {"jobs": 60, "recognitions": 10, "room_encodings_total": 120, "room_results_total": 60}


def test_a_good_run_misses_nothing() -> None:
    report = Report(200, 10, {"same": (1.0, 2.0), "other": (3.0, 4.0)}, COUNTS)
    assert report.missed() == []
    assert any("other" in line and "3.50" in line for line in report.lines())


def test_slow_listeners_and_work_done_twice_are_named() -> None:
    counts = {**COUNTS, "recognitions": 20}
    missed = Report(200, 10, {"same": (1.0,), "other": (900.0,)}, counts).missed()
    assert len(missed) == 2
    assert "900" in missed[0]
    assert "recognitions" in missed[1]
