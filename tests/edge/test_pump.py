"""The way in: what reaches the flow, what is refused, what ends a connection, and who is told."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge.frames import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, frame, text
from edge.world import HEARTBEAT
from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.errors import DependencyDown, InvalidSession
from lingua_scheduler.wire.audio import build_frame
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.codec import DEFAULT_OPTIONS
from lingua_scheduler.wire.session import AudioChunk, ClientHeartbeat
from support import wait_until

BEAT = text(**HEARTBEAT)
NONSENSE = text(type="nope")


async def test_messages_reach_the_peer_in_order_and_typed(world):
    client = await world.client()
    client.send(b"".join(text(**HEARTBEAT | {"timestamp": at}) for at in range(20)))
    assert await client.is_open()
    messages = world.sessions.peers[0].messages
    assert [type(message) for message in messages] == [ClientHeartbeat] * 20
    assert [message.timestamp for message in messages] == list(range(20))


async def test_a_message_in_fragments_and_single_bytes_is_one_message(world):
    client = await world.client()
    raw = json.dumps(HEARTBEAT).encode()
    parts = frame(TEXT, raw[:5], fin=False) + frame(PING) + frame(CONTINUATION, raw[5:])
    for byte in parts:
        client.send(bytes([byte]))
        await asyncio.sleep(0)
    assert await client.is_open()
    assert len(world.sessions.peers[0].messages) == 1


@pytest.mark.parametrize("path", ["/ws/session", "/ws/node"])
async def test_what_is_no_message_is_answered_and_the_socket_stays(world, path):
    client = await world.client(path)
    for bad in (b'{"type":"nope"}', b"{", b"[]", b"", b"null", b'{"type":"server_heartbeat"}'):
        client.send(frame(TEXT, bad))
        answer = await client.message()
        assert answer["type"] == "error"
        assert answer["code"] == "INVALID_MESSAGE"
    assert await client.is_open()
    assert world.refused("type") >= 1
    assert world.refused("json") >= 1


async def test_a_node_speaks_another_language_than_a_client(world):
    client = await world.client("/ws/node")
    client.send(BEAT)
    assert (await client.message())["code"] == "INVALID_MESSAGE"
    assert world.refused("direction") == 1


async def test_a_refusal_of_the_peer_is_answered_in_its_words(world):
    client = await world.client()
    world.sessions.peers[0].raises = InvalidSession("Session does not exist", details={"why": "gone"})
    client.send(BEAT)
    assert await client.message() == {
        "type": "error",
        "code": "INVALID_SESSION",
        "message": "Session does not exist",
        "details": {"why": "gone"},
    }
    assert world.refused("invalid_session") == 1


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (RuntimeError("secret inner text"), "INTERNAL_ERROR"),
        (DependencyDown("secret inner text"), "SCHEDULER_DEPENDENCY_DOWN"),
    ],
)
async def test_a_fault_of_ours_is_answered_without_its_text(world, fault, code):
    client = await world.client()
    world.sessions.peers[0].raises = fault
    for _ in range(30):
        client.send(BEAT)
        assert await client.message() == {
            "type": "error",
            "code": code,
            "message": "Failed to process message",
        }
    assert await client.is_open()


async def test_twenty_refusals_in_ten_seconds_close_the_connection(world):
    client = await world.client()
    client.send(NONSENSE * 19)
    for _ in range(19):
        assert (await client.message())["type"] == "error"
    assert await client.is_open()
    client.send(NONSENSE)
    assert await client.close_code() == CloseCode.TOO_MANY_ERRORS


async def test_refusals_far_apart_are_forgiven(start):
    clock = VirtualClock()
    world = await start(clock=clock)
    client = await world.client()
    for _ in range(40):
        client.send(NONSENSE)
        await client.message()
        clock.advance(0.6)
    assert await client.is_open()


async def test_binary_frames_are_ignored_unless_agreed_on(world):
    client = await world.client()
    chunk = AudioChunk(session_id="s-1", seq=3, is_final=False, payload=b"\x01\x02", client_timestamp_ms=1)
    client.send(frame(BINARY, build_frame(chunk)) + frame(BINARY, b"noise"))
    assert await client.is_open()
    [peer] = world.sessions.peers
    assert peer.messages == []
    peer.binary_audio = True
    client.send(frame(BINARY, build_frame(chunk)))
    assert await client.is_open()
    [heard] = peer.messages
    assert (heard.session_id, heard.seq, heard.payload) == ("s-1", 3, b"\x01\x02")
    client.send(frame(BINARY, b"noise"))
    assert (await client.message())["code"] == "INVALID_MESSAGE"


async def test_binary_frames_of_nodes_are_always_ignored(world):
    client = await world.client("/ws/node")
    world.nodes.peers[0].binary_audio = True
    client.send(frame(BINARY, b"noise"))
    assert await client.is_open()


@pytest.mark.parametrize(
    ("name", "offence", "code"),
    [
        ("unmasked", frame(TEXT, b"{}", masked=False), 1002),
        ("deflated bomb", frame(TEXT, b"\xaa" * 500, reserved=0x40), 1002),
        ("reserved opcode", frame(0x3, b"x"), 1002),
        ("fragmented ping", frame(PING, fin=False), 1002),
        ("long ping", frame(PING, b"x" * 126), 1002),
        ("invalid close code", frame(CLOSE, (1004).to_bytes(2, "big")), 1002),
        ("short close", frame(CLOSE, b"\x03"), 1002),
        ("invalid UTF-8", frame(TEXT, b'{"type":"\xff"}'), 1007),
        ("UTF-8 cut off", frame(TEXT, "é".encode()[:1]), 1007),
        ("surrogate", frame(TEXT, b"\xed\xa0\x80"), 1007),
        ("close reason not UTF-8", frame(CLOSE, b"\x03\xe8\xff"), 1007),
        ("2**62 declared", frame(BINARY, b"x" * 100, declared=2**62), 1009),
        ("4 MiB declared", frame(TEXT, declared=4 * 2**20), 1009),
        ("20,000 empty fragments", frame(TEXT, fin=False) + frame(CONTINUATION, fin=False) * 20_000, 1009),
        ("10,000 pings", frame(PING) * 10_000, 4429),
        ("10,000 pongs", frame(PONG) * 10_000, 4429),
        ("1-byte frames at full speed", frame(BINARY, b"1") * 5_000, 4429),
        ("audio at full speed", BEAT * 1_000, 4429),
    ],
)
async def test_an_offence_closes_the_connection_and_no_other(world, name, offence, code):
    assert await world.closed_with(offence) == code
    assert world.refused(f"close_{code}") == 1


async def test_text_in_any_script_is_valid(world):
    client = await world.client()
    client.send(frame(TEXT, json.dumps(HEARTBEAT | {"x": "你好 é 🎤"}, ensure_ascii=False).encode()))
    assert await client.is_open()
    assert len(world.sessions.peers[0].messages) == 1


async def test_bytes_are_limited_as_well_as_messages(start):
    world = await start(clients={"bytes_per_s": 1000, "byte_burst": 50_000})
    assert await world.closed_with(frame(BINARY, b"x" * 40_000) * 2) == CloseCode.TOO_MANY_MESSAGES


async def test_the_usual_pace_is_within_the_limits(start):
    """Fifty frames of 20 ms each second, an hour long."""
    clock = VirtualClock()
    world = await start(clock=clock, clients={"ping_interval_s": 10_000, "silence_s": 10_000})
    client = await world.client()
    for _ in range(360):
        clock.advance(10)
        client.send(frame(BINARY, b"x" * 64) * 500)
        assert await client.is_open()


@pytest.mark.parametrize("path", ["/ws/session", "/ws/node"])
async def test_a_stranger_may_not_send_much(world, path):
    """Before its first good message a peer cannot make the server hold megabytes."""
    assert await world.closed_with(frame(TEXT, declared=300_000), path=path) == CloseCode.TOO_LARGE


async def test_a_peer_that_has_introduced_itself_may_send_its_longest_message(world):
    client = await world.client()
    client.send(BEAT)
    assert await client.is_open()
    client.send(frame(BINARY, b"x" * DEFAULT_OPTIONS.client_ceiling_bytes))
    assert await client.is_open()
    client.send(frame(BINARY, declared=DEFAULT_OPTIONS.client_ceiling_bytes + 1))
    assert await client.close_code() == CloseCode.TOO_LARGE


async def test_messages_before_an_offence_in_the_same_packet_are_heard(world):
    client = await world.client()
    client.send(BEAT + BEAT + frame(TEXT, masked=False) + BEAT)
    assert await client.close_code() == CloseCode.PROTOCOL_ERROR
    assert len(world.sessions.peers[0].messages) == 2


async def test_the_peer_is_lost_when_the_client_says_goodbye(world):
    client = await world.client()
    client.send(frame(CLOSE, (1001).to_bytes(2, "big") + b"tab closed") + BEAT + b"\x00 noise")
    assert await client.close_code() == 1001
    assert await client.at_end()
    [peer] = world.sessions.peers
    assert peer.messages == []
    assert world.refused("close_1002") == 0
    await wait_until(lambda: peer.lost_count, description="the peer is told")


async def test_a_goodbye_without_a_code_is_answered_as_normal(world):
    client = await world.client()
    client.send(frame(CLOSE))
    assert await client.close_code() == CloseCode.NORMAL


async def test_the_closing_handshake_ends_the_connection_at_once(world):
    client = await world.client()
    world.sessions.peers[0].sink.close(CloseCode.REPLACED)
    assert await client.close_code() == CloseCode.REPLACED
    client.send(BEAT * 3 + frame(CLOSE, (4409).to_bytes(2, "big")))
    assert await client.at_end()
    assert world.sessions.peers[0].messages == []


@pytest.mark.parametrize("way", ["fin", "reset"])
async def test_the_peer_is_lost_when_the_connection_just_ends(world, way):
    client = await world.client()
    if way == "fin":
        client.writer.close()
    else:
        client.end()
    await wait_until(lambda: world.sessions.peers[0].lost_count, description="the peer is told")
    assert world.sessions.peers[0].sink.closed


async def test_nothing_is_handed_over_after_the_flow_has_closed(world):
    client = await world.client()
    [peer] = world.sessions.peers
    hear = peer.received

    def close_at_once(message):
        hear(message)
        peer.sink.close(CloseCode.SESSION_ENDED)

    peer.received = close_at_once
    client.send(BEAT * 5)
    assert await client.close_code() == CloseCode.SESSION_ENDED
    assert len(peer.messages) == 1


async def test_a_door_that_fails_closes_the_connection(world):
    world.sessions.raises = RuntimeError("no")
    client = await world.client()
    client.send(BEAT)
    assert await client.close_code() == CloseCode.INTERNAL_ERROR
    world.sessions.raises = None
    assert await (await world.client()).is_open()


async def test_a_door_may_close_the_connection_at_once(world):
    make = world.sessions.open

    def refuse(sink, *, remote):
        peer = make(sink, remote=remote)
        sink.close(CloseCode.TRY_AGAIN_LATER)
        return peer

    world.sessions.open = refuse
    client = await world.client()
    assert await client.close_code() == CloseCode.TRY_AGAIN_LATER
    assert world.sessions.peers[0].lost_count == 1


async def test_a_peer_that_fails_to_be_lost_hurts_nobody(world):
    client = await world.client()
    [peer] = world.sessions.peers
    lose = peer.lost

    def fail():
        lose()
        raise RuntimeError("no")

    peer.lost = fail
    client.end()
    await wait_until(lambda: peer.lost_count and not world.edge.connections, description="the peer is told")


async def test_the_server_pings_and_gives_up_on_the_silent(start):
    clock = VirtualClock()
    world = await start(clock=clock)
    talker, mute = await world.client(), await world.client()
    for _ in range(2):
        clock.advance(30)
        assert await talker.frame() == (PING, b"")
        assert await mute.frame() == (PING, b"")
        talker.send(frame(PONG))
        assert await talker.is_open()
    clock.advance(29.9)
    assert world.sessions.peers[1].sink.closed is False
    clock.advance(0.1)
    assert await mute.close_code() == CloseCode.IDLE
    assert world.sessions.peers[1].lost_count == 1
    assert await talker.is_open()
    clock.advance(5)
    assert await mute.at_end()
    assert world.edge.connections == 1


async def test_silence_counts_from_the_last_sign_of_life(start):
    clock = VirtualClock()
    world = await start(clock=clock)
    client = await world.client()
    clock.advance(10)
    assert await client.is_open()
    clock.advance(89.9)
    assert not world.sessions.peers[0].sink.closed
    clock.advance(0.1)
    assert await client.close_code() == CloseCode.IDLE


async def test_a_silent_connection_costs_one_alarm_and_no_task(world):
    before = asyncio.all_tasks()
    for _ in range(5):
        await world.client()
    assert len(world.alarms) == 5
    await wait_until(lambda: asyncio.all_tasks() <= before, description="the upgrades are done")


_NOISE = st.binary(max_size=300)
_FRAMES = st.lists(
    st.builds(
        frame,
        st.sampled_from([CONTINUATION, TEXT, BINARY, PING, PONG, CLOSE, 0x3, 0xF]),
        st.binary(max_size=130),
        fin=st.booleans(),
        masked=st.sampled_from([True, True, True, False]),
        reserved=st.sampled_from([0, 0, 0, 0x40]),
    ),
    max_size=6,
).map(b"".join)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.one_of(_NOISE, _FRAMES, st.tuples(_FRAMES, _NOISE).map(b"".join)))
async def test_arbitrary_bytes_never_hurt_another_connection(world, noise):
    attacker, bystander = await world.client(), await world.client()
    heard = len(world.sessions.peers[-1].messages)
    attacker.send(noise)
    attacker.writer.write_eof()
    bystander.send(BEAT)
    assert await bystander.is_open()
    assert len(world.sessions.peers[-1].messages) == heard + 1
    assert await attacker.at_end()
    bystander.end()
