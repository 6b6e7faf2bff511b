from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.core.sequence import SequenceWindow


def taken(*numbers: int) -> list[int]:
    window = SequenceWindow()
    return [number for number in numbers if window.fresh(number)]


@pytest.mark.parametrize(
    ("sent", "fresh"),
    [
        ([0, 1, 2], [0, 1, 2]),
        ([0, 0, 1, 1], [0, 1]),
        ([24, 25], [24, 25]),  # the web client counts on after a reconnect
        ([0, 2, 1, 2, 1], [0, 2, 1]),
        ([5, 1, 1], [5, 1]),
        ([0, 10_000, 10_000, 10_001], [0, 10_000, 10_001]),
        ([0, 2**63 - 1, 2**63 - 1], [0, 2**63 - 1]),
    ],
)
def test_each_number_is_taken_once_in_order_of_arrival(sent, fresh):
    assert taken(*sent) == fresh


def test_a_client_that_counts_anew_is_heard_again():
    """A number from far below cannot be a repetition: a client that restarts at 0 must not stay deaf."""
    numbers = list(range(1000))
    assert taken(*numbers, 0, 1, 2, 2) == [*numbers, 0, 1, 2]


def test_jumps_are_counted_until_they_are_filled():
    window = SequenceWindow()
    for number in (0, 3):
        window.fresh(number)
    assert (window.highest, window.skipped) == (3, 2)
    window.fresh(1)
    assert window.skipped == 1


@given(st.lists(st.integers(0, 300)))
def test_within_the_window_nothing_is_taken_twice_and_nothing_is_lost(numbers):
    assert taken(*numbers) == list(dict.fromkeys(numbers))


@given(st.lists(st.tuples(st.integers(0, 600), st.integers(1, 700)), max_size=30))
def test_taking_the_next_number_is_the_same_as_asking_for_it(runs):
    asked, taken_as_next = SequenceWindow(), SequenceWindow()
    for first, count in runs:
        for number in range(first, first + count):
            fresh = asked.fresh(number)
            if number == taken_as_next.next:
                taken_as_next.next = number + 1
                assert fresh
            else:
                assert taken_as_next.fresh(number) == fresh
        assert (taken_as_next.highest, taken_as_next.skipped) == (asked.highest, asked.skipped)
