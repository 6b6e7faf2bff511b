"""Bytes to messages and back, within limits: the only place that knows JSON.

Decoding is one pass in C, straight into the message; audio is decoded from base64 on the way. Whatever is not
a message of its direction raises `InvalidMessage`, whose text names the member and the rule but never quotes
the peer. Refused are in particular: NaN and infinities, numbers out of range, `true` or `1.0` for an integer,
a byte order mark, anything after the object, lone surrogates, and base64 with foreign characters, white
space, the URL alphabet or wrong padding. Members that no message knows are skipped, not judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar, get_args

import msgspec
from msgspec import Meta

from lingua_scheduler.errors import InvalidMessage
from lingua_scheduler.wire.common import BadInput, Message, invalid
from lingua_scheduler.wire.node import FromNode, JobResult, NodeHeartbeat, NodeRegister, ToNode
from lingua_scheduler.wire.session import FromClient, ToClient
from lingua_scheduler.wire.speech import AudioChunk, Utterance

_Bytes = Annotated[int, Meta(ge=1024, le=64 * 2**20)]
M = TypeVar("M")


class WireOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How large and how deep a message may be; everything beyond is refused."""

    control_bytes: _Bytes = 64 * 1024
    """Largest message of any kind that has no limit of its own, and the rest of one beside its audio."""
    audio_frame_bytes: _Bytes = 64 * 1024
    """Most audio in one `audio_chunk` or binary frame, decoded."""
    utterance_bytes: _Bytes = 2 * 2**20
    """Most audio in one `utterance`, decoded."""
    job_result_bytes: _Bytes = 4 * 2**20
    """Largest `job_result`."""
    heartbeat_bytes: _Bytes = 256 * 1024
    """Largest `node_heartbeat` or `node_register`."""
    depth: Annotated[int, Meta(ge=4, le=100)] = 16
    """Deepest nesting of objects and lists."""

    def __post_init__(self) -> None:
        for name in ("utterance_bytes", "job_result_bytes", "heartbeat_bytes"):
            if getattr(self, name) < self.control_bytes:
                raise ValueError(f"{name} must not be smaller than control_bytes")

    @property
    def client_ceiling_bytes(self) -> int:
        """The largest frame a client may ever send: the limit of its socket."""
        return self.control_bytes + _base64_bytes(max(self.utterance_bytes, self.audio_frame_bytes))

    @property
    def node_ceiling_bytes(self) -> int:
        """The largest frame a node may ever send: the limit of its socket."""
        return max(self.job_result_bytes, self.heartbeat_bytes)


DEFAULT_OPTIONS = WireOptions()


def decode_client(data: bytes | str, options: WireOptions = DEFAULT_OPTIONS) -> FromClient:
    """Read what a client sent to the scheduler."""
    return _FROM_CLIENT.decode(data, options)


def decode_node(data: bytes | str, options: WireOptions = DEFAULT_OPTIONS) -> FromNode:
    """Read what a node sent to the scheduler."""
    return _FROM_NODE.decode(data, options)


def decode_from_server(data: bytes | str, options: WireOptions = DEFAULT_OPTIONS) -> ToClient:
    """Read what the scheduler sent to a client."""
    return _TO_CLIENT.decode(data, options)


def decode_to_node(data: bytes | str, options: WireOptions = DEFAULT_OPTIONS) -> ToNode:
    """Read what the scheduler sent to a node."""
    return _TO_NODE.decode(data, options)


def client_decoder(options: WireOptions) -> Callable[[bytes], FromClient]:
    """Give a function that reads what clients send, within these limits."""
    return _FROM_CLIENT.within(options)


def node_decoder(options: WireOptions) -> Callable[[bytes], FromNode]:
    """Give a function that reads what nodes send, within these limits."""
    return _FROM_NODE.within(options)


def encode(message: Message) -> bytes:
    """Write any message as one JSON object in UTF-8."""
    return _ENCODER.encode(message)


def _base64_bytes(audio_bytes: int) -> int:
    return (audio_bytes + 2) // 3 * 4


_Excess = Callable[[Any, int, WireOptions], bool]


def _audio_excess(member: str, limit: str) -> _Excess:
    """Judge the audio by its own limit and the rest of the message as a control message."""

    def exceeds(message: Any, size: int, options: WireOptions) -> bool:
        audio_bytes = len(getattr(message, member) or b"")
        beside_bytes = size - _base64_bytes(audio_bytes)
        return audio_bytes > getattr(options, limit) or beside_bytes > options.control_bytes

    return exceeds


_EXCESS: dict[type, _Excess] = {
    AudioChunk: _audio_excess("payload", "audio_frame_bytes"),
    Utterance: _audio_excess("audio", "utterance_bytes"),
    JobResult: lambda _, size, options: size > options.job_result_bytes,
    NodeHeartbeat: lambda _, size, options: size > options.heartbeat_bytes,
    NodeRegister: lambda _, size, options: size > options.heartbeat_bytes,
}


def _exceeds(message: Any, size: int, options: WireOptions) -> bool:
    exceeds = _EXCESS.get(type(message))
    return size > options.control_bytes if exceeds is None else exceeds(message, size, options)


_LIST = ord("[")
_BRACKETS = bytes.maketrans(b"[{]}", b"(())")
_ALL_BUT_BRACKETS_AND_QUOTES = bytes(set(range(256)) - set(b'[{]}"'))


def _is_flat(data: bytes) -> bool:
    """Tell whether one object is all there is, as with every audio frame."""
    return data.rfind(b"{") <= 0 and _LIST not in data


def _too_deep(data: bytes, depth: int) -> bool:
    """Tell whether objects and lists nest deeper than this, without a step of Python per byte."""
    if _is_flat(data):
        return False
    if data.count(b"{") + data.count(b"[") <= depth:
        return False
    nesting = _nesting(data)
    for _ in range(depth):
        nesting = nesting.replace(b"()", b"")  # each round takes away the innermost level
    return b"()" in nesting


def _nesting(data: bytes) -> bytes:
    """Reduce JSON to the brackets outside its strings, all of one shape."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = data.translate(_BRACKETS, _ALL_BUT_BRACKETS_AND_QUOTES)
    return b"".join(marks.replace(b'""', b"").split(b'"')[::2])


def _tags(union: Any) -> frozenset[str]:
    return frozenset(member.__struct_config__.tag for member in get_args(union))


_KNOWN_TYPES = _tags(FromClient | ToClient | FromNode | ToNode)
_BAD_TYPE = re.compile(r"^Invalid value '(.*)' - at `\$\.type`\Z", re.DOTALL)
_ENCODER = msgspec.json.Encoder()


def _wrong_shape(error: msgspec.ValidationError) -> InvalidMessage:
    text = str(error)
    if not text.startswith("Invalid value"):
        return invalid(BadInput.SHAPE, text)
    found = _BAD_TYPE.match(text)
    if found and found[1] in _KNOWN_TYPES:
        return invalid(BadInput.DIRECTION, f"`{found[1]}` is not a message for this side")
    return invalid(BadInput.TYPE, "unknown message type")


class _Direction(Generic[M]):
    """One union's decoder, its largest message, and whether each type is held to its own limit."""

    def __init__(self, union: Any, ceiling: Callable[[WireOptions], int], *, by_type: bool) -> None:
        self._decoder: msgspec.json.Decoder[M] = msgspec.json.Decoder(union)
        self._ceiling = ceiling
        self._by_type = by_type

    def within(self, options: WireOptions) -> Callable[[bytes], M]:
        """Give a function that reads messages like `decode`, and the small flat ones without detours."""
        read, decode = self._decoder.decode, self.decode
        small = min(options.control_bytes, options.audio_frame_bytes)

        def read_one(data: bytes) -> M:
            if len(data) <= small and _is_flat(data):
                try:
                    return read(data)
                except (msgspec.DecodeError, UnicodeError, RecursionError):
                    pass  # what is wrong is found out and worded below
            return decode(data, options)

        return read_one

    def decode(self, data: bytes | str, options: WireOptions) -> M:
        """Read one message or raise `InvalidMessage`."""
        try:
            raw = data.encode() if isinstance(data, str) else data
            large = len(raw) > min(options.control_bytes, options.audio_frame_bytes)
            if large and len(raw) > self._ceiling(options):
                raise invalid(BadInput.SIZE, "the message is too large")
            if _too_deep(raw, options.depth):
                raise invalid(BadInput.DEPTH, "the message is nested too deeply")
            message = self._decoder.decode(raw)
        except msgspec.ValidationError as error:
            raise _wrong_shape(error) from None
        except msgspec.DecodeError as error:
            raise invalid(BadInput.JSON, str(error)) from None
        except UnicodeError:
            raise invalid(BadInput.JSON, "the text is not Unicode") from None
        except RecursionError:
            raise invalid(BadInput.DEPTH, "the message is nested too deeply") from None
        if large and self._by_type and _exceeds(message, len(raw), options):
            raise invalid(BadInput.SIZE, "the message is too large for its type")
        return message


_FROM_CLIENT: _Direction[FromClient] = _Direction(
    FromClient, lambda options: options.client_ceiling_bytes, by_type=True
)
_FROM_NODE: _Direction[FromNode] = _Direction(
    FromNode, lambda options: options.node_ceiling_bytes, by_type=True
)
_TO_CLIENT: _Direction[ToClient] = _Direction(
    ToClient, lambda options: options.job_result_bytes + options.control_bytes, by_type=False
)
_TO_NODE: _Direction[ToNode] = _Direction(ToNode, lambda options: options.client_ceiling_bytes, by_type=False)
