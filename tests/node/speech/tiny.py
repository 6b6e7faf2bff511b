# ruff: noqa: ARG002  (a protocol has arguments that not every engine needs)
"""Engines small enough to be read at a glance: real ones, for speech with one sample per letter."""

from __future__ import annotations

import os
import sys
import threading
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import msgspec

from lingua_scheduler.node.speech import EngineChoice, Heard, Sound, Span, Speech
from lingua_scheduler.node.speech.engine import Service, Tell
from lingua_scheduler.node.speech.errors import ModelMissing
from lingua_scheduler.wire.opus import SPEECH_RATE

_LOUD = 512  # quieter samples carry no letter

WORDS = {"hello": "olá", "world": "mundo", "red": "vermelho", "one": "um", "two": "dois", "three": "três"}
BACK = {portuguese: english for english, portuguese in WORDS.items()}


def spoken(text: str) -> bytes:
    """Say a text: one loud sample for each letter."""
    return array("h", [_LOUD + ord(letter) for letter in text]).tobytes()


def pause(duration_ms: int) -> bytes:
    """Say nothing for a while."""
    return bytes(SPEECH_RATE * duration_ms // 1000 * 2)


def understood(pcm16: bytes) -> str:
    """Hear what `spoken` said."""
    return "".join(chr(sample - _LOUD) for sample in array("h", pcm16) if sample >= _LOUD)


class NoOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing to choose."""


class FileOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that an engine needs or writes."""

    file: Path


class Ears:
    """Hears English and Portuguese, and tells word by word."""

    service: ClassVar[Service] = "asr"
    Options: ClassVar[type[msgspec.Struct]] = NoOptions
    languages: ClassVar[frozenset[str]] = frozenset({"en", "pt"})

    def __init__(self, options: msgspec.Struct) -> None:
        print("engines may print what they like")  # noqa: T201 it must not disturb the replies

    def recognise(self, speech: Speech, tell: Tell | None) -> Heard:
        """Hear; a prompt is shown by a bracket in front."""
        text = understood(speech.pcm16)
        words = text.split()
        for count in range(1, len(words) + 1 if tell else 1):
            assert tell is not None
            tell(" ".join(words[:count]))
        language = "pt" if words and words[0] in BACK else "en"
        if language not in speech.languages:
            language = speech.languages[0]
        shown = f"[{speech.prompt}] {text}" if speech.prompt else text
        return Heard(text=shown, language=language, probability=0.75)


class Meter(Ears):
    """Understands only how long somebody spoke, whatever the sound."""

    def recognise(self, speech: Speech, tell: Tell | None) -> Heard:
        """Count the milliseconds."""
        return Heard(text=f"{len(speech.pcm16) * 500 // SPEECH_RATE} ms", language=speech.languages[0])


class HungEars(Ears):
    """Works in its test, which has no voice to hear; hangs on everything anybody says."""

    def recognise(self, speech: Speech, tell: Tell | None) -> Heard:
        """Never come back from words."""
        if understood(speech.pcm16).startswith("hang"):
            threading.Event().wait()
        return super().recognise(speech, tell)


class GatedEars(Ears):
    """Waits at a gate, a named pipe, until somebody writes to it."""

    Options: ClassVar[type[msgspec.Struct]] = FileOptions

    def __init__(self, options: FileOptions) -> None:
        super().__init__(options)
        self._gate = options.file

    def recognise(self, speech: Speech, tell: Tell | None) -> Heard:
        """Wait when told to."""
        if understood(speech.pcm16) == "wait":
            self._gate.read_bytes()
        return super().recognise(speech, tell)


class WeakEars(Ears):
    """Fails, or takes its process down, when told to."""

    def recognise(self, speech: Speech, tell: Tell | None) -> Heard:
        """Do what is said."""
        text = understood(speech.pcm16)
        if text == "crash":
            os._exit(7)
        if text == "fail":
            raise ValueError(text)
        return super().recognise(speech, tell)


class FragileEars(Ears):
    """Needs a file that may go away."""

    Options: ClassVar[type[msgspec.Struct]] = FileOptions

    def __init__(self, options: FileOptions) -> None:
        if not options.file.exists():
            raise ModelMissing("asr", f"asr: {options.file} is missing: put it back")
        super().__init__(options)

    def recognise(self, speech: Speech, tell: Tell | None) -> Heard:
        """Take the process down when told to."""
        if understood(speech.pcm16) == "crash":
            os._exit(7)
        return super().recognise(speech, tell)


class Captions:
    """Shows letters while others think, until it is told to stop."""

    service: ClassVar[Service] = "partials"
    Options: ClassVar[type[msgspec.Struct]] = NoOptions
    languages: ClassVar[frozenset[str]] = frozenset({"en"})

    def __init__(self, options: msgspec.Struct) -> None:
        pass

    def listen(self, speech: Speech, tell: Tell, stopped: Callable[[], bool]) -> None:
        """Tell the text in capitals."""
        tell(understood(speech.pcm16).upper() or "...")


class SlowEars(Ears):
    """Waits for the captions before it answers."""

    def recognise(self, speech: Speech, tell: Tell | None) -> Heard:
        """Give others time: as long as another thread listens."""
        for thread in threading.enumerate():
            if thread.name == "captions":
                thread.join()
        return super().recognise(speech, tell)


class Threshold:
    """Takes everything loud for speech."""

    service: ClassVar[Service] = "vad"
    Options: ClassVar[type[msgspec.Struct]] = NoOptions

    def __init__(self, options: msgspec.Struct) -> None:
        pass

    def spans(self, pcm16: bytes) -> list[Span]:
        """Give one span from the first to the last letter."""
        loud = [at for at, sample in enumerate(array("h", pcm16)) if sample >= _LOUD]
        return [Span(loud[0], loud[-1] + 1)] if loud else []


class Dictionary:
    """Translates word for word."""

    service: ClassVar[Service] = "nmt"
    Options: ClassVar[type[msgspec.Struct]] = NoOptions
    pairs: ClassVar[frozenset[tuple[str, str]]] = frozenset({("en", "pt"), ("pt", "en")})

    def __init__(self, options: msgspec.Struct) -> None:
        pass

    def translate(self, text: str, src: str, tgt: str) -> str:
        """Look every word up."""
        if text == "hang":
            threading.Event().wait()
        known = WORDS if src == "en" else BACK
        return " ".join(known.get(word, word) for word in text.split())


class Shout:
    """Turns Portuguese into a language of capitals."""

    service: ClassVar[Service] = "nmt"
    Options: ClassVar[type[msgspec.Struct]] = NoOptions
    pairs: ClassVar[frozenset[tuple[str, str]]] = frozenset({("pt", "xx")})

    def __init__(self, options: msgspec.Struct) -> None:
        pass

    def translate(self, text: str, src: str, tgt: str) -> str:
        """Shout."""
        return text.upper()


class Mouth:
    """Says every language of this file."""

    service: ClassVar[Service] = "tts"
    Options: ClassVar[type[msgspec.Struct]] = NoOptions
    languages: ClassVar[frozenset[str]] = frozenset({"en", "pt", "xx"})

    def __init__(self, options: msgspec.Struct) -> None:
        pass

    def speak(self, text: str, language: str) -> Sound:
        """Say it letter by letter."""
        if text == "mudo":
            threading.Event().wait()
        return Sound(pcm16=spoken(text), rate=SPEECH_RATE)


class Mute(Mouth):
    """Has a voice that gives no sound."""

    def speak(self, text: str, language: str) -> Sound:
        """Say nothing."""
        return Sound(pcm16=b"", rate=SPEECH_RATE)


def choice(engine: type, **options: object) -> tuple[EngineChoice]:
    """Choose an engine of this file."""
    return (EngineChoice(f"{__name__}:{engine.__name__}", dict(options)),)


assert sys.byteorder == "little", "the samples of this file are written as they lie in memory"
