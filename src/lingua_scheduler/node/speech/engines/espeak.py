"""Voices of espeak-ng for about a hundred languages: robotic, at once, and always there.

The library (GPL-3) comes in the package espeakng-loader and is called in the worker process.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec

from lingua_scheduler.node.speech.engine import Service, Sound, primary
from lingua_scheduler.node.speech.errors import EngineFailed
from lingua_scheduler.node.speech.weights import Place, installed

_SYNCHRONOUS = 2
_UTF8 = 1
_SPEED = 1  # the parameter's number
_OK = 0
_PREFERRED = {"en": "en-us", "es": "es", "pt": "pt-br", "zh": "cmn"}

_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


class _VoiceRecord(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("languages", ctypes.c_char_p), ("identifier", ctypes.c_char_p))


class EspeakOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which voices, and how fast they speak."""

    languages: tuple[str, ...] = ()
    """Languages to offer; empty offers all."""
    voices: dict[str, str] = {}
    """Voice of a language where another than the usual is wanted, such as {"pt" = "pt"}."""
    words_per_minute: Annotated[int, msgspec.Meta(ge=80, le=450)] = 160
    """Speed."""


class Espeak:
    """espeak-ng as a library."""

    service: ClassVar[Service] = "tts"
    extra: ClassVar[str] = "speech"
    Options: ClassVar[type[msgspec.Struct]] = EspeakOptions

    def __init__(self, options: EspeakOptions) -> None:
        self._synthesiser = _synthesiser()
        self._words_per_minute = options.words_per_minute
        self._voices = {**_usual_voices(self._synthesiser.library), **options.voices}
        known = frozenset(self._voices)
        self.languages = known & frozenset(options.languages) if options.languages else known

    def speak(self, text: str, language: str) -> Sound:
        """Say a text with the voice of its language."""
        return self._synthesiser.say(text, self._voices[language], self._words_per_minute)


class _Synthesiser:
    """The library, which has one state for the whole process."""

    def __init__(self) -> None:
        import espeakng_loader  # noqa: PLC0415

        data = installed("espeakng_loader")
        if data is None or not (data / "espeak-ng-data" / "phontab").is_file():
            raise Place("tts", "engine in [node.tts]").missing(
                "the data of espeak-ng is missing", "pip install --force-reinstall espeakng-loader==0.2.4"
            )
        self.library = ctypes.CDLL(espeakng_loader.get_library_path())
        self._rate = int(self.library.espeak_Initialize(_SYNCHRONOUS, 0, str(data).encode(), 0))
        if self._rate <= 0:
            raise EngineFailed("tts", "espeak-ng could not be started")
        self._samples = bytearray()
        self._take = _Callback(self._took)  # kept, because the library calls it later
        self.library.espeak_SetSynthCallback(self._take)

    def say(self, text: str, voice: str, words_per_minute: int) -> Sound:
        self._samples.clear()
        if self.library.espeak_SetVoiceByName(voice.encode()) != _OK:
            raise EngineFailed("tts", f"espeak-ng has no voice {voice}")
        self.library.espeak_SetParameter(_SPEED, words_per_minute, 0)
        words = text.encode() + b"\0"
        said = self.library.espeak_Synth(words, ctypes.c_size_t(len(words)), 0, 0, 0, _UTF8, None, None)
        if said != _OK:
            raise EngineFailed("tts", f"espeak-ng failed with code {said}")
        return Sound(pcm16=bytes(self._samples), rate=self._rate)

    def _took(self, samples: Any, count: int, _events: Any) -> int:
        if samples and count > 0:
            self._samples += ctypes.string_at(samples, count * ctypes.sizeof(ctypes.c_short))
        return 0


@functools.cache
def _synthesiser() -> _Synthesiser:
    return _Synthesiser()


def _usual_voices(library: ctypes.CDLL) -> dict[str, str]:
    """Ask for all voices and give one for each language."""
    library.espeak_ListVoices.restype = ctypes.POINTER(ctypes.POINTER(_VoiceRecord))
    listed = library.espeak_ListVoices(None)
    names: dict[str, str] = {}
    at = 0
    while listed[at]:
        record = listed[at].contents
        if record.languages and not Path(record.identifier.decode()).parts[0].startswith("mb"):
            name = record.languages[1:].decode()  # the first byte is a priority
            names.setdefault(primary(name), name)
        at += 1
    return {**names, **_PREFERRED}
