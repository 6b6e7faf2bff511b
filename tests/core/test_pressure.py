from __future__ import annotations

import pytest

from lingua_scheduler.core.pressure import Level, Pressure


@pytest.fixture
def pressure() -> Pressure:
    return Pressure(10, repeat_s=2.0)


@pytest.mark.parametrize(
    ("unanswered", "level"),
    [
        (0, Level.CALM),
        (4, Level.CALM),
        (5, Level.CROWDED),
        (9, Level.CROWDED),
        (10, Level.FULL),
        (99, Level.FULL),
    ],
)
def test_half_of_the_limit_is_crowded_and_the_limit_is_full(pressure, unanswered, level):
    assert pressure.level(unanswered) is level


@pytest.mark.parametrize("limit", [2, 3, 10, 11])
def test_few_are_as_many_as_are_calm(limit):
    pressure = Pressure(limit, repeat_s=2.0)
    assert pressure.level(pressure.few) is Level.CALM
    assert pressure.level(pressure.few + 1) is not Level.CALM


def test_no_number_is_few_while_dropped_frames_are_to_be_reported(pressure):
    pressure.dropped(0.0)
    assert pressure.few < 0
    pressure.burst_over()
    assert pressure.few == 4


def test_calm_is_never_told(pressure):
    assert pressure.warning(Level.CALM, 0.0) is None


def test_a_level_is_told_once_and_again_only_when_the_client_should_have_resumed(pressure):
    told = [pressure.warning(Level.CROWDED, at / 10) for at in range(40)]
    assert [at for at, level in enumerate(told) if level] == [0, 20]


def test_a_worse_level_is_told_at_once(pressure):
    assert pressure.warning(Level.CROWDED, 0.0) is Level.CROWDED
    assert pressure.warning(Level.FULL, 0.1) is Level.FULL


def test_swinging_around_the_limit_is_not_told_each_time(pressure):
    told = [pressure.warning(Level.FULL if at % 2 else Level.CROWDED, at / 100) for at in range(200)]
    assert [level for level in told if level] == [Level.CROWDED, Level.FULL]


def test_dropped_frames_are_reported_once_when_the_burst_is_over(pressure):
    assert [pressure.dropped(at / 10) for at in range(7)] == [0] * 7
    assert pressure.burst_over() == 7
    assert pressure.burst_over() == 0


def test_a_burst_that_does_not_end_is_reported_now_and_then(pressure):
    reports = [pressure.dropped(at / 10) for at in range(120)]
    assert [count for count in reports if count] == [51, 51]
    assert pressure.burst_over() == 18
