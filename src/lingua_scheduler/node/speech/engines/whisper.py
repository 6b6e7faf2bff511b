"""Recognition by Whisper through faster-whisper: models from packages, or any CTranslate2 directory."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec

from lingua_scheduler.node.speech import sound
from lingua_scheduler.node.speech.carriers import WHISPER_BASE_PARTS, WHISPER_BASE_SHA256, WHISPER_TINY_EN
from lingua_scheduler.node.speech.engine import Heard, Service, Speech, Tell
from lingua_scheduler.node.speech.weights import Place, cache_folder, check, joined
from lingua_scheduler.wire.opus import SPEECH_RATE

_PLACE = Place("asr", "model in [node.asr] to a directory with a CTranslate2 model of Whisper")
_SAMPLE_BYTES = 2


class WhisperOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which model, on what, and how carefully."""

    model: str = "tiny.en"
    """tiny.en and base come in packages; anything else is the path of a CTranslate2 directory."""
    sha256: str = ""
    """Digest that `model.bin` of a directory must have; empty accepts any."""
    languages: tuple[str, ...] = ()
    """Languages to offer; empty offers all the model knows."""
    device: str = "cpu"
    """cpu, cuda or auto."""
    compute_type: str = "int8"
    """Numbers to compute with: int8 on a CPU, float16 or int8_float16 on a GPU."""
    threads: Annotated[int, msgspec.Meta(ge=0)] = 2
    """Threads of one recognition; 0 takes what CTranslate2 thinks best."""
    beam_size: Annotated[int, msgspec.Meta(ge=1)] = 5
    """Alternatives followed at a time; 1 is fastest."""
    partial_after_s: Annotated[float, msgspec.Meta(ge=0)] = 8.0
    """To show words early, much longer speech is first recognised up to this moment; 0 never does that."""


class Whisper:
    """Whisper as CTranslate2 runs it."""

    service: ClassVar[Service] = "asr"
    extra: ClassVar[str] = "speech"
    Options: ClassVar[type[msgspec.Struct]] = WhisperOptions

    def __init__(self, options: WhisperOptions) -> None:
        from faster_whisper import WhisperModel  # noqa: PLC0415

        self._options = options
        self._model = WhisperModel(
            str(_folder(options)),
            device=options.device,
            compute_type=options.compute_type,
            cpu_threads=options.threads,
            local_files_only=True,
        )
        known = frozenset(self._model.supported_languages)
        self.languages = known & frozenset(options.languages) if options.languages else known

    def recognise(self, speech: Speech, tell: Tell | None) -> Heard:
        """Recognise; longer speech is told in growing parts if somebody wants to see them."""
        if tell is not None and len(speech.languages) == 1:
            for samples in growing(len(speech.pcm16) // _SAMPLE_BYTES, self._options.partial_after_s):
                part = sound.floats(speech.pcm16[: samples * _SAMPLE_BYTES])
                found, _ = self._transcribed(part, speech, speech.languages[0], quick=True)
                tell(_text(found))
        return self._heard(sound.floats(speech.pcm16), speech)

    def _heard(self, samples: Any, speech: Speech) -> Heard:
        known = speech.languages[0] if len(speech.languages) == 1 else None
        found, about = self._transcribed(samples, speech, known)
        language, probability = about.language, about.language_probability
        if language not in speech.languages:
            chances = dict(about.all_language_probs or ())
            language = max(speech.languages, key=lambda lang: chances.get(lang, 0.0))
            probability = chances.get(language, 0.0)
            found, _ = self._transcribed(samples, speech, language)
        return Heard(text=_text(found), language=language, probability=probability)

    def _transcribed(
        self, samples: Any, speech: Speech, language: str | None, *, quick: bool = False
    ) -> tuple[Any, Any]:
        """Begin a transcription; its first result is computed when somebody asks for it."""
        quickly: dict[str, Any] = {"beam_size": 1, "temperature": 0.0, "without_timestamps": True}
        return self._model.transcribe(  # type: ignore[no-any-return]
            samples,
            language=language,
            initial_prompt=speech.prompt or None,
            hotwords=" ".join(speech.hotwords) or None,
            **(quickly if quick else {"beam_size": self._options.beam_size}),
        )


def growing(samples: int, first_s: float) -> list[int]:
    """Choose how much of long speech to recognise early: a first part, twice as much, and so on.

    A part that would leave less than a third to come is not worth the time.
    """
    parts, part = [], round(first_s * SPEECH_RATE)
    while 0 < part * 3 <= samples * 2:
        parts.append(part)
        part *= 2
    return parts


def _text(segments: Any) -> str:
    return "".join(segment.text for segment in segments).strip()


def _folder(options: WhisperOptions) -> Path:
    if options.model == "tiny.en":
        return WHISPER_TINY_EN.path(_PLACE)
    if options.model == "base":
        return _base()
    folder = Path(options.model).expanduser()
    remedy = "copy the model there, or set model in [node.asr] to another directory, tiny.en or base"
    check(folder / "model.bin", options.sha256, _PLACE, remedy)
    return folder


def _base() -> Path:
    """Put the multilingual model together from its two packages, once."""
    first, second = (part.path(_PLACE) for part in WHISPER_BASE_PARTS)
    folder = cache_folder() / f"whisper-base-{WHISPER_BASE_SHA256[:12]}"
    model = folder / "model.bin"
    joined([first / "model.bin.part1", second / "model.bin.part2"], model, WHISPER_BASE_SHA256)
    check(model, WHISPER_BASE_SHA256, _PLACE, f"remove {folder}")
    for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
        shutil.copyfile(first / name, folder / name)
    return folder
