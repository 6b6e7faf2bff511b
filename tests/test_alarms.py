"""One heap of alarms: they ring in order, those called off stay silent and do not pile up."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.aio import Alarms, Deadline
from lingua_scheduler.clock import VirtualClock


@pytest.fixture
def clock():
    return VirtualClock(start_s=0)


@pytest.fixture
def alarms(clock):
    return Alarms(clock)


def test_alarms_ring_in_the_order_of_their_time_each_once(clock, alarms):
    rung = []
    for when in (3, 1, 2, 1):
        alarms.set(when, lambda when=when: rung.append((when, clock.now())))
    clock.advance(2)
    assert rung == [(1, 1), (1, 1), (2, 2)]
    clock.advance(10)
    assert rung[3:] == [(3, 3)]
    assert (len(alarms), alarms.size) == (0, 0)


def test_a_cancelled_alarm_stays_silent_also_when_cancelled_twice_or_too_late(clock, alarms):
    rung = []
    first = alarms.set(1, lambda: rung.append(1))
    second = alarms.set(2, lambda: rung.append(2))
    for _ in range(2):
        first.cancel()
    assert len(alarms) == 1
    clock.advance(5)
    second.cancel()
    assert rung == [2]
    assert (len(alarms), alarms.size) == (0, 0)


def test_an_alarm_may_cancel_another_one_of_the_same_moment(clock, alarms):
    rung = []
    alarms.set(1, lambda: victim.cancel())  # noqa: PLW0108 bound later
    victim = alarms.set(1, lambda: rung.append("victim"))
    alarms.set(1, lambda: rung.append("last"))
    clock.advance(1)
    assert rung == ["last"]
    assert (len(alarms), alarms.size) == (0, 0)


def test_a_failing_alarm_does_not_silence_the_others(clock, alarms):
    rung = []
    alarms.set(1, lambda: 1 / 0)
    alarms.set(1, lambda: rung.append(1))
    alarms.set(2, lambda: rung.append(2))
    clock.advance(3)
    assert rung == [1, 2]


def test_alarms_that_are_set_and_cancelled_for_ever_do_not_pile_up(clock, alarms):
    alarms.set(1e9, lambda: None)
    largest = 0
    for _ in range(10_000):
        alarms.set(clock.now() + 30, lambda: None).cancel()
        largest = max(largest, alarms.size)
    assert largest <= 66
    assert len(alarms) == 1


def test_tidying_up_costs_no_alarm(clock, alarms):
    rung = []
    made = [alarms.set(when, lambda when=when: rung.append(when)) for when in range(1000)]
    chosen = set(random.Random(1).sample(range(1000), 900))
    for number in chosen:
        made[number].cancel()
    assert alarms.size < 300
    clock.advance(1000)
    assert rung == [when for when in range(1000) if when not in chosen]
    assert (len(alarms), alarms.size) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from(["set", "cancel", "advance"]), st.integers(0, 200)), max_size=300))
def test_whatever_happens_an_alarm_rings_at_its_time_unless_it_was_cancelled(steps):
    clock = VirtualClock(start_s=0)
    alarms = Alarms(clock)
    rung: dict[int, float] = {}
    due: dict[int, float] = {}
    made = []
    for what, number in steps:
        if what == "set":
            name, when = len(made), clock.now() + number
            due[name] = when
            made.append(alarms.set(when, lambda name=name: rung.setdefault(name, clock.now())))
        elif what == "cancel" and made:
            name = number % len(made)
            if name not in rung:
                due.pop(name, None)
            made[name].cancel()
        elif what == "advance":
            clock.advance(number)
        assert len(alarms) == sum(name not in rung for name in due)
    clock.advance(1000)
    assert rung == due
    assert alarms.size == 0


def test_a_deadline_that_is_moved_with_every_frame_makes_no_new_alarms(clock, alarms):
    rung = []
    deadline = Deadline(alarms, lambda: rung.append(clock.now()))
    for _ in range(1000):
        deadline.move(clock.now() + 2)
        clock.advance(0.02)
        assert alarms.size <= 1
    clock.advance(5)
    assert [round(when, 2) for when in rung] == [21.98]


def test_a_deadline_moves_earlier_is_cleared_and_set_again(clock, alarms):
    rung = []
    deadline = Deadline(alarms, lambda: rung.append(clock.now()))
    deadline.move(10)
    deadline.move(5)
    clock.advance(6)
    deadline.move(8)
    deadline.move(None)
    clock.advance(6)
    deadline.move(13)
    deadline.clear()
    deadline.move(14)
    clock.advance(6)
    assert rung == [5, 14]
    assert alarms.size == 0
