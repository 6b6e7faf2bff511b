"""Whatever a WAV file holds becomes 16 kHz mono pcm16; what is no WAV file is refused in one line."""

import io
import struct
import wave
from array import array
from contextlib import suppress
from pathlib import Path

import pytest

from client.sound import chunk, tone, wav
from lingua_scheduler.client.audio import read_wav, write_wav
from lingua_scheduler.client.errors import UnreadableAudio


def samples(pcm: bytes) -> array:
    return array("h", pcm)


def read(data: bytes) -> array:
    return samples(read_wav(io.BytesIO(data)).pcm16())


def closeness(heard: array, meant: array) -> int:
    """Give the largest difference, a little away from the ends."""
    assert abs(len(heard) - len(meant)) <= 1
    return max(abs(one - other) for one, other in list(zip(heard, meant, strict=False))[200:-200])


def test_sixteen_bits_at_sixteen_kilohertz_stay_as_they_are() -> None:
    meant = tone(0.1)
    assert read(wav(meant.tobytes())) == meant


def in_bits(meant: array, bits: int) -> bytes:
    """Write 16-bit samples with another number of bits."""
    if bits == 8:
        return bytes((value >> 8) + 128 for value in meant)
    return b"".join((value << (bits - 16)).to_bytes(bits // 8, "little", signed=True) for value in meant)


@pytest.mark.parametrize(("bits", "error"), [(8, 256), (24, 0), (32, 0)])
def test_every_width_is_read(bits, error) -> None:
    meant = tone(0.1)
    heard = read(wav(in_bits(meant, bits), bits=bits))
    assert closeness(heard, meant) <= error


def test_floating_point_is_read_and_nonsense_in_it_is_silence() -> None:
    values = [0.5, -0.5, 2.0, -2.0, float("nan"), float("inf")]
    heard = read(wav(struct.pack("<6f", *values), bits=32, kind=3))
    assert list(heard) == [16383, -16383, 32767, -32767, 0, 32767]


def test_channels_are_mixed() -> None:
    left, right = tone(0.1), tone(0.1, hertz=300)
    both = array("h", (value for pair in zip(left, right, strict=True) for value in pair))
    meant = array("h", ((one + other) // 2 for one, other in zip(left, right, strict=True)))
    assert read(wav(both.tobytes(), channels=2)) == meant


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 32000, 44100, 48000, 96000])
def test_every_rate_is_converted_without_being_heard(rate) -> None:
    heard = read(wav(tone(0.25, rate=rate, hertz=1000).tobytes(), rate=rate))
    assert closeness(heard, tone(0.25, hertz=1000)) < 8, "60 dB below the tone"


def test_what_sixteen_kilohertz_cannot_hold_does_not_fold_back() -> None:
    heard = read(wav(tone(0.25, rate=48000, hertz=10000).tobytes(), rate=48000))
    assert max(heard[200:-200]) < 16


def test_full_scale_does_not_wrap_around() -> None:
    square = array("h", ([32767] * 24 + [-32768] * 24) * 100)
    heard = read(wav(square.tobytes(), rate=48000))
    assert (max(heard), min(heard)) == (32767, -32768)


def test_frames_have_equal_length_and_hold_everything() -> None:
    speech = read_wav(io.BytesIO(wav(tone(0.25, rate=44100).tobytes(), rate=44100)))
    frames = list(speech.frames(100))
    assert [len(frame) for frame in frames] == [3200, 3200, 1600]
    assert b"".join(frames) == speech.pcm16()
    assert speech.duration_s == pytest.approx(0.25, abs=0.001)


def test_the_extensible_form_is_read() -> None:
    meant = tone(0.05)
    header = struct.pack("<HHIIHHHHIH14x", 0xFFFE, 1, 16000, 48000, 3, 24, 22, 24, 4, 1)
    body = b"WAVE" + chunk(b"fmt ", header) + chunk(b"data", in_bits(meant, 24))
    assert read(b"RIFF" + struct.pack("<I", len(body)) + body) == meant


def test_other_parts_and_sizes_that_a_pipe_did_not_know_do_no_harm() -> None:
    meant = tone(0.05)
    header = struct.pack("<HHIIHH", 1, 1, 16000, 32000, 2, 16)
    body = (
        b"WAVE" + chunk(b"LIST", b"odd") + chunk(b"fmt ", header) + b"data\xff\xff\xff\xff" + meant.tobytes()
    )
    assert read(b"RIFF\xff\xff\xff\xff" + body) == meant


def test_half_a_sample_at_the_end_is_left_out() -> None:
    assert list(read(wav(b"\x01\x00\x02\x00\x03"))) == [1, 2]


GOOD = wav(tone(0.01).tobytes())


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a WAV file"),
        (b"OggS" + bytes(100), "not a WAV file"),
        (b"RIFF\0\0\0\0WAVE", "without a format"),
        (GOOD[:36], "without a format or without sound"),
        (wav(b""), "without sound"),
        (wav(b"\0\0", bits=12), "12 bits"),
        (wav(b"\0\0", bits=0), "0 bits"),
        (wav(b"\0\0", kind=85), "format 85"),
        (wav(b"\0\0", rate=0), "0 Hz"),
        (wav(b"\0\0", rate=10**9), "Hz"),
        (wav(b"\0\0", channels=0), "0 channels"),
        (wav(b"\0\0", channels=1000), "1000 channels"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(data, why) -> None:
    with pytest.raises(UnreadableAudio, match=why) as raised:
        read(data)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("cut", range(0, len(GOOD), 7))
def test_a_file_that_was_cut_off_is_read_or_refused(cut) -> None:
    with suppress(UnreadableAudio):
        assert len(read(GOOD[:cut])) <= 160


def test_a_missing_file_is_named() -> None:
    with pytest.raises(UnreadableAudio, match=r"absent\.wav: No such file"):
        read_wav(Path("absent.wav"))


def test_what_is_written_can_be_read_back(tmp_path) -> None:
    meant = tone(0.1)
    write_wav(tmp_path / "out.wav", meant.tobytes())
    assert samples(read_wav(tmp_path / "out.wav").pcm16()) == meant
    with wave.open(str(tmp_path / "out.wav")) as other:
        assert (other.getframerate(), other.getnchannels(), other.getsampwidth()) == (16000, 1, 2)
