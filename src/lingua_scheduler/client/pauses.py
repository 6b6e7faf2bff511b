"""Where a speaker pauses: what a microphone's client does with silence, done for a recording.

A server hears a pause by the absence of frames. A recording has frames all the time, so a long enough silence
in it ends the utterance by hand, and the rest of the silence is not sent.
"""

from __future__ import annotations

from enum import Enum, auto

from lingua_scheduler.core.audio import is_silent
from lingua_scheduler.core.model import AudioFormat


class Frame(Enum):
    """What to do with a frame of a recording."""

    SPEECH = auto()  # send it
    SILENCE = auto()  # send it: a short pause belongs to what is said
    PAUSE = auto()  # end the utterance
    NOTHING = auto()  # nobody speaks: leave it out


class Pauses:
    """Judges the frames of one recording, in order."""

    def __init__(self, pause_ms: int, frame_ms: int) -> None:
        self._pause_ms = pause_ms
        self._frame_ms = frame_ms
        self._silent_ms = 0
        self.speaking = False  # something was said that has not been ended

    def judge(self, pcm: bytes) -> Frame:
        """Say what to do with the next frame."""
        if not is_silent(AudioFormat.PCM16, pcm):
            self.speaking, self._silent_ms = True, 0
            return Frame.SPEECH
        self._silent_ms += self._frame_ms
        if not self.speaking:
            return Frame.NOTHING
        if self._silent_ms < self._pause_ms:
            return Frame.SILENCE
        self.speaking = False
        return Frame.PAUSE
