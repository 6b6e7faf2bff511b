"""Speech as Opus and back, for clients and nodes; the scheduler needs it only for old listeners in rooms.

Straight onto libopus, which resamples by itself: whatever rate a packet was made at, 16 kHz mono comes out.
The calls release the interpreter, so threads run side by side; one encoder or decoder belongs to one stream.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator
from typing import Any

from opuslib_next.api import libopus

from lingua_scheduler.core.audio import LONGEST_PACKET_MS, pack, packets
from lingua_scheduler.errors import InvalidMessage

SPEECH_RATE = 16_000

_VOIP = 2048
_SET_BITRATE = 4002
_PACKET_MS = 20
_PACKET_LIMIT_BYTES = 1275
_SAMPLE_BYTES = 2


def _function(name: str, result: Any, *arguments: Any) -> Any:
    """Look a function up anew, so that its signature is ours alone."""
    found = libopus[name]
    found.restype, found.argtypes = result, arguments
    return found


_int, _state, _bytes = ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p
_create_encoder = _function("opus_encoder_create", _state, _int, _int, _int, ctypes.POINTER(_int))
_create_decoder = _function("opus_decoder_create", _state, _int, _int, ctypes.POINTER(_int))
_destroy_encoder = _function("opus_encoder_destroy", None, _state)
_destroy_decoder = _function("opus_decoder_destroy", None, _state)
_control = _function("opus_encoder_ctl", _int, _state, _int)  # and one more, by the request
_encode = _function("opus_encode", _int, _state, _bytes, _int, ctypes.c_char_p, _int)
_decode = _function("opus_decode", _int, _state, _bytes, _int, ctypes.c_char_p, _int, _int)


class OpusEncoder:
    """One stream of speech in, framed packets of 20 ms out."""

    def __init__(self, *, rate: int = SPEECH_RATE, bitrate: int = 24_000) -> None:
        failure = _int()
        self._state = _create_encoder(rate, 1, _VOIP, ctypes.byref(failure))
        if failure.value:
            raise ValueError(f"Opus has no rate of {rate} Hz")
        weakref.finalize(self, _destroy_encoder, self._state)
        _control(self._state, _SET_BITRATE, _int(bitrate))
        self._packet_samples = rate * _PACKET_MS // 1000
        self._packet = ctypes.create_string_buffer(_PACKET_LIMIT_BYTES)
        self._rest = b""

    def encode(self, pcm: bytes) -> bytes:
        """Give every whole packet; what is left over waits for the next call."""
        pcm = self._rest + pcm
        whole = len(pcm) - len(pcm) % self._packet_bytes
        self._rest = pcm[whole:]
        return pack(self._packets(pcm[:whole]))

    def flush(self) -> bytes:
        """Give what is left over as a last packet, filled up with silence; nothing when nothing is left."""
        rest, self._rest = self._rest, b""
        return pack(self._packets(rest.ljust(self._packet_bytes, b"\0"))) if rest else b""

    @property
    def _packet_bytes(self) -> int:
        return self._packet_samples * _SAMPLE_BYTES

    def _packets(self, pcm: bytes) -> Iterator[bytes]:
        for at in range(0, len(pcm), self._packet_bytes):
            piece = pcm[at : at + self._packet_bytes]
            size = _encode(self._state, piece, self._packet_samples, self._packet, _PACKET_LIMIT_BYTES)
            if size < 0:
                raise RuntimeError(f"libopus could not encode: error {size}")
            yield self._packet.raw[:size]


class OpusDecoder:
    """Framed packets of one stream in, samples out."""

    def __init__(self, *, rate: int = SPEECH_RATE) -> None:
        failure = _int()
        self._state = _create_decoder(rate, 1, ctypes.byref(failure))
        if failure.value:
            raise ValueError(f"Opus has no rate of {rate} Hz")
        weakref.finalize(self, _destroy_decoder, self._state)
        self._most_samples = int(rate * LONGEST_PACKET_MS / 1000)
        self._pcm = ctypes.create_string_buffer(self._most_samples * _SAMPLE_BYTES)

    def decode(self, framed: bytes) -> bytes:
        """Give the samples as pcm16; InvalidMessage for bytes that are not framed Opus."""
        found = packets(framed)
        if found is None:
            raise InvalidMessage("the audio is not framed Opus")
        return b"".join(map(self._samples, found))

    def _samples(self, packet: bytes) -> bytes:
        count = _decode(self._state, packet, len(packet), self._pcm, self._most_samples, 0)
        if count < 0:
            raise InvalidMessage("the audio holds a packet that is not Opus")
        return self._pcm.raw[: count * _SAMPLE_BYTES]


def encode_opus(pcm: bytes, *, rate: int = SPEECH_RATE) -> bytes:
    """Encode a whole piece of pcm16 speech."""
    encoder = OpusEncoder(rate=rate)
    return encoder.encode(pcm) + encoder.flush()


def decode_opus(framed: bytes, *, rate: int = SPEECH_RATE) -> bytes:
    """Decode a whole piece of framed Opus to pcm16."""
    return OpusDecoder(rate=rate).decode(framed)
