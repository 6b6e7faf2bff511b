"""The node's side of the protocol without a socket: messages and time in, messages and events out."""

import pytest

from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.node.announcement import FEATURES, About, announcement
from lingua_scheduler.node.events import Abort, Begin, Leave, Refused, Registered, Settled, Stalled
from lingua_scheduler.node.job import NOTHING_SAID, JobFailed, Translation
from lingua_scheduler.node.options import LinkOptions
from lingua_scheduler.node.protocol import LinkState, NodeProtocol
from lingua_scheduler.wire.common import ErrorMessage, ServiceTimings
from lingua_scheduler.wire.machine import HeldJob, LanguageCapabilities
from lingua_scheduler.wire.node import (
    AsrPartial,
    JobAck,
    JobCancel,
    JobResult,
    JobStarted,
    NodeControl,
    NodeHeartbeat,
    NodeRegister,
    NodeRegisterAck,
    NodeStatus,
)
from node.jobs import IDLE, assign

DONE = Translation(text_asr="hello", text_translated="olá")
OPTIONS = LinkOptions(reconnect_min_s=1, reconnect_max_s=8, kept_results=3)
ACK = NodeRegisterAck(node_id="node-1", message="registered")


class Node:
    """A protocol under test, with short words for what happens to it."""

    def __init__(self, capacity: int = 2, options: LinkOptions = OPTIONS) -> None:
        self.clock = VirtualClock()
        register = announcement(("en", "pt"), capacity, About(), options.heartbeat_s)
        self.protocol = NodeProtocol(register, options, clock=self.clock, usage=lambda: IDLE)

    def said(self) -> list:
        """Send everything that waits, and give it."""
        messages = []
        while (message := self.protocol.next_message()) is not None:
            self.protocol.sent(message)
            messages.append(message)
        return messages

    def live(self) -> "Node":
        """Connect and register."""
        self.protocol.opened()
        self.protocol.receive(ACK)
        self.said()
        return self

    def pass_time(self, seconds: float) -> list:
        """Let time pass, and give what it asks for."""
        self.clock.advance(seconds)
        return self.protocol.tick()

    def receive(self, message) -> list:
        """Hear the scheduler, and give what it asks for."""
        return self.protocol.receive(message)


@pytest.fixture
def node() -> Node:
    return Node().live()


# Registration


def test_it_registers_first_with_everything_it_can_do() -> None:
    node = Node()
    node.protocol.opened()
    (register,) = node.said()
    assert isinstance(register, NodeRegister)
    assert register.node_id is None
    assert register.features == FEATURES
    assert register.capability_schema_version == "2.0"
    assert (register.max_concurrent_jobs, register.heartbeat_interval_seconds) == (2, 15)
    assert {entry.type for entry in register.capability_by_type if entry.ready} == {"asr", "nmt", "tts"}
    assert {service.type for service in register.installed_services} == {"asr", "nmt", "tts"}
    assert register.language_capabilities.asr_languages == ("en", "pt")
    assert register.hardware.cpu_cores >= 1
    assert register.held_jobs is None


def test_languages_may_differ_by_step() -> None:
    said = LanguageCapabilities(asr_languages=("en",), semantic_languages=("pt",), tts_languages=())
    assert announcement(said, 1, About(), 15).language_capabilities == said


def test_a_heartbeat_follows_the_acknowledgement_at_once_and_then_regularly() -> None:
    node = Node()
    node.protocol.opened()
    node.said()
    assert node.receive(ACK) == [Registered()]
    for _ in range(3):
        (beat,) = node.said()
        assert isinstance(beat, NodeHeartbeat)
        assert (beat.node_id, beat.resource_usage.cpu_percent, beat.resource_usage.running_jobs) == (
            "node-1",
            5.0,
            0,
        )
        assert beat.timestamp == node.clock.wall_ms()
        assert node.protocol.due == node.clock.now() + 15
        node.pass_time(15)


def test_nothing_is_said_before_the_registration_is_acknowledged() -> None:
    node = Node()
    node.protocol.opened()
    node.said()
    assert node.receive(assign()) == [], "without an id nothing can be answered"
    node.pass_time(9)
    assert node.said() == []


def test_a_scheduler_that_does_not_answer_is_left() -> None:
    node = Node()
    node.protocol.opened()
    assert node.pass_time(9.9) == []
    assert node.pass_time(0.1) == [Stalled()]


def test_an_error_that_asks_to_register_again_is_obeyed_with_growing_pauses(node) -> None:
    pauses = []
    for _ in range(4):
        began = node.clock.now()
        node.receive(ErrorMessage(code="NODE_UNAVAILABLE", message="not registered"))
        assert node.protocol.state is LinkState.REGISTERING
        node.clock.advance(node.protocol.due - began)
        node.protocol.tick()
        pauses.append(node.clock.now() - began)
        assert [type(message) for message in node.said()] == [NodeRegister]
    for pause, most in zip(pauses, (1, 2, 4, 8), strict=True):
        assert most / 2 <= pause <= most


def test_an_acknowledgement_makes_pauses_short_again(node) -> None:
    for _ in range(3):
        node.receive(ErrorMessage(code="SCHEDULER_DEPENDENCY_DOWN", message="not registered"))
        node.receive(ErrorMessage(code="NODE_UNAVAILABLE", message="not registered"))
        node.receive(ACK)
    node.receive(ErrorMessage(code="NODE_UNAVAILABLE", message="not registered"))
    assert node.protocol.due <= node.clock.now() + 1


def test_a_longer_pause_that_the_scheduler_asks_for_is_kept(node) -> None:
    node.receive(ErrorMessage(code="NODE_UNAVAILABLE", message="later", retry_after_ms=20_000))
    assert node.protocol.due == node.clock.now() + 20


@pytest.mark.parametrize(
    "code", ["NO_GPU_AVAILABLE", "INVALID_CAPABILITY_SCHEMA", "NODE_ID_CONFLICT", "INVALID_MESSAGE"]
)
def test_a_registration_refused_for_good_is_told(code) -> None:
    node = Node()
    node.protocol.opened()
    (event,) = node.receive(ErrorMessage(code=code, message="no", details={"missing": ["x"]}))
    assert isinstance(event, Refused)
    assert (event.error.code, event.error.details) == (code, {"missing": ["x"]})


def test_an_id_that_is_its_own_is_tried_again(node) -> None:
    """After a lost connection the scheduler may hold the old one for alive for a while."""
    node.protocol.lost()
    node.protocol.opened()
    assert node.receive(ErrorMessage(code="NODE_ID_CONFLICT", message="taken")) == []
    assert node.protocol.due is not None


def test_other_errors_change_nothing_while_it_is_registered(node) -> None:
    assert node.receive(ErrorMessage(code="INVALID_MESSAGE", message="what?")) == []
    assert node.receive(NodeStatus(node_id="node-1", status="ready", timestamp=1)) == []
    assert node.protocol.state is LinkState.LIVE


# Jobs


def test_a_job_is_acknowledged_started_and_answered_with_timings(node) -> None:
    job = assign(group_id="g-1", part_index=2)
    assert node.receive(job) == [Begin(job)]
    assert [type(message) for message in node.said()] == [JobAck]
    node.protocol.started(("job-1", 1))
    (started,) = node.said()
    assert isinstance(started, JobStarted)
    assert (started.job_id, started.attempt_id, started.session_id, started.trace_id) == (
        "job-1",
        1,
        "s-1",
        "t-1",
    )
    node.clock.advance(0.25)
    node.protocol.finished(("job-1", 1), DONE)
    (result,) = node.said()
    assert (result.success, result.text_asr, result.text_translated) == (True, "hello", "olá")
    assert (result.processing_time_ms, result.node_completed_at_ms) == (250, node.clock.wall_ms())
    assert result.service_timings == ServiceTimings(total_ms=250)
    assert (result.node_id, result.utterance_index, result.group_id, result.part_index) == (
        "node-1",
        0,
        "g-1",
        2,
    )


def test_steps_that_a_handler_measured_are_told(node) -> None:
    node.receive(assign())
    timings = ServiceTimings(asr_ms=1, nmt_ms=2, tts_ms=3, total_ms=6)
    node.protocol.finished(
        ("job-1", 1), Translation(text_asr="a", timings=timings, extra={"emotion": "calm"})
    )
    result = node.said()[-1]
    assert result.service_timings == timings
    assert result.extra["emotion"] == "calm"


def test_nothing_said_has_the_word_for_it(node) -> None:
    node.receive(assign())
    node.protocol.finished(("job-1", 1), NOTHING_SAID)
    assert node.said()[-1].reason == "ASR_EMPTY"


def test_a_failure_has_its_code(node) -> None:
    node.receive(assign())
    node.protocol.finished(
        ("job-1", 1), JobFailed("MODEL_NOT_AVAILABLE", "no model", details={"model_id": "m"})
    )
    result = node.said()[-1]
    assert (result.success, result.error.code, result.error.details) == (
        False,
        "MODEL_NOT_AVAILABLE",
        {"model_id": "m"},
    )
    assert result.text_asr is None


def test_a_job_beyond_its_capacity_is_refused(node) -> None:
    node.receive(assign("job-1"))
    node.receive(assign("job-2"))
    node.said()
    assert node.receive(assign("job-3")) == []
    (refusal,) = node.said()
    assert (refusal.job_id, refusal.success, refusal.error.code) == ("job-3", False, "NODE_OVERLOADED")
    node.protocol.finished(("job-1", 1), DONE)
    assert node.receive(assign("job-3", 2)) == [Begin(assign("job-3", 2))]


def test_a_repeated_assignment_is_acknowledged_but_not_begun_again(node) -> None:
    node.receive(assign())
    node.said()
    assert node.receive(assign()) == []
    assert [type(message) for message in node.said()] == [JobAck]


def test_a_repeated_assignment_of_a_finished_job_is_answered_again(node) -> None:
    node.receive(assign())
    node.protocol.finished(("job-1", 1), DONE)
    first = node.said()[-1]
    assert node.receive(assign()) == []
    assert node.said() == [first]


def test_a_newer_attempt_takes_the_place_of_the_older_even_at_capacity() -> None:
    node = Node(capacity=1).live()
    node.receive(assign(attempt_id=1))
    newer = assign(attempt_id=2)
    assert node.receive(newer) == [Abort(("job-1", 1)), Begin(newer)]
    node.said()
    node.protocol.finished(("job-1", 1), DONE)
    assert node.said() == [], "nobody waits for the older one"
    node.protocol.finished(("job-1", 2), DONE)
    assert [result.attempt_id for result in node.said()] == [2]


def test_an_older_attempt_that_comes_late_is_ignored(node) -> None:
    node.receive(assign(attempt_id=2))
    node.said()
    assert node.receive(assign(attempt_id=1)) == []
    assert node.said() == []


@pytest.mark.parametrize("attempt_id", [None, 2, 3])
def test_a_cancelled_job_is_aborted_and_never_answered(node, attempt_id) -> None:
    node.receive(assign(attempt_id=2))
    node.said()
    assert node.receive(JobCancel(job_id="job-1", attempt_id=attempt_id)) == [Abort(("job-1", 2))]
    node.protocol.partial(("job-1", 2), "text", final=False)
    node.protocol.finished(("job-1", 2), DONE)
    assert node.said() == []


def test_a_cancel_of_an_older_attempt_never_stops_a_newer_one(node) -> None:
    node.receive(assign(attempt_id=2))
    assert node.receive(JobCancel(job_id="job-1", attempt_id=1)) == []
    node.protocol.finished(("job-1", 2), DONE)
    assert node.said()[-1].success


def test_a_cancel_of_an_unknown_job_or_a_second_cancel_does_nothing(node) -> None:
    assert node.receive(JobCancel(job_id="job-9")) == []
    node.receive(assign())
    node.receive(JobCancel(job_id="job-1"))
    assert node.receive(JobCancel(job_id="job-1")) == []


def test_a_cancelled_job_takes_its_slot_until_its_handler_has_ended() -> None:
    node = Node(capacity=1).live()
    node.receive(assign("job-1"))
    node.receive(JobCancel(job_id="job-1"))
    node.receive(assign("job-2"))
    assert node.said()[-1].error.code == "NODE_OVERLOADED"
    node.protocol.finished(("job-1", 1), DONE)
    assert node.receive(assign("job-3")) == [Begin(assign("job-3"))]


def test_a_cancelled_attempt_that_is_assigned_again_is_not_acknowledged(node) -> None:
    node.receive(assign())
    node.receive(JobCancel(job_id="job-1", attempt_id=1))
    node.said()
    assert node.receive(assign()) == []
    assert node.said() == []


def test_a_handler_that_takes_too_long_is_aborted_and_its_job_failed(node) -> None:
    node.receive(assign())
    assert node.pass_time(119) == []
    assert node.pass_time(1) == [Abort(("job-1", 1))]
    results = [message for message in node.said() if isinstance(message, JobResult)]
    assert [result.error.code for result in results] == ["PROCESSING_ERROR"]
    node.protocol.finished(("job-1", 1), DONE)
    assert node.said() == []


@pytest.mark.parametrize(
    "outcome",
    [
        Translation(text_asr="x" * 70_000),
        Translation(text_asr="a", tts_audio=bytes(5 * 2**20)),
        Translation(text_asr="a", extra={"what": object()}),
        Translation(text_asr="\ud800"),
        Translation(text_asr=5),
    ],
)
def test_a_result_that_the_scheduler_could_not_read_becomes_a_failure(node, outcome) -> None:
    node.receive(assign())
    node.protocol.finished(("job-1", 1), outcome)
    result = node.said()[-1]
    assert (result.success, result.error.code) == (False, "PROCESSING_ERROR")


# Partials


def partials(node: Node) -> list[str]:
    return [message.text for message in node.said() if isinstance(message, AsrPartial)]


def test_of_partials_in_quick_succession_the_newest_is_sent_when_it_is_time(node) -> None:
    node.receive(assign(partial_update_interval_ms=500))
    for text in ("a", "ab", "abc"):
        node.protocol.partial(("job-1", 1), text, final=False)
    assert partials(node) == ["a"]
    assert node.protocol.due == node.clock.now() + 0.5
    node.pass_time(0.5)
    assert partials(node) == ["abc"]


def test_a_final_partial_does_not_wait(node) -> None:
    node.receive(assign(partial_update_interval_ms=500))
    node.protocol.partial(("job-1", 1), "a", final=False)
    node.protocol.partial(("job-1", 1), "abc", final=True)
    assert partials(node) == ["a", "abc"]


def test_a_partial_that_is_overtaken_by_its_result_is_not_sent(node) -> None:
    node.receive(assign(partial_update_interval_ms=500))
    node.protocol.partial(("job-1", 1), "a", final=False)
    node.protocol.partial(("job-1", 1), "ab", final=False)
    node.protocol.finished(("job-1", 1), DONE)
    node.said()
    node.pass_time(0.5)
    assert partials(node) == []


def test_partials_are_not_sent_to_a_session_that_does_not_want_them(node) -> None:
    node.receive(assign(enable_streaming_asr=False))
    node.protocol.partial(("job-1", 1), "a", final=False)
    assert partials(node) == []


# Lost connections


def test_jobs_that_are_held_are_named_and_their_results_sent_on_the_new_connection(node) -> None:
    node.receive(assign("job-1", 3))
    node.said()
    node.protocol.lost()
    node.protocol.opened()
    (register,) = node.said()
    assert register.node_id == "node-1"
    assert register.held_jobs == (HeldJob(job_id="job-1", attempt_id=3),)
    node.receive(ACK)
    node.protocol.finished(("job-1", 3), DONE)
    assert [type(message) for message in node.said()] == [NodeHeartbeat, JobResult]


def test_a_result_made_while_disconnected_is_sent_after_the_registration(node) -> None:
    node.receive(assign())
    node.protocol.lost()
    node.protocol.finished(("job-1", 1), DONE)
    assert node.said() == []
    node.clock.advance(5)
    node.protocol.opened()
    (register,) = node.said()
    assert register.held_jobs == (HeldJob(job_id="job-1", attempt_id=1),)
    node.receive(NodeRegisterAck(node_id="node-2", message="another id"))
    beat, result = node.said()
    assert (beat.node_id, result.node_id, result.text_translated) == ("node-2", "node-2", "olá")


def test_a_result_queued_but_not_written_is_sent_again(node) -> None:
    node.receive(assign())
    node.protocol.finished(("job-1", 1), DONE)
    node.protocol.lost()
    node.protocol.opened()
    node.receive(ACK)
    assert [message.job_id for message in node.said() if isinstance(message, JobResult)] == ["job-1"]


@pytest.mark.parametrize(("ago_s", "again"), [(1, True), (3, False)])
def test_a_result_written_just_before_the_loss_is_sent_again(node, ago_s, again) -> None:
    """It may have been lost on the way; the scheduler drops what it has."""
    node.receive(assign())
    node.protocol.finished(("job-1", 1), DONE)
    node.said()
    node.clock.advance(ago_s)
    node.protocol.lost()
    node.protocol.opened()
    node.receive(ACK)
    assert any(isinstance(message, JobResult) for message in node.said()) == again


def test_results_are_kept_within_limits(node) -> None:
    """Three at most, the newest, and none for longer than a minute."""
    node.protocol.lost()
    for number in range(5):
        node.protocol.opened()
        node.receive(ACK)
        node.receive(assign(f"job-{number}"))
        node.protocol.lost()
        node.protocol.finished((f"job-{number}", 1), DONE)
    node.protocol.opened()
    assert [job.job_id for job in node.said()[-1].held_jobs] == ["job-2", "job-3", "job-4"]
    node.protocol.lost()
    node.clock.advance(61)
    node.protocol.opened()
    assert node.said()[-1].held_jobs is None


def test_results_are_kept_within_bytes() -> None:
    node = Node(options=LinkOptions(kept_results_bytes=20_000)).live()
    for number in range(3):
        node.receive(assign(f"job-{number}"))
        node.protocol.finished((f"job-{number}", 1), Translation(text_asr="a", tts_audio=bytes(8000)))
    node.protocol.lost()
    node.protocol.opened()
    assert [job.job_id for job in node.said()[-1].held_jobs] == ["job-2"]


# Leaving


def test_a_node_that_leaves_says_so_refuses_and_ends_when_it_has_delivered(node) -> None:
    node.receive(assign("job-1"))
    node.said()
    node.protocol.leave()
    (beat,) = node.said()
    assert beat.resource_usage.gpu_queue_length == 1, "no more jobs"
    node.receive(assign("job-2"))
    assert node.said()[-1].error.code == "NODE_OVERLOADED"
    assert node.receive(assign("job-1")) == [], "it goes on with what it has"
    assert [type(message) for message in node.said()] == [JobAck]
    assert node.protocol.tick() == []
    node.protocol.finished(("job-1", 1), DONE)
    assert node.protocol.tick() == [], "the result is not written yet"
    node.said()
    assert node.protocol.tick() == [Settled()]


def test_an_operator_may_drain_a_node_and_take_it_back(node) -> None:
    node.receive(NodeControl(command="drain"))
    assert node.said()[-1].resource_usage.gpu_queue_length == 1
    assert node.protocol.tick() == [], "it stays"
    node.receive(NodeControl(command="resume"))
    assert node.said()[-1].resource_usage.gpu_queue_length is None
    assert node.receive(assign()) == [Begin(assign())]
    assert node.receive(NodeControl(command="dance")) == []
    assert node.receive(NodeControl(command="shutdown")) == [Leave()]
