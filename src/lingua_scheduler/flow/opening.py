"""What a client asks for in `session_init`, checked and settled within the server's bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

from lingua_scheduler.core.model import AudioFormat, Languages, new_trace_id
from lingua_scheduler.core.segmenter import SegmenterOptions
from lingua_scheduler.errors import InvalidMessage, UnsupportedFeature
from lingua_scheduler.wire.common import Features, Pipeline
from lingua_scheduler.wire.session import SessionInit

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
    max_open_utterances: Annotated[int, msgspec.Meta(ge=2)] = 200
    """Unanswered utterances at which audio is refused; at half of it clients are asked to slow down."""
    utterance_reorder_timeout_ms: _Ms = 2000
    """How long an `utterance` message waits for a missing lower index."""
    utterance_reorder_max: Annotated[int, msgspec.Meta(ge=1)] = 64
    """Most `utterance` messages held back for a missing lower index."""
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


_OPUS_RATES = (8000, 12000, 16000, 24000, 48000)


def agree(wish: SessionInit, options: SessionOptions, defaults: SegmenterOptions) -> Opening:
    """Settle what the session will be; UnsupportedFeature or InvalidMessage when it cannot be."""
    languages = _languages(wish)
    audio_format = _audio_format(wish)
    return Opening(
        trace_id=wish.trace_id or new_trace_id(),
        tenant_id=wish.tenant_id,
        languages=languages,
        audio_format=audio_format,
        sample_rate=_sample_rate(wish, audio_format),
        segmentation=_segmentation(wish, options, defaults),
        streaming_asr=wish.enable_streaming_asr is not False,
        partial_interval_ms=wish.partial_update_interval_ms or options.partial_update_interval_ms,
        features=wish.features,
        pipeline=wish.pipeline.filled() if wish.pipeline else Pipeline(),
        hint_lang="zh" if (wish.hint_lang or "en").lower().startswith("zh") else "en",
        binary_audio=wish.supports_binary_frame is True,
        wants_backpressure=wish.supports_backpressure is True,
    )


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
    if not languages.spoken():
        raise InvalidMessage("src_lang 'auto' needs lang_a and lang_b, or auto_langs")
    return languages


def _audio_format(wish: SessionInit) -> AudioFormat:
    try:
        return AudioFormat(wish.audio_format or "opus")
    except ValueError:
        raise UnsupportedFeature(
            "audio_format must be 'opus' or 'pcm16'",
            details={"supported": [kind.value for kind in AudioFormat]},
        ) from None


def _sample_rate(wish: SessionInit, audio_format: AudioFormat) -> int:
    rate = wish.sample_rate or 16000
    if audio_format is AudioFormat.OPUS and rate not in _OPUS_RATES:
        raise UnsupportedFeature(
            "sample_rate is not one of Opus' rates", details={"supported": list(_OPUS_RATES)}
        )
    return rate


def _segmentation(wish: SessionInit, options: SessionOptions, defaults: SegmenterOptions) -> SegmenterOptions:
    pause_ms, max_duration_ms = defaults.pause_ms, defaults.max_duration_ms
    if wish.pause_ms is not None:
        pause_ms = min(max(wish.pause_ms, options.pause_min_ms), options.pause_max_ms)
    if wish.max_duration_ms is not None:
        max_duration_ms = min(
            max(wish.max_duration_ms, options.max_duration_min_ms), options.max_duration_max_ms
        )
    return msgspec.structs.replace(defaults, pause_ms=pause_ms, max_duration_ms=max_duration_ms)
