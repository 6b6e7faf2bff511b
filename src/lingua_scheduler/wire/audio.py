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
_WRAP = 2**32
_ID = re.compile(ID_PATTERN.encode())


def parse_frame(data: bytes, now_ms: int, options: WireOptions = DEFAULT_OPTIONS) -> AudioChunk:
    """Read one binary frame, or raise `InvalidMessage`; the clock is completed to the time nearest to now."""
    kind = data[0] if data else None
    if kind == AUDIO_FRAME and len(data) >= _AUDIO.size:
        _, length, seq, clock, final, _ = _AUDIO.unpack_from(data)
        end = _AUDIO.size + length
        session_id, payload = data[_AUDIO.size : end], data[end:]
    elif kind == FINAL_FRAME and len(data) >= _FINAL.size:
        _, length, seq, clock = _FINAL.unpack_from(data)
        session_id, payload, final = data[_FINAL.size :], b"", 1
    else:
        raise invalid(BadInput.FRAME, "not an audio frame")
    if final > 1 or len(session_id) != length or length > ID_CHARS or not _ID.match(session_id):
        raise invalid(BadInput.FRAME, "the audio frame's header is wrong")
    if len(payload) > options.audio_frame_bytes:
        raise invalid(BadInput.SIZE, "the audio frame is too large")
    return AudioChunk(
        session_id=session_id.decode("ascii"),
        seq=seq,
        is_final=final == 1,
        payload=payload,
        client_timestamp_ms=_nearest(clock, now_ms),
    )


def build_frame(chunk: AudioChunk) -> bytes:
    """Write a chunk as a binary frame; a final without audio takes the short form."""
    session_id = chunk.session_id.encode("ascii")
    seq, clock = chunk.seq % _WRAP, (chunk.client_ms or 0) % _WRAP
    if chunk.is_final and not chunk.audio:
        return _FINAL.pack(FINAL_FRAME, len(session_id), seq, clock) + session_id
    header = _AUDIO.pack(AUDIO_FRAME, len(session_id), seq, clock, chunk.is_final, 0)
    return header + session_id + chunk.audio


def _nearest(clock: int, now_ms: int) -> int:
    """Find the time closest to now that has these lower 32 bits."""
    behind_ms = (now_ms - clock) % _WRAP
    return now_ms - behind_ms if behind_ms < _WRAP // 2 else now_ms - behind_ms + _WRAP
