"""Turns: a node may keep silent about the pieces of a turn until the turn's last piece."""

from __future__ import annotations

import msgspec
import pytest

from lingua_scheduler.core.model import TurnId
from lingua_scheduler.core.ordering import (
    Delivered,
    Missing,
    MissingReason,
    OrderingOptions,
    Release,
    ResultStream,
    Silent,
)

NOW = 1000.0
GAP_S = 5.0
TURN = TurnId("turn-1")


def empty_stream(**options: object) -> ResultStream[str]:
    return ResultStream(msgspec.convert(options, OrderingOptions))


def result(index: int) -> Release[str]:
    return Release(index, Delivered(f"text {index}"))


def missing(index: int, reason: MissingReason) -> Release[str]:
    return Release(index, Missing(reason))


def deliver(stream: ResultStream[str], index: int, now: float = NOW) -> list[Release[str]]:
    return stream.resolve(index, Delivered(f"text {index}"), now).releases


def test_a_piece_is_waited_for_until_the_last_piece_is_answered():
    stream = empty_stream()
    stream.open(0, NOW, turn_id=TURN, continues=True)
    stream.open(1, NOW + 30, turn_id=TURN, continues=True)
    deliver(stream, 1, NOW + 31)
    assert stream.deadline is None
    assert stream.tick(NOW + 55) == []
    stream.open(2, NOW + 60, turn_id=TURN)
    assert stream.deadline is None
    assert deliver(stream, 2, NOW + 62) == []
    assert stream.deadline == NOW + 62 + GAP_S
    assert stream.tick(NOW + 62 + GAP_S) == [
        missing(0, MissingReason.GAP_TIMEOUT),
        result(1),
        result(2),
    ]


def test_the_pieces_of_a_turn_may_answer_after_its_last_one():
    stream = empty_stream()
    stream.open(0, NOW, turn_id=TURN, continues=True)
    stream.open(1, NOW, turn_id=TURN)
    deliver(stream, 1)
    assert deliver(stream, 0, NOW + 4) == [result(0), result(1)]


@pytest.mark.parametrize("outcome", [Silent(), Missing(MissingReason.JOB_FAILED)])
def test_a_last_piece_without_result_ends_the_patience_too(outcome):
    stream = empty_stream()
    stream.open(0, NOW, turn_id=TURN, continues=True)
    stream.open(1, NOW, turn_id=TURN)
    stream.open(2, NOW, turn_id=TurnId("turn-2"))
    stream.resolve(1, outcome, NOW + 1)
    assert stream.deadline is None
    deliver(stream, 2, NOW + 2)
    assert stream.deadline == NOW + 2 + GAP_S


def test_a_last_piece_that_never_answers_has_a_deadline_of_its_own():
    stream = empty_stream()
    stream.open(0, NOW, turn_id=TURN, continues=True)
    stream.open(1, NOW, turn_id=TURN)
    stream.open(2, NOW, turn_id=TurnId("turn-2"))
    deliver(stream, 2)
    assert stream.tick(NOW + GAP_S) == []
    assert stream.deadline == NOW + 2 * GAP_S
    assert stream.tick(NOW + 2 * GAP_S) == [
        missing(0, MissingReason.GAP_TIMEOUT),
        missing(1, MissingReason.GAP_TIMEOUT),
        result(2),
    ]


def test_an_ended_turn_without_further_piece_counts_from_its_newest_piece():
    stream = empty_stream()
    stream.open(0, NOW, turn_id=TURN, continues=True)
    stream.open(1, NOW, turn_id=TURN, continues=True)
    deliver(stream, 1)
    assert stream.deadline is None
    stream.end_turn(NOW + 1)
    assert stream.deadline == NOW + 1 + GAP_S


def test_speech_of_another_turn_ends_the_turn():
    """The last piece may have gone to another language's stream, or have been too short to exist."""
    stream = empty_stream()
    stream.open(0, NOW, turn_id=TURN, continues=True)
    stream.open(1, NOW, turn_id=TURN, continues=True)
    stream.open(4, NOW, turn_id=TurnId("turn-2"))
    deliver(stream, 4)
    assert stream.deadline == NOW + GAP_S
    stream.tick(NOW + GAP_S)
    assert stream.tick(NOW + 2 * GAP_S)[-1] == result(4)


def test_patient_pieces_give_way_to_overflow():
    stream = empty_stream(pending_max=1)
    for index in range(3):
        stream.open(index, NOW, turn_id=TURN, continues=True)
    deliver(stream, 1)
    assert deliver(stream, 2)[0] == missing(0, MissingReason.PENDING_OVERFLOW_EVICT)
