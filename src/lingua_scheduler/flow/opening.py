"""What a client asks for in `session_init`, checked and settled within the server's bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import msgspec

from lingua_scheduler.core.model import AudioFormat, Languages, NodeId, new_trace_id
from lingua_scheduler.core.segmentation import SegmenterOptions
from lingua_scheduler.errors import CorruptValue, InvalidMessage, UnsupportedFeature
from lingua_scheduler.tracing.context import Context, read_traceparent
from lingua_scheduler.wire.common import Features, Pipeline
from lingua_scheduler.wire.session import SessionInit, Utterance

_Ms = Annotated[int, msgspec.Meta(ge=0)]


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of one session."""

    idle_timeout_seconds: Annotated[int, msgspec.Meta(ge=1)] = 90
    """A session without any message for this long is closed."""
    close_drain_ms: _Ms = 3000
    """How long a closing session waits for the results of what was said."""
    pause_min_ms: _Ms = 200
    """Shortest pause a client may ask for."""
    pause_max_ms: _Ms = 10_000
    """Longest pause a client may ask for."""
    max_duration_min_ms: _Ms = 1000
    """Shortest limit of one utterance a client may ask for."""
    max_duration_max_ms: _Ms = 60_000
    """Longest limit of one utterance a client may ask for."""
    unserved_retry_ms: Annotated[int, msgspec.Meta(ge=1)] = 5000
    """What a client is told to wait when no node can do what its session will ask for."""
    max_open_utterances: Annotated[int, msgspec.Meta(ge=2)] = 200
    """Unanswered utterances at which audio is refused; at half of it clients are asked to slow down."""
    backpressure_resume_ms: Annotated[int, msgspec.Meta(ge=500)] = 2000
    """How long a client is asked to wait when too much is unanswered; it is asked again no sooner."""
    utterance_reorder_timeout_ms: _Ms = 2000
    """How long an `utterance` message waits for a missing lower index."""
    utterance_reorder_max: Annotated[int, msgspec.Meta(ge=1)] = 64
    """Most `utterance` messages held back for a missing lower index."""
    stream_piece_max_ms: _Ms = 500
    """An `utterance` without `manual_cut` that is shorter is a piece of a stream; 0: every one is whole."""
    adaptive_pause_ms: Annotated[int, msgspec.Meta(ge=100)] = 700
    """Quiet that ends an utterance under adaptive endpointing, after clear speech."""
    adaptive_speech_ms: _Ms = 300
    """Voice an utterance must have had for that; with less, the session's own pause ends it."""
    partial_update_interval_ms: Annotated[int, msgspec.Meta(ge=50)] = 1000
    """How often nodes report partial results when the client does not say."""


@dataclass(frozen=True, slots=True)
class Opening:
    """An agreed session."""

    trace_id: str
    tenant_id: str | None
    languages: Languages
    audio_format: AudioFormat
    sample_rate: int
    segmentation: SegmenterOptions
    streaming_asr: bool
    partial_interval_ms: int
    features: Features | None
    pipeline: Pipeline
    hint_lang: str
    binary_audio: bool
    wants_backpressure: bool
    adaptive: bool
    resumes: bool = False  # the client comes back with its token, and understands what that needs
    paired_with: NodeId | None = None  # the node whose code the client brought
    traceparent: str | None = None  # the client's own span, in which its session is traced
    plain_voice: bool = False  # the client names no format of audio; in rooms it knows samples only

    def text(self) -> str:
        """Write it for a later owner of the session."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def of(cls, text: str) -> Opening:
        """Read what `text` wrote; CorruptValue when it is none of this version."""
        try:
            return _read(text)
        except msgspec.DecodeError as error:
            raise CorruptValue(f"an opening cannot be read: {error}") from None


_read = msgspec.json.Decoder(Opening).decode


_OPUS_RATES = (8000, 12000, 16000, 24000, 48000)
_ENDPOINTING = ("fixed", "adaptive")
_LONGEST_TRACE = 100  # utterances append their index to it, and ids end at 128 characters
_PARTIAL_INTERVAL_MS = (50, 60_000)


def agree(wish: SessionInit, options: SessionOptions, defaults: SegmenterOptions) -> Opening:
    """Settle what the session will be; UnsupportedFeature or InvalidMessage when it cannot be."""
    languages = _languages(wish)
    parent = read_traceparent(wish.traceparent)
    audio_format, sample_rate = _agree_audio(wish.audio_format, wish.sample_rate)
    return Opening(
        trace_id=_trace_id(wish, parent),
        tenant_id=wish.tenant_id,
        languages=languages,
        audio_format=audio_format,
        sample_rate=sample_rate,
        segmentation=_segmentation(wish, options, defaults),
        streaming_asr=wish.enable_streaming_asr is not False,
        partial_interval_ms=_partial_interval_ms(wish, options),
        features=wish.features,
        pipeline=wish.pipeline.filled() if wish.pipeline else Pipeline(),
        hint_lang="zh" if (wish.hint_lang or "en").lower().startswith("zh") else "en",
        binary_audio=wish.supports_binary_frame is True,
        wants_backpressure=wish.supports_backpressure is True,
        adaptive=_adaptive(wish),
        resumes=wish.supports_resume is True,
        traceparent=parent.traceparent if parent else None,
        plain_voice=wish.audio_format is None,
    )


def agree_utterance(message: Utterance, session: Opening) -> Opening:
    """Settle how one utterance is to be translated; what it leaves open is as the session agreed."""
    audio_format, sample_rate = _agree_audio(message.audio_format, message.sample_rate)
    languages = replace(
        session.languages,
        src=message.src_lang.lower(),
        tgt=message.tgt_lang.lower(),
        dialect=message.dialect,
    )
    _check_languages(languages)
    return replace(
        session,
        languages=languages,
        audio_format=audio_format,
        sample_rate=sample_rate,
        features=message.features or session.features,
        pipeline=message.pipeline.filled() if message.pipeline else session.pipeline,
        adaptive=True,
    )


def _trace_id(wish: SessionInit, parent: Context | None) -> str:
    if wish.trace_id and len(wish.trace_id) <= _LONGEST_TRACE:
        return wish.trace_id
    return parent.trace_id if parent else new_trace_id()


def _adaptive(wish: SessionInit) -> bool:
    if wish.endpointing is not None and wish.endpointing not in _ENDPOINTING:
        raise UnsupportedFeature(
            "endpointing must be 'fixed' or 'adaptive'", details={"supported": list(_ENDPOINTING)}
        )
    return wish.endpointing == "adaptive"


def _partial_interval_ms(wish: SessionInit, options: SessionOptions) -> int:
    lowest_ms, highest_ms = _PARTIAL_INTERVAL_MS
    asked_ms = wish.partial_update_interval_ms or options.partial_update_interval_ms
    return min(max(asked_ms, lowest_ms), highest_ms)


def _languages(wish: SessionInit) -> Languages:
    languages = Languages(
        src=wish.src_lang.lower(),
        tgt=wish.tgt_lang.lower(),
        dialect=wish.dialect,
        mode=wish.mode,
        lang_a=wish.lang_a.lower() if wish.lang_a else None,
        lang_b=wish.lang_b.lower() if wish.lang_b else None,
        auto_langs=tuple(lang.lower() for lang in wish.auto_langs or ()),
    )
    _check_languages(languages)
    return languages


def _check_languages(languages: Languages) -> None:
    """InvalidMessage when no node could ever translate this."""
    if not languages.spoken():
        raise InvalidMessage("src_lang 'auto' needs lang_a and lang_b, or auto_langs")
    if languages.tgt == "auto":
        raise InvalidMessage("tgt_lang must name a language")


def _agree_audio(audio_format: str | None, sample_rate: int | None) -> tuple[AudioFormat, int]:
    """Settle how audio is to be read; UnsupportedFeature when it cannot be."""
    try:
        kind = AudioFormat(audio_format or "opus")
    except ValueError:
        raise UnsupportedFeature(
            "audio_format must be 'opus' or 'pcm16'",
            details={"supported": [kind.value for kind in AudioFormat]},
        ) from None
    rate = sample_rate or 16000
    if kind is AudioFormat.OPUS and rate not in _OPUS_RATES:
        raise UnsupportedFeature(
            "sample_rate is not one of Opus' rates", details={"supported": list(_OPUS_RATES)}
        )
    return kind, rate


def _segmentation(wish: SessionInit, options: SessionOptions, defaults: SegmenterOptions) -> SegmenterOptions:
    pause_ms, max_duration_ms = defaults.pause_ms, defaults.max_duration_ms
    if wish.pause_ms is not None:
        pause_ms = min(max(wish.pause_ms, options.pause_min_ms), options.pause_max_ms)
    if wish.max_duration_ms is not None:
        max_duration_ms = min(
            max(wish.max_duration_ms, options.max_duration_min_ms), options.max_duration_max_ms
        )
    return msgspec.structs.replace(defaults, pause_ms=pause_ms, max_duration_ms=max_duration_ms)
