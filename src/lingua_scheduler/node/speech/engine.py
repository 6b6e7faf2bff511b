"""What the reference node asks of its engines: one small protocol per step, and the records they exchange.

An engine is a class with two attributes, `service` (its step) and `Options` (its option record), that is made
from its options. Making one loads and verifies everything it needs, or raises what `errors.py` of this
package names; importing its module loads nothing heavy. Engines live in worker processes and are called by
one thread at a time, so they may block, and they may be killed.

Speech is always pcm16, mono, 16 kHz. Languages are primary subtags: `en`, `pt`, `zh`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, get_args

import msgspec

Service = Literal["vad", "asr", "partials", "repair", "nmt", "tts"]
"""The steps an engine may serve, in the order of the pipeline."""

SERVICES: tuple[Service, ...] = get_args(Service)

Tell = Callable[[str], None]
"""Takes the text understood so far; each call replaces the one before."""


class Speech(msgspec.Struct, frozen=True, kw_only=True):
    """Something to recognise, with what is known about it."""

    pcm16: bytes
    languages: tuple[str, ...]  # what may be spoken: one when it is known
    prompt: str = ""  # what was said before
    hotwords: tuple[str, ...] = ()  # words to expect
    interval_s: float = 1.0  # partials more often than this are of no use


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What was said; an empty text when nothing was."""

    text: str
    language: str
    probability: float = 1.0  # that the language is right


class Sound(msgspec.Struct, frozen=True, kw_only=True):
    """A voice: pcm16 samples, mono, at `rate`."""

    pcm16: bytes
    rate: int


class Span(msgspec.Struct, frozen=True):
    """A stretch of speech, in samples; `end` is the first sample after it."""

    start: int
    end: int


class Vad(Protocol):
    """Finds speech."""

    def spans(self, pcm16: bytes) -> list[Span]:
        """Give the stretches that hold speech, in order; none when nobody speaks."""
        ...


class Recogniser(Protocol):
    """Turns speech into text."""

    @property
    def languages(self) -> frozenset[str]:
        """The languages it understands."""
        ...

    def recognise(self, speech: Speech, tell: Tell | None) -> Heard:
        """Recognise; when partials are wanted, `tell` may be called with the text so far."""
        ...


class Captioner(Protocol):
    """Recognises while it listens: less exact than a recogniser, but with words from the first second on."""

    @property
    def languages(self) -> frozenset[str]:
        """The languages it understands."""
        ...

    def listen(self, speech: Speech, tell: Tell, stopped: Callable[[], bool]) -> None:
        """Tell the text so far until all is heard or `stopped` says so; called in a thread of its own."""
        ...


class Repairer(Protocol):
    """Corrects what a recogniser tends to mishear."""

    def repair(self, text: str, language: str) -> str:
        """Give the corrected text: the same for the same text, always."""
        ...


class Translator(Protocol):
    """Turns text of one language into text of another."""

    @property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """The directions it translates by itself; the node finds ways through a third language."""
        ...

    def translate(self, text: str, src: str, tgt: str) -> str:
        """Translate between the two languages of one of its pairs."""
        ...


class Voice(Protocol):
    """Turns text into sound."""

    @property
    def languages(self) -> frozenset[str]:
        """The languages it speaks."""
        ...

    def speak(self, text: str, language: str) -> Sound:
        """Say a text in one of its languages."""
        ...


def primary(language: str) -> str:
    """Give the primary subtag: `pt` for `pt-BR`."""
    return language.lower().replace("_", "-").split("-", 1)[0]
