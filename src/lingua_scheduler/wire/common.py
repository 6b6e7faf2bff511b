"""What the messages of all sockets share: bounded field types, small records, and how a refusal is worded.

Bounds are part of the types, so nothing longer or stranger than this table ever enters the house:

=============  ==================================================================================
``Id``         1 to 128 of ``A-Z a-z 0-9 . _ : -``
``Lang``       a language tag, 1 to 35 of ``A-Z a-z 0-9 _ -``
``Name``       up to 256 characters for people to read; control, line-separator and bidirectional
               embedding, override and isolate characters are refused
``Code``       an error code or another protocol word: a `Name` of 1 to 128 characters
``ShortText``  up to 4096 characters of any kind
``Text``       up to 65536 characters of any kind: what was said, what it means, what went wrong
``Count``      an integer from 0 to 2**63 - 1; ``1.0`` and ``true`` are not integers
``Number``     an integer or a fraction from 0 to 1e15
``Fields``     an open JSON object of up to 256 members, kept as it came
=============  ==================================================================================

For every optional member `null` means the same as absent. Unknown members are ignored. If a member comes
twice, the last one counts (the message type must not change).
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr

from lingua_scheduler.errors import InvalidMessage

ID_PATTERN = r"^[A-Za-z0-9._:-]+\Z"
_LANG_PATTERN = r"^[A-Za-z0-9_-]+\Z"
_NAME_PATTERN = r"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]*\Z"

ID_CHARS = 128
_ID = re.compile(ID_PATTERN)
_PLAIN_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}\Z")

Id = Annotated[str, Meta(min_length=1, max_length=ID_CHARS, pattern=ID_PATTERN)]
Lang = Annotated[str, Meta(min_length=1, max_length=35, pattern=_LANG_PATTERN)]
Name = Annotated[str, Meta(max_length=256, pattern=_NAME_PATTERN)]
Code = Annotated[str, Meta(min_length=1, max_length=128, pattern=_NAME_PATTERN)]
ShortText = Annotated[str, Meta(max_length=4096)]
Text = Annotated[str, Meta(max_length=65536)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Number = Annotated[int, Meta(ge=0, le=10**15)] | Annotated[float, Meta(ge=0, le=1e15)]
Attempt = Annotated[int, Meta(ge=1, le=2**32 - 1)]
SampleRate = Annotated[int, Meta(ge=1000, le=192_000)]
Fields = Annotated[dict[str, Any], Meta(max_length=256)]
Langs = Annotated[tuple[Lang, ...], Meta(max_length=16)]
Codes = Annotated[tuple[Code, ...], Meta(max_length=64)]


class BadInput(StrEnum):
    """What was wrong with a refused message: `details.kind` of the refusal and a label for counters."""

    JSON = "json"  # not one JSON object in UTF-8
    SHAPE = "shape"  # a member is missing, of the wrong type or out of bounds
    TYPE = "type"  # no message has this type
    DIRECTION = "direction"  # a message of this protocol, but not one this peer may send here
    SIZE = "size"  # larger than its kind of message may be
    DEPTH = "depth"  # nested too deeply
    FRAME = "frame"  # not a binary audio frame


def invalid(kind: BadInput, what: str) -> InvalidMessage:
    """Word a refusal; `what` must not quote the peer."""
    return InvalidMessage(f"Invalid message format: {what}", details={"kind": kind.value})


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of everything on the wire: immutable, and absent members stay absent."""


class Message(Record, tag_field="type", frozen=True, kw_only=True):
    """Base of everything with a `type`."""


def plain_code(code: str) -> str:
    """Give an error code that may be logged; a peer may have written anything in its place."""
    return code if not code or _PLAIN_CODE.match(code) else "OTHER"


def plain_id(said: str) -> str:
    """Give a name that may be logged, if it has the form of an `Id`; a peer may have written anything."""
    return said if len(said) <= ID_CHARS and _ID.match(said) else ""


def forget_bad_trace(message: Message, trace_id: str | None) -> None:
    """Make a trace id that is no `Id` absent; for `__post_init__` of what a client may send."""
    if trace_id is not None and (len(trace_id) > ID_CHARS or not _ID.match(trace_id)):
        force_setattr(message, "trace_id", None)


class Features(Record, frozen=True, kw_only=True):
    """Optional abilities, wished by a client or offered by a node."""

    emotion_detection: bool | None = None
    voice_style_detection: bool | None = None
    speech_rate_detection: bool | None = None
    speech_rate_control: bool | None = None
    speaker_identification: bool | None = None
    persona_adaptation: bool | None = None


class Pipeline(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The steps a job runs through; always written in full because nodes read absent as false."""

    use_asr: bool = True
    use_nmt: bool = True
    use_tts: bool = True
    use_semantic: bool = False
    use_tone: bool = False


class PipelineWish(Record, frozen=True, kw_only=True):
    """The steps a client asks for; what it leaves open is filled with the defaults."""

    use_asr: bool | None = None
    use_nmt: bool | None = None
    use_tts: bool | None = None
    use_semantic: bool | None = None
    use_tone: bool | None = None

    def filled(self) -> Pipeline:
        """Decide every step."""
        said = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return Pipeline(**said)


class ServiceTimings(Record, frozen=True, kw_only=True):
    """How long each step took on the node."""

    asr_ms: Number | None = None
    nmt_ms: Number | None = None
    tts_ms: Number | None = None
    total_ms: Number | None = None


class NetworkTimings(Record, frozen=True, kw_only=True):
    """How long a result was under way between the parties."""

    web_to_scheduler_ms: Number | None = None
    scheduler_to_node_ms: Number | None = None
    node_to_scheduler_ms: Number | None = None
    scheduler_to_web_ms: Number | None = None


class ErrorDetail(Record, frozen=True, kw_only=True):
    """Why a node could not do a job; `details` is whatever JSON the node adds."""

    code: Code
    message: Text
    details: Any = None


class ErrorMessage(Message, tag="error", frozen=True, kw_only=True):
    """Something a person must know (clients) or a refused message (nodes)."""

    code: Code
    message: Text
    details: Fields | None = None
    trace_id: Id | None = None
    hint: ShortText | None = None
    retry_after_ms: Count | None = None
