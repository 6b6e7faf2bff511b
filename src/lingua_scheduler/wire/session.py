"""Every message of `/ws/session`: one tagged union per direction, `FromClient` and `ToClient`.

A member without a default is required and always written. Here are the messages of a session's life; those
about speech, results and rooms have files of their own and are named here again.
"""

from __future__ import annotations

from enum import StrEnum

from lingua_scheduler.wire.common import (
    Code,
    Count,
    ErrorMessage,
    Features,
    Id,
    Lang,
    Langs,
    Message,
    Name,
    PipelineWish,
    SampleRate,
    ShortText,
    forget_bad_trace,
)
from lingua_scheduler.wire.results import (
    AsrPartial,
    MissingResult,
    ResultAck,
    TranslationResult,
    UiEvent,
    UiEventKind,
)
from lingua_scheduler.wire.rooms import (
    RoomChange,
    RoomCreate,
    RoomCreateAck,
    RoomError,
    RoomExpired,
    RoomJoin,
    RoomLeave,
    RoomMember,
    RoomMembers,
    RoomRawVoicePreference,
    WebrtcAnswer,
    WebrtcIce,
    WebrtcOffer,
)
from lingua_scheduler.wire.speech import AudioAck, AudioChunk, TtsPlayEnded, TtsStarted, Utterance

__all__ = [
    "AsrPartial",
    "AudioAck",
    "AudioChunk",
    "Backpressure",
    "BackpressureAction",
    "ClientHeartbeat",
    "ErrorMessage",
    "FromClient",
    "GoingAway",
    "MissingResult",
    "ResultAck",
    "RoomChange",
    "RoomCreate",
    "RoomCreateAck",
    "RoomError",
    "RoomExpired",
    "RoomJoin",
    "RoomLeave",
    "RoomMember",
    "RoomMembers",
    "RoomRawVoicePreference",
    "ServerHeartbeat",
    "SessionClose",
    "SessionCloseAck",
    "SessionInit",
    "SessionInitAck",
    "ToClient",
    "TranslationResult",
    "TtsPlayEnded",
    "TtsStarted",
    "UiEvent",
    "UiEventKind",
    "Utterance",
    "WebrtcAnswer",
    "WebrtcIce",
    "WebrtcOffer",
]


class SessionInit(Message, tag="session_init", frozen=True, kw_only=True):
    """Open a session, or take up an interrupted one by its `resume_token`.

    With a token, `received_through` says what `result_ack` says otherwise: the ends of all utterances up to
    this index have arrived. `resume_try` is made up for each interruption and repeated until an answer comes,
    `resume_attempt` counts up meanwhile: a token works once, or again in a later attempt of the same try. A
    `trace_id` that is no `Id`, or a `traceparent` that is none of the W3C's, reads as absent.
    """

    client_version: Name
    platform: Name
    src_lang: Lang
    tgt_lang: Lang
    dialect: Name | None = None
    features: Features | None = None
    pairing_code: Name | None = None
    tenant_id: Id | None = None
    mode: Name | None = None
    lang_a: Lang | None = None
    lang_b: Lang | None = None
    auto_langs: Langs | None = None
    enable_streaming_asr: bool | None = None
    partial_update_interval_ms: Count | None = None
    trace_id: str | None = None
    traceparent: str | None = None
    pipeline: PipelineWish | None = None
    hint_lang: Lang | None = None
    audio_format: Name | None = None
    sample_rate: SampleRate | None = None
    pause_ms: Count | None = None
    max_duration_ms: Count | None = None
    endpointing: Name | None = None
    supports_binary_frame: bool | None = None
    supports_backpressure: bool | None = None
    supports_resume: bool | None = None
    resume_token: ShortText | None = None
    resume_try: Id | None = None
    resume_attempt: Count | None = None
    received_through: Count | None = None

    def __post_init__(self) -> None:
        forget_bad_trace(self, self.trace_id)


class SessionInitAck(Message, tag="session_init_ack", frozen=True, kw_only=True):
    """The session is open; always the first message of a session, with what was agreed."""

    session_id: Id
    trace_id: Id
    message: ShortText
    assigned_node_id: Id | None = None
    protocol_version: Name | None = None
    use_binary_frame: bool | None = None
    negotiated_codec: Name | None = None
    negotiated_audio_format: Name | None = None
    negotiated_sample_rate: SampleRate | None = None
    negotiated_channel_count: Count | None = None
    negotiated_pause_ms: Count | None = None
    negotiated_max_duration_ms: Count | None = None
    resume_token: ShortText | None = None
    transcript_token: ShortText | None = None
    resumed: bool | None = None
    last_seq: Count | None = None
    next_utterance_index: Count | None = None
    warning: Code | None = None
    hint: ShortText | None = None
    retry_after_ms: Count | None = None


class GoingAway(Message, tag="going_away", frozen=True, kw_only=True):
    """The instance will stop: after this time connect again, to any other, with the `resume_token`."""

    retry_after_ms: Count | None = None


class ClientHeartbeat(Message, tag="client_heartbeat", frozen=True, kw_only=True):
    """The client is there."""

    session_id: Id
    timestamp: Count


class ServerHeartbeat(Message, tag="server_heartbeat", frozen=True, kw_only=True):
    """The answer to `client_heartbeat`."""

    session_id: Id
    timestamp: Count


class BackpressureAction(StrEnum):
    """The values of `backpressure.action`."""

    BUSY = "BUSY"
    SLOW_DOWN = "SLOW_DOWN"
    PAUSE = "PAUSE"


class Backpressure(Message, tag="backpressure", frozen=True, kw_only=True):
    """Audio comes faster than it can be taken."""

    action: Code
    resume_after_ms: Count | None = None


class SessionClose(Message, tag="session_close", frozen=True, kw_only=True):
    """End the session; what was said is still translated."""

    session_id: Id
    reason: Name


class SessionCloseAck(Message, tag="session_close_ack", frozen=True, kw_only=True):
    """The last message of a session."""

    session_id: Id


_Signalling = WebrtcOffer | WebrtcAnswer | WebrtcIce

FromClient = (
    SessionInit
    | AudioChunk
    | Utterance
    | ClientHeartbeat
    | TtsStarted
    | TtsPlayEnded
    | SessionClose
    | ResultAck
    | RoomCreate
    | RoomJoin
    | RoomLeave
    | RoomChange
    | RoomRawVoicePreference
    | _Signalling
)

ToClient = (
    SessionInitAck
    | AudioAck
    | GoingAway
    | ServerHeartbeat
    | SessionCloseAck
    | TranslationResult
    | MissingResult
    | AsrPartial
    | UiEvent
    | Backpressure
    | ErrorMessage
    | RoomCreateAck
    | RoomMembers
    | RoomError
    | RoomExpired
    | _Signalling
)
