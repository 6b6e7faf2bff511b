"""How long a job may take."""

from __future__ import annotations

import msgspec
import pytest

from lingua_scheduler.core.timeouts import TimeoutOptions


@pytest.mark.parametrize(
    ("base_s", "factor", "duration_s", "expected_s"),
    [
        (30, 0.5, None, 30),
        (30, 0.5, 1, 31),
        (30, 0.5, 10, 35),
        (30, 0.5, 60, 60),
        (30, 0.5, 200, 60),
        (10, 0.01, 0.1, 15),
        (20, 0.5, 20, 30),
        (30, 0.3, 20, 36),
        (30, 0.7, 20, 44),
        (10, 0.5, None, 10),
        (30, 0.1, 30, 33),
    ],
)
def test_ac50_the_limit_grows_with_the_audio(base_s, factor, duration_s, expected_s):
    options = TimeoutOptions(base_s=base_s, factor=factor)
    duration_ms = None if duration_s is None else duration_s * 1000
    assert options.job_timeout_s(duration_ms) == expected_s


def test_without_the_dynamic_part_the_base_stands():
    assert TimeoutOptions(dynamic=False).job_timeout_s(20_000) == 30


def test_defaults_are_those_that_were_decided():
    options = TimeoutOptions()
    assert (options.pending_s, options.base_s, options.min_s, options.max_s) == (10, 30, 15, 60)
    assert (options.factor, options.dynamic, options.failover_max_attempts) == (0.5, True, 3)


def test_only_nodes_that_acknowledge_have_a_deadline_for_it():
    options = TimeoutOptions()
    assert options.ack_timeout_s(acknowledges=True) == 2
    assert options.ack_timeout_s(acknowledges=False) is None


@pytest.mark.parametrize("duration_ms", [None, 0, 10_000, 600_000])
def test_a_slot_outlives_the_attempt_that_holds_it(duration_ms):
    options = TimeoutOptions()
    assert options.reservation_ttl_s(duration_ms) == options.job_timeout_s(duration_ms) + 30


def test_a_job_lives_for_its_wait_and_every_attempt():
    assert TimeoutOptions().job_life_s() == 10 + 4 * 60


@pytest.mark.parametrize(
    "bad", [{"base_s": 60, "max_s": 59}, {"min_s": 61}, {"pending_s": 0}, {"factor": -1}, {"timeout": 3}]
)
def test_options_that_contradict_each_other_or_their_bounds_are_refused(bad):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(bad, TimeoutOptions)
