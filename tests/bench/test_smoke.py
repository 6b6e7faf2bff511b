"""One short run with real processes: what must hold holds, and nothing is done more often than needed.

No time is checked here: how fast it was is nobody's business in a test.
"""

from __future__ import annotations

import pytest

from lingua_scheduler.bench.driver import run
from lingua_scheduler.bench.figures import reported
from lingua_scheduler.bench.page import page
from lingua_scheduler.bench.profile import load

ONCE_FOR_EACH_JOB = ("job_create", "job_finish", "node_release")


async def test_a_short_run_holds_and_costs_no_more_calls_than_it_must() -> None:
    report = reported("smoke", await run(load("smoke")))
    assert report.void == ()
    figures = {name: figure.value for name, figure in report.figures.items()}
    assert figures["answered share"] == 1
    assert figures["redis calls for a frame"] == 0
    for script in ONCE_FOR_EACH_JOB:
        assert report.scripts[script] == pytest.approx(1), script
    assert report.scripts["job_step"] <= 3
    told = report.scripts["transcript_keep"] + report.scripts["transcript_keep_in_room"]
    assert told == pytest.approx(1)
    assert figures["encodings for a result"] == 1
    assert figures["encodings for a room's result"] <= 2
    assert figures["memory for a session"] > 0
    assert "<svg" in page(report)
