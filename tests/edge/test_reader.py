"""The reader: every rule it keeps, and that the network's way of cutting chunks changes nothing."""

from __future__ import annotations

import gc
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.frames import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, frame
from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.edge.limits import SocketOptions
from lingua_scheduler.edge.reader import MessageReader
from lingua_scheduler.wire.close import CloseCode

MAX_BYTES = 1000
OPTIONS = SocketOptions(max_fragments=4, pings_per_s=3)


class Heard(MessageReader):
    """Writes down what it hears."""

    def __init__(self, options: SocketOptions = OPTIONS) -> None:
        self.clock = VirtualClock()
        super().__init__(self.clock, options, MAX_BYTES)
        self.all: list[tuple[Any, ...]] = []

    def on_message(self, payload: bytes, *, binary: bool) -> None:
        self.all.append(("binary" if binary else "text", payload))

    def on_ping(self, payload: bytes) -> None:
        self.all.append(("ping", payload))

    def on_close(self, code: int) -> None:
        self.all.append(("close", code))

    def on_offence(self, code: CloseCode, reason: str) -> None:
        self.all.append(("offence", code, reason))

    @property
    def code(self) -> CloseCode | None:
        """The code of the offence, if there was one."""
        return self.all[-1][1] if self.all and self.all[-1][0] == "offence" else None


def heard(*pieces: bytes) -> list[tuple[Any, ...]]:
    reader = Heard()
    for piece in pieces:
        reader.data_received(piece)
    return reader.all


def code_of(*frames: bytes) -> CloseCode | None:
    reader = Heard()
    reader.data_received(b"".join(frames))
    return reader.code


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
    reader = Heard()
    reader.data_received(frame(PING) * 2 + frame(PONG))
    reader.clock.advance(0.5)
    reader.data_received(frame(PING))
    reader.data_received(frame(TEXT) * 50)
    assert reader.code is None
    reader.data_received(frame(PING))
    assert reader.code == CloseCode.TOO_MANY_MESSAGES


def test_what_came_before_an_offence_is_heard_and_nothing_after_it():
    fine, bad = frame(TEXT, b"fine"), frame(TEXT, masked=False)
    assert [each[0] for each in heard(fine + bad + fine, fine)] == ["text", "offence"]
    assert heard(fine + frame(CLOSE, b"\x03\xe9bye") + fine, bad) == [("text", b"fine"), ("close", 1001)]
    assert heard(frame(CLOSE)) == [("close", 0)]


def test_a_length_may_be_written_longer_than_needed():
    """As browsers never do, and as the protocol forbids to send but no reader needs to mind."""
    key, payload = bytes(4), b"hello"
    assert heard(b"\x81\xfe\x00\x05" + key + payload) == [("text", payload)]
    assert heard(b"\x81\xff" + (5).to_bytes(8, "big") + key + payload) == [("text", payload)]


def test_the_limit_that_is_raised_by_a_message_holds_for_the_next_in_the_same_packet():
    class Introduced(Heard):
        def on_message(self, payload: bytes, *, binary: bool) -> None:
            super().on_message(payload, binary=binary)
            self.max_message_bytes = 10 * MAX_BYTES

    reader = Introduced()
    reader.data_received(frame(TEXT, b"who I am") + frame(BINARY, bytes(10 * MAX_BYTES)))
    assert [len(payload) for _, payload in reader.all] == [8, 10 * MAX_BYTES]
    reader.data_received(frame(BINARY, declared=10 * MAX_BYTES + 1))
    assert reader.code == CloseCode.TOO_LARGE


@pytest.mark.parametrize("size", [125, 126, 65_535, 65_536, 300_000])
def test_a_long_message_is_the_same_in_single_packets(size):
    payload = bytes(at % 251 for at in range(size))
    stream = frame(BINARY, payload) + frame(TEXT, b"next")
    reader = Heard()
    reader.max_message_bytes = size
    for at in range(0, len(stream), 1400):
        reader.data_received(stream[at : at + 1400])
    assert reader.all == [("binary", payload), ("text", b"next")]


def test_characters_may_be_cut_between_frames_but_must_be_whole_in_the_end():
    raw = "你好 é 🎤".encode()
    parts = [raw[:1], raw[1:5], raw[5:]]
    frames = [frame(TEXT if at == 0 else CONTINUATION, part, fin=at == 2) for at, part in enumerate(parts)]
    assert heard(*frames) == [("text", raw)]
    assert code_of(frame(TEXT, raw[:4], fin=False), frame(CONTINUATION)) == CloseCode.INVALID_PAYLOAD


def test_a_reader_that_was_stopped_keeps_nothing_of_what_was_begun():
    reader = Heard()
    reader.data_received(frame(TEXT, b"x" * 500, fin=False) + frame(CONTINUATION, b"y" * 400)[:300])
    reader.stop()
    reader.data_received(frame(TEXT, b"more"))
    assert reader.all == []
    assert not [each for each in gc.get_referents(reader) if isinstance(each, bytearray)]


_PARTS = st.lists(st.binary(max_size=250), min_size=1, max_size=OPTIONS.max_fragments)
_ASCII = _PARTS.map(lambda parts: [part.hex()[: len(part)].encode() for part in parts])
_MESSAGE = st.tuples(st.just("text"), _ASCII) | st.tuples(st.just("binary"), _PARTS)


def framed(kind: str, parts: list[bytes]) -> bytes:
    """Build the frames of one message."""
    opcode = {"text": TEXT, "binary": BINARY}[kind]
    last = len(parts) - 1
    return b"".join(
        frame(CONTINUATION if at else opcode, part, fin=at == last) for at, part in enumerate(parts)
    )


@st.composite
def cut(draw, streams):
    """Give a stream of bytes in one piece and in arbitrary pieces."""
    stream = draw(streams)
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    return stream, [stream[a:b] for a, b in pairwise([0, *cuts, len(stream)])]


@given(st.data(), st.lists(_MESSAGE, max_size=8))
def test_what_is_heard_is_what_was_said_however_it_is_cut(data, messages):
    _, pieces = data.draw(cut(st.just(b"".join(framed(*message) for message in messages))))
    assert heard(*pieces) == [(kind, b"".join(parts)) for kind, parts in messages]


_ANY_FRAME = st.builds(
    frame,
    st.sampled_from([CONTINUATION, TEXT, BINARY, PING, PONG, CLOSE, 0x3, 0xF]),
    st.binary(max_size=130) | st.sampled_from([b"\x03\xe8", b"\x03\xec", b"\x0f\xa0bye", b"x" * 400]),
    fin=st.sampled_from([True, True, False]),
    masked=st.sampled_from([True] * 7 + [False]),
    reserved=st.sampled_from([0] * 7 + [0x40]),
    declared=st.sampled_from([None] * 7 + [200, 70_000]),
)
_ANY_STREAM = st.binary(max_size=400) | st.lists(_ANY_FRAME | st.binary(max_size=20), max_size=8).map(
    b"".join
)


@given(cut(_ANY_STREAM))
def test_what_is_heard_of_any_bytes_does_not_depend_on_how_they_are_cut(case):
    stream, pieces = case
    whole = heard(stream)
    assert heard(*pieces) == whole
    assert heard(*(stream[at : at + 1] for at in range(len(stream)))) == whole
    assert [each[0] for each in whole[:-1] if each[0] in ("close", "offence")] == []
