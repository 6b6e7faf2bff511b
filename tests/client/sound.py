"""Sounds to speak with."""

from __future__ import annotations

import struct
from array import array
from math import pi, sin


def tone(seconds: float, *, rate: int = 16000, hertz: float = 440, loudness: int = 8000) -> array:
    """Give a tone as 16-bit samples."""
    return array(
        "h", (round(loudness * sin(2 * pi * hertz * at / rate)) for at in range(round(seconds * rate)))
    )


def wav(sound: bytes, *, rate: int = 16000, channels: int = 1, bits: int = 16, kind: int = 1) -> bytes:
    """Give a WAV file with these bytes as its sound."""
    width = channels * bits // 8
    header = struct.pack("<HHIIHH", kind, channels, rate, rate * width, width, bits)
    body = b"WAVE" + chunk(b"fmt ", header) + chunk(b"data", sound)
    return b"RIFF" + len(body).to_bytes(4, "little") + body


def chunk(name: bytes, data: bytes) -> bytes:
    """Give one part of a WAV file."""
    return name + len(data).to_bytes(4, "little") + data + b"\0" * (len(data) % 2)
