"""Messages about what a client says and plays, on `/ws/session`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from lingua_scheduler.core.model import believable_ms
from lingua_scheduler.wire.common import (
    Count,
    Features,
    Id,
    Lang,
    Langs,
    Message,
    Name,
    PipelineWish,
    SampleRate,
    forget_bad_trace,
)


class AudioChunk(Message, tag="audio_chunk", frozen=True, kw_only=True):
    """One frame of audio; `is_final` ends the utterance, with or without audio of its own.

    The client's clock is only ever shown, never trusted: whatever it says is accepted here.
    """

    session_id: Id
    seq: Count
    is_final: bool
    payload: bytes | None = None
    client_timestamp_ms: int | float | str | None = None

    @property
    def audio(self) -> bytes:
        """The audio bytes; empty when the message has none."""
        return self.payload or b""

    @property
    def client_ms(self) -> int | None:
        """The client's clock, if it is a believable number of milliseconds."""
        return believable_ms(self.client_timestamp_ms)


class AudioAck(Message, tag="audio_ack", frozen=True, kw_only=True):
    """Every audio frame up to this number is safe: the client need not keep it for a resume any more."""

    session_id: Id
    seq: Count


class Utterance(Message, tag="utterance", frozen=True, kw_only=True):
    """A whole utterance in one message, numbered by the client; `trace_id` as in `session_init`."""

    session_id: Id
    utterance_index: Count
    manual_cut: bool
    src_lang: Lang
    tgt_lang: Lang
    audio: Annotated[bytes, Meta(min_length=1)]
    audio_format: Name
    sample_rate: SampleRate
    dialect: Name | None = None
    features: Features | None = None
    mode: Name | None = None
    lang_a: Lang | None = None
    lang_b: Lang | None = None
    auto_langs: Langs | None = None
    enable_streaming_asr: bool | None = None
    partial_update_interval_ms: Count | None = None
    trace_id: str | None = None
    pipeline: PipelineWish | None = None

    def __post_init__(self) -> None:
        forget_bad_trace(self, self.trace_id)
        if self.audio_format == "pcm16" and len(self.audio) % 2:
            raise ValueError("pcm16 audio has an odd number of bytes")


class TtsStarted(Message, tag="tts_started", frozen=True, kw_only=True):
    """The client began to play a translation."""

    session_id: Id
    trace_id: Id
    group_id: Id
    ts_start_ms: Count


class TtsPlayEnded(Message, tag="tts_play_ended", frozen=True, kw_only=True):
    """The client has played all it had."""

    session_id: Id
    trace_id: Id
    group_id: Id
    ts_end_ms: Count
