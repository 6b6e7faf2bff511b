"""Utterance order out of results in any order: the named cases of the result queue."""

from __future__ import annotations

import msgspec
import pytest

from lingua_scheduler.core.ordering import (
    Delivered,
    Missing,
    MissingReason,
    OrderingOptions,
    Release,
    ResultStream,
    Silent,
    Verdict,
)
from lingua_scheduler.errors import IllegalTransition

NOW = 1000.0
GAP_S = 5.0
LATE_S = 30.0


def stream_of(count: int, **options: object) -> ResultStream[str]:
    """Make a stream with the indexes 0..count-1 open."""
    stream: ResultStream[str] = ResultStream(msgspec.convert(options, OrderingOptions))
    for index in range(count):
        stream.open(index, NOW)
    return stream


def result(index: int, *, late: bool = False) -> Release[str]:
    return Release(index, Delivered(f"text {index}"), late=late)


def missing(index: int, reason: MissingReason) -> Release[str]:
    return Release(index, Missing(reason))


def deliver(stream: ResultStream[str], index: int, now: float = NOW) -> list[Release[str]]:
    return stream.resolve(index, Delivered(f"text {index}"), now).releases


def test_results_in_order_leave_at_once():
    stream = stream_of(2)
    assert deliver(stream, 0) == [result(0)]
    assert deliver(stream, 1) == [result(1)]
    assert stream.idle
    assert stream.deadline is None


def test_67_a_result_waits_for_the_one_below_it():
    stream = stream_of(2)
    assert deliver(stream, 1) == []
    assert stream.held == 1
    assert deliver(stream, 0, NOW + 4.9) == [result(0), result(1)]
    assert stream.idle


def test_68_a_gap_is_given_up_when_a_result_was_held_long_enough():
    stream = stream_of(2)
    deliver(stream, 1, NOW)
    assert stream.deadline == NOW + GAP_S
    assert stream.tick(NOW + GAP_S - 0.001) == []
    assert stream.tick(NOW + GAP_S) == [missing(0, MissingReason.GAP_TIMEOUT), result(1)]
    assert stream.deadline is None


def test_an_open_index_that_holds_nothing_back_has_no_deadline():
    stream = stream_of(3)
    deliver(stream, 0)
    assert stream.deadline is None
    assert stream.tick(NOW + 3600) == []


def test_every_gap_below_a_held_result_gets_its_clock_from_the_first_result_it_holds_back():
    stream = stream_of(5)
    deliver(stream, 1, NOW)
    deliver(stream, 4, NOW + 2)
    assert stream.deadline == NOW + GAP_S
    assert stream.tick(NOW + GAP_S) == [missing(0, MissingReason.GAP_TIMEOUT), result(1)]
    assert stream.deadline == NOW + 2 + GAP_S
    assert stream.tick(NOW + 2 + GAP_S) == [
        missing(2, MissingReason.GAP_TIMEOUT),
        missing(3, MissingReason.GAP_TIMEOUT),
        result(4),
    ]


def test_a_result_that_beats_a_slow_tick_is_still_in_order():
    stream = stream_of(2)
    deliver(stream, 1)
    assert deliver(stream, 0, NOW + GAP_S + 0.2) == [result(0), result(1)]


def test_69_a_late_result_is_delivered_once_out_of_order():
    stream = stream_of(3)
    deliver(stream, 1)
    stream.tick(NOW + GAP_S)
    late = stream.resolve(0, Delivered("text 0"), NOW + GAP_S + LATE_S)
    assert late.verdict is Verdict.LATE
    assert late.releases == [result(0, late=True)]
    again = stream.resolve(0, Delivered("text 0"), NOW + GAP_S + LATE_S)
    assert again.verdict is Verdict.DUPLICATE
    assert again.releases == []


def test_70_after_the_late_window_the_drop_is_told_apart_from_a_repeat():
    stream = stream_of(3)
    deliver(stream, 2)
    stream.tick(NOW + GAP_S)
    assert stream.unfilled(0, NOW + GAP_S + LATE_S)
    assert not stream.unfilled(0, NOW + GAP_S + LATE_S + 0.1)
    assert stream.resolve(0, Delivered("x"), NOW + GAP_S + LATE_S + 0.1).verdict is Verdict.EXPIRED
    assert stream.resolve(0, Delivered("x"), NOW + GAP_S + LATE_S + 0.2).verdict is Verdict.DUPLICATE
    assert stream.resolve(1, Delivered("x"), NOW + 40).releases == []


@pytest.mark.parametrize("after_s", [0, 35, 36_000])
def test_71_72_the_same_result_again_is_dropped_for_the_life_of_the_session(after_s):
    stream = stream_of(2)
    deliver(stream, 0)
    again = stream.resolve(0, Delivered("text 0"), NOW + after_s)
    assert again.verdict is Verdict.DUPLICATE
    assert again.releases == []


def test_a_repeat_of_a_held_result_keeps_the_first():
    stream = stream_of(2)
    deliver(stream, 1)
    assert stream.resolve(1, Delivered("other"), NOW).verdict is Verdict.DUPLICATE
    assert deliver(stream, 0) == [result(0), result(1)]


@pytest.mark.parametrize("first", [Silent(), Missing(MissingReason.SILENCE_DETECTED)])
def test_73_74_a_complete_result_may_follow_an_empty_one_once(first):
    stream = stream_of(1)
    assert stream.resolve(0, first, NOW).releases == [Release(0, first)]
    assert stream.resolve(0, first, NOW + 1).verdict is Verdict.DUPLICATE
    assert stream.resolve(0, Delivered("text 0"), NOW + 29).releases == [result(0, late=True)]
    assert stream.resolve(0, Delivered("text 0"), NOW + 29).verdict is Verdict.DUPLICATE


@pytest.mark.parametrize("first", [Silent(), Missing(MissingReason.JOB_TIMEOUT)])
def test_a_result_takes_the_place_of_a_lack_that_has_not_left_yet(first):
    """Nobody was told that it is missing, so the result leaves in order and is not late."""
    stream = stream_of(2)
    assert stream.resolve(1, first, NOW).releases == []
    assert stream.unfilled(1, NOW)
    assert stream.resolve(1, Delivered("text 1"), NOW + 100).verdict is Verdict.ACCEPTED
    assert deliver(stream, 0, NOW + 101) == [result(0), result(1)]


def test_75_nothing_replaces_a_result():
    stream = stream_of(2)
    deliver(stream, 0)
    deliver(stream, 1)
    assert stream.resolve(0, Silent(), NOW).verdict is Verdict.DUPLICATE
    assert stream.resolve(1, Missing(MissingReason.JOB_FAILED), NOW).verdict is Verdict.DUPLICATE


def test_76_77_an_empty_acknowledgement_lets_the_next_result_through():
    stream = stream_of(2)
    deliver(stream, 1)
    assert stream.resolve(0, Silent(), NOW).releases == [Release(0, Silent()), result(1)]


def test_an_empty_acknowledgement_is_reported_when_asked_for():
    stream = stream_of(1, report_no_text=True)
    assert stream.resolve(0, Silent(), NOW).releases == [missing(0, MissingReason.NO_TEXT)]


@pytest.mark.parametrize(
    "reason", [MissingReason.JOB_FAILED, MissingReason.JOB_TIMEOUT, MissingReason.NO_AVAILABLE_NODE]
)
def test_81_a_failure_lets_the_next_result_through(reason):
    stream = stream_of(2)
    deliver(stream, 1)
    assert stream.resolve(0, Missing(reason), NOW).releases == [missing(0, reason), result(1)]


def test_a_held_failure_waits_in_order_without_hurrying_the_gap():
    """Only a held result is worth giving up a job that still runs."""
    stream = stream_of(2)
    stream.resolve(1, Missing(MissingReason.JOB_FAILED), NOW)
    assert stream.deadline is None
    assert deliver(stream, 0, NOW + 20) == [result(0), missing(1, MissingReason.JOB_FAILED)]


def test_86_overflow_gives_up_the_lowest_gap_and_loses_nothing():
    stream = stream_of(202)
    for index in range(1, 201):
        assert deliver(stream, index) == []
    assert stream.held == 200
    assert deliver(stream, 201) == [
        missing(0, MissingReason.PENDING_OVERFLOW_EVICT),
        *(result(index) for index in range(1, 202)),
    ]
    assert deliver(stream, 0) == [result(0, late=True)]


def test_overflow_goes_on_to_the_next_gap_until_the_rest_fits():
    stream = stream_of(5, pending_max=2)
    deliver(stream, 2)
    deliver(stream, 3)
    assert deliver(stream, 4) == [
        missing(0, MissingReason.PENDING_OVERFLOW_EVICT),
        missing(1, MissingReason.PENDING_OVERFLOW_EVICT),
        result(2),
        result(3),
        result(4),
    ]


def test_indexes_that_other_languages_took_are_not_waited_for():
    stream = stream_of(0)
    stream.open(3, NOW)
    stream.open(7, NOW)
    assert deliver(stream, 3) == [result(3)]
    assert deliver(stream, 7) == [result(7)]
    assert stream.resolve(5, Delivered("x"), NOW).releases == []
    assert stream.resolve(8, Delivered("x"), NOW).verdict is Verdict.UNKNOWN


def test_an_index_opens_once_and_in_order():
    stream = stream_of(2)
    stream.open(1, NOW)
    deliver(stream, 0)
    with pytest.raises(IllegalTransition, match="expected an index above 1, received 0"):
        stream.open(0, NOW)


def test_a_stream_taken_over_starts_where_the_last_owner_stopped():
    stream: ResultStream[str] = ResultStream(OrderingOptions(), first_index=5)
    stream.open(5, NOW)
    assert stream.resolve(4, Delivered("x"), NOW).verdict is Verdict.DUPLICATE
    assert deliver(stream, 5) == [result(5)]


def test_two_languages_of_one_utterance_never_meet():
    """B7: each language has its own stream, so the same index in both is two results."""
    english, french = stream_of(1), stream_of(1)
    assert english.resolve(0, Delivered("hello"), NOW).releases == [Release(0, Delivered("hello"))]
    assert french.resolve(0, Delivered("bonjour"), NOW).releases == [Release(0, Delivered("bonjour"))]


def test_abandoning_settles_everything_in_order():
    stream = stream_of(3)
    deliver(stream, 1)
    assert stream.abandon(NOW) == [
        missing(0, MissingReason.SESSION_CLOSED),
        result(1),
        missing(2, MissingReason.SESSION_CLOSED),
    ]
    assert stream.idle
    assert stream.deadline is None


def test_first_come_first_served_holds_nothing_and_gives_nothing_up():
    stream = stream_of(3, mode="fcfs")
    assert deliver(stream, 2) == [result(2)]
    assert stream.deadline is None
    assert stream.tick(NOW + 3600) == []
    assert deliver(stream, 1, NOW + 3600) == [result(1)]
    assert deliver(stream, 0, NOW + 3600) == [result(0)]


def test_first_come_first_served_neither_repeats_nor_loses():
    stream = stream_of(2, mode="fcfs")
    deliver(stream, 1)
    assert stream.resolve(1, Delivered("x"), NOW + 60).verdict is Verdict.DUPLICATE
    stream.resolve(0, Missing(MissingReason.JOB_TIMEOUT), NOW + 60)
    assert deliver(stream, 0, NOW + 61) == [result(0, late=True)]


def test_memory_follows_what_is_open_and_not_the_age_of_the_session():
    stream = stream_of(0)
    now = NOW
    for index in range(0, 40_000, 2):
        now += 2.0
        stream.open(index, now)
        if index % 6 == 0:
            stream.resolve(index, Missing(MissingReason.JOB_FAILED), now)
        elif index % 6 == 2:
            stream.resolve(index, Silent(), now)
        else:
            deliver(stream, index, now)
    assert stream.idle
    assert len(stream._missed) <= 256


@pytest.mark.parametrize("bad", [{"gap_timeout_ms": 0}, {"pending_max": 0}, {"mode": "lifo"}, {"gap_ms": 5}])
def test_options_outside_their_bounds_are_refused(bad):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(bad, OrderingOptions)
