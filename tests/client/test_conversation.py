"""What became of each utterance, from the speaker's point of view."""

import pytest

from lingua_scheduler.client.conversation import Conversation
from lingua_scheduler.wire.session import MissingResult, ServerHeartbeat, TranslationResult, UiEvent


def event(index: int, elapsed_ms: int = 0) -> UiEvent:
    return UiEvent(
        trace_id="t", session_id="s", job_id="j", utterance_index=index, event="DISPATCHED", status="ok",
        elapsed_ms=elapsed_ms,
    )  # fmt: skip


def result(index: int) -> TranslationResult:
    return TranslationResult(
        session_id="s", utterance_index=index, job_id="j", text_asr="a", text_translated="b", tts_audio=b"",
        tts_format="pcm16", trace_id="t",
    )  # fmt: skip


def missing(index: int, reason: str) -> MissingResult:
    return MissingResult(session_id="s", utterance_index=index, reason=reason, created_at_ms=1, trace_id="t")


@pytest.fixture
def talk() -> Conversation:
    return Conversation()


def test_a_dispatched_utterance_is_open_until_its_result(talk) -> None:
    talk.heard(event(0), 1.0)
    assert [said.index for said in talk.open] == [0]
    assert not talk.complete
    talk.heard(result(0), 2.0)
    assert talk.open == []
    assert talk.complete


def test_latency_counts_from_the_last_speech_before_the_cut(talk) -> None:
    """Frames sent after the cut belong to the next utterance, and silence before it is no speech."""
    for at in (1.0, 1.1, 1.2, 4.0):
        talk.spoke(at)
    talk.heard(event(0, elapsed_ms=500), 3.8)
    said = talk.heard(result(0), 4.5)
    assert said.latency_s == pytest.approx(3.3)


def test_without_any_speech_latency_counts_from_the_cut(talk) -> None:
    assert talk.heard(result(0), 2.0).latency_s == 0


def test_results_come_in_order_so_a_later_one_settles_those_before(talk) -> None:
    talk.heard(event(0), 1.0)
    talk.heard(event(1), 2.0)
    talk.heard(result(1), 3.0)
    assert talk.open == []
    assert talk.complete, "nothing was said in utterance 0"


@pytest.mark.parametrize(
    ("reason", "failed"), [("job_timeout", True), ("no_text", False), ("silence_detected", False)]
)
def test_only_speech_without_a_result_is_a_failure(talk, reason, failed) -> None:
    talk.heard(result(0), 1.0)
    talk.heard(missing(1, reason), 2.0)
    assert bool(talk.failed) == failed
    assert talk.complete != failed


def test_a_late_result_makes_good(talk) -> None:
    talk.heard(missing(0, "gap_timeout"), 1.0)
    talk.heard(result(0), 2.0)
    assert talk.complete


def test_a_conversation_without_results_is_not_complete(talk) -> None:
    assert talk.heard(ServerHeartbeat(session_id="s", timestamp=1), 1.0) is None
    assert not talk.complete
    talk.heard(missing(0, "no_text"), 2.0)
    assert not talk.complete


def test_results_are_given_in_the_order_of_speech(talk) -> None:
    talk.heard(result(1), 1.0)
    talk.heard(result(0), 2.0)
    assert [found.utterance_index for found in talk.results] == [0, 1]
