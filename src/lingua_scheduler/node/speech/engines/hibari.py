"""An English voice of 8 MB by hibari, from its package."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from lingua_scheduler.node.speech import sound
from lingua_scheduler.node.speech.carriers import HIBARI
from lingua_scheduler.node.speech.engine import Service, Sound
from lingua_scheduler.node.speech.weights import Place


class HibariOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How it speaks."""

    speed: Annotated[float, msgspec.Meta(ge=0.5, le=2)] = 1.0
    """Faster above 1, slower below."""
    threads: Annotated[int, msgspec.Meta(ge=1)] = 1
    """Threads of one voice."""


class Hibari:
    """The voice that comes in the package; the same text always sounds the same."""

    service: ClassVar[Service] = "tts"
    extra: ClassVar[str] = "speech"
    Options: ClassVar[type[msgspec.Struct]] = HibariOptions
    languages: ClassVar[frozenset[str]] = frozenset({"en"})

    def __init__(self, options: HibariOptions) -> None:
        import hibari  # noqa: PLC0415

        folder = HIBARI.path(Place("tts", "engine in [node.tts] to another voice, such as espeak"))
        self._voice = hibari.Hibari(model=str(folder / "hibari.onnx"), threads=options.threads)
        self._rate = int(hibari.SAMPLE_RATE)
        self._speed = options.speed

    def speak(self, text: str, language: str) -> Sound:  # noqa: ARG002 it speaks one language
        """Say an English text."""
        return Sound(pcm16=sound.pcm16(self._voice(text, speed=self._speed, seed=0)), rate=self._rate)
