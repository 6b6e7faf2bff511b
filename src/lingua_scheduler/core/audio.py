"""How long audio lasts, whether it holds speech, and where it may be cut, without decoding it.

The scheduler never decodes Opus. It reads the framing (repeated: u16 little-endian length, one packet) and
the first byte of each packet, which names its duration (RFC 6716, section 3.1).
"""

from __future__ import annotations

from collections.abc import Iterable

from lingua_scheduler.core.model import AudioFormat

SILENT_PACKET_BYTES = 10  # an Opus packet of digital silence or comfort noise is no larger
SILENT_PEAK = 256  # pcm16 samples below this (-42 dBFS) carry no speech
LONGEST_PACKET_MS = 120.0

_LENGTH_BYTES = 2
_LONGEST_PACKET_BYTES = 0xFFFF
_SAMPLE_BYTES = 2
_ESTIMATE_BYTES, _ESTIMATE_MS = 60, 20  # what unreadable Opus bytes are taken for: 24 kbit/s
_QUIET_HIGH_BYTES = b"\x00\xff"  # the upper byte of every sample in -256..255

_SILK_MS = (10.0, 20.0, 40.0, 60.0)
_HYBRID_MS = (10.0, 20.0)
_CELT_MS = (2.5, 5.0, 10.0, 20.0)
_FRAME_MS = _SILK_MS * 3 + _HYBRID_MS * 2 + _CELT_MS * 4  # by the upper five bits of the first byte
_FRAME_COUNT = (1, 2, 2, 0)  # by the lower two bits; 0 means "see the second byte"
_PACKET_MS = tuple(_FRAME_MS[first >> 3] * _FRAME_COUNT[first & 3] for first in range(256))


def packets(data: bytes) -> tuple[bytes, ...] | None:
    """Read the Opus packets of framed bytes; None when the bytes are not that framing."""
    found = []
    at, size = 0, len(data)
    while at < size:
        if at + _LENGTH_BYTES > size:
            return None
        length = data[at] | data[at + 1] << 8
        at += _LENGTH_BYTES
        if length == 0 or at + length > size:
            return None
        found.append(data[at : at + length])
        at += length
    return tuple(found)


def pack(opus_packets: Iterable[bytes]) -> bytes:
    """Frame Opus packets; what is framed one after the other may be joined."""
    framed = bytearray()
    for packet in opus_packets:
        if not 0 < len(packet) <= _LONGEST_PACKET_BYTES:
            raise ValueError(f"an Opus packet has 1 to {_LONGEST_PACKET_BYTES} bytes, not {len(packet)}")
        framed += len(packet).to_bytes(_LENGTH_BYTES, "little")
        framed += packet
    return bytes(framed)


def packet_ms(packet: bytes) -> float | None:
    """Tell how long one Opus packet plays; None when no legal packet starts like this."""
    if not packet:
        return None
    lasts_ms = _PACKET_MS[packet[0]]
    if not lasts_ms and len(packet) > 1:
        lasts_ms = _FRAME_MS[packet[0] >> 3] * (packet[1] & 0x3F)
    return lasts_ms if 0 < lasts_ms <= LONGEST_PACKET_MS else None


def duration_ms(audio_format: AudioFormat, rate: int, data: bytes) -> float:
    """Tell how long this audio plays; the rate counts for pcm16 only."""
    return DurationMeter(audio_format, rate).add(data)


class DurationMeter:
    """Adds up how long the frames of one utterance play.

    Framed Opus is exact. Bytes that cannot be read count as 60 bytes per 20 ms, rounded down on their running
    total, so that many small frames are not rounded away.
    """

    __slots__ = ("_exact_ms", "_loose_bytes", "_pcm_rate")

    def __init__(self, audio_format: AudioFormat, rate: int) -> None:
        self._pcm_rate = rate if audio_format is AudioFormat.PCM16 else 0
        self._exact_ms = 0.0
        self._loose_bytes = 0

    @property
    def total_ms(self) -> float:
        """The duration of everything added so far."""
        if self._pcm_rate:
            return self._loose_bytes // _SAMPLE_BYTES * 1000 / self._pcm_rate
        return self._exact_ms + self._loose_bytes // _ESTIMATE_BYTES * _ESTIMATE_MS

    def add(self, data: bytes) -> float:
        """Count one frame and return by how many milliseconds the total grew."""
        if self._pcm_rate:
            half_sample = self._loose_bytes % _SAMPLE_BYTES
            self._loose_bytes += len(data)
            return (half_sample + len(data)) // _SAMPLE_BYTES * 1000 / self._pcm_rate
        before_ms = self.total_ms
        exact_ms = _framed_ms(data)
        if exact_ms is None:
            self._loose_bytes += len(data)
        else:
            self._exact_ms += exact_ms
        return self.total_ms - before_ms


def is_silent(audio_format: AudioFormat, data: bytes) -> bool:
    """Say whether this audio surely holds no speech; what cannot be read may hold some."""
    if audio_format is AudioFormat.PCM16:
        return not data[1::2].translate(None, _QUIET_HIGH_BYTES)
    found = packets(data)
    return found is not None and all(len(packet) <= SILENT_PACKET_BYTES for packet in found)


def split_tail(audio_format: AudioFormat, rate: int, data: bytes, tail_ms: float) -> tuple[bytes, bytes]:
    """Cut audio in two, the second part as short as possible but not shorter than `tail_ms`.

    The cut falls between packets or samples. The tail has at least one of them; so has the head if there
    are two. `head + tail == data` always.
    """
    at = len(data) - _tail_bytes(audio_format, rate, data, tail_ms)
    return data[:at], data[at:]


def _framed_ms(data: bytes) -> float | None:
    """Add up packets without taking them apart; None when the bytes are not framed packets."""
    at, size, total_ms = 0, len(data), 0.0
    while at < size - _LENGTH_BYTES:
        length = data[at] | data[at + 1] << 8
        at += _LENGTH_BYTES
        lasts_ms = _PACKET_MS[data[at]] or packet_ms(data[at : at + length])
        if not length or not lasts_ms:
            return None
        total_ms += lasts_ms
        at += length
    return total_ms if at == size else None


def _tail_bytes(audio_format: AudioFormat, rate: int, data: bytes, tail_ms: float) -> int:
    if audio_format is AudioFormat.PCM16:
        odd = len(data) % _SAMPLE_BYTES
        samples = _within(-(-tail_ms * rate // 1000), len(data) // _SAMPLE_BYTES)
        return samples * _SAMPLE_BYTES + odd
    found = packets(data)
    if found is None:
        return _within(-(-tail_ms * _ESTIMATE_BYTES // _ESTIMATE_MS), len(data))
    return _tail_packets_bytes(found, tail_ms)


def _tail_packets_bytes(found: tuple[bytes, ...], tail_ms: float) -> int:
    size, kept_ms = 0, 0.0
    for kept, packet in enumerate(reversed(found)):
        if kept and (kept_ms >= tail_ms or kept == len(found) - 1):
            break
        size += _LENGTH_BYTES + len(packet)
        kept_ms += packet_ms(packet) or len(packet) * _ESTIMATE_MS / _ESTIMATE_BYTES
    return size


def _within(wanted: float, available: int) -> int:
    """Take at least one and leave at least one, as far as there are that many."""
    return min(max(1, min(int(wanted), available - 1)), available)
