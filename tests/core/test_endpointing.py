"""The detector hears speech end in pcm16 and in Opus packets, and stays unsure where nothing can be told."""

from __future__ import annotations

import random
import struct

import pytest

from lingua_scheduler.core.audio import pack
from lingua_scheduler.core.endpointing import QuietDetector, activity, lacks_voice
from lingua_scheduler.core.model import AudioFormat
from lingua_scheduler.wire.opus import OpusEncoder

RATE = 16_000
CELT = b"\xb8"  # a packet of 20 ms without activity bits starts like this
SILK = b"\x48"  # and this is one with an activity bit, the first of the next byte


def pcm(mean: float, ms: int, rate: int = RATE) -> bytes:
    """Noise of about this mean amplitude."""
    chance = random.Random(7)
    count = rate * ms // 1000
    samples = (max(-32768, min(32767, round(chance.uniform(-2, 2) * mean))) for _ in range(count))
    return struct.pack(f"<{count}h", *samples)


def voice(ms: int, loud: float = 3000, rate: int = RATE) -> bytes:
    """Syllables: 120 ms loud, 40 ms faint."""
    pattern = b"".join(pcm(loud if at % 160 < 120 else loud / 20, 20, rate) for at in range(0, ms, 20))
    return pattern[: rate * ms // 1000 * 2]


def opus(*sizes: int) -> bytes:
    return pack(CELT + b"\x00" * (size - 1) for size in sizes)


def silk(*active: int, size: int = 50) -> bytes:
    return pack(SILK + bytes([0x80 * bit]) + b"\x00" * (size - 2) for bit in active)


def detector(fmt: AudioFormat = AudioFormat.PCM16, rate: int = RATE) -> QuietDetector:
    return QuietDetector(fmt, rate)


@pytest.mark.parametrize("noise", [0, 50, 200])
@pytest.mark.parametrize("loud", [1500, 6000])
@pytest.mark.parametrize("rate", [8000, 16_000, 48_000])
def test_quiet_after_speech_is_heard_above_any_background(noise, loud, rate):
    heard = detector(rate=rate)
    heard.hear(voice(1000, loud, rate))
    assert heard.voiced_ms > 500
    assert heard.hear(pcm(noise, 200, rate))
    assert heard.quiet_ms >= 200


def test_a_whisper_is_told_from_a_very_quiet_room():
    heard = detector()
    heard.hear(pcm(5, 500))
    heard.hear(voice(1000, 250))
    assert heard.voiced_ms > 400
    assert heard.hear(pcm(5, 200))


def test_syllables_do_not_end_speech():
    heard = detector()
    longest = 0.0
    for _ in range(10):
        heard.hear(voice(160))
        longest = max(longest, heard.quiet_ms)
    assert longest <= 60


def test_voice_takes_the_quiet_back():
    heard = detector()
    heard.hear(voice(500))
    heard.hear(pcm(50, 200))
    assert not heard.hear(voice(100))
    assert heard.quiet_ms == 0


def test_noise_after_the_end_of_speech_opens_no_utterance():
    """For minutes after the last word the noise of a room stays what it is: quiet."""
    heard = detector()
    heard.hear(voice(1000))
    assert all(heard.hear(pcm(150, 200)) for _ in range(300))


def test_speech_at_the_very_beginning_is_heard():
    assert not detector().hear(voice(200))


def test_a_cut_starts_the_count_of_voice_anew():
    heard = detector()
    heard.hear(voice(1000))
    heard.cut()
    assert heard.voiced_ms == 0


def test_small_packets_after_large_ones_are_quiet():
    heard = detector(AudioFormat.OPUS)
    assert not heard.hear(opus(*[60, 72, 48, 66, 55] * 5))
    assert heard.voiced_ms > 400
    assert heard.hear(opus(*[9] * 13))
    assert heard.quiet_ms == 260


def test_background_noise_between_words_is_quiet_in_opus_too():
    heard = detector(AudioFormat.OPUS)
    heard.hear(opus(*[60, 72, 22, 66, 20] * 5))
    assert heard.hear(opus(*[22, 24, 20, 23] * 4))


def test_a_constant_bit_rate_tells_nothing_and_is_never_quiet():
    heard = detector(AudioFormat.OPUS)
    assert not any(heard.hear(opus(*[60] * 10)) for _ in range(500))


def test_the_length_of_a_packet_counts_not_only_its_size():
    """40 ms in 60 bytes are as loud as 20 ms in 30."""
    heard = detector(AudioFormat.OPUS)
    heard.hear(opus(*[60] * 10, 20))
    assert heard.hear(pack([b"\xb9" + b"\x00" * 39]))


@pytest.mark.parametrize("audio", [b"\xff" * 600, b"\x01"])
def test_opus_that_cannot_be_read_may_hold_voice(audio):
    heard = detector(AudioFormat.OPUS)
    heard.hear(opus(*[60] * 10, *[9] * 10))
    assert not heard.hear(audio)
    assert heard.quiet_ms == 0


@pytest.mark.parametrize("fmt", AudioFormat)
def test_no_audio_is_quiet_and_changes_nothing(fmt):
    heard = detector(fmt)
    assert heard.hear(b"")
    assert (heard.quiet_ms, heard.voiced_ms) == (0, 0)


def test_the_encoders_own_opinion_counts_more_than_sizes():
    heard = detector(AudioFormat.OPUS)
    assert not heard.hear(silk(*[1] * 25))
    assert heard.voiced_ms > 400
    assert heard.hear(silk(*[0] * 13))
    assert heard.quiet_ms == 260


def test_a_click_is_no_voice():
    """Encoders take noise for voice now and then, but never for long."""
    heard = detector(AudioFormat.OPUS)
    heard.hear(silk(*[1] * 25))
    assert heard.hear(silk(0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 1, 0, 0))
    assert heard.quiet_ms == 260
    assert not heard.hear(silk(0, 1, 1, 1, 0))


def test_an_activity_bit_on_an_empty_packet_is_no_voice():
    assert detector(AudioFormat.OPUS).hear(silk(*[1] * 13, size=8))


@pytest.mark.parametrize(
    ("packet", "active"),
    [
        (b"\x48\x80", True),
        (b"\x48\x7f", False),
        (b"\x40\x80", True),  # 10 ms
        (b"\x50\x40", True),  # 40 ms: the second of two
        (b"\x50\x3f", False),
        (b"\x58\x20", True),  # 60 ms: the third of three
        (b"\x58\x1f", False),
        (b"\x78\x80", True),  # hybrid
        (b"\x78\x40", False),
        (b"\xb8\x80", None),  # CELT
        (b"\x49\x80\x80", None),  # two frames
        (b"\x48", None),  # nothing but the first byte
    ],
    ids=lambda value: value.hex() if isinstance(value, bytes) else str(value),
)
def test_activity_bits_are_read_where_they_are(packet, active):
    assert activity(packet) is active


@pytest.mark.parametrize(
    ("audio", "lacks"),
    [
        (silk(*[0] * 13), True),
        (silk(0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0), True),
        (silk(0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0), False),
        (silk(0), True),
        (silk(1), False),  # a client that sends single packets must not be taken for clicking
        (silk(0, 1, 0), False),
        (opus(*[50] * 13), False),
        (b"", False),
        (b"\xff" * 60, False),
    ],
    ids=["quiet", "clicks", "voice", "short quiet", "short voice", "short", "celt", "empty", "unreadable"],
)
def test_a_frame_lacks_voice_if_its_encoder_says_so(audio, lacks):
    assert lacks_voice(audio) is lacks


@pytest.mark.parametrize("noise", [0, 20, 150])
def test_a_real_encoder_tells_a_room_from_a_voice(noise):
    """What libopus makes of a quiet room: packets as large as speech, but without activity."""
    encoder = OpusEncoder()
    heard = detector(AudioFormat.OPUS)
    for _ in range(15):
        heard.hear(encoder.encode(pcm(noise, 200)))
    assert heard.quiet_ms > 2000
