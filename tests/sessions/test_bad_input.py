"""Bad input: every message of the protocol, broken in every way.

Each is refused by its code and changes nothing; what is said next works, and nobody else notices.
"""

from __future__ import annotations

import base64
import contextlib
from typing import Any, get_args

import msgspec
import pytest

from lingua_scheduler.wire.node import FromNode, ToNode
from lingua_scheduler.wire.session import FromClient, ToClient
from world import FakeNode, Speaker, World, world

TOLERANT = {"server": {"clients": {"errors_per_10s": 100_000, "message_burst": 100_000}}}

NOTHING = object()
NOT_TEXT = (7, True, ["x"], {"x": 1})
NOT_OBJECT = (7, "x", True, [])
BAD: dict[str, tuple[Any, ...]] = {
    "id": (*NOT_TEXT, "", "x" * 129, "a b", "a\n", "\u00e9", "a/b", "${jndi:ldap://x}", "{{7*7}}"),
    "lang": (*NOT_TEXT, "", "x" * 36, "zh en", "zh\n", "\u4e2d", "zh:en"),
    "name": (*NOT_TEXT, "x" * 257, "a\x00b", "a\nb", "a\u202eb", "a\u2028b", "\x7f"),
    "text": (*NOT_TEXT, "x" * 4097),
    "count": (-1, 1.0, 1.5, "1", True, [1], {}, 2**63, 2**64, 10**40),
    "rate": (0, -1, 999, 192_001, 2**31, 16000.5, "16000", True),
    "bool": (0, 1, "true", [], {}),
    "audio": (7, True, ["AAAA"], "%%%", "AAA", "AAA=A", "AA==AA==", "A AA", "AAAA\n", "-_-_", "AAAA\u00e9"),
    "features": (*NOT_OBJECT, {"emotion_detection": "yes"}, {"speaker_identification": 1}),
    "pipeline": (*NOT_OBJECT, {"use_asr": 1}, {"use_tts": "no"}),
    "langs": (7, "zh", True, {"a": 1}, [7], [""], ["zh"] * 17, [["zh"]], [None]),
    "trace": NOT_TEXT,
    "clock": ([1], {"a": 1}, True),
    "json": (),
}

# A member's kind; an exclamation mark means that it is required.
TABLE: dict[str, dict[str, str]] = {
    "session_init": {
        "client_version": "name!",
        "platform": "name!",
        "src_lang": "lang!",
        "tgt_lang": "lang!",
        "dialect": "name",
        "features": "features",
        "pairing_code": "name",
        "tenant_id": "id",
        "mode": "name",
        "lang_a": "lang",
        "lang_b": "lang",
        "auto_langs": "langs",
        "enable_streaming_asr": "bool",
        "partial_update_interval_ms": "count",
        "trace_id": "trace",
        "traceparent": "trace",
        "pipeline": "pipeline",
        "hint_lang": "lang",
        "audio_format": "name",
        "sample_rate": "rate",
        "pause_ms": "count",
        "max_duration_ms": "count",
        "endpointing": "name",
        "supports_binary_frame": "bool",
        "supports_backpressure": "bool",
        "supports_resume": "bool",
        "resume_token": "text",
        "resume_try": "id",
        "resume_attempt": "count",
        "received_through": "count",
    },
    "audio_chunk": {
        "session_id": "id!",
        "seq": "count!",
        "is_final": "bool!",
        "payload": "audio",
        "client_timestamp_ms": "clock",
    },
    "utterance": {
        "session_id": "id!",
        "utterance_index": "count!",
        "manual_cut": "bool!",
        "src_lang": "lang!",
        "tgt_lang": "lang!",
        "audio": "audio!",
        "audio_format": "name!",
        "sample_rate": "rate!",
        "dialect": "name",
        "features": "features",
        "mode": "name",
        "lang_a": "lang",
        "lang_b": "lang",
        "auto_langs": "langs",
        "enable_streaming_asr": "bool",
        "partial_update_interval_ms": "count",
        "trace_id": "trace",
        "pipeline": "pipeline",
    },
    "client_heartbeat": {"session_id": "id!", "timestamp": "count!"},
    "tts_started": {"session_id": "id!", "trace_id": "id!", "group_id": "id!", "ts_start_ms": "count!"},
    "tts_play_ended": {"session_id": "id!", "trace_id": "id!", "group_id": "id!", "ts_end_ms": "count!"},
    "session_close": {"session_id": "id!", "reason": "name!"},
    "result_ack": {"session_id": "id!", "utterance_index": "count!", "speaker_session_id": "id"},
    "room_create": {"client_ts": "count!", "display_name": "name", "preferred_lang": "lang", "mode": "name"},
    "room_join": {"room_code": "name!", "display_name": "name", "preferred_lang": "lang", "mode": "name"},
    "room_change": {"room_code": "name!", "display_name": "name", "preferred_lang": "lang", "mode": "name"},
    "room_leave": {"room_code": "name!"},
    "room_raw_voice_preference": {
        "room_code": "name!",
        "target_session_id": "id!",
        "receive_raw_voice": "bool!",
    },
    "webrtc_offer": {"room_code": "name!", "to": "id!", "sdp": "json!"},
    "webrtc_answer": {"room_code": "name!", "to": "id!", "sdp": "json!"},
    "webrtc_ice": {"room_code": "name!", "to": "id!", "candidate": "json!"},
}

GOOD: dict[str, Any] = {
    "id": "x-1",
    "lang": "zh",
    "name": "x",
    "count": 1,
    "rate": 16000,
    "bool": False,
    "audio": "AAAA",
    "json": {},
}


def good(message_type: str, session_id: str) -> dict[str, Any]:
    """A message of this type with its required members only."""
    message = {name: GOOD[kind[:-1]] for name, kind in TABLE[message_type].items() if kind.endswith("!")}
    if "session_id" in message:
        message["session_id"] = session_id
    if message_type == "utterance":
        message["audio_format"] = "opus"
    return message


def broken(message_type: str, session_id: str) -> list[dict[str, Any]]:
    """Every way to break one member of a message of this type."""
    variants = []
    for name, kind in TABLE[message_type].items():
        values = list(BAD[kind.rstrip("!")])
        if kind.endswith("!"):
            values += [NOTHING] if kind == "json!" else [NOTHING, None]
        for value in values:
            message = {**good(message_type, session_id), name: value}
            if value is NOTHING:
                del message[name]
            variants.append(message)
    return variants


async def cast(house: World) -> tuple[FakeNode, Speaker, Speaker]:
    """A node, somebody who has begun to speak, and a bystander who has, too."""
    node, speaker, bystander = await house.node(), await house.session(), await house.session()
    await speaker.chunk(60, seq=1000)
    await bystander.chunk(90)
    return node, speaker, bystander


async def assert_unharmed(house: World, node: FakeNode, speaker: Speaker, bystander: Speaker) -> None:
    """What was begun before is finished as if nothing had happened, for both."""
    await speaker.chunk(0, final=True, seq=1001)
    await bystander.final()
    sizes = {}
    for _ in range(2):
        job = await node.job()
        assert job["utterance_index"] == 0
        sizes[job["session_id"]] = len(job["audio"])
    assert sizes == {speaker.id: 60, bystander.id: 90}
    await house.settled(speaker, bystander, node)
    assert node.seen("job_assign") == []
    for each in (speaker, bystander):
        assert {message["type"] for message in each.inbox} == {"ui_event"}


def test_the_table_knows_every_message_of_the_protocol():
    described = {
        member.__struct_config__.tag: set(member.__struct_fields__) for member in get_args(FromClient)
    }
    assert {name: set(members) for name, members in TABLE.items()} == described


@pytest.mark.parametrize("message_type", TABLE)
async def test_a_broken_member_is_refused_and_changes_nothing(store_options, message_type):
    async with world(store_options, **TOLERANT) as house:
        node, speaker, bystander = await cast(house)
        variants = broken(message_type, speaker.id)
        for message in variants:
            await speaker.send(message_type, **message)
        await speaker.sync()
        errors = speaker.seen("error")
        refused = [error["code"] for error in errors]
        assert refused == ["INVALID_MESSAGE"] * len(variants), [
            variant for variant, code in zip(variants, refused, strict=False) if code != "INVALID_MESSAGE"
        ]
        assert all("jndi" not in error["message"] for error in errors)
        speaker.inbox.clear()
        await assert_unharmed(house, node, speaker, bystander)


@pytest.mark.parametrize("message_type", sorted(set(TABLE) - {"session_init"}))
async def test_every_message_before_init_is_refused(store_options, message_type):
    """Section 15.1 and B10: without a session there is nothing to act on."""
    async with world(store_options, **TOLERANT) as house:
        speaker = await house.speaker()
        await speaker.send(message_type, **good(message_type, "s-1"))
        await speaker.expect("error", code="INVALID_SESSION")
        await speaker.init()


RAW = [
    "",
    " ",
    "null",
    "[]",
    '"x"',
    "123",
    "true",
    "{",
    "{}",
    "}{",
    '{"type":"client_heartbeat"',
    '{"type":"client_heartbeat"}{"type":"client_heartbeat"}',
    '{"type":"client_heartbeat",}',
    '\ufeff{"type":"client_heartbeat"}',
    "{'type':'client_heartbeat'}",
    '{"type":null}',
    '{"type":7}',
    '{"type":""}',
    '{"type":"nope"}',
    '{"type":"SESSION_INIT"}',
    '{"type":"__proto__"}',
    '{"type":["session_init"]}',
    '{"seq":1}',
    '{"type":"client_heartbeat","session_id":"x","timestamp":NaN}',
    '{"type":"client_heartbeat","session_id":"x","timestamp":Infinity}',
    '{"type":"client_heartbeat","session_id":"x","timestamp":1e999}',
    '{"type":"client_heartbeat","session_id":"x","timestamp":' + "9" * 5000 + "}",
    '{"type":"session_close","session_id":"x","reason":"\\ud800"}',
    '{"type":"room_join","room_code":"\\u0000"}',
    '{"type":"webrtc_offer","room_code":"1","to":"x","sdp":' + "[" * 40 + "]" * 40 + "}",
    '{"type":"webrtc_offer","room_code":"1","to":"x","sdp":' + "[" * 20_000 + "]" * 20_000 + "}",
    "[" * 20_000,
    '{"type":"client_heartbeat","pad":"' + "x" * 70_000 + '"}',
    '{"type":"client_heartbeat",' + ",".join(f'"k{number}":0' for number in range(10_000)) + "}",
    "%s%n%x",
    "\x00",
]


async def test_what_is_not_json_or_no_message_is_refused_and_changes_nothing(store_options):
    async with world(store_options, **TOLERANT) as house:
        node, speaker, bystander = await cast(house)
        for text in RAW:
            await speaker.send_raw(text)
        await speaker.sync()
        assert [error["code"] for error in speaker.seen("error")] == ["INVALID_MESSAGE"] * len(RAW)
        speaker.inbox.clear()
        await assert_unharmed(house, node, speaker, bystander)


def tags(union: Any) -> set[str]:
    return {member.__struct_config__.tag for member in get_args(union)}


@pytest.mark.parametrize("message_type", sorted(tags(ToClient | FromNode | ToNode) - tags(FromClient)))
async def test_a_message_of_another_side_is_refused(store_options, message_type):
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.send(message_type, session_id=speaker.id)
        error = await speaker.expect("error", code="INVALID_MESSAGE")
        assert error["details"]["kind"] == "direction"
        await speaker.sync()


async def test_a_message_larger_than_its_kind_is_refused_and_changes_nothing(store_options):
    async with world(store_options, **TOLERANT) as house:
        node, speaker, bystander = await cast(house)
        await speaker.chunk(64 * 1024 + 1, seq=5000)
        await speaker.utterance(0, bytes(2 * 2**20 + 2))
        await speaker.send("client_heartbeat", session_id=speaker.id, timestamp=1, pad="x" * 70_000)
        await speaker.send("session_close", session_id=speaker.id, reason="x" * 300)
        await speaker.sync()
        assert [error["code"] for error in speaker.seen("error")] == ["INVALID_MESSAGE"] * 4
        speaker.inbox.clear()
        await assert_unharmed(house, node, speaker, bystander)


async def test_the_largest_messages_are_taken(store_options):
    async with world(store_options, segmentation={"max_duration_ms": 0}) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say(64 * 1024)
        assert len((await node.job())["audio"]) == 64 * 1024
        await speaker.utterance(1, bytes(2 * 2**20))
        assert len((await node.job())["audio"]) == 2 * 2**20


async def test_a_frame_beyond_all_limits_closes_only_its_socket(store_options):
    async with world(store_options) as house:
        node, speaker, bystander = await house.node(), await house.session(), await house.session()
        await bystander.chunk(90)
        with contextlib.suppress(ConnectionError):  # it may be closed while it is still sending
            await speaker.send_raw("x" * (4 * 2**20))
        await speaker.closed()
        await bystander.final()
        assert len((await node.job())["audio"]) == 90


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00",
        b"\x01",
        b"\x07" * 64,
        b"\x01\xff" + bytes(10) + b"s-short",
        bytes([1, 4]) + bytes(8) + b"\x02\x00s-no\xff",
        bytes([1, 4]) + bytes(10) + b"s\x00no\xff",
        bytes([2, 4]) + bytes(8) + b"s-no-longer",
        bytes([1, 2]) + bytes(10) + b"s-" + bytes(64 * 1024 + 1),
    ],
    ids=range(9),
)
async def test_a_broken_binary_frame_is_refused_and_changes_nothing(store_options, frame):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session(supports_binary_frame=True)
        await speaker.chunk(60)
        await speaker.send_raw(frame)
        await speaker.expect("error", code="INVALID_MESSAGE")
        await speaker.final()
        assert len((await node.job())["audio"]) == 60


async def test_a_binary_frame_with_a_foreign_id_is_refused(store_options):
    async with world(store_options) as house:
        node = await house.node()
        speaker, victim = [await house.session(supports_binary_frame=True) for _ in range(2)]
        name = victim.id.encode()
        await speaker.send_raw(bytes([1, len(name)]) + bytes(8) + b"\x01\x00" + name + b"\xff" * 60)
        await speaker.expect("error", code="INVALID_SESSION")
        await victim.say(90)
        assert len((await node.job())["audio"]) == 90


async def test_pcm16_of_an_odd_length_is_refused_and_changes_nothing(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session(audio_format="pcm16")
        await speaker.chunk(b"\x00\x40" * 30)
        await speaker.chunk(61)
        await speaker.expect("error", code="INVALID_MESSAGE")
        await speaker.chunk(61, final=True)
        await speaker.expect("error", code="INVALID_MESSAGE")
        await speaker.final()
        assert len((await node.job())["audio"]) == 60


@pytest.mark.parametrize("clock", [0, -1, 2**80, 1e300, "yesterday"], ids=repr)
async def test_the_clients_clock_is_never_trusted(store_options, clock):
    """B49: whatever it says, the audio counts; only believable times appear in timings."""
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.chunk(60, client_timestamp_ms=clock)
        await speaker.final()
        await node.answer(await node.job())
        timings = (await speaker.expect("translation_result")).get("network_timings", {})
        assert timings.get("web_to_scheduler_ms", 0) >= 0


async def test_hostile_text_is_passed_on_as_plain_text(store_options):
    """B35: what looks like code somewhere is a name like any other here."""
    async with world(store_options) as house:
        node = await house.node()
        for evil in ("__proto__", "constructor", "{{7*7}}", "%s%n", "${jndi:ldap://x}", "<script>", "'; --"):
            speaker = await house.session(dialect=evil, client_version=evil, platform=evil, mode=evil)
            await speaker.say(60)
            job = await node.job()
            assert (job["dialect"], job["mode"]) == (evil, evil)
            await node.answer(job)


async def test_too_many_refused_messages_close_the_socket_and_only_that(store_options):
    async with world(store_options) as house:
        node, speaker, bystander = await house.node(), await house.session(), await house.session()
        for _ in range(20):
            await speaker.send_raw("?")
        assert await speaker.closed() == 4400
        assert len(speaker.seen("error")) == 19
        await bystander.say(60)
        await node.job(session_id=bystander.id)


async def test_too_many_messages_close_the_socket_and_only_that(store_options):
    async with world(store_options) as house:
        node, speaker, bystander = await house.node(), await house.session(), await house.session()
        for _ in range(600):
            if speaker.socket.closed:
                break
            await speaker.chunk(1)
        assert await speaker.closed() == 4429
        await bystander.say(60)
        await node.job(session_id=bystander.id)


async def test_a_reset_count_of_frames_does_not_make_a_session_deaf(store_options):
    limits = {"server": {"clients": {"message_burst": 2000}}}
    async with world(store_options, **limits) as house:
        node, speaker = await house.node(), await house.session()
        for seq in range(600):
            await speaker.chunk(1, seq=seq)
        await speaker.chunk(0, final=True, seq=600)
        assert len((await node.job())["audio"]) == 600
        await speaker.chunk(60, seq=0)
        await speaker.chunk(0, final=True, seq=1)
        assert len((await node.job())["audio"]) == 60


def test_the_good_examples_are_good():
    for message_type in TABLE:
        message = {"type": message_type, **good(message_type, "s-1")}
        msgspec.json.decode(msgspec.json.encode(message), type=FromClient)
    assert base64.b64decode(GOOD["audio"], validate=True)
