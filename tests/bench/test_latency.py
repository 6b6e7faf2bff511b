"""Latency counts from when something was to happen, and a result is not blamed for the one before it."""

from __future__ import annotations

import pytest

from lingua_scheduler.bench.latency import Window, joined
from lingua_scheduler.bench.records import Conversation, Heard, Job, Said, Spoken, Worked

WINDOW = Window(begun_s=100.0, from_s=100.0, to_s=200.0)


def job(index: int, assigned_s: float, answered_s: float = 0.0, lang: str = "en", **more: object) -> Job:
    return Job("s", index, lang, f"j{index}{lang}", 1, 0, assigned_s, answered_s=answered_s, **more)


def spoken(*said: Said) -> Spoken:
    return Spoken(conversations=[Conversation(0, None, "en", "s", list(said))])


def test_the_way_there_counts_from_the_scheduled_moment_not_from_when_it_was_sent() -> None:
    said = Said(due_s=110.0, sent_s=110.5, audio_bytes=1, ended_s=112.0, end="result")
    (times,) = joined(spoken(said), Worked(jobs=[job(0, 110.6, 111.9)]), WINDOW).times
    assert times.assign_ms == pytest.approx(600)
    assert times.back_ms == pytest.approx(100)
    assert times.whole_ms == pytest.approx(2000)
    assert times.added_ms == pytest.approx(700)
    assert times.due_s == pytest.approx(10)


def test_the_first_attempt_counts_there_and_the_answer_counts_back() -> None:
    said = Said(110.0, 110.0, 1, 115.0, "result")
    attempts = [job(0, 110.1), Job("s", 0, "en", "j0en", 2, 1, 113.0, answered_s=114.9)]
    (times,) = joined(spoken(said), Worked(jobs=attempts), WINDOW).times
    assert times.assign_ms == pytest.approx(100)
    assert times.back_ms == pytest.approx(100)


def test_a_result_that_had_to_wait_for_its_turn_is_ready_when_the_one_before_it_is() -> None:
    first = Said(110.0, 110.0, 1, 120.01, "result")
    second = Said(112.0, 112.0, 1, 120.02, "result")
    found = joined(spoken(first, second), Worked(jobs=[job(0, 110.0, 120.0), job(1, 112.0, 113.0)]), WINDOW)
    assert found.times[1].back_ms == pytest.approx(20)
    assert found.held == 1


def test_what_was_due_outside_of_the_window_does_not_count_but_is_waited_for() -> None:
    early = Said(99.0, 99.0, 1, 120.0, "result")
    inside = Said(110.0, 110.0, 1, 120.5, "silence_detected")
    late = Said(201.0, 201.0, 1, 202.0, "result")
    found = joined(spoken(early, inside, late), Worked(), WINDOW)
    assert (found.said, found.answered, found.times) == (1, 0, [])
    assert found.missing == {"silence_detected": 1}


def test_an_utterance_in_a_room_is_answered_when_everybody_else_has_heard_it() -> None:
    speaker = Conversation(0, 1, "zh", "s", [Said(110.0, 110.0, 1), Said(120.0, 120.0, 1)])
    one = Conversation(
        1, 1, "en", "a", heard=[Heard("s", 0, 112.0, "result"), Heard("s", 1, 122.0, "result")]
    )
    two = Conversation(
        2, 1, "fr", "b", heard=[Heard("s", 0, 113.0, "result"), Heard("s", 1, 123.0, "timeout")]
    )
    jobs = [job(0, 110.5, 111.9), job(0, 111.0, 112.8, "fr"), job(1, 120.5, 121.9), job(1, 121.0, lang="fr")]
    found = joined(Spoken(conversations=[speaker, one, two]), Worked(jobs=jobs), WINDOW)
    assert (found.said, found.answered) == (2, 1)
    assert [round(each.back_ms) for each in found.times] == [100, 100, 200]
    assert {round(each.assign_ms) for each in found.times} == {500}
    assert found.missing == {"timeout": 1}
