"""Whatever a peer sends is a message or an `InvalidMessage`, within the limits, and never quoted back."""

from __future__ import annotations

import binascii
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lingua_scheduler.errors import InvalidMessage
from lingua_scheduler.wire import session
from lingua_scheduler.wire.codec import decode_client, decode_node
from wire.peers import SECRET, chunk, init, raw_chunk, refused, register, result, utterance
from wire.strategies import UNIONS, classes

steady = settings(deadline=None, derandomize=True)


def init_of(**members: Any) -> session.SessionInit:
    message = decode_client(init(**members))
    assert isinstance(message, session.SessionInit)
    return message


@pytest.mark.parametrize("data", ["null", "[]", '"x"', "123", "true", "{}", '{"type":null}', '{"type":1}'])
def test_what_is_not_an_object_with_a_type_is_refused(data):
    assert refused(data) == "shape"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"hunter2",
        b"\xff\xfe{",
        chunk().encode() + b" hunter2",
        chunk().encode() + b"\x00",
        chunk().encode() + chunk().encode(),
        b"\xef\xbb\xbf" + chunk().encode(),
        chunk().encode("utf-16"),
        b"// hunter2\n" + chunk().encode(),
        chunk().replace('"', "'").encode(),
        chunk().encode()[:-1] + b",}",
        chunk().encode()[:-1],
    ],
)
def test_what_is_not_exactly_one_json_text_is_refused(data):
    assert refused(data) == "json"


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e999", "-1", "1.0", "1e2", "true", '"1"', "null"]
)
def test_what_is_not_a_natural_number_is_refused(number):
    assert refused(raw_chunk(number)) in ("json", "shape")


@pytest.mark.parametrize("number", ["9" * 5000, str(2**64), str(2**63), "01"])
def test_numbers_beyond_63_bits_are_refused(number):
    assert refused(raw_chunk(number)) in ("json", "shape")


def test_the_largest_number_is_kept_exactly():
    largest = decode_client(raw_chunk(str(2**63 - 1)))
    assert isinstance(largest, session.AudioChunk)
    assert largest.seq == 2**63 - 1


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "9" * 5000])
def test_impossible_numbers_are_refused_in_open_members_too(number):
    offer = f'{{"type":"webrtc_offer","room_code":"1","to":"s","sdp":{{"n":{number}}}}}'
    assert refused(offer) in ("json", "shape")


def test_of_a_member_that_comes_twice_the_last_one_counts():
    message = decode_client(chunk()[:-1] + ',"seq":5}')
    assert isinstance(message, session.AudioChunk)
    assert message.seq == 5


def test_a_type_that_comes_twice_must_not_change():
    assert refused(chunk()[:-1] + ',"type":"room_leave","room_code":"1"}') == "direction"


@pytest.mark.parametrize("escape", [r"\ud800", r"\udc00", r"\udc00\ud800", r"\ud800x"])
@pytest.mark.parametrize("member", ["platform", "unknown"])
def test_lone_surrogates_are_refused(escape, member):
    data = init(**{member: "?"}).replace("?", escape)
    assert refused(data) in ("json", "shape")


def test_text_that_cannot_be_utf8_is_refused():
    assert refused(init(platform="?").replace("?", "\ud800")) == "json"
    assert refused(init(platform="?").encode().replace(b"?", b"\xff")) == "json"
    assert refused(init(platform="?").encode().replace(b"?", b"\xed\xa0\x80")) == "json"


@pytest.mark.parametrize("bad", ["\x00", "\n", "\x1b", "\x7f", "\x85", "\u2028", "\u202e", "\u2066"])
@pytest.mark.parametrize("member", ["client_version", "platform", "dialect", "mode"])
def test_control_and_bidi_characters_in_names_are_refused(bad, member):
    assert refused(init(**{member: f"{SECRET}{bad}x"})) == "shape"


@pytest.mark.parametrize("bad", ["\x00", "\n", " ", "/", "é", "*"])
def test_an_id_holds_only_plain_characters(bad):
    assert refused(chunk(session_id=f"{SECRET}{bad}")) == "shape"
    assert refused(init(tenant_id=f"{bad}{SECRET}")) == "shape"


def test_names_in_any_script_are_kept():
    joined = decode_client(
        '{"type":"room_join","room_code":"123456","display_name":"名前 \u05d0\u200f أحمد 👩‍👩"}'
    )
    assert isinstance(joined, session.RoomJoin)
    assert joined.display_name == "名前 \u05d0\u200f أحمد 👩‍👩"


@pytest.mark.parametrize("value", ["__proto__", "constructor", "{{7*7}}", "%s%n", "${jndi:ldap://x}", "<b>"])
def test_strange_text_stays_plain_text(value):
    joined = decode_client(
        json.dumps({"type": "room_join", "room_code": "1", "display_name": value, value: value})
    )
    assert isinstance(joined, session.RoomJoin)
    assert joined.display_name == value


@pytest.mark.parametrize("length", [0, 129])
def test_an_id_has_1_to_128_characters(length):
    assert refused(chunk(session_id="a" * length)) == "shape"


@pytest.mark.parametrize("member", ["client_version", "platform", "dialect", "pairing_code", "audio_format"])
def test_a_name_of_10_kb_is_refused(member):
    assert refused(init(**{member: "a" * 10_000})) == "shape"


@pytest.mark.parametrize("lang", ["", "a" * 36, "zh:en", "zh en", "zh\n"])
def test_a_language_is_a_tag(lang):
    assert refused(init(src_lang=lang)) == "shape"


@pytest.mark.parametrize("kind", ["nonsense", SECRET, "", "session-init", "'", "it's`"])
def test_an_unknown_type_is_refused_without_being_quoted(kind):
    assert refused(json.dumps({"type": kind})) == "type"
    assert refused(json.dumps({"type": kind}), decode_node) == "type"


OTHER_WAY = [
    (decode, cls.__struct_config__.tag)
    for decode, mine in ((decode_client, "FromClient"), (decode_node, "FromNode"))
    for union in UNIONS.values()
    for cls in classes(union)
    if cls.__struct_config__.tag not in {own.__struct_config__.tag for own in classes(UNIONS[mine])}
]


@pytest.mark.parametrize(("decode", "tag"), OTHER_WAY)
def test_a_type_of_another_direction_is_refused(decode, tag):
    assert refused(json.dumps({"type": tag, "session_id": "s", "job_id": "j"}), decode) == "direction"


def test_ten_thousand_unknown_members_do_no_harm():
    crowd = {f"k{number}": number for number in range(4000)}
    assert isinstance(decode_client(init(**crowd)), session.SessionInit)
    assert refused(init(**{f"k{number}": number for number in range(10_000)})) == "size"


@pytest.mark.parametrize(
    "payload",
    [
        *("A*AA", "A AA", "AAAA\n", "A\tAA", "\x00AAA", "éAAA", "A-_A", "A", "AA", "AAA", "AAAAA", "AA="),
        *("=", "==", "====", "A===", "AA=A", "AAAA=", "AAAA==", "AAAA====", "AA==AA==", "AAA=AAAA", "AA==x"),
        *(" AA==", "AA== ", "=AAA", "data:audio/opus;base64,AAAA"),
    ],
)
def test_base64_that_is_not_standard_is_refused(payload):
    assert refused(chunk(payload=payload)) == "shape"


@steady
@given(st.text(alphabet="AB/+=-_ \n\r*é9", max_size=12))
def test_base64_means_what_the_strict_standard_decoder_says(payload):
    try:
        message = decode_client(chunk(payload=payload))
    except InvalidMessage:
        with pytest.raises((binascii.Error, ValueError)):
            binascii.a2b_base64(payload, strict_mode=True)
    else:
        assert isinstance(message, session.AudioChunk)
        assert message.audio == binascii.a2b_base64(payload, strict_mode=True)


def test_a_chunk_without_payload_is_empty():
    for data in (chunk(), chunk(payload=None), chunk(payload="")):
        message = decode_client(data)
        assert isinstance(message, session.AudioChunk)
        assert message.audio == b""


def test_an_utterance_needs_audio_in_whole_samples():
    assert refused(utterance(b"")) == "shape"
    assert refused(utterance(b"abc")) == "shape"
    assert isinstance(decode_client(utterance(b"abc", audio_format="opus")), session.Utterance)
    assert isinstance(decode_client(utterance(b"abcd")), session.Utterance)


@pytest.mark.parametrize("rate", [0, -1, 2**31, 16000.0, "16000", True])
def test_an_impossible_sample_rate_is_refused(rate):
    assert refused(utterance(b"ab", sample_rate=rate)) == "shape"
    assert refused(init(sample_rate=rate)) == "shape"


@pytest.mark.parametrize(
    ("clock", "client_ms"),
    [
        (0, None),
        (-5, None),
        (1794770758669, 1794770758669),
        (1.75, 1),
        (10**40, None),
        ("noon", None),
        (None, None),
    ],
)
def test_the_clients_clock_is_never_a_reason_to_refuse_audio(clock, client_ms):
    message = decode_client(chunk(client_timestamp_ms=clock))
    assert isinstance(message, session.AudioChunk)
    assert message.client_ms == client_ms


@pytest.mark.parametrize("trace", ["a\nb", "x" * 10_000, "", "é"])
def test_a_bad_trace_id_reads_as_absent(trace):
    assert init_of(trace_id=trace).trace_id is None
    spoken = decode_client(utterance(b"ab", trace_id=trace))
    assert isinstance(spoken, session.Utterance)
    assert spoken.trace_id is None


def test_a_good_trace_id_is_kept():
    assert init_of(trace_id="0e6f2f0a-1111").trace_id == "0e6f2f0a-1111"


def test_a_capability_list_without_end_is_refused():
    item = {"type": "asr", "ready": True}
    assert refused(register(capability_by_type=[item] * 1000), decode_node) == "shape"
    assert refused(register(capability_by_type=[item] * 100_000), decode_node) in ("shape", "size")


@pytest.mark.parametrize("capacity", [-1, 10**9])
def test_a_strange_capacity_is_left_to_the_policy(capacity):
    assert decode_node(register(max_concurrent_jobs=capacity)).max_concurrent_jobs == capacity


def test_a_nodes_language_must_not_hold_the_pair_separator():
    assert refused(register(language_capabilities={"asr_languages": ["zh:en"]}), decode_node) == "shape"
    decode_node(register(language_capabilities={"asr_languages": [" zh ", ""]}))


def test_a_result_text_of_10_mb_is_refused():
    assert refused(result(text_asr="x" * 65_537), decode_node) == "shape"
    assert refused(result(text_asr="x" * 10_000_000), decode_node) == "size"
    assert refused(result(tts_audio="A" * 50_000_000), decode_node) == "size"


def test_an_attempt_is_a_positive_number():
    assert refused(result(attempt_id=0), decode_node) == "shape"
    assert refused(result(attempt_id=2**32), decode_node) == "shape"
