"""Recognition while listening, by Vosk: words from the first second on, for English and Chinese or any model.

`vosk-captions` shows words early beside a better recogniser, `vosk` recognises by itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from lingua_scheduler.node.speech.carriers import VOSK
from lingua_scheduler.node.speech.engine import Heard, Service, Speech, Tell
from lingua_scheduler.node.speech.weights import Place, check
from lingua_scheduler.wire.opus import SPEECH_RATE

_CHUNK_BYTES = SPEECH_RATE // 10 * 2  # a tenth of a second
_SPACELESS = frozenset({"ja", "zh"})


class VoskOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which models."""

    models: dict[str, Path] = {}
    """Directory of the model of each language; empty takes those of the package for `languages`."""
    languages: tuple[str, ...] = ("en",)
    """Languages to take from the package: en, zh."""

    def __post_init__(self) -> None:
        unknown = set(self.languages) - set(VOSK)
        if unknown and not self.models:
            raise ValueError(f"the package has {' and '.join(sorted(VOSK))}: set models for other languages")


class _Models:
    """The loaded models by language."""

    def __init__(self, options: VoskOptions, service: Service) -> None:
        import vosk  # noqa: PLC0415

        place = Place(service, f"models in [node.{service}] to directories with models of Vosk")
        vosk.SetLogLevel(-1)
        folders = options.models or {lang: VOSK[lang].path(place) for lang in options.languages}
        for folder in folders.values():
            check(folder / "am" / "final.mdl", "", place, f"copy a model there, or change {place.option}")
        self._recogniser: Any = vosk.KaldiRecognizer
        self._models = {lang: vosk.Model(str(folder)) for lang, folder in folders.items()}
        self.languages = frozenset(self._models)

    def listen(
        self, speech: Speech, tell: Tell | None, stopped: Callable[[], bool] | None = None
    ) -> str | None:
        """Hear chunk by chunk, telling what is new; give the whole text, or None when stopped."""
        language = speech.languages[0]
        ears = self._recogniser(self._models[language], SPEECH_RATE)
        done: list[str] = []
        told, told_at = "", time.monotonic() - speech.interval_s
        for at in range(0, len(speech.pcm16), _CHUNK_BYTES):
            if stopped is not None and stopped():
                return None
            if ears.AcceptWaveform(speech.pcm16[at : at + _CHUNK_BYTES]):
                done.append(json.loads(ears.Result())["text"])
            if tell is not None and time.monotonic() >= told_at + speech.interval_s:
                now = _joined([*done, json.loads(ears.PartialResult()).get("partial", "")], language)
                if now and now != told:
                    tell(now)
                    told, told_at = now, time.monotonic()
        done.append(json.loads(ears.FinalResult())["text"])
        return _joined(done, language)


class VoskCaptions:
    """Shows words early beside a recogniser."""

    service: ClassVar[Service] = "partials"
    extra: ClassVar[str] = "speech-vosk"
    Options: ClassVar[type[msgspec.Struct]] = VoskOptions

    def __init__(self, options: VoskOptions) -> None:
        self._models = _Models(options, self.service)
        self.languages = self._models.languages

    def listen(self, speech: Speech, tell: Tell, stopped: Callable[[], bool]) -> None:
        """Tell the text so far."""
        text = self._models.listen(speech, tell, stopped)
        if text:
            tell(text)


class Vosk:
    """Recognises by itself."""

    service: ClassVar[Service] = "asr"
    extra: ClassVar[str] = "speech-vosk"
    Options: ClassVar[type[msgspec.Struct]] = VoskOptions

    def __init__(self, options: VoskOptions) -> None:
        self._models = _Models(options, self.service)
        self.languages = self._models.languages

    def recognise(self, speech: Speech, tell: Tell | None) -> Heard:
        """Recognise; which language is spoken it cannot tell, so the first that may be is taken."""
        text = self._models.listen(speech, tell)
        return Heard(text=text or "", language=speech.languages[0])


def _joined(parts: list[str], language: str) -> str:
    text = " ".join(filter(None, parts))
    return text.replace(" ", "") if language in _SPACELESS else text
