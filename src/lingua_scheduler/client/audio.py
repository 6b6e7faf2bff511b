"""Speech from and to WAV files: whatever a file holds becomes 16 kHz mono pcm16.

Files are read by their chunks here because the standard library of Python 3.11 refuses the extensible form
that most programs write for 24 bits, and sizes that a pipe could not know.
"""

from __future__ import annotations

import struct
import wave
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from lingua_scheduler.client.errors import UnreadableAudio
from lingua_scheduler.client.resample import Resampler
from lingua_scheduler.wire.opus import SPEECH_RATE

_INTEGER, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_FORMAT = struct.Struct("<HHIIHH")
_EXTENSIBLE_AT = 24  # where the extensible form repeats the real format
_SAMPLE_BYTES = 2
_RATES = range(1000, 384_001)
_CHANNELS = range(1, 33)
_OTHER_SIGN = bytes(value ^ 0x80 for value in range(256))
_PEAK = 32767


class Speech:
    """The sound of a file, mono, converted to 16 kHz as it is read."""

    def __init__(self, samples: array[int], rate: int) -> None:
        self._samples = samples
        self._rate = rate

    @property
    def duration_s(self) -> float:
        """How long it plays."""
        return len(self._samples) / self._rate

    def pcm16(self) -> bytes:
        """Give all of it."""
        return b"".join(self.frames(1000))

    def frames(self, frame_ms: int) -> Iterator[bytes]:
        """Give pieces of equal length, the last one possibly shorter."""
        resampler = Resampler(self._samples, self._rate, SPEECH_RATE)
        step = SPEECH_RATE * frame_ms // 1000
        for at in range(0, len(resampler), step):
            yield resampler.samples(at, at + step).tobytes()


def read_wav(source: Path | BinaryIO) -> Speech:
    """Read a WAV file of 8 to 32 bits, any rate and number of channels; UnreadableAudio when it is none."""
    try:
        data = source.read_bytes() if isinstance(source, Path) else source.read()
    except OSError as error:
        raise UnreadableAudio(f"{source}: {error.strerror}") from None
    name = str(source) if isinstance(source, Path) else "standard input"
    try:
        return _speech(data)
    except UnreadableAudio as refusal:
        raise UnreadableAudio(f"{name}: {refusal}") from None


def write_wav(path: Path, pcm: bytes) -> None:
    """Write 16 kHz mono pcm16 as a WAV file."""
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(_SAMPLE_BYTES)
        out.setframerate(SPEECH_RATE)
        out.writeframes(pcm)


def _speech(data: bytes) -> Speech:
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise UnreadableAudio("not a WAV file")
    chunks = dict(_chunks(data))
    header, sound = chunks.get(b"fmt ", b""), chunks.get(b"data", b"")
    if len(header) < _FORMAT.size or b"data" not in chunks:
        raise UnreadableAudio("a WAV file without a format or without sound")
    kind, channels, rate, _, _, bits = _FORMAT.unpack_from(header)
    if kind == _EXTENSIBLE and len(header) >= _EXTENSIBLE_AT + 2:
        (kind,) = struct.unpack_from("<H", header, _EXTENSIBLE_AT)
    if rate not in _RATES or channels not in _CHANNELS:
        raise UnreadableAudio(f"{channels} channels at {rate} Hz cannot be read")
    frame_bytes = channels * bits // 8
    samples = _samples(sound[: len(sound) - len(sound) % frame_bytes] if frame_bytes else b"", kind, bits)
    if not samples:
        raise UnreadableAudio("a WAV file without sound")
    return Speech(_mixed(samples, channels), rate)


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Give the parts of the file; one that claims more than there is ends where the file ends."""
    at = 12
    while at + 8 <= len(data):
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        yield name, data[at + 8 : at + 8 + size]
        at += 8 + size + size % 2


def _samples(sound: bytes, kind: int, bits: int) -> array[int]:
    """Bring samples to 16 bits by their two upper bytes."""
    width = bits // 8
    if kind == _FLOAT and width == 4:  # noqa: PLR2004
        return _from_floats(sound)
    if kind != _INTEGER or bits not in (8, 16, 24, 32):
        raise UnreadableAudio(f"format {kind} of {bits} bits is not one of 8, 16, 24 or 32 bit PCM")
    upper = sound[width - 1 :: width]
    pcm = bytearray(_SAMPLE_BYTES * len(upper))
    if width == 1:
        pcm[1::2] = upper.translate(_OTHER_SIGN)
    else:
        pcm[0::2], pcm[1::2] = sound[width - 2 :: width], upper
    return array("h", bytes(pcm))


def _from_floats(sound: bytes) -> array[int]:
    floats = array("f", sound)
    # A value that is no number fails both comparisons of min and max and must not reach int.
    return array("h", (int(max(-1.0, min(1.0, value)) * _PEAK) if value == value else 0 for value in floats))  # noqa: PLR0124


def _mixed(samples: array[int], channels: int) -> array[int]:
    if channels == 1:
        return samples
    parts = [samples[part::channels] for part in range(channels)]
    return array("h", (sum(together) // channels for together in zip(*parts, strict=True)))
