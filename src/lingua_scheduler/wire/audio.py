"""Binary audio frames: the same record as `audio_chunk`, without JSON and base64.

All integers are little-endian::

    AUDIO 0x01   u8 type | u8 L | u32 seq | u32 clock | u8 final | u8 reserved | L bytes session id | audio
    FINAL 0x02   u8 type | u8 L | u32 seq | u32 clock | L bytes session id

`clock` is the client's Unix time in milliseconds modulo 2**32.
"""

from __future__ import annotations

import re
import struct

from lingua_scheduler.wire.codec import DEFAULT_OPTIONS, WireOptions
from lingua_scheduler.wire.common import ID_CHARS, ID_PATTERN, BadInput, invalid
from lingua_scheduler.wire.speech import AudioChunk

AUDIO_FRAME = 0x01
FINAL_FRAME = 0x02

_AUDIO = struct.Struct("<BBIIBB")
_FINAL = struct.Struct("<BBII")
_AUDIO_BYTES, _read_audio = _AUDIO.size, _AUDIO.unpack_from
_FINAL_BYTES, _read_final = _FINAL.size, _FINAL.unpack_from
_WRAP = 2**32
_LOW_BITS = _WRAP - 1
_HALF_WRAP = _WRAP // 2
_ID = re.compile(ID_PATTERN.encode())
_ID_BYTES = bytes(each for each in range(256) if _ID.match(bytes((each,))))


def parse_frame(data: bytes, now_ms: int, options: WireOptions = DEFAULT_OPTIONS) -> AudioChunk:
    """Read one binary frame, or raise `InvalidMessage`; the clock is completed to the time nearest to now."""
    size = len(data)
    if size >= _AUDIO_BYTES and data[0] == AUDIO_FRAME:
        _, length, seq, clock, final, _ = _read_audio(data)
        end = _AUDIO_BYTES + length
        session_id, payload = data[_AUDIO_BYTES:end], data[end:]
    elif size >= _FINAL_BYTES and data[0] == FINAL_FRAME:
        _, length, seq, clock = _read_final(data)
        session_id, payload, final = data[_FINAL_BYTES:], b"", 1
    else:
        raise invalid(BadInput.FRAME, "not an audio frame")
    if final > 1 or len(session_id) != length or not 0 < length <= ID_CHARS or session_id.strip(_ID_BYTES):
        raise invalid(BadInput.FRAME, "the audio frame's header is wrong")
    if len(payload) > options.audio_frame_bytes:
        raise invalid(BadInput.SIZE, "the audio frame is too large")
    return AudioChunk(
        session_id=session_id.decode(),
        seq=seq,
        is_final=final == 1,
        payload=payload,
        client_timestamp_ms=now_ms + _HALF_WRAP - ((now_ms - clock + _HALF_WRAP) & _LOW_BITS),
    )


def build_frame(chunk: AudioChunk) -> bytes:
    """Write a chunk as a binary frame; a final without audio takes the short form."""
    session_id = chunk.session_id.encode("ascii")
    seq, clock = chunk.seq % _WRAP, (chunk.client_ms or 0) % _WRAP
    if chunk.is_final and not chunk.audio:
        return _FINAL.pack(FINAL_FRAME, len(session_id), seq, clock) + session_id
    header = _AUDIO.pack(AUDIO_FRAME, len(session_id), seq, clock, chunk.is_final, 0)
    return header + session_id + chunk.audio
