"""Speech survives Opus: framed packets of 20 ms out, 16 kHz samples back."""

import gc
from array import array
from contextlib import suppress
from math import pi, sin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.core.audio import duration_ms, packets
from lingua_scheduler.core.model import AudioFormat
from lingua_scheduler.errors import InvalidMessage
from lingua_scheduler.wire.opus import OpusDecoder, OpusEncoder, decode_opus, encode_opus


def tone(seconds: float, rate: int = 16000) -> array:
    return array("h", (round(8000 * sin(2 * pi * 440 * at / rate)) for at in range(round(seconds * rate))))


def loudness(samples: array) -> float:
    return (sum(value * value for value in samples) / len(samples)) ** 0.5


def test_a_second_of_sound_is_fifty_packets_and_sounds_as_loud() -> None:
    framed = encode_opus(tone(1.0).tobytes())
    assert len(packets(framed)) == 50
    assert duration_ms(AudioFormat.OPUS, 16000, framed) == 1000
    assert len(framed) < 5000
    heard = array("h", decode_opus(framed))
    assert len(heard) == 16000
    assert loudness(heard[800:]) == pytest.approx(loudness(tone(1.0)), rel=0.1)


def test_pieces_of_any_size_make_the_same_stream_as_the_whole() -> None:
    pcm = tone(0.5).tobytes()
    encoder = OpusEncoder()
    pieces = [encoder.encode(pcm[at : at + 1234]) for at in range(0, len(pcm), 1234)]
    assert b"".join(pieces) + encoder.flush() == encode_opus(pcm)
    assert encoder.flush() == b"", "nothing is left"


def test_the_last_packet_is_filled_up_with_silence() -> None:
    assert duration_ms(AudioFormat.OPUS, 16000, encode_opus(tone(0.05).tobytes())) == 60
    assert encode_opus(b"") == b""


def test_any_rate_of_opus_comes_out_at_the_wanted_one() -> None:
    framed = encode_opus(tone(0.2, rate=48000).tobytes(), rate=48000)
    assert len(decode_opus(framed)) == 2 * 3200
    assert len(decode_opus(framed, rate=8000)) == 2 * 1600


def test_a_stream_may_be_decoded_in_pieces() -> None:
    framed = encode_opus(tone(0.2).tobytes())
    found, decoder = packets(framed), OpusDecoder()
    pieces = [decoder.decode(len(packet).to_bytes(2, "little") + packet) for packet in found]
    assert b"".join(pieces) == decode_opus(framed)


@pytest.mark.parametrize("make", [OpusEncoder, OpusDecoder])
def test_a_rate_that_opus_does_not_have_is_refused(make) -> None:
    with pytest.raises(ValueError, match="44100 Hz"):
        make(rate=44100)


@pytest.mark.parametrize("data", [b"\x01", b"\x05\x00abc", b"\x00\x00", b"\x03\x00\xff\xff\xff"])
def test_what_is_no_framed_opus_is_refused(data) -> None:
    with pytest.raises(InvalidMessage):
        decode_opus(data)


@given(st.lists(st.binary(min_size=1, max_size=60), max_size=5))
def test_no_packet_whatsoever_does_harm(found) -> None:
    framed = b"".join(len(packet).to_bytes(2, "little") + packet for packet in found)
    with suppress(InvalidMessage):
        assert len(decode_opus(framed)) % 2 == 0


def test_states_are_given_back() -> None:
    for _ in range(200):
        OpusEncoder()
        OpusDecoder()
    gc.collect()
