"""Voices of Piper: an American one from a package, or any voice file on disk."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import msgspec

from lingua_scheduler.node.speech.carriers import PIPER_JOE
from lingua_scheduler.node.speech.engine import Service, Sound, primary
from lingua_scheduler.node.speech.weights import Place, check

_PLACE = Place("tts", "voice in [node.tts] to the .onnx file of a voice")


class PiperOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which voice."""

    voice: Path | None = None
    """The `.onnx` file, with its `.onnx.json` beside it; without one, the voice of the package."""
    sha256: str = ""
    """Digest that the file must have; empty accepts any."""
    cuda: bool = False
    """Speak on a GPU."""


class Piper:
    """One voice, one language."""

    service: ClassVar[Service] = "tts"
    extra: ClassVar[str] = "speech-piper"
    Options: ClassVar[type[msgspec.Struct]] = PiperOptions

    def __init__(self, options: PiperOptions) -> None:
        from piper import PiperVoice  # noqa: PLC0415

        if options.voice is None:
            file = PIPER_JOE.path(_PLACE) / "en_US-joe-medium.onnx"
        else:
            file = options.voice.expanduser()
            remedy = "copy a voice there, or change voice in [node.tts]"
            check(file, options.sha256, _PLACE, remedy)
            check(file.with_name(f"{file.name}.json"), "", _PLACE, remedy)
        self._voice = PiperVoice.load(str(file), use_cuda=options.cuda)
        self.languages = frozenset({_language(file)})

    def speak(self, text: str, language: str) -> Sound:  # noqa: ARG002 a voice has one language
        """Say a text, sentence by sentence."""
        pcm16 = b"".join(chunk.audio_int16_bytes for chunk in self._voice.synthesize(text))
        return Sound(pcm16=pcm16, rate=int(self._voice.config.sample_rate))


def _language(voice: Path) -> str:
    about = msgspec.json.decode(voice.with_name(f"{voice.name}.json").read_bytes())
    family = about.get("language", {}).get("family") or about.get("espeak", {}).get("voice") or voice.name
    return primary(str(family))
