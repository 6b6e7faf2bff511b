"""The life of a job and of a node: every step of the tables, and every step they do not have."""

from __future__ import annotations

import itertools
from dataclasses import replace

import msgspec
import pytest

from lingua_scheduler.core.lifecycle import (
    TERMINAL,
    Attempt,
    HealthFacts,
    JobStanding,
    JobState,
    JobStatus,
    NodeHealth,
    NodeHealthOptions,
    NodeStatus,
    ResultKind,
    ResultUse,
    StatusChange,
    Step,
    advance,
    is_healthy,
    use_of,
)
from lingua_scheduler.core.model import NodeId
from lingua_scheduler.errors import IllegalTransition

NOW = 1000.0
FIRST = Attempt(NodeId("n1"), 1)
SECOND = Attempt(NodeId("n2"), 2)
GOOD = HealthFacts(
    has_gpu=True,
    gpu_percent=30.0,
    installed=frozenset({"asr", "nmt", "tts"}),
    ready={"asr": True, "nmt": True, "tts": True},
)
BAD = replace(GOOD, gpu_percent=None)

C, D, A, R, F, X = JobState
ILLEGAL = None
TABLE = {
    #               CREATED  DISPATCHED ACCEPTED RUNNING FINISHED RELEASED
    Step.DISPATCH: (D, D, A, R, F, X),
    Step.ACCEPT: (ILLEGAL, A, A, R, F, X),
    Step.RUN: (ILLEGAL, R, R, R, F, X),
    Step.FINISH: (F, F, F, F, F, X),
    Step.RELEASE: (ILLEGAL, ILLEGAL, ILLEGAL, ILLEGAL, X, X),
    Step.RETRY: (C, C, C, C, ILLEGAL, ILLEGAL),
}


@pytest.mark.parametrize(
    ("step", "state", "expected"),
    [(step, state, row[column]) for step, row in TABLE.items() for column, state in enumerate(JobState)],
)
def test_every_step_from_every_state(step, state, expected):
    if expected is ILLEGAL:
        with pytest.raises(IllegalTransition, match=f"job: expected .+, received {step} in {state}"):
            advance(state, step)
    else:
        assert advance(state, step) is expected


def test_ac38_a_node_that_only_answers_still_brings_the_job_to_its_end():
    state = JobState.CREATED
    for step in (Step.DISPATCH, Step.FINISH, Step.RELEASE):
        state = advance(state, step)
    assert state is JobState.RELEASED


def test_ac39_a_late_acknowledgement_changes_nothing():
    assert advance(JobState.RELEASED, Step.ACCEPT) is JobState.RELEASED


def test_a_finished_job_is_never_dispatched_again():
    for state in (JobState.FINISHED, JobState.RELEASED):
        assert advance(state, Step.DISPATCH) is state
        with pytest.raises(IllegalTransition):
            advance(state, Step.RETRY)


def test_b42_without_text_is_an_end_as_well():
    assert {status for status in JobStatus if status.terminal} == TERMINAL
    assert JobStatus.COMPLETED_NO_TEXT in TERMINAL
    assert JobStatus.CANCELLED in TERMINAL


@pytest.mark.parametrize(
    ("text_asr", "reason", "kind"),
    [
        ("你好", None, ResultKind.COMPLETE),
        ("你好", "ASR_EMPTY", ResultKind.EMPTY_ACK),
        (None, "NO_TEXT_ASSIGNED", ResultKind.EMPTY_ACK),
        (None, None, ResultKind.EMPTY),
        (" \n", "OTHER", ResultKind.EMPTY),
    ],
)
def test_a_result_is_classified_by_text_and_reason(text_asr, reason, kind):
    assert ResultKind.of(text_asr, reason) is kind


def test_ac36_ac37_only_the_current_attempt_of_an_open_job_speaks_for_it():
    job = JobStanding(JobStatus.ASSIGNED, FIRST)
    assert job.is_current(FIRST)
    assert not job.is_current(Attempt(FIRST.node_id, 2))
    assert not job.is_current(Attempt(SECOND.node_id, 1))
    assert not JobStanding(JobStatus.COMPLETED, FIRST).is_current(FIRST)
    assert not JobStanding(JobStatus.PENDING, None).is_current(FIRST)


@pytest.mark.parametrize("kind", ResultKind)
def test_any_result_of_the_current_attempt_finishes_the_job(kind):
    for status in (JobStatus.ASSIGNED, JobStatus.PROCESSING):
        assert use_of(JobStanding(status, FIRST), FIRST, kind) is ResultUse.FINISH


def test_ac47_a_stale_attempt_never_wins_over_the_live_one():
    assert use_of(JobStanding(JobStatus.PROCESSING, SECOND), FIRST, ResultKind.COMPLETE) is ResultUse.DROP


def test_a_stale_result_fills_the_utterance_of_a_job_that_failed_for_good():
    failed = JobStanding(JobStatus.FAILED, SECOND)
    assert use_of(failed, FIRST, ResultKind.COMPLETE) is ResultUse.FILL
    assert use_of(failed, FIRST, ResultKind.EMPTY) is ResultUse.DROP
    filled = JobStanding(JobStatus.FAILED, SECOND, unfilled=False)
    assert use_of(filled, FIRST, ResultKind.COMPLETE) is ResultUse.DROP


def test_ac40_a_repeated_result_is_dropped():
    assert use_of(JobStanding(JobStatus.COMPLETED, FIRST), FIRST, ResultKind.COMPLETE) is ResultUse.DROP


def test_ac41_a_complete_result_may_follow_an_empty_one_of_the_same_attempt():
    job = JobStanding(JobStatus.COMPLETED_NO_TEXT, SECOND)
    assert use_of(job, SECOND, ResultKind.COMPLETE) is ResultUse.FILL
    assert use_of(job, SECOND, ResultKind.EMPTY_ACK) is ResultUse.DROP
    assert use_of(job, FIRST, ResultKind.COMPLETE) is ResultUse.DROP


def test_88_a_result_of_an_unknown_or_cancelled_job_is_dropped():
    assert use_of(None, FIRST, ResultKind.COMPLETE) is ResultUse.DROP
    assert use_of(JobStanding(JobStatus.CANCELLED, FIRST), FIRST, ResultKind.COMPLETE) is ResultUse.DROP


@pytest.mark.parametrize("gpu_percent", [130, -1, None, float("nan")])
def test_ac19_a_gpu_usage_that_is_no_percentage_is_unhealthy(gpu_percent):
    odd = replace(GOOD, gpu_percent=gpu_percent)
    for status in (NodeStatus.REGISTERING, NodeStatus.READY, NodeStatus.DEGRADED):
        assert not is_healthy(odd, status)
        assert is_healthy(odd, status, require_gpu=False)


def test_a_node_without_gpu_is_healthy_only_where_none_is_required():
    facts = replace(GOOD, has_gpu=False)
    assert not is_healthy(facts, NodeStatus.REGISTERING)
    assert is_healthy(facts, NodeStatus.REGISTERING, require_gpu=False)


@pytest.mark.parametrize(
    ("installed", "ready", "healthy"),
    [
        ({"asr", "nmt", "tts"}, {"asr": True, "nmt": True, "tts": True}, True),
        ({"asr", "nmt", "tts"}, {"asr": True, "nmt": True, "tts": False}, False),
        ({"asr", "nmt"}, {"asr": True}, False),
        ({"asr"}, {"asr": True}, True),
        ({"asr", "tone"}, {"asr": True, "tone": False}, True),
        ({"tone", "lexicon"}, {"tone": True, "lexicon": True}, False),
        (set(), {"asr": True}, False),
    ],
)
def test_a_registering_node_needs_every_installed_core_service_ready(installed, ready, healthy):
    facts = replace(GOOD, installed=frozenset(installed), ready=ready)
    assert is_healthy(facts, NodeStatus.REGISTERING) is healthy


@pytest.mark.parametrize(
    ("ready", "healthy"), [({}, False), ({"asr": False}, False), ({"asr": False, "tone": True}, True)]
)
@pytest.mark.parametrize("status", [NodeStatus.READY, NodeStatus.DEGRADED])
def test_later_one_ready_service_type_is_enough(status, ready, healthy):
    assert is_healthy(replace(GOOD, ready=ready), status) is healthy


def node(**options: object) -> NodeHealth:
    return NodeHealth(msgspec.convert(options, NodeHealthOptions), registered_at=NOW)


def ready_node(**options: object) -> NodeHealth:
    subject = node(**options)
    assert subject.heartbeat(GOOD, NOW) == StatusChange(NodeStatus.REGISTERING, NodeStatus.READY, "healthy")
    return subject


def beat(subject: NodeHealth, *healthy: bool) -> list[NodeStatus]:
    """Send heartbeats; return the status after each."""
    statuses = []
    for facts in (GOOD if good else BAD for good in healthy):
        subject.heartbeat(facts, NOW)
        statuses.append(subject.status)
    return statuses


def test_a_good_node_is_ready_at_its_first_heartbeat():
    subject = node()
    assert subject.status is NodeStatus.REGISTERING
    assert beat(subject, True) == [NodeStatus.READY]


def test_ac16_healthy_heartbeats_must_be_consecutive():
    subject = node(health_check_count=3)
    assert set(beat(subject, True, True, False, True, True)) == {NodeStatus.REGISTERING}
    assert beat(subject, True) == [NodeStatus.READY]


def test_ac17_a_node_that_never_gets_healthy_is_degraded_after_its_warm_up():
    subject = node()
    assert subject.deadline == NOW + 45
    subject.heartbeat(BAD, NOW + 30)
    assert subject.deadline == NOW + 60
    assert subject.scan(NOW + 59.9) is None
    assert subject.scan(NOW + 60) == StatusChange(
        NodeStatus.REGISTERING, NodeStatus.DEGRADED, "warmup_timeout"
    )
    assert subject.scan(NOW + 61) is None


def test_ac18_three_unhealthy_heartbeats_degrade_and_a_healthy_one_restores():
    subject = ready_node()
    assert beat(subject, False, False, False) == [NodeStatus.READY, NodeStatus.READY, NodeStatus.DEGRADED]
    assert beat(subject, False, True) == [NodeStatus.DEGRADED, NodeStatus.READY]
    assert beat(subject, False, False) == [NodeStatus.READY, NodeStatus.READY]


def test_a_healthy_heartbeat_clears_the_failures():
    subject = ready_node()
    assert set(beat(subject, False, False, True, False, False, True)) == {NodeStatus.READY}


def test_failures_in_the_window_count_by_themselves():
    subject = ready_node(consecutive_failure_count=9, failure_count=2)
    assert beat(subject, False, False) == [NodeStatus.READY, NodeStatus.DEGRADED]
    narrow = ready_node(consecutive_failure_count=4, failure_window_size=2, failure_count=3)
    assert beat(narrow, False, False, False, False)[2:] == [NodeStatus.READY, NodeStatus.DEGRADED]


def test_ac20_silence_makes_any_node_offline():
    for subject in (node(), ready_node(), ready_node()):
        if subject.status is NodeStatus.READY:
            subject.drain("operator")
        assert subject.scan(NOW + 44.9) is None
        change = subject.scan(NOW + 45)
        assert change is not None
        assert change.after is NodeStatus.OFFLINE
        assert subject.deadline is None
        assert subject.scan(NOW + 1000) is None


def test_a_node_that_beats_faster_is_missed_sooner():
    subject = NodeHealth(NodeHealthOptions(), registered_at=NOW, heartbeat_timeout_s=6)
    subject.heartbeat(GOOD, NOW + 2)
    assert subject.deadline == NOW + 8
    assert subject.scan(NOW + 8) is not None


def test_an_offline_node_stays_so_until_it_registers_again():
    subject = ready_node()
    assert subject.lose("socket_closed") == StatusChange(
        NodeStatus.READY, NodeStatus.OFFLINE, "socket_closed"
    )
    assert subject.lose("socket_closed") is None
    assert beat(subject, True, True) == [NodeStatus.OFFLINE, NodeStatus.OFFLINE]
    with pytest.raises(IllegalTransition, match="received drain in offline"):
        subject.drain("operator")


def test_a_draining_node_stays_so_until_the_drain_is_taken_back():
    subject = ready_node()
    assert subject.drain("operator") == StatusChange(NodeStatus.READY, NodeStatus.DRAINING, "operator")
    assert subject.drain("operator") is None
    assert set(beat(subject, True, False, False, False)) == {NodeStatus.DRAINING}
    assert subject.cancel_drain("operator") == StatusChange(NodeStatus.DRAINING, NodeStatus.READY, "operator")
    with pytest.raises(IllegalTransition, match="expected draining, received cancel_drain in ready"):
        subject.cancel_drain("operator")


def test_a_drained_node_that_was_not_ready_is_not_made_ready_by_taking_it_back():
    subject = node()
    subject.drain("operator")
    assert subject.cancel_drain("operator").after is NodeStatus.REGISTERING


def test_only_the_transitions_of_the_table_ever_happen():
    """Walk every short history and collect the changes it makes."""
    seen = set()
    moves = {
        "good": lambda subject, now: subject.heartbeat(GOOD, now),
        "bad": lambda subject, now: subject.heartbeat(BAD, now),
        "wait": lambda subject, now: subject.scan(now),
        "silence": lambda subject, now: subject.scan(now + 45),
    }
    for history in itertools.product(moves, repeat=5):
        subject = node(warmup_timeout_s=2)
        changes = (moves[move](subject, NOW + tick) for tick, move in enumerate(history))
        seen |= {(change.before, change.after) for change in changes if change is not None}
    registering, ready, degraded, _, offline = NodeStatus
    assert seen == {
        (registering, ready),
        (registering, degraded),
        (ready, degraded),
        (degraded, ready),
        (registering, offline),
        (ready, offline),
        (degraded, offline),
    }


def test_options_outside_their_bounds_are_refused():
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"health_check_count": 0}, NodeHealthOptions)
