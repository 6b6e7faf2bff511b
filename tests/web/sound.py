"""Something like speech for the fake microphone: a buzzing voice in syllables."""

from __future__ import annotations

import wave
from array import array
from math import pi, sin
from pathlib import Path

from lingua_scheduler.wire.opus import SPEECH_RATE, encode_opus

RATE = 48_000
_PITCH_HZ = 130.0
_FORMANTS = ((700.0, 1.0), (1200.0, 0.6), (2600.0, 0.3))
_SYLLABLE_S = 0.22
_HARMONICS = 30


def _cycle(samples: int) -> list[float]:
    """Give one period of a voice: harmonics that are strong near the formants."""
    weights = []
    for number in range(1, _HARMONICS):
        hz = number * _PITCH_HZ
        weights.append(sum(gain / (1 + ((hz - formant) / 150) ** 2) for formant, gain in _FORMANTS))
    wave_of = [
        sum(
            weight * sin(2 * pi * number * at / samples + number * number)
            for number, weight in enumerate(weights, start=1)
        )
        for at in range(samples)
    ]
    peak = max(map(abs, wave_of))
    return [value / peak for value in wave_of]


def speech(path: Path, *sentences_s: float, pause_s: float = 2.5) -> Path:
    """Write sentences of these lengths with a pause after each; a fake microphone repeats the file."""
    cycle = _cycle(round(RATE / _PITCH_HZ))
    samples = array("h")
    for lasts_s in sentences_s:
        for at in range(round(lasts_s * RATE)):
            syllable = abs(sin(pi * (at / RATE) / _SYLLABLE_S)) ** 0.7
            samples.append(round(14_000 * syllable * cycle[at % len(cycle)]))
        samples.extend([0] * round(pause_s * RATE))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())
    return path


def voice(seconds: float) -> bytes:
    """Give a sound of this length as a node sends it, in framed Opus."""
    count = round(SPEECH_RATE * seconds)
    samples = (round(8000 * sin(2 * pi * 220 * at / SPEECH_RATE)) for at in range(count))
    return encode_opus(array("h", samples).tobytes())
