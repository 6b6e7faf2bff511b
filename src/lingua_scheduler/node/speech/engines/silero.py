"""Voice activity by Silero, from the ONNX model inside the faster-whisper package."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from lingua_scheduler.node.speech import sound
from lingua_scheduler.node.speech.carriers import SILERO
from lingua_scheduler.node.speech.engine import Service, Span
from lingua_scheduler.node.speech.weights import Place


class SileroOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a sound counts as speech."""

    threshold: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.5
    """Probability from which on a moment counts as speech."""
    shortest_ms: Annotated[int, msgspec.Meta(ge=0)] = 100
    """Shorter sounds are not taken for speech."""


class Silero:
    """Finds speech in frames of 32 ms."""

    service: ClassVar[Service] = "vad"
    extra: ClassVar[str] = "speech"
    Options: ClassVar[type[msgspec.Struct]] = SileroOptions

    def __init__(self, options: SileroOptions) -> None:
        from faster_whisper.vad import VadOptions, get_speech_timestamps, get_vad_model  # noqa: PLC0415

        SILERO.path(Place("vad", "engine in [node.vad]"))
        get_vad_model()
        self._find = get_speech_timestamps
        self._rules = VadOptions(
            threshold=options.threshold,
            min_speech_duration_ms=options.shortest_ms,
            min_silence_duration_ms=500,
            speech_pad_ms=0,
        )

    def spans(self, pcm16: bytes) -> list[Span]:
        """Give the stretches that hold speech, in order."""
        return [Span(found["start"], found["end"]) for found in self._find(sound.floats(pcm16), self._rules)]
