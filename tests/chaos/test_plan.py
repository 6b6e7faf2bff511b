"""A plan is a pure function of its seed and never asks for the impossible."""

import itertools

import pytest

from lingua_scheduler.chaos.faults import TRAITS, Fault
from lingua_scheduler.chaos.fleet import Fleet
from lingua_scheduler.chaos.history import Recorder
from lingua_scheduler.chaos.injection import Injector
from lingua_scheduler.chaos.plan import FAULTLESS_S, Shape, planned, possible, rolling
from lingua_scheduler.commands.chaos import ChaosRequest
from lingua_scheduler.errors import ConfigError

SEEDS = range(1, 60)
SHAPES = [Shape(), Shape(cluster=True), Shape(instances=1), Shape(instances=2, odd_nodes=0, duration_s=60)]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_seed_gives_the_same_plan_and_another_seed_another_one(shape):
    assert planned(7, shape) == planned(7, shape)
    assert planned(7, shape).steps != planned(8, shape).steps


@pytest.mark.parametrize("shape", SHAPES)
def test_a_plan_holds_only_what_is_possible(shape):
    allowed = set(possible(shape))
    for seed in SEEDS:
        for step in planned(seed, shape).steps:
            assert step.fault in allowed
            assert step.at_s >= FAULTLESS_S
            assert 0 <= step.victim < max(shape.instances, shape.nodes + shape.odd_nodes)


@pytest.mark.parametrize("shape", SHAPES)
def test_never_is_more_than_one_instance_away_at_a_time(shape):
    for seed in SEEDS:
        down = [step for step in planned(seed, shape).steps if TRAITS[step.fault].downs_instance]
        for one, two in itertools.pairwise(down):
            assert one.ends_s < two.at_s


@pytest.mark.parametrize("shape", SHAPES)
def test_while_redis_forgets_nothing_else_is_broken(shape):
    """A session whose record and whose owner vanish together is lost; nobody promised otherwise."""
    for seed in SEEDS:
        steps = planned(seed, shape).steps
        forgetting = [step for step in steps if TRAITS[step.fault].forgets]
        assert len(forgetting) <= 1
        for step in forgetting:
            assert all(
                other is step or other.ends_s < step.at_s or other.at_s > step.ends_s for other in steps
            )


def test_ten_seeds_break_nearly_everything():
    dealt = {step.fault for seed in range(1, 11) for step in planned(seed, Shape()).steps}
    assert len(dealt) >= 0.9 * len(possible(Shape()))


def test_a_rolling_restart_restarts_every_process_once():
    plan = rolling(1, Shape(nodes=5, odd_nodes=0))
    assert plan.lossless
    instances = [step.victim for step in plan.steps if step.fault is Fault.INSTANCE_DRAIN]
    nodes = [step.victim for step in plan.steps if step.fault is Fault.NODE_DRAIN]
    assert (sorted(instances), sorted(nodes)) == ([0, 1, 2], [0, 1, 2, 3, 4])


async def test_every_fault_has_its_way_to_be_injected(tmp_path):
    recorder = Recorder(tmp_path / "driver.jsonl", "driver")
    fleet = Fleet(tmp_path, planned(1, Shape()), recorder=recorder)
    assert set(Injector(fleet)._ways) == set(Fault) == set(TRAITS)
    recorder.close()


def test_faults_are_known_by_name_and_by_number():
    request = ChaosRequest(seeds=(1,), faults=("F26", "node_kill"))
    assert set(possible(request.plans()[0].shape)) == {Fault.INSTANCE_KILL, Fault.NODE_KILL}
    with pytest.raises(ConfigError, match="no fault is called 'F99'"):
        ChaosRequest(seeds=(1,), faults=("F99",)).plans()
    with pytest.raises(ConfigError, match="none of these faults is possible"):
        ChaosRequest(seeds=(1,), faults=("redis_failover",)).plans()


def test_a_failed_seed_tells_how_it_is_run_again():
    request = ChaosRequest(seeds=(4,), duration_s=12, cluster=True, faults=("F26",))
    again = request.replay(request.plans()[0])
    assert again == "./lingua chaos --seed 4 --duration 12 --instances 3 --cluster --faults F26"
    crash = ChaosRequest(seeds=(1,), instances=2, crash=("after_finish",))
    assert crash.replay(crash.plans()[0]) == "./lingua chaos --seed 1 --crash after_finish --instances 2"
    with pytest.raises(ConfigError, match="expected all or some of after_reserve"):
        ChaosRequest(seeds=(1,), crash=("nowhere",)).plans()
