"""The benchmark measures something and judges it; the figures themselves are nobody's business here."""

from __future__ import annotations

from dataclasses import replace

from lingua_scheduler.bench.placement import Report, Row, measure

GOOD = Row(
    nodes=10,
    languages=2,
    hit_us=10,
    miss_us=4,
    unknown_us=3,
    affinity_us=9,
    heartbeat_us=15,
    nop_us=1,
    worst_us=0,
)


async def test_a_short_run_fills_every_figure():
    report = await measure(rounds=50, most_nodes=10)
    assert [(row.nodes, row.languages) for row in report.rows] == [(10, 2), (10, 4), (10, 10)]
    for row in report.rows:
        assert min(row.hit_us, row.miss_us, row.unknown_us, row.affinity_us, row.heartbeat_us, row.nop_us) > 0
    assert len(report.lines()) == len(report.rows) + 3


def test_goals_that_are_met_are_not_complained_about():
    assert Report((GOOD,), slope=0.05).missed() == []


def test_each_missed_goal_is_named():
    bad = replace(GOOD, hit_us=30, unknown_us=40, worst_us=2000)
    assert len(Report((bad,), slope=0.5).missed()) == 5
