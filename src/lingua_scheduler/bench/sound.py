"""Audio and messages that are made once and sent often: the generator must cost less than what it measures.

What changes from frame to frame stands in front, padded to a multiple of four; the audio behind it is masked
once for all.
"""

from __future__ import annotations

import base64
import math
import struct
from array import array

from lingua_scheduler.bench.plan import Form
from lingua_scheduler.core.audio import pack, packets
from lingua_scheduler.wire.opus import SPEECH_RATE, encode_opus

SAMPLE_BYTES = 2

_KEY = bytes((0x9D, 0x1F, 0x4C, 0xA7))
_TEXT, _BINARY, _CLOSE, _PONG = 0x81, 0x82, 0x88, 0x8A
_MASKED = 0x80
_SHORT_BYTES, _MEDIUM_BYTES = 126, 65536
_PITCHES_HZ = (140, 280, 420, 700, 1260)  # of a vowel
_LOUD = 5000
_SETTLES_S = 0.5  # before an encoder takes it for speech
_keys: dict[int, int] = {}


def voice(lasts_ms: int) -> bytes:
    """Give samples that sound like a vowel, as pcm16."""
    times = (step / SPEECH_RATE for step in range(SPEECH_RATE * lasts_ms // 1000))
    return array(
        "h", (int(sum(_LOUD * math.sin(math.tau * pitch * t) for pitch in _PITCHES_HZ)) for t in times)
    ).tobytes()


def frame(form: Form, lasts_ms: int) -> bytes:
    """Give one frame of voiced audio in a form."""
    if form is not Form.OPUS:
        return voice(lasts_ms)
    encoded = packets(encode_opus(voice(round(_SETTLES_S * 1000) + lasts_ms))) or ()
    return pack(encoded[-max(1, lasts_ms // 20) :])


def pieces(audio_bytes: int, most_bytes: int) -> list[bytes]:
    """Give samples of this size in pieces that are not larger than that."""
    whole = voice(1000)
    sound = (whole * (audio_bytes // len(whole) + 1))[: audio_bytes - audio_bytes % SAMPLE_BYTES]
    return [sound[at : at + most_bytes] for at in range(0, len(sound), most_bytes)]


def masked(data: bytes) -> bytes:
    """Mask bytes that begin at a multiple of four in their message."""
    size = len(data)
    key = _keys.get(size)
    if key is None:
        key = _keys[size] = int.from_bytes((_KEY * (size // 4 + 1))[:size], "little")
    return (int.from_bytes(data, "little") ^ key).to_bytes(size, "little")


def text_message(data: bytes) -> bytes:
    """Frame a text message as a client must."""
    return _head(_TEXT, len(data)) + masked(data)


def pong(payload: bytes) -> bytes:
    """Answer a ping."""
    return _head(_PONG, len(payload)) + masked(payload)


def close(code: int) -> bytes:
    """Say goodbye."""
    return _head(_CLOSE, 2) + masked(code.to_bytes(2, "big"))


def padded(head: bytes) -> bytes:
    """Fill the beginning of a JSON message up, after its last comma or brace, to a multiple of four."""
    return head + b" " * (-len(head) % 4)


class Behind:
    """The part of a JSON message that never changes: the value of its last member, and the end."""

    def __init__(self, member: str, value: bytes) -> None:
        self._opens = f'"{member}":"'.encode()
        encoded = base64.b64encode(value) + b'"}'
        self._opens_pad = b" " * (-len(self._opens) % 4)
        self._size = len(encoded)
        self._masked = masked(encoded)

    def message(self, head: bytes) -> bytes:
        """Frame a message that begins with this: an open JSON object that ends with a comma."""
        front = padded(head) + self._opens_pad + self._opens
        return b"".join((_head(_TEXT, len(front) + self._size), masked(front), self._masked))


class JsonFrames:
    """Audio frames of one form as JSON."""

    def __init__(self, audio: bytes) -> None:
        self._behind = Behind("payload", audio)

    def message(self, session_id: str, seq: int, *, final: bool) -> bytes:
        """Give one frame, ready to be sent."""
        word = "true" if final else "false"
        head = f'{{"type":"audio_chunk","session_id":"{session_id}","seq":{seq},"is_final":{word},'
        return self._behind.message(head.encode())


class BinaryFrames:
    """Audio frames in binary form."""

    _HEADER = struct.Struct("<BBIIBB")

    def __init__(self, audio: bytes) -> None:
        self._audio = audio
        self._masked: dict[int, bytes] = {}  # by the place of the audio in its message

    def message(self, session_id: str, seq: int, *, final: bool) -> bytes:
        """Give one frame, ready to be sent."""
        name = session_id.encode()
        head = self._HEADER.pack(1, len(name), seq, 0, final, 0) + name
        offset = len(head) % 4
        behind = self._masked.get(offset)
        if behind is None:
            behind = self._masked[offset] = masked(bytes(offset) + self._audio)[offset:]
        return b"".join((_head(_BINARY, len(head) + len(behind)), masked(head), behind))


Frames = JsonFrames | BinaryFrames


def frames_of(form: Form, audio: bytes) -> Frames:
    """Give the way to send this audio in a form."""
    return BinaryFrames(audio) if form is Form.BINARY else JsonFrames(audio)


def _head(first: int, size: int) -> bytes:
    if size < _SHORT_BYTES:
        return bytes((first, _MASKED | size)) + _KEY
    if size < _MEDIUM_BYTES:
        return struct.pack("!BBH", first, _MASKED | 126, size) + _KEY
    return struct.pack("!BBQ", first, _MASKED | 127, size) + _KEY
