from __future__ import annotations

import pytest

from lingua_scheduler.core.reorder import Reorder

TIMEOUT_S = 2.0


@pytest.fixture
def whole() -> Reorder[str]:
    return Reorder(timeout_s=TIMEOUT_S, most=3)


def indexes(released: list[tuple[int, str]] | None) -> list[int]:
    assert released is not None
    return [index for index, _ in released]


def test_what_comes_in_order_goes_on_at_once(whole):
    assert [indexes(whole.add(index, "x", 0.0)) for index in range(4)] == [[0], [1], [2], [3]]
    assert whole.deadline is None


def test_what_comes_early_waits_for_what_is_missing(whole):
    assert whole.add(2, "c", 0.0) == []
    assert whole.add(0, "a", 0.1) == [(0, "a")]
    assert whole.add(1, "b", 0.2) == [(1, "b"), (2, "c")]
    assert len(whole) == 0


def test_a_missing_index_is_skipped_when_its_time_is_over(whole):
    whole.add(5, "f", 1.0)
    assert whole.deadline == 3.0
    assert whole.tick(2.999) == []
    assert whole.tick(3.0) == [(5, "f")]
    assert indexes(whole.add(6, "g", 3.0)) == [6]


def test_every_gap_has_been_missing_since_something_above_it_came(whole):
    """Two gaps below utterances of the same moment end together, not one time-out after the other."""
    whole.add(1, "b", 0.0)
    whole.add(3, "d", 0.5)
    assert indexes(whole.tick(2.0)) == [1]
    assert whole.deadline == 2.5
    assert indexes(whole.tick(2.5)) == [3]

    whole.add(5, "f", 10.0)
    whole.add(7, "h", 10.0)
    assert indexes(whole.tick(12.0)) == [5, 7]


def test_a_late_arrival_between_two_held_ones_does_not_prolong_the_wait(whole):
    whole.add(4, "e", 0.0)
    whole.add(2, "c", 1.5)
    assert indexes(whole.tick(2.0)) == [2, 4]


@pytest.mark.parametrize("repeated", [0, 2, 4])
def test_a_repeated_index_is_refused_whether_it_has_left_or_waits(whole, repeated):
    for index in (0, 1, 2, 4):
        whole.add(index, "x", 0.0)
    assert whole.add(repeated, "again", 0.1) is None


def test_a_skipped_index_that_comes_late_goes_on_at_once_and_only_once(whole):
    whole.add(5, "f", 0.0)
    whole.tick(2.0)
    assert whole.add(3, "d", 9.0) == [(3, "d")]
    assert whole.add(3, "again", 9.0) is None
    assert indexes(whole.add(0, "a", 9.0)) == [0]
    assert indexes(whole.add(4, "e", 9.0)) == [4]
    assert whole.deadline is None


def test_no_more_than_the_limit_is_held(whole):
    for index in (2, 4, 6):
        assert whole.add(index, "x", 0.0) == []
    assert indexes(whole.add(8, "x", 0.0)) == [2]
    assert len(whole) == 3


def test_indexes_used_elsewhere_are_not_waited_for(whole):
    assert whole.expect(2) == []
    assert whole.add(1, "used", 0.0) is None
    assert indexes(whole.add(2, "c", 0.0)) == [2]


def test_what_waits_goes_on_when_the_other_path_reaches_it(whole):
    whole.add(1, "b", 0.0)
    whole.add(2, "c", 0.0)
    assert indexes(whole.expect(1)) == [1, 2]


def test_what_waits_is_dropped_when_the_other_path_took_its_index(whole):
    whole.add(1, "b", 0.0)
    whole.add(3, "d", 0.0)
    assert indexes(whole.expect(3)) == [3]
    assert len(whole) == 0


def test_a_lower_expectation_changes_nothing(whole):
    whole.expect(4)
    assert whole.expect(1) == []
    assert indexes(whole.add(4, "e", 0.0)) == [4]


def test_flush_releases_everything_in_order(whole):
    for index in (7, 2, 4):
        whole.add(index, "x", 0.0)
    assert indexes(whole.flush()) == [2, 4, 7]
    assert whole.deadline is None


def test_a_session_that_only_ever_skips_is_not_remembered_for_ever(whole):
    for index in range(1, 2001, 2):
        whole.add(index, "x", float(index))
        whole.tick(float(index) + TIMEOUT_S)
    assert len(whole._skipped) <= 64
    assert whole.add(1998, "late", 9999.0) == [(1998, "late")]
    assert whole.add(0, "too late", 9999.0) is None
