"""The stand-in for the nodes in the field behaves as they were seen to behave."""

import pytest

from lingua_scheduler.node.first_generation import FirstGeneration
from lingua_scheduler.node.job import JobFailed
from node.jobs import assign

SECOND = bytes(32000)


@pytest.fixture
def node() -> FirstGeneration:
    return FirstGeneration()


def manual(index: int = 0, seconds: int = 1, **members):
    return assign(
        f"job-{index}", utterance_index=index, audio=SECOND * seconds, is_manual_cut=True, **members
    )


def test_a_manual_cut_is_translated(node) -> None:
    said = node(manual())
    assert said.text_asr.startswith("word0.0 word0.1")
    assert said.text_translated == f"(pt) {said.text_asr}"
    assert said.tts_format == "opus"
    assert said.tts_audio


def test_a_job_id_is_never_taken_twice_whatever_the_attempt(node) -> None:
    node(manual())
    refusal = node(manual(attempt_id=2))
    assert isinstance(refusal, JobFailed)
    assert (refusal.code, str(refusal)) == ("PROCESSING_ERROR", "DUPLICATE_JOB_ID: job-0")


def test_an_utterance_is_never_taken_twice_under_another_job(node) -> None:
    node(manual())
    refusal = node(assign("job-other", is_manual_cut=True))
    assert str(refusal) == "DUPLICATE_UTTERANCE_INDEX: 0"


def test_without_a_flag_it_keeps_silent(node) -> None:
    assert node(assign(audio=SECOND)) is None


def test_without_audio_it_keeps_silent(node) -> None:
    assert node(assign(audio=b"", is_manual_cut=True)) is None


def test_an_unknown_form_is_an_error(node) -> None:
    assert "Unsupported audio format" in str(node(assign(audio_format="wav", is_manual_cut=True)))


@pytest.mark.parametrize(("chars", "translated"), [(5, False), (40, False), (41, True)])
def test_a_short_text_of_a_timeout_cut_is_left_untranslated(chars, translated) -> None:
    node = FirstGeneration(lambda _assign, _ms: "x" * chars)
    said = node(assign(audio=SECOND, is_timeout_triggered=True))
    assert bool(said.text_translated) == translated


def test_a_very_short_text_is_taken_for_silence() -> None:
    node = FirstGeneration(lambda _assign, _ms: "hi")
    assert node(manual()).extra == {"reason": "ASR_EMPTY"}


def test_the_same_text_again_is_not_answered() -> None:
    node = FirstGeneration(lambda _assign, _ms: "the same words")
    assert node(manual(0)) is not None
    assert node(manual(1)) is None
    assert node(manual(2, session_id="s-2")) is not None


def test_an_index_that_comes_too_late_is_recognised_but_not_translated(node) -> None:
    node(manual(5))
    assert node(manual(3)).text_translated == ""


def test_pieces_of_a_turn_are_gathered_until_a_flag_ends_it(node) -> None:
    """Up to ten seconds silently, then with text but without translation, at last all in one."""
    turn = {"turn_id": "turn-1"}
    assert node(assign("job-0", utterance_index=0, audio=SECOND * 6, **turn)) is None
    piece = node(assign("job-1", utterance_index=1, audio=SECOND * 6, **turn))
    assert (bool(piece.text_asr), piece.text_translated) == (True, "")
    end = node(manual(2, seconds=2, **turn))
    assert end.text_asr.startswith(piece.text_asr)
    assert end.text_translated
