"""Speech that was cut because it was long: nothing is lost, nothing is heard twice, every job is answered."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.node.speech.options import TurnOptions
from lingua_scheduler.node.speech.turns import Due, Piece, Turns, quietest
from node.jobs import assign

RATE = 1000
KEY = ("s-1", "turn-1", "pt", RATE)


def loud(ms: int, level: int = 9000) -> bytes:
    return array("h", [level if at % 2 else -level for at in range(RATE * ms // 1000)]).tobytes()


def quiet(ms: int) -> bytes:
    return bytes(RATE * ms // 1000 * 2)


def piece(index: int, pcm16: bytes, *, goes_on: bool = True, key=KEY) -> Piece:
    return Piece(key, index, pcm16, RATE, goes_on)


def ending(index: int, pcm16: bytes, key=KEY) -> Piece:
    return piece(index, pcm16, goes_on=False, key=key)


@pytest.fixture
def turns() -> Turns:
    return Turns(TurnOptions())


def test_a_job_that_is_not_cut_at_a_limit_is_heard_as_it_is(turns) -> None:
    assert turns.take(ending(0, loud(500)), 0) == Due(loud(500))
    assert turns.take(ending(0, loud(500), key=None), 0) == Due(loud(500))
    assert turns.take(piece(0, loud(500), key=None), 0) == Due(loud(500))
    assert len(turns) == 0


def test_a_piece_is_cut_again_at_its_quietest_moment_and_the_rest_opens_the_next(turns) -> None:
    first = turns.take(piece(0, loud(3000) + quiet(100) + loud(400)), 0)
    last = turns.take(ending(1, loud(200)), 1)
    assert first is not None
    assert last is not None
    assert first.pcm16 + last.pcm16 == loud(3000) + quiet(100) + loud(400) + loud(200)
    assert first.pcm16.startswith(loud(3000))
    assert last.pcm16.endswith(loud(400) + loud(200))
    assert len(turns) == 0


@given(
    pieces=st.lists(st.lists(st.integers(-32768, 32767), max_size=400), min_size=1, max_size=5),
    join_ms=st.integers(0, 300),
)
def test_no_sample_is_lost_or_heard_twice(pieces, join_ms) -> None:
    turns = Turns(TurnOptions(join_ms=join_ms))
    audio = [array("h", samples).tobytes() for samples in pieces]
    heard = []
    for index, pcm16 in enumerate(audio):
        due = turns.take(piece(index, pcm16, goes_on=index < len(audio) - 1), 0)
        assert due is not None, "every piece is answered"
        heard.append(due.pcm16)
    assert b"".join(heard) == b"".join(audio)
    assert len(turns) == 0


def test_what_was_said_is_the_prompt_of_what_follows(turns) -> None:
    first = piece(0, loud(2000))
    turns.take(first, 0)
    turns.heard(first, "it was the best of times")
    due = turns.take(ending(1, loud(200)), 0)
    assert due is not None
    assert due.prompt == "it was the best of times"


def test_an_older_text_does_not_replace_a_newer_prompt(turns) -> None:
    older, newer = piece(0, loud(2000)), piece(1, loud(2000))
    turns.take(older, 0)
    turns.take(newer, 0)
    turns.heard(newer, "newer")
    turns.heard(older, "older")
    due = turns.take(ending(2, loud(200)), 0)
    assert due is not None
    assert due.prompt == "newer"


def test_targets_and_turns_are_kept_apart(turns) -> None:
    turns.take(piece(0, loud(2000)), 0)
    for other in (
        ("s-1", "turn-1", "es", RATE),
        ("s-1", "turn-2", "pt", RATE),
        ("s-2", "turn-1", "pt", RATE),
    ):
        assert turns.take(ending(1, loud(100), key=other), 0) == Due(loud(100))
    assert len(turns) == 1


def test_the_same_piece_again_is_heard_the_same_way(turns) -> None:
    turns.take(piece(0, loud(2000) + quiet(100) + loud(100)), 0)
    once = turns.take(piece(1, loud(2000)), 0)
    assert turns.take(piece(1, loud(2000)), 0) == once


def test_a_piece_that_comes_too_late_takes_nothing_that_belongs_elsewhere(turns) -> None:
    turns.take(piece(5, loud(2000) + quiet(100) + loud(100)), 0)
    assert turns.take(piece(4, loud(500)), 0) == Due(loud(500))
    due = turns.take(ending(6, loud(100)), 0)
    assert due is not None
    assert due.pcm16.endswith(loud(100) + loud(100))
    assert len(due.pcm16) > len(loud(200))


def test_merged_pieces_are_heard_with_the_job_that_ends_the_turn() -> None:
    turns = Turns(TurnOptions(pieces="merge"))
    assert turns.take(piece(0, loud(300)), 0) is None
    assert turns.take(piece(1, loud(200)), 0) is None
    assert turns.take(ending(2, loud(100)), 0) == Due(loud(300) + loud(200) + loud(100))
    assert len(turns) == 0


def test_merging_has_a_limit_beyond_which_what_was_kept_is_answered() -> None:
    turns = Turns(TurnOptions(pieces="merge", merge_limit_s=1, join_ms=0))
    assert turns.take(piece(0, loud(600)), 0) is None
    assert turns.take(piece(1, loud(600)), 0) == Due(loud(1200))
    assert turns.take(ending(2, loud(100)), 0) == Due(loud(100))


def test_turns_of_which_nothing_more_comes_are_forgotten() -> None:
    turns = Turns(TurnOptions(idle_s=60, open_limit=2))
    for number in range(3):
        turns.take(piece(0, loud(2000), key=("s-1", f"turn-{number}", "pt", RATE)), number)
    assert len(turns) == 2
    turns.take(ending(9, loud(100), key=None), 61.5)
    assert len(turns) == 1


def test_the_flags_of_a_job_say_whether_its_turn_goes_on() -> None:
    said = {"turn_id": "t-1", "is_max_duration_triggered": True}
    assert Piece.of(assign(**said), b"", RATE).goes_on
    assert not Piece.of(assign(**said, is_manual_cut=True), b"", RATE).goes_on
    assert not Piece.of(assign(**said, is_timeout_triggered=True), b"", RATE).goes_on
    assert not Piece.of(assign(turn_id="t-1"), b"", RATE).goes_on
    assert Piece.of(assign(**said), b"", RATE).key == ("s-1", "t-1", "pt", RATE)
    assert Piece.of(assign(), b"", RATE).key is None


def test_the_quietest_moment_is_looked_for_only_at_the_end() -> None:
    speech = quiet(500) + loud(1000) + loud(100, 50) + loud(300)
    at_ms = quietest(speech, RATE, 600) / 2
    assert 1500 <= at_ms <= 1600
    assert quietest(loud(10), RATE, 600) == len(loud(10))
    assert quietest(b"", RATE, 600) == 0
