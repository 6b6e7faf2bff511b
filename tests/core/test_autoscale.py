"""How many nodes a load asks for: enough, not more than needed, and without flapping."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.core.autoscale import AutoscaleOptions, Demand, Steady, nodes_for

OPTIONS = AutoscaleOptions()

demands = st.builds(
    Demand,
    arrivals_per_s=st.floats(0, 1000),
    service_s=st.floats(0.01, 60),
    running=st.integers(0, 10_000),
    waiting=st.integers(0, 10_000),
)
options = st.builds(
    AutoscaleOptions,
    headroom=st.floats(0, 2),
    min_nodes=st.integers(0, 5),
    max_nodes=st.integers(5, 100_000),
    clear_waiting_s=st.floats(1, 60),
)
slots_per_node = st.integers(1, 64)


def test_no_load_asks_for_no_node() -> None:
    assert nodes_for(Demand().slots(OPTIONS), 4, OPTIONS) == 0


def test_ten_jobs_a_second_of_two_seconds_keep_twenty_slots_busy() -> None:
    slots = Demand(arrivals_per_s=10, service_s=2).slots(OPTIONS)
    assert slots == 20
    assert nodes_for(slots, 5, AutoscaleOptions(headroom=0)) == 4
    assert nodes_for(slots, 5, AutoscaleOptions(headroom=0.25)) == 5


def test_a_job_that_waits_asks_for_a_node_where_there_is_none() -> None:
    assert nodes_for(Demand(service_s=0.5, waiting=1).slots(OPTIONS), 4, OPTIONS) == 1


def test_those_who_wait_are_served_in_time() -> None:
    slots = Demand(service_s=2, waiting=100).slots(AutoscaleOptions(clear_waiting_s=10))
    assert slots == pytest.approx(20)


@given(demands, slots_per_node, options)
def test_what_is_asked_for_carries_the_load_with_room_to_spare(demand, slots_each, chosen) -> None:
    nodes = nodes_for(demand.slots(chosen), slots_each, chosen)
    assert chosen.min_nodes <= nodes <= chosen.max_nodes
    if nodes < chosen.max_nodes:
        needed = max(demand.arrivals_per_s * demand.service_s, demand.running) * (1 + chosen.headroom)
        assert nodes * slots_each >= needed - 1e-6 * slots_each


@given(demands, slots_per_node, options)
def test_one_node_less_would_not_do(demand, slots_each, chosen) -> None:
    slots = demand.slots(chosen)
    nodes = nodes_for(slots, slots_each, chosen)
    if nodes > chosen.min_nodes and nodes > 0:
        assert (nodes - 1) * slots_each < slots * (1 + chosen.headroom)


@given(demands, demands, slots_per_node)
def test_more_load_never_asks_for_fewer_nodes(one, other, slots_each) -> None:
    more = Demand(
        arrivals_per_s=max(one.arrivals_per_s, other.arrivals_per_s),
        service_s=max(one.service_s, other.service_s),
        running=max(one.running, other.running),
        waiting=max(one.waiting, other.waiting),
    )
    assert nodes_for(more.slots(OPTIONS), slots_each, OPTIONS) >= nodes_for(
        one.slots(OPTIONS), slots_each, OPTIONS
    )


def test_a_load_without_end_asks_for_the_most() -> None:
    assert nodes_for(inf, 4, OPTIONS) == OPTIONS.max_nodes


wishes = st.lists(st.tuples(st.floats(0, 120), st.integers(0, 50)), max_size=60)


@given(wishes)
def test_a_wish_rises_at_once_and_falls_to_the_highest_of_the_last_while(steps) -> None:
    steady, now, said = Steady(OPTIONS), 0.0, []
    for pause_s, wish in steps:
        now += pause_s
        said.append((now, wish))
        recent = [each for at, each in said if at >= now - OPTIONS.scale_down_after_s]
        assert steady.settle(wish, now) == max(recent)


@given(st.integers(0, 50), st.integers(0, 50))
def test_a_load_that_comes_and_goes_within_the_while_moves_nothing(high, low) -> None:
    steady = Steady(OPTIONS)
    high, low = max(high, low), min(high, low)
    asked = [steady.settle(high if step % 2 == 0 else low, step * 60.0) for step in range(20)]
    assert set(asked) == {high}


def test_fewer_are_asked_for_after_the_while() -> None:
    steady = Steady(OPTIONS)
    assert steady.settle(9, 0) == 9
    assert steady.settle(2, 300) == 9
    assert steady.settle(2, 300.1) == 2


def test_bounds_that_no_number_keeps_are_refused() -> None:
    with pytest.raises(ValueError, match="min_nodes"):
        AutoscaleOptions(min_nodes=2, max_nodes=1)
