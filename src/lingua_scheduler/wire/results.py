"""Messages about what becomes of an utterance, on `/ws/session`."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from lingua_scheduler.wire.common import (
    Code,
    Codes,
    Count,
    Fields,
    Id,
    Lang,
    Message,
    Name,
    NetworkTimings,
    ServiceTimings,
    ShortText,
    Text,
)


class UiEventKind(StrEnum):
    """The values of `ui_event.event`."""

    INPUT_STARTED = "INPUT_STARTED"
    INPUT_ENDED = "INPUT_ENDED"
    DISPATCHED = "DISPATCHED"
    NODE_ACCEPTED = "NODE_ACCEPTED"
    ASR_PARTIAL = "ASR_PARTIAL"
    ASR_FINAL = "ASR_FINAL"
    NMT_DONE = "NMT_DONE"
    TTS_PLAY_STARTED = "TTS_PLAY_STARTED"
    TTS_PLAY_ENDED = "TTS_PLAY_ENDED"
    ERROR = "ERROR"


class UiEvent(Message, tag="ui_event", frozen=True, kw_only=True):
    """How far an utterance has come; `hint` is present exactly when `error_code` is."""

    trace_id: Id
    session_id: Id
    job_id: Name
    utterance_index: Count
    event: Code
    status: Code
    elapsed_ms: Count | None = None
    error_code: Code | None = None
    hint: ShortText | None = None


class AsrPartial(Message, tag="asr_partial", frozen=True, kw_only=True):
    """What was understood so far of an utterance that is being spoken or translated."""

    session_id: Id
    utterance_index: Count
    job_id: Name
    text: Text
    is_final: bool
    trace_id: Id


class TranslationResult(Message, tag="translation_result", frozen=True, kw_only=True):
    """What an utterance means; texts and audio are always present, possibly empty."""

    session_id: Id
    utterance_index: Count
    job_id: Id
    text_asr: Text
    text_translated: Text
    tts_audio: bytes
    tts_format: Name
    trace_id: Id
    group_id: Id | None = None
    part_index: Count | None = None
    speaker_session_id: Id | None = None
    speaker_name: Name | None = None
    tgt_lang: Lang | None = None
    extra: Fields | None = None
    service_timings: ServiceTimings | None = None
    network_timings: NetworkTimings | None = None
    scheduler_sent_at_ms: Count | None = None
    asr_quality_level: Name | None = None
    reason_codes: Codes | None = None
    quality_score: float | None = None
    rerun_count: Count | None = None
    segments_meta: Any = None


class MissingResult(Message, tag="missing_result", frozen=True, kw_only=True):
    """An utterance has no result and will get none; `reason` says why."""

    session_id: Id
    utterance_index: Count
    reason: Code
    created_at_ms: Count
    trace_id: Id
    speaker_session_id: Id | None = None
    tgt_lang: Lang | None = None


class ResultAck(Message, tag="result_ack", frozen=True, kw_only=True):
    """The client has every result up to this index (of this speaker; absent: its own speech)."""

    session_id: Id
    utterance_index: Count
    speaker_session_id: Id | None = None
