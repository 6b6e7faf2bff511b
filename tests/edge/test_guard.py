"""The frame guard: every rule it adds, and that the network's way of cutting chunks changes nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.frames import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, frame
from lingua_scheduler.edge.guard import FrameGuard, Violation
from lingua_scheduler.edge.limits import SocketOptions
from lingua_scheduler.wire.close import CloseCode

MAX_BYTES = 1000
OPTIONS = SocketOptions(max_fragments=4, pings_per_s=3)


def guard() -> FrameGuard:
    return FrameGuard(OPTIONS, MAX_BYTES, now_s=0.0)


def code_of(*frames: bytes) -> CloseCode | None:
    violation = guard().feed(b"".join(frames), 0.0)
    return None if violation is None else violation.code


def test_ordinary_messages_pass():
    whole = [frame(TEXT, b"x" * length) for length in (0, 1, 125, 126, 1000)]
    split = [frame(BINARY, b"ab", fin=False), frame(CONTINUATION, b"c", fin=False), frame(CONTINUATION, b"d")]
    control = [frame(PING, b"now"), frame(PONG), frame(CLOSE, b"\x03\xe8")]
    assert code_of(*whole, *split, *control) is None


def test_control_frames_may_stand_between_fragments():
    assert code_of(frame(TEXT, b"a", fin=False), frame(PING), frame(CONTINUATION, b"b"), frame(TEXT)) is None


@pytest.mark.parametrize(
    ("name", "offence", "code"),
    [
        ("unmasked", frame(TEXT, b"hello", masked=False), CloseCode.PROTOCOL_ERROR),
        ("unmasked and empty", frame(TEXT, masked=False), CloseCode.PROTOCOL_ERROR),
        ("reserved bit", frame(TEXT, b"x", reserved=0x40), CloseCode.PROTOCOL_ERROR),
        ("reserved data opcode", frame(0x3), CloseCode.PROTOCOL_ERROR),
        ("reserved control opcode", frame(0xB), CloseCode.PROTOCOL_ERROR),
        ("fragmented ping", frame(PING, fin=False), CloseCode.PROTOCOL_ERROR),
        ("long ping", frame(PING, b"x" * 126), CloseCode.PROTOCOL_ERROR),
        ("long close", frame(CLOSE, b"x" * 300), CloseCode.PROTOCOL_ERROR),
        ("continues nothing", frame(CONTINUATION, b"x"), CloseCode.PROTOCOL_ERROR),
        ("one byte too long", frame(TEXT, declared=MAX_BYTES + 1), CloseCode.TOO_LARGE),
        ("2**62 declared", frame(BINARY, declared=2**62), CloseCode.TOO_LARGE),
        ("2**64 - 1 declared", frame(BINARY, declared=2**64 - 1), CloseCode.TOO_LARGE),
    ],
)
def test_a_bad_header_is_an_offence(name, offence, code):
    assert code_of(offence) == code
    assert code_of(frame(TEXT, b"fine"), offence) == code


def test_a_new_message_inside_another_is_an_offence():
    assert code_of(frame(TEXT, fin=False), frame(TEXT)) == CloseCode.PROTOCOL_ERROR


def test_fragments_count_together():
    half = MAX_BYTES // 2
    fits = [frame(TEXT, b"x" * half, fin=False), frame(CONTINUATION, b"x" * half)]
    assert code_of(*fits, *fits) is None
    assert code_of(fits[0], frame(CONTINUATION, b"x" * (half + 1))) == CloseCode.TOO_LARGE


def test_too_many_empty_fragments_are_an_offence():
    fragments = [frame(TEXT, fin=False)] + [frame(CONTINUATION, fin=False)] * 3
    assert code_of(*fragments) is None
    assert code_of(*fragments, frame(CONTINUATION, fin=False)) == CloseCode.TOO_LARGE


def test_pings_and_pongs_share_a_budget_that_fills_again():
    judge = guard()
    assert judge.feed(frame(PING) * 2 + frame(PONG), 0.0) is None
    assert judge.feed(frame(PING), 0.5) is None
    assert judge.feed(frame(TEXT) * 50, 0.5) is None
    violation = judge.feed(frame(PING), 0.5)
    assert violation is not None
    assert violation.code == CloseCode.TOO_MANY_MESSAGES


def test_what_came_before_the_offence_in_the_same_chunk_is_named():
    fine = frame(TEXT, b"fine")
    violation = guard().feed(fine + frame(TEXT, masked=False), 0.0)
    assert violation is not None
    assert violation.good_bytes == len(fine)


_DATA = st.builds(frame, st.sampled_from([TEXT, BINARY]), st.binary(max_size=300))
_SPLIT = st.lists(st.binary(max_size=200), min_size=2, max_size=4).map(
    lambda parts: b"".join(
        frame(TEXT if at == 0 else CONTINUATION, part, fin=at == len(parts) - 1)
        for at, part in enumerate(parts)
    )
)
_VALID = st.lists(_DATA | _SPLIT, max_size=8).map(b"".join)


@st.composite
def chunked(draw, streams):
    """Give a stream of bytes in one piece and in arbitrary pieces."""
    stream = draw(streams)
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    edges = [0, *cuts, len(stream)]
    return stream, [stream[a:b] for a, b in pairwise(edges)]


def verdict(pieces: list[bytes]) -> tuple[Violation | None, int]:
    """Feed pieces until the first offence; also say how many bytes of the stream were good."""
    judge, fed = guard(), 0
    for piece in pieces:
        violation = judge.feed(piece, 0.0)
        if violation is not None:
            return violation._replace(good_bytes=0), fed + violation.good_bytes
        fed += len(piece)
    return None, fed


@given(chunked(_VALID))
def test_any_chunking_of_a_valid_stream_passes(case):
    _, pieces = case
    assert verdict(pieces)[0] is None


@given(chunked(st.binary(max_size=400)))
def test_any_chunking_of_any_bytes_gives_the_same_verdict(case):
    stream, pieces = case
    assert verdict(pieces)[0] == verdict([stream])[0]


@given(chunked(st.tuples(_VALID, st.binary(max_size=60)).map(b"".join)))
def test_a_valid_beginning_is_never_counted_as_bad(case):
    stream, pieces = case
    (whole, good), (piecewise, piecewise_good) = verdict([stream]), verdict(pieces)
    assert whole == piecewise
    assert piecewise_good >= good
