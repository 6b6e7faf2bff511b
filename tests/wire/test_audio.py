"""Binary audio frames carry the same record as `audio_chunk`."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lingua_scheduler.errors import InvalidMessage
from lingua_scheduler.wire.audio import build_frame, parse_frame
from lingua_scheduler.wire.codec import WireOptions
from lingua_scheduler.wire.session import AudioChunk

steady = settings(deadline=None, derandomize=True)

NOW_MS = 1_794_770_758_669


def chunk(**members) -> AudioChunk:
    usual = {"session_id": "s-42", "seq": 7, "is_final": False, "payload": b"\x48abc"}
    return AudioChunk(**usual | {"client_timestamp_ms": NOW_MS} | members)


def test_an_audio_frame_has_the_layout_of_the_web_client():
    frame = build_frame(chunk())
    assert frame == struct.pack("<BBIIBB", 1, 4, 7, NOW_MS % 2**32, 0, 0) + b"s-42" + b"\x48abc"


def test_a_final_frame_has_the_layout_of_the_web_client():
    frame = build_frame(chunk(is_final=True, payload=b""))
    assert frame == struct.pack("<BBII", 2, 4, 7, NOW_MS % 2**32) + b"s-42"


@steady
@given(
    st.from_regex(r"[A-Za-z0-9._:-]{1,128}", fullmatch=True),
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.binary(max_size=200),
    st.integers(-(2**31) + 1, 2**31 - 1),
)
def test_a_frame_comes_back_as_it_was_sent(session_id, seq, is_final, payload, skew_ms):
    sent = chunk(
        session_id=session_id,
        seq=seq,
        is_final=is_final,
        payload=payload,
        client_timestamp_ms=NOW_MS + skew_ms,
    )
    assert parse_frame(build_frame(sent), NOW_MS) == sent


@steady
@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda rest: b"\x01\x04" + rest))
def test_arbitrary_bytes_are_a_frame_or_invalid(data):
    try:
        parsed = parse_frame(data, NOW_MS)
    except InvalidMessage:
        return
    assert parse_frame(build_frame(parsed), NOW_MS) == parsed


HEADER = struct.pack("<BBIIBB", 1, 4, 7, 0, 0, 0)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        b"\x10",
        b"\x11" + bytes(20),
        b"{}",
        HEADER,
        HEADER + b"s-4",
        struct.pack("<BBIIBB", 1, 0, 7, 0, 0, 0) + b"audio",
        struct.pack("<BBIIBB", 1, 4, 7, 0, 2, 0) + b"s-42",
        struct.pack("<BBIIBB", 1, 200, 7, 0, 0, 0) + b"s" * 200,
        HEADER + b"s 42",
        HEADER + b"s4\xc3\xa9",
        HEADER + b"s-4\n",
        struct.pack("<BBII", 2, 4, 7, 0) + b"s-42 and more",
        struct.pack("<BBII", 2, 4, 7, 0) + b"s-4",
    ],
)
def test_a_broken_frame_is_refused(data):
    with pytest.raises(InvalidMessage, match="Invalid message format: "):
        parse_frame(data, NOW_MS)


def test_a_frame_may_come_in_a_buffer_that_is_used_again():
    buffer = bytearray(build_frame(chunk()))
    parsed = parse_frame(buffer, NOW_MS)
    buffer[:] = bytes(len(buffer))
    assert parsed == chunk()


@steady
@given(st.integers(0, 2**41), st.integers(0, 2**32 - 1))
def test_the_clock_is_the_time_nearest_to_now_with_its_lower_bits(now_ms, clock):
    data = struct.pack("<BBII", 2, 4, 7, clock) + b"s-42"
    told_ms = parse_frame(data, now_ms).client_timestamp_ms
    assert told_ms % 2**32 == clock
    assert abs(told_ms - now_ms) <= 2**31


def test_a_frame_holds_no_more_audio_than_a_chunk_may():
    options = WireOptions(audio_frame_bytes=1024)
    assert parse_frame(build_frame(chunk(payload=bytes(1024))), NOW_MS, options)
    with pytest.raises(InvalidMessage, match="too large"):
        parse_frame(build_frame(chunk(payload=bytes(1025))), NOW_MS, options)
