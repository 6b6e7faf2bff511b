"""Durations, silence and cuts of audio that nobody decodes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lingua_scheduler.core.audio import (
    SILENT_PEAK,
    DurationMeter,
    duration_ms,
    is_silent,
    pack,
    packet_ms,
    packets,
    split_tail,
)
from lingua_scheduler.core.model import AudioFormat

steady = settings(deadline=None, derandomize=True)

OPUS, PCM16 = AudioFormat.OPUS, AudioFormat.PCM16
SPEECH = b"\x48" + bytes(60)  # SILK wide band, one frame of 20 ms
SILENCE = b"\x48" + bytes(7)
UNREADABLE = b"\x00" * 3000  # a packet of no bytes does not exist

some_packets = st.lists(st.binary(min_size=1, max_size=30), max_size=12)
any_audio = st.binary(max_size=200) | some_packets.map(pack)
any_format = st.sampled_from(AudioFormat)


@steady
@given(some_packets)
def test_packets_come_back_as_they_were_packed(opus_packets):
    assert packets(pack(opus_packets)) == tuple(opus_packets)


@steady
@given(some_packets, some_packets)
def test_packed_bytes_may_be_joined(first, second):
    assert packets(pack(first) + pack(second)) == (*first, *second)


@steady
@given(st.binary(max_size=100))
def test_bytes_that_read_as_packets_are_exactly_those_packets(data):
    found = packets(data)
    assert found is None or pack(found) == data


@pytest.mark.parametrize("data", [b"\x01", b"\x00\x00", b"\x02\x00a", b"\x01\x00a\x05", UNREADABLE])
def test_other_bytes_are_not_packets(data):
    assert packets(data) is None


@pytest.mark.parametrize("packet", [b"", bytes(65536)])
def test_a_packet_that_cannot_be_framed_is_refused(packet):
    with pytest.raises(ValueError, match="1 to 65535 bytes"):
        pack([packet])


@pytest.mark.parametrize(
    ("config", "lasts_ms"),
    [
        *zip(range(12), [10, 20, 40, 60] * 3, strict=True),
        *zip(range(12, 16), [10, 20] * 2, strict=True),
        *zip(range(16, 32), [2.5, 5, 10, 20] * 4, strict=True),
    ],
)
def test_the_first_byte_names_the_duration(config, lasts_ms):
    assert packet_ms(bytes([config << 3, 0])) == lasts_ms
    assert packet_ms(bytes([config << 3 | 1, 0])) == 2 * lasts_ms
    assert packet_ms(bytes([config << 3 | 2, 0])) == 2 * lasts_ms
    assert packet_ms(bytes([config << 3 | 3, 0b11000001])) == lasts_ms
    assert packet_ms(bytes([config << 3 | 3, 2])) == 2 * lasts_ms


@pytest.mark.parametrize("packet", [b"", b"\x4b", b"\x4b\x00", b"\x4b\x07", b"\x1b\x03"])
def test_an_illegal_packet_has_no_duration(packet):
    assert packet_ms(packet) is None


@pytest.mark.parametrize(
    ("audio_format", "rate", "data", "expected_ms"),
    [
        (PCM16, 16000, bytes(32000), 1000),
        (PCM16, 16000, bytes(16000), 500),
        (PCM16, 16000, bytes(12800), 400),
        (PCM16, 16000, bytes(33), 1),
        (PCM16, 48000, bytes(96000), 1000),
        (OPUS, 16000, UNREADABLE, 1000),
        (OPUS, 16000, UNREADABLE[:59], 0),
        (OPUS, 16000, pack([SPEECH] * 500), 10000),
        (OPUS, 16000, pack([SPEECH] * 13), 260),
        (OPUS, 16000, pack([b"\x4b\x00"] * 30), 40),
        (OPUS, 16000, b"", 0),
        (PCM16, 16000, b"", 0),
    ],
)
def test_durations(audio_format, rate, data, expected_ms):
    assert duration_ms(audio_format, rate, data) == expected_ms


def test_unreadable_bytes_are_rounded_on_their_total_not_per_frame():
    meter = DurationMeter(OPUS, 16000)
    grown_ms = sum(meter.add(b"\x00" * 50) for _ in range(60))
    assert grown_ms == meter.total_ms == 1000


def test_half_samples_are_joined():
    meter = DurationMeter(PCM16, 1000)
    assert [meter.add(b"x"), meter.add(b"x"), meter.add(b"xxx"), meter.add(b"x")] == [0, 1, 1, 1]


def test_readable_and_unreadable_frames_add_up():
    meter = DurationMeter(OPUS, 16000)
    assert meter.add(pack([SPEECH] * 2)) == 40
    assert meter.add(b"\x00" * 60) == 20
    assert meter.add(pack([SPEECH])) == 20
    assert meter.total_ms == 80


@steady
@given(any_format, st.lists(any_audio, max_size=6))
def test_the_total_is_the_sum_of_what_was_added(audio_format, frames):
    meter = DurationMeter(audio_format, 16000)
    grown_ms = [meter.add(frame) for frame in frames]
    assert all(each >= 0 for each in grown_ms)
    assert sum(grown_ms) == pytest.approx(meter.total_ms)


@steady
@given(any_audio)
def test_framed_opus_lasts_as_long_as_its_packets(data):
    found = packets(data)
    lasts_ms = [packet_ms(packet) for packet in found or ()]
    readable = found is not None and None not in lasts_ms
    expected_ms = sum(lasts_ms) if readable else len(data) // 60 * 20
    assert duration_ms(OPUS, 16000, data) == expected_ms


@pytest.mark.parametrize(
    ("audio_format", "data", "silent"),
    [
        (OPUS, b"", True),
        (OPUS, pack([SILENCE] * 13), True),
        (OPUS, pack([b"\x48" * 10]), True),
        (OPUS, pack([b"\x48" * 11]), False),
        (OPUS, pack([*[SILENCE] * 12, SPEECH]), False),
        (OPUS, UNREADABLE, False),
        (PCM16, b"", True),
        (PCM16, bytes(8192), True),
    ],
)
def test_silence_is_only_what_is_surely_silent(audio_format, data, silent):
    assert is_silent(audio_format, data) is silent


def test_the_web_clients_block_of_silence_is_130_bytes():
    assert len(pack([SILENCE] * 13)) == 130


@steady
@given(st.lists(st.integers(-32768, 32767), max_size=50) | st.lists(st.integers(-300, 300), max_size=50))
def test_samples_are_silent_below_the_peak(samples):
    data = b"".join(sample.to_bytes(2, "little", signed=True) for sample in samples)
    assert is_silent(PCM16, data) == all(-SILENT_PEAK <= sample < SILENT_PEAK for sample in samples)


@steady
@given(any_format, any_audio, st.floats(0, 1000))
def test_a_split_loses_nothing_and_leaves_both_parts_something(audio_format, data, tail_ms):
    head, tail = split_tail(audio_format, 16000, data, tail_ms)
    assert head + tail == data
    if data:
        assert tail
    found = packets(data)
    if audio_format is PCM16:
        assert len(head) % 2 == 0
        assert bool(head) == (len(data) >= 4)
    elif found is not None:
        assert packets(head) is not None
        assert packets(tail) is not None
        assert bool(head) == (len(found) >= 2)
    else:
        assert bool(head) == (len(data) >= 2)


@pytest.mark.parametrize(
    ("audio_format", "data", "tail_ms", "tail_bytes"),
    [
        (OPUS, pack([SPEECH] * 10), 150, 8 * 63),
        (OPUS, pack([SPEECH] * 10), 160, 8 * 63),
        (OPUS, pack([SPEECH] * 10), 0, 63),
        (OPUS, pack([SPEECH] * 10), 5000, 9 * 63),
        (OPUS, pack([SPEECH]), 5000, 63),
        (OPUS, UNREADABLE, 150, 450),
        (OPUS, UNREADABLE, 0, 1),
        (OPUS, UNREADABLE, 5000, 2999),
        (PCM16, bytes(32000), 150, 4800),
        (PCM16, bytes(32000), 0, 2),
        (PCM16, bytes(32000), 0.01, 2),
        (PCM16, bytes(32000), 5000, 31998),
        (PCM16, bytes(2), 150, 2),
        (PCM16, bytes(1), 150, 1),
        (PCM16, bytes(32001), 150, 4801),
        (PCM16, b"", 150, 0),
        (OPUS, b"", 150, 0),
    ],
)
def test_the_tail_is_the_shortest_that_is_long_enough(audio_format, data, tail_ms, tail_bytes):
    head, tail = split_tail(audio_format, 16000, data, tail_ms)
    assert len(tail) == tail_bytes
    assert head + tail == data
