"""An index that was passed over may still be opened: it takes its place in the order."""

from __future__ import annotations

import pytest

from lingua_scheduler.core.ordering import (
    Delivered,
    Missing,
    MissingReason,
    OrderingOptions,
    ResultStream,
    Verdict,
)
from lingua_scheduler.errors import IllegalTransition

NOW = 100.0


@pytest.fixture
def stream() -> ResultStream[str]:
    """Indexes 0 and 5 are open, 1 to 4 were passed over."""
    made: ResultStream[str] = ResultStream(OrderingOptions(gap_timeout_ms=500))
    made.open(0, NOW)
    made.open(5, NOW)
    return made


def left(stream: ResultStream[str], index: int, now: float = NOW) -> list[int]:
    return [release.index for release in stream.resolve(index, Delivered("x"), now).releases]


def test_it_leaves_before_what_is_above_it(stream):
    stream.open(3, NOW)
    assert left(stream, 5) == []
    assert left(stream, 0) == [0]
    assert left(stream, 3) == [3, 5]
    assert stream.idle


def test_it_leaves_as_it_comes_when_what_is_above_has_left(stream):
    left(stream, 0)
    left(stream, 5)
    stream.open(3, NOW)
    assert not stream.idle
    assert left(stream, 3) == [3]


def test_it_is_given_up_like_any_other_when_a_result_waits_behind_it(stream):
    left(stream, 0)
    stream.open(3, NOW)
    left(stream, 5)
    assert stream.deadline == NOW + 0.5
    assert [release.outcome for release in stream.tick(NOW + 0.5)] == [
        Missing(MissingReason.GAP_TIMEOUT),
        Delivered("x"),
    ]
    assert stream.resolve(3, Delivered("late"), NOW + 1).verdict is Verdict.LATE


def test_a_result_that_already_waits_starts_its_clock_at_once(stream):
    left(stream, 5)
    stream.open(3, NOW + 0.2)
    left(stream, 0, NOW + 0.3)
    assert stream.deadline == NOW + 0.7


def test_it_opens_once(stream):
    stream.open(3, NOW)
    stream.open(3, NOW)
    left(stream, 0)
    left(stream, 3)
    with pytest.raises(IllegalTransition):
        stream.open(3, NOW)


def test_its_neighbours_may_still_be_opened(stream):
    for index in (3, 1, 4, 2):
        stream.open(index, NOW)
    assert [left(stream, index) for index in (4, 3, 2, 1, 0, 5)] == [[], [], [], [], [0, 1, 2, 3, 4], [5]]


def test_jumps_are_not_remembered_for_ever():
    stream: ResultStream[str] = ResultStream(OrderingOptions())
    for index in range(1, 2001, 2):
        stream.open(index, NOW)
        left(stream, index)
    assert len(stream._passed) <= 256
    stream.open(1998, NOW)
    with pytest.raises(IllegalTransition):
        stream.open(0, NOW)
