"""Every message of `/ws/node`: one tagged union per direction, `FromNode` and `ToNode`.

A member without a default is required and always written. First-generation nodes leave much out, so a member
is required only where nothing can be done without it. The records inside the messages are in `machine.py`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from lingua_scheduler.wire.common import (
    Attempt,
    Code,
    Codes,
    Count,
    ErrorDetail,
    ErrorMessage,
    Features,
    Fields,
    Id,
    Lang,
    Langs,
    Message,
    Name,
    Number,
    Pipeline,
    SampleRate,
    ServiceTimings,
    Text,
)
from lingua_scheduler.wire.machine import (
    Capabilities,
    Hardware,
    HeldJobs,
    LanguageCapabilities,
    Models,
    Names,
    ProcessingMetrics,
    RerunMetrics,
    ResourceUsage,
    Services,
)


class NodeRegister(Message, tag="node_register", frozen=True, kw_only=True):
    """A node offers itself; whether it is fit is for the flow to say, with a precise code.

    `features` names what the node can do beyond the first generation's protocol, `held_jobs` what it still
    works on after a lost connection.
    """

    version: Name
    platform: Name
    hardware: Hardware
    capability_by_type: Capabilities
    accept_public_jobs: bool
    node_id: Id | None = None
    capability_schema_version: Name | None = None
    installed_models: Models | None = None
    installed_services: Services | None = None
    features_supported: Features | None = None
    advanced_features: Names | None = None
    language_capabilities: LanguageCapabilities | None = None
    max_concurrent_jobs: int | None = None
    heartbeat_interval_seconds: Number | None = None
    held_jobs: HeldJobs | None = None
    region: Name | None = None
    gpu_tier: Name | None = None
    features: Names | None = None


class NodeHeartbeat(Message, tag="node_heartbeat", frozen=True, kw_only=True):
    """A node is there; an absent member means "as before", an empty list means "none any more"."""

    node_id: Id
    resource_usage: ResourceUsage
    timestamp: Count | None = None
    installed_models: Models | None = None
    installed_services: Services | None = None
    capability_by_type: Capabilities | None = None
    language_capabilities: LanguageCapabilities | None = None
    rerun_metrics: RerunMetrics | None = None
    processing_metrics: ProcessingMetrics | None = None


class JobAck(Message, tag="job_ack", frozen=True, kw_only=True):
    """The node has taken the job."""

    job_id: Id
    attempt_id: Attempt
    node_id: Id
    session_id: Id
    trace_id: Id


class JobStarted(Message, tag="job_started", frozen=True, kw_only=True):
    """The node works on the job."""

    job_id: Id
    attempt_id: Attempt
    node_id: Id
    session_id: Id
    trace_id: Id


class AsrPartial(Message, tag="asr_partial", frozen=True, kw_only=True):
    """What the node understood so far."""

    job_id: Id
    node_id: Id
    session_id: Id
    utterance_index: Count
    text: Text
    is_final: bool
    trace_id: Id


class JobResult(Message, tag="job_result", frozen=True, kw_only=True):
    """The outcome of one attempt; `extra` keeps whatever the node adds."""

    job_id: Id
    attempt_id: Attempt
    node_id: Id
    session_id: Id
    utterance_index: Count
    success: bool
    trace_id: Id
    text_asr: Text | None = None
    text_translated: Text | None = None
    tts_audio: bytes | None = None
    tts_format: Name | None = None
    extra: Fields | None = None
    processing_time_ms: Number | None = None
    error: ErrorDetail | None = None
    group_id: Id | None = None
    part_index: Count | None = None
    node_completed_at_ms: Count | None = None
    asr_quality_level: Name | None = None
    reason_codes: Codes | None = None
    quality_score: float | None = None
    rerun_count: Count | None = None
    segments_meta: Any = None

    @property
    def reason(self) -> str | None:
        """The node's word for a result without text, such as `ASR_EMPTY`."""
        said = (self.extra or {}).get("reason")
        return said if isinstance(said, str) else None

    @property
    def service_timings(self) -> ServiceTimings | None:
        """The steps' durations as far as the node told them readably, else the total alone."""
        told = self.extra.get("service_timings") if self.extra else None
        if told is not None:
            with suppress(msgspec.ValidationError):
                return msgspec.convert(told, ServiceTimings)
        return None if self.processing_time_ms is None else ServiceTimings(total_ms=self.processing_time_ms)


class ModelNotAvailable(Message, tag="MODEL_NOT_AVAILABLE", frozen=True, kw_only=True):
    """The older form of a failed `job_result` whose error code is `MODEL_NOT_AVAILABLE`."""

    node_id: Id
    job_id: Id
    model_id: Name
    version: Name | None = None
    reason: Text | None = None


class NodeError(Message, tag="node_error", frozen=True, kw_only=True):
    """Trouble on the node that concerns no single job."""

    node_id: Id
    code: Code
    message: Text
    details: Any = None


class PairingCodeRequest(Message, tag="pairing_code_request", frozen=True, kw_only=True):
    """The node wants a code that pairs a session with it."""

    node_id: Id


class NodeRegisterAck(Message, tag="node_register_ack", frozen=True, kw_only=True):
    """The node is registered under this id."""

    node_id: Id
    message: Text
    status: Name | None = None


class NodeStatus(Message, tag="node_status", frozen=True, kw_only=True):
    """The node's status changed; `timestamp` is in seconds."""

    node_id: Id
    status: Name
    timestamp: Count
    reason: Name | None = None


class NodeControl(Message, tag="node_control", frozen=True, kw_only=True):
    """An order of the operator, such as `drain` or `shutdown`."""

    command: Name
    reason: Name | None = None


class PairingCode(Message, tag="pairing_code", frozen=True, kw_only=True):
    """A code a person may enter once, until it expires."""

    code: Name
    expires_at_ms: Count


class JobAssign(Message, tag="job_assign", frozen=True, kw_only=True):
    """One attempt at one job; flags that are false are left out.

    With `text`, which only nodes get that announced `text_jobs`, the speech is recognised already: there is
    no audio, and what is left to do is to translate and to speak. With `traceparent`, which only nodes get
    that announced `trace_context`, the job is traced.
    """

    job_id: Id
    attempt_id: Attempt
    session_id: Id
    utterance_index: Count
    src_lang: Lang
    tgt_lang: Lang
    pipeline: Pipeline
    audio: bytes
    audio_format: Name
    sample_rate: SampleRate
    trace_id: Id
    dialect: Name | None = None
    features: Features | None = None
    mode: Name | None = None
    lang_a: Lang | None = None
    lang_b: Lang | None = None
    auto_langs: Langs | None = None
    enable_streaming_asr: bool | None = None
    partial_update_interval_ms: Count | None = None
    group_id: Id | None = None
    part_index: Count | None = None
    context_text: Text | None = None
    padding_ms: Count | None = None
    expected_duration_ms: Count | None = None
    text: Text | None = None
    traceparent: Name | None = None
    turn_id: Id | None = None
    is_manual_cut: bool = False
    is_timeout_triggered: bool = False
    is_max_duration_triggered: bool = False
    is_pause_triggered: bool = False


class JobCancel(Message, tag="job_cancel", frozen=True, kw_only=True):
    """The result of this attempt (absent: of any) is not needed any more."""

    job_id: Id
    attempt_id: Attempt | None = None
    trace_id: Id | None = None
    reason: Name | None = None


FromNode = (
    NodeRegister
    | NodeHeartbeat
    | JobAck
    | JobStarted
    | AsrPartial
    | JobResult
    | ModelNotAvailable
    | NodeError
    | PairingCodeRequest
)

ToNode = NodeRegisterAck | NodeStatus | NodeControl | PairingCode | JobAssign | JobCancel | ErrorMessage
