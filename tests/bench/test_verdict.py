"""A run in which something went wrong is found out, whatever its figures are."""

from __future__ import annotations

import pytest

from lingua_scheduler.bench.records import Conversation, Heard, Job, Presence, Said, Spoken, Worked
from lingua_scheduler.bench.verdict import Leftovers, checked

CUT = "scheduler_web_task_finalized_total"


def good() -> tuple[Spoken, Worked, Leftovers]:
    """One client alone, two in a room, one node with two slots."""
    alone = Conversation(
        0, None, "en", "a", [Said(1, 1, 9, 2, "result"), Said(3, 3, 9, 4, "timeout")], closed=True
    )
    one = Conversation(1, 5, "en", "b", [Said(1, 1, 9)], [], closed=True)
    two = Conversation(2, 5, "zh", "c", [], [Heard("b", 0, 2.0, "result")], closed=True)
    jobs = [
        Job("a", 0, "en", "j0", 1, 0, 1.1, answered_s=1.9),
        Job("b", 0, "zh", "j1", 1, 0, 1.2, answered_s=1.8),
        Job("a", 1, "en", "j2", 1, 0, 3.1, cancelled_s=3.5),
    ]
    worked = Worked(jobs=jobs, presences=[Presence(0, 0.0, 2)])
    left = Leftovers({"session": 0, "reservation": 0}, {CUT: 3, "scheduler_jobs_open": 0}, (), (0,))
    return Spoken(conversations=[alone, one, two]), worked, left


def test_a_good_run_has_nothing_to_say_against_it() -> None:
    assert checked(*good()) == []


def test_an_utterance_without_an_end_is_found() -> None:
    spoken, worked, left = good()
    spoken.conversations[0].said[1].end = ""
    assert checked(spoken, worked, left) == ["client 0: index 1 was never answered"]


def test_what_a_client_complains_about_is_told() -> None:
    spoken, worked, left = good()
    spoken.conversations[0].complaints = ["index 1 ended twice: result, result"]
    assert checked(spoken, worked, left) == ["client 0: index 1 ended twice: result, result"]


@pytest.mark.parametrize(
    "heard",
    [
        [],
        [Heard("b", 0, 2.0, "result"), Heard("b", 0, 2.1, "result")],
        [Heard("b", 1, 2.0, "result")],
    ],
)
def test_a_listener_that_hears_too_little_or_too_much_is_found(heard: list[Heard]) -> None:
    spoken, worked, left = good()
    spoken.conversations[2].heard = heard
    assert len(checked(spoken, worked, left)) == 1


def test_a_result_that_comes_late_after_it_was_given_up_is_no_fault() -> None:
    spoken, worked, left = good()
    spoken.conversations[2].heard = [Heard("b", 0, 2.0, "gap_timeout"), Heard("b", 0, 9.0, "result")]
    assert checked(spoken, worked, left) == []


def test_a_slot_that_is_sold_twice_is_found() -> None:
    spoken, worked, left = good()
    worked.presences = [Presence(0, 0.0, 1)]
    assert checked(spoken, worked, left) == ["node 0 had 2 jobs on 1 slots"]


def test_a_node_that_vanished_has_its_slots_back() -> None:
    spoken, worked, left = good()
    worked.jobs[0].answered_s = 0.0
    worked.jobs[1].answered_s = 0.0
    assert checked(spoken, worked, left) == ["node 0 had 3 jobs on 2 slots"]
    worked.presences += [Presence(0, 2.5, 0), Presence(0, 2.9, 2)]
    assert checked(spoken, worked, left) == []


def test_an_attempt_that_is_handed_out_twice_and_a_second_job_are_found() -> None:
    spoken, worked, left = good()
    worked.jobs.append(Job("a", 0, "en", "j0", 1, 0, 5.0, answered_s=5.1))
    worked.jobs.append(Job("b", 0, "zh", "j9", 1, 0, 6.0, answered_s=6.1))
    assert checked(spoken, worked, left) == [
        "attempt 1 of j0 was handed out 2 times",
        "b index 0 has 2 jobs for zh",
    ]


def test_counters_that_disagree_and_what_is_left_behind_are_found() -> None:
    spoken, worked, _ = good()
    spoken.conversations[0].closed = False
    left = Leftovers({"session": 2}, {CUT: 4, "scheduler_jobs_open": 1}, ("task_crashed",), (0, -9))
    assert checked(spoken, worked, left) == [
        "3 utterances were said and 4 were cut",
        "1 jobs are open although everything has ended",
        "client 0: the end of its session was not acknowledged",
        "2 x session are left in Redis",
        "task_crashed",
        "instance 1 ended with exit code -9",
    ]
