"""Speech that proves who said it survives the way there and back, and nothing else passes for it."""

import pytest

from lingua_scheduler.chaos.speech import FRAME_BYTES, Heard, frame, heard, read_words, worded
from lingua_scheduler.core.audio import is_silent
from lingua_scheduler.core.model import AudioFormat


def test_frames_tell_their_speaker_and_number():
    audio = frame(3001, 17) + frame(3001, 18)
    assert heard(audio) == Heard(3001, (17, 18))
    assert len(audio) == 2 * FRAME_BYTES
    assert not is_silent(AudioFormat.PCM16, audio)


@pytest.mark.parametrize("audio", [b"", b"\x00" * FRAME_BYTES, frame(1, 1)[:-2], frame(1, 1) + frame(2, 2)])
def test_anything_else_is_garbled(audio):
    assert heard(audio) is None
    assert read_words(worded(heard(audio))) is None


@pytest.mark.parametrize("frames", [(5,), (1, 2, 3), (1, 2, 7, 8, 4)])
def test_words_tell_what_was_heard(frames):
    assert read_words(worded(Heard(9, frames))) == Heard(9, frames)


def test_whole_speech_has_no_gap_and_no_repetition():
    assert Heard(1, (4, 5, 6)).whole
    assert not Heard(1, (4, 6)).whole
    assert not Heard(1, (4, 4)).whole
