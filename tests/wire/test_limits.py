"""How large and how deep a message may be, and that nothing but `InvalidMessage` comes of too much."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lingua_scheduler.errors import InvalidMessage
from lingua_scheduler.wire import codec
from lingua_scheduler.wire.codec import WireOptions, decode_client, decode_node
from wire.peers import chunk, heartbeat, init, refused, register, result, utterance
from wire.strategies import UNIONS, classes, json_values, messages

steady = settings(deadline=None, derandomize=True)


def padded(data: str, size: int) -> str:
    """Fill a message up to exactly this many bytes with an unknown member."""
    start = data[:-1] + ',"unknown":"'
    return start + "x" * (size - len(start) - 2) + '"}'


@pytest.mark.parametrize(
    ("data", "decode", "limit_bytes"),
    [
        (init(), decode_client, 64 * 1024),
        (heartbeat(), decode_node, 256 * 1024),
        (register(), decode_node, 256 * 1024),
        (result(), decode_node, 4 * 2**20),
        ('{"type":"pairing_code_request","node_id":"n"}', decode_node, 64 * 1024),
    ],
)
def test_a_message_may_be_as_large_as_its_kind_and_no_larger(data, decode, limit_bytes):
    assert decode(padded(data, limit_bytes)) == decode(data)
    assert refused(padded(data, limit_bytes + 1), decode) == "size"


@pytest.mark.parametrize(
    ("build", "limit_bytes"),
    [
        (lambda audio: chunk(payload=base64.b64encode(audio).decode()), 64 * 1024),
        (utterance, 2 * 2**20),
    ],
)
def test_audio_is_limited_by_what_it_decodes_to(build, limit_bytes):
    decode_client(build(bytes(limit_bytes)))
    assert refused(build(bytes(limit_bytes + 2))) == "size"
    assert refused(padded(build(bytes(limit_bytes)), limit_bytes * 4 // 3 + 70_000)) == "size"


def test_limits_are_counted_in_bytes_also_for_text():
    options = WireOptions(control_bytes=1024)
    dialect = "é" * 250
    assert len(init(dialect=dialect)) > 1024  # escaped
    data = msgspec.json.encode(json.loads(init(dialect=dialect, mode=dialect))).decode()
    assert len(data) < 1024 < len(data.encode())
    assert refused(data, options=options) == "size"


def test_a_session_description_of_1_mb_is_refused():
    offer = {"type": "webrtc_offer", "room_code": "1", "to": "s", "sdp": "v=0\r\n" * 200_000}
    assert refused(json.dumps(offer)) == "size"


def test_limits_can_be_set():
    options = WireOptions(audio_frame_bytes=1024)
    payload = base64.b64encode(bytes(1026)).decode()
    assert refused(chunk(payload=payload), options=options) == "size"
    assert decode_client(chunk(payload=payload))


def test_no_limit_is_smaller_than_that_of_a_control_message():
    with pytest.raises(ValueError, match="heartbeat_bytes"):
        WireOptions(heartbeat_bytes=2048)


def test_the_ceilings_let_every_legal_message_through():
    options = WireOptions()
    assert options.client_ceiling_bytes >= 2 * 2**20 * 4 / 3
    assert options.node_ceiling_bytes == 4 * 2**20


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    """Nest an unknown member so that the whole message is this deep."""
    inside = '"":0' if opening == "{" else ""
    middle = opening + inside + closing
    for _ in range(depth - 2):
        middle = f'{{"a":{middle}}}' if opening == "{" else f"[{middle}]"
    return f'{chunk()[:-1]},"unknown":{middle}}}'


@pytest.mark.parametrize(("opening", "closing"), ["[]", "{}"])
def test_a_message_nests_up_to_16_levels(opening, closing):
    assert decode_client(nested(16, opening, closing))
    assert refused(nested(17, opening, closing)) == "depth"


@pytest.mark.parametrize("depth", [500, 5000, 30_000])
def test_very_deep_messages_are_refused_without_harm(depth):
    assert refused(nested(depth)) == "depth"
    assert refused("[" * depth) in ("json", "depth", "shape")
    assert refused(chunk()[:-1] + ',"unknown":' + "[" * depth) in ("json", "depth")


def test_brackets_inside_text_and_side_by_side_are_not_depth():
    assert decode_client(chunk(unknown='[[{"\\' * 500, flat=[[], {}] * 500))


@settings(steady, max_examples=200)
@given(json_values)
def test_depth_is_counted_exactly(value):
    def depth_of(inner: Any) -> int:
        if isinstance(inner, dict):
            return 1 + max(map(depth_of, inner.values()), default=0)
        return 1 + max(map(depth_of, inner), default=0) if isinstance(inner, list) else 0

    data = msgspec.json.encode([[value], [[], {}, '[{\\"[{'] * 3])
    depth = max(depth_of(value) + 2, 3)
    assert codec._too_deep(data, depth - 1)
    assert not codec._too_deep(data, depth)


every_class = [cls for union in UNIONS.values() for cls in classes(union)]


def outcome(decode: Any, data: bytes) -> object:
    try:
        return decode(data)
    except InvalidMessage as error:
        return error.message, error.details


@settings(steady, max_examples=300)
@given(data=st.data())
def test_small_flat_messages_are_read_as_all_others_are(data):
    """The short way of audio frames gives the same messages and refusals, from any kind of buffer."""
    members = msgspec.json.decode(codec.encode(data.draw(messages(data.draw(st.sampled_from(every_class))))))
    name = data.draw(st.sampled_from(sorted(members)))
    members[name] = data.draw(st.just(members[name]) | json_values)
    text = data.draw(st.just(msgspec.json.encode(members)) | st.binary(max_size=200))
    quick, expected = codec.client_decoder(codec.DEFAULT_OPTIONS), outcome(decode_client, text)
    assert outcome(quick, text) == expected
    assert outcome(quick, bytearray(text)) == expected


@pytest.mark.parametrize("depth", [1, 16, 17, 5000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_the_short_way_counts_depth_too(opening, closing, depth):
    levels = depth - 1  # the message itself is one
    deep = chunk(unknown=0).replace('"unknown": 0', f'"unknown": {opening * levels}0{closing * levels}')
    quick = codec.client_decoder(codec.DEFAULT_OPTIONS)
    assert outcome(quick, deep.encode()) == outcome(decode_client, deep)


ANY_DECODER = pytest.mark.parametrize(
    "decode", [codec.decode_client, codec.decode_node, codec.decode_from_server, codec.decode_to_node]
)


def survives(decode: Any, data: bytes | str) -> None:
    try:
        message = decode(data)
    except InvalidMessage:
        return
    codec.encode(message)


@ANY_DECODER
@steady
@given(data=st.binary(max_size=200) | st.text(max_size=100) | json_values.map(json.dumps))
def test_arbitrary_input_is_a_message_or_invalid(decode, data):
    survives(decode, data)


@ANY_DECODER
@settings(steady, max_examples=60)
@given(data=st.data())
def test_damaged_messages_are_messages_or_invalid(decode, data):
    cls = data.draw(st.sampled_from(every_class))
    members = msgspec.json.decode(codec.encode(data.draw(messages(cls))))
    name = data.draw(st.sampled_from(sorted(members)))
    members[name] = data.draw(json_values)
    whole = msgspec.json.encode(members)
    cut = data.draw(st.integers(0, len(whole)))
    survives(decode, whole)
    survives(decode, whole[:cut] + data.draw(st.binary(max_size=3)) + whole[cut:])
