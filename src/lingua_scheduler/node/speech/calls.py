"""What a node and its workers say to each other: MessagePack with its length in front."""

from __future__ import annotations

from typing import Protocol

import msgspec

from lingua_scheduler.node.speech.engine import Speech
from lingua_scheduler.node.speech.options import EngineChoice

HEADER_BYTES = 4


class Call(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of everything a node asks of a worker."""


class Setup(Call, frozen=True, kw_only=True):
    """Load these engines and try them; the first call, answered with a `Report`."""

    engines: dict[str, tuple[EngineChoice, ...]]


class Hear(Call, frozen=True, kw_only=True):
    """Find speech, recognise it, repair it; answered with `Understood`, and `Partial` before."""

    speech: Speech  # at `rate`, not yet at the rate of engines
    rate: int
    padding_ms: int = 0  # quiet to put behind the speech
    partials: bool = False
    repair: bool = True


class Translate(Call, frozen=True, kw_only=True):
    """Translate; answered with `Translated`."""

    text: str
    src: str
    tgt: str


class Speak(Call, frozen=True, kw_only=True):
    """Say; answered with `Spoken`."""

    text: str
    language: str
    audio_format: str


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of everything a worker answers."""


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """An engine, or one language of it, that cannot be used, and why."""

    service: str
    engine: str
    message: str


class Report(Reply, frozen=True, kw_only=True):
    """What passed the start-up test of a worker, and what did not."""

    services: tuple[str, ...] = ()
    heard: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    spoken: tuple[str, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    load_ms: int = 0
    test_ms: int = 0

    def why(self, service: str) -> str:
        """Tell what is wrong with a service, if anything is."""
        return "; ".join(trouble.message for trouble in self.troubles if trouble.service == service)


class Partial(Reply, frozen=True, kw_only=True):
    """Understood so far; the reply proper follows."""

    text: str


class Understood(Reply, frozen=True, kw_only=True):
    """What was said, before and after repair; empty when nobody spoke."""

    text: str = ""
    raw_text: str = ""
    language: str = ""
    probability: float = 1.0


class Translated(Reply, frozen=True, kw_only=True):
    """A text in the language wanted, and the languages it went through."""

    text: str
    route: tuple[str, ...]


class Spoken(Reply, frozen=True, kw_only=True):
    """A voice in the form wanted, at 16 kHz."""

    audio: bytes


class Failed(Reply, frozen=True, kw_only=True):
    """The call could not be done."""

    service: str
    message: str
    missing: bool = False  # a model or a language is not there


AnyCall = Setup | Hear | Translate | Speak
AnyReply = Report | Partial | Understood | Translated | Spoken | Failed

_encoder = msgspec.msgpack.Encoder()
_calls: msgspec.msgpack.Decoder[AnyCall] = msgspec.msgpack.Decoder(AnyCall)
_replies: msgspec.msgpack.Decoder[AnyReply] = msgspec.msgpack.Decoder(AnyReply)


class Source(Protocol):
    """Something to read bytes from, such as a pipe."""

    def read(self, size: int, /) -> bytes:
        """Give that many bytes, fewer only at the end."""
        ...


def framed(message: Call | Reply) -> bytes:
    """Write a message with its length in front."""
    body = _encoder.encode(message)
    return len(body).to_bytes(HEADER_BYTES, "little") + body


def size_of(header: bytes) -> int:
    """Read the length of the message that follows."""
    return int.from_bytes(header, "little")


def read_call(source: Source) -> AnyCall | None:
    """Wait for the next call; None at the end."""
    header = source.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        return None
    body = source.read(size_of(header))
    return _calls.decode(body) if len(body) == size_of(header) else None


def decoded_reply(body: bytes) -> AnyReply:
    """Read a reply."""
    return _replies.decode(body)
