"""Members arrange to hear each other's own voice (cases 120 to 125)."""

from __future__ import annotations

from typing import Any

import pytest

from lingua_scheduler.store.connection import StoreOptions
from party import Party, party

SDP = {"type": "offer", "sdp": "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\n", "zahl": 1.5, "list": [None, True]}
KINDS = ("webrtc_offer", "webrtc_answer", "webrtc_ice")


async def signal(room: Party, sender: str, to: str, kind: str = "webrtc_offer", **fields: Any) -> None:
    """Send something to somebody."""
    part = "candidate" if kind == "webrtc_ice" else "sdp"
    message = {"room_code": room.code, "to": room.guests[to].id if to in room.guests else to, part: SDP}
    await room[sender].send(kind, **{**message, **fields})


async def mute(room: Party, who: str, whom: str) -> None:
    """Let somebody not want to hear somebody's own voice."""
    await room[who].send(
        "room_raw_voice_preference",
        room_code=room.code,
        target_session_id=room[whom].id,
        receive_raw_voice=False,
    )
    await room.quiet()


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_sent_arrives_unchanged_and_says_from_whom(
    store_options: StoreOptions, instances: int, kind: str
) -> None:
    """120, 121."""
    async with party(store_options, instances) as room:
        await room.everybody("A", "B")
        for sender, receiver in (("A", "B"), ("B", "A")):
            await signal(room, sender, receiver, kind)
            got = await room[receiver].expect(kind)
            assert got["to"] == room[sender].id
            assert got["room_code"] == room.code
            assert got["candidate" if kind == "webrtc_ice" else "sdp"] == SDP
        await room.quiet()
        assert not room["A"].seen("room_error")


async def test_signals_of_one_sender_arrive_in_order(store_options: StoreOptions, instances: int) -> None:
    async with party(store_options, instances) as room:
        await room.everybody("A", "B")
        for number in range(40):
            await signal(room, "A", "B", "webrtc_ice", candidate={"n": number})
        await room.quiet()
        assert [each["candidate"]["n"] for each in room["B"].seen("webrtc_ice")] == list(range(40))


@pytest.mark.parametrize(("sender", "receiver"), [("A", "B"), ("B", "A")])
async def test_a_muted_pair_does_not_connect_in_either_direction(
    store_options: StoreOptions, instances: int, sender: str, receiver: str
) -> None:
    """122, 123: silently."""
    async with party(store_options, instances) as room:
        await room.everybody("A", "B")
        await mute(room, "B", "A")
        for kind in KINDS:
            await signal(room, sender, receiver, kind)
        await room.quiet()
        for guest in room.guests.values():
            assert not any(guest.seen(kind) for kind in (*KINDS, "room_error"))


async def test_an_outsider_reaches_nobody(store_options: StoreOptions, instances: int) -> None:
    """124."""
    async with party(store_options, instances) as room:
        await room.everybody("A", "B")
        await room.arrive("X")
        await signal(room, "X", "B")
        await room["X"].expect("room_error", code="NOT_IN_ROOM")
        await room.quiet()
        assert not room["B"].seen("webrtc_offer")


async def test_somebody_who_is_not_there_is_not_reached(store_options: StoreOptions, instances: int) -> None:
    """125."""
    async with party(store_options, instances) as room:
        await room.everybody("A", "B")
        await room.arrive("X")
        for to in ("X", "s-nobody", "A"):
            await signal(room, "A", to)
            await room["A"].expect("room_error", code="PEER_UNAVAILABLE")
        await room.quiet()
        assert not room["X"].seen("webrtc_offer")
        await room["A"].sync()


async def test_large_and_many_signals_are_refused(store_options: StoreOptions, instances: int) -> None:
    """B58."""
    async with party(store_options, instances, rooms={"signals_per_second": 5}) as room:
        await room.everybody("A", "B")
        await signal(room, "A", "B", sdp="x" * 40_000)
        await room["A"].expect("error", code="INVALID_MESSAGE")
        for _ in range(5):
            await signal(room, "A", "B")
        await room["A"].expect("error", code="RATE_LIMITED")
        await room.quiet()
        assert len(room["B"].seen("webrtc_offer")) == 4
        room.house("A").clock.advance(2)
        await signal(room, "A", "B")
        await room.quiet()
        assert len(room["B"].seen("webrtc_offer")) == 5
