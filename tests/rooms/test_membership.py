"""Rooms: opened, joined, left, changed, ended (cases 97 to 106 and 114 to 119)."""

from __future__ import annotations

from typing import Any

import pytest

from comeback import RESUMES, left
from lingua_scheduler.errors import DependencyDown
from lingua_scheduler.store.connection import StoreOptions
from party import Party, members, party
from support import wait_until
from world import Speaker

SHORT = {"expiry_s": 20}


async def refused(guest: Speaker, code: str) -> None:
    """Wait for a refusal with a sentence for people."""
    assert (await guest.expect("room_error", code=code))["message"]


async def test_who_opens_a_room_gets_its_code_and_is_its_first_member(
    store_options: StoreOptions, instances: int
) -> None:
    """97."""
    async with party(store_options, instances) as room:
        guest = await room.arrive("A")
        await guest.send("room_create", client_ts=1, display_name="Ann", preferred_lang="ZH")
        ack = await guest.expect("room_create_ack")
        assert len(ack["room_code"]) == 6
        assert ack["room_code"].isdigit()
        assert ack["room_id"].startswith("room-")
        [me] = await members(guest, 1)
        assert me["participant_id"] == me["session_id"] == guest.id
        assert (me["display_name"], me["preferred_lang"], me["mode"]) == ("Ann", "zh", "voice")
        assert me["joined_at"].endswith("Z")


async def test_everybody_sees_who_joins_first_come_first(store_options: StoreOptions, instances: int) -> None:
    """98; a joiner is told of the room before its members, as the existing web client needs it."""
    async with party(store_options, instances) as room:
        await room.open("A")
        joiner = await room.arrive("B")
        await joiner.send("room_join", room_code=room.code, display_name="B", preferred_lang="en")
        await members(joiner, 2)
        kinds = [message["type"] for message in joiner.inbox if message["type"].startswith("room_")]
        assert kinds == ["room_create_ack", "room_members"]
        for guest in room.guests.values():
            assert [each["display_name"] for each in await members(guest, 2)] == ["A", "B"]


@pytest.mark.parametrize(("code", "answer"), [("000000", "ROOM_NOT_FOUND"), ("abc", "INVALID_ROOM_CODE")])
async def test_a_code_that_leads_nowhere_is_refused(
    store_options: StoreOptions, code: str, answer: str
) -> None:
    """99, 100."""
    async with party(store_options, 1) as room:
        guest = await room.arrive("A")
        await guest.send("room_join", room_code=code)
        await refused(guest, answer)


async def test_nobody_is_in_two_rooms_or_twice_in_one(store_options: StoreOptions, instances: int) -> None:
    """101, 102."""
    async with party(store_options, instances) as room:
        await room.everybody("A", "B")
        other = await room.arrive("C")
        await other.send("room_create", client_ts=1)
        elsewhere = (await other.expect("room_create_ack"))["room_code"]
        for code in (room.code, elsewhere):
            await room["B"].send("room_join", room_code=code)
            await refused(room["B"], "ALREADY_IN_ROOM")
        await room["B"].send("room_create", client_ts=1)
        await refused(room["B"], "ALREADY_IN_ROOM")


async def test_rooms_need_a_session(store_options: StoreOptions) -> None:
    """103."""
    async with party(store_options, 1) as room:
        stranger = await room.houses[0].speaker()
        await stranger.send("room_create", client_ts=1)
        await stranger.expect("error", code="INVALID_SESSION")


async def test_a_full_room_takes_nobody_more(store_options: StoreOptions, instances: int) -> None:
    """104."""
    async with party(store_options, instances, rooms={"capacity": 2}) as room:
        await room.everybody("A", "B")
        late = await room.arrive("C")
        await late.send("room_join", room_code=room.code)
        await refused(late, "ROOM_FULL")


async def test_who_leaves_hears_nothing_and_the_others_see_it(
    store_options: StoreOptions, instances: int
) -> None:
    """105, 106."""
    async with party(store_options, instances) as room:
        await room.everybody("A", "B")
        await room["B"].sync()
        before = list(room["B"].inbox)
        await room["B"].send("room_leave", room_code=room.code)
        [left_over] = await members(room["A"], 1)
        assert left_over["session_id"] == room["A"].id
        await room.quiet()
        assert room["B"].inbox == before
        await room["B"].send("room_leave", room_code=room.code)
        await refused(room["B"], "NOT_IN_ROOM")
        await room["A"].send("room_leave", room_code=room.code)
        await room.quiet()
        await room["B"].send("room_join", room_code=room.code)
        await refused(room["B"], "ROOM_NOT_FOUND")
        assert not any(len(house.instance.rooms) for house in room.houses)


async def test_whose_connection_drops_leaves_at_once(store_options: StoreOptions, instances: int) -> None:
    """114."""
    async with party(store_options, instances) as room:
        node = await room.node()
        await room.everybody("A", "D", "B")
        await room["B"].hang_up()
        for name in "AD":
            assert len(await members(room[name], 2)) == 2
        await room.say("A")
        assert (await node.job())["tgt_lang"] == "ja"
        await room.quiet("A", "D")
        assert not node.seen("job_assign")


async def test_who_comes_back_with_a_token_stays_until_its_time_is_over(
    store_options: StoreOptions, instances: int
) -> None:
    async with party(store_options, instances) as room:
        await room.open("A")
        await room.join("B", wish=RESUMES)
        await left(room.house("B"), room["B"])
        await room.quiet("A")
        assert len(room["A"].seen("room_members")[-1]["members"]) == 2
        room.house("B").clock.advance(61)
        await members(room["A"], 1)


async def test_closing_the_session_leaves_the_room(store_options: StoreOptions, instances: int) -> None:
    """130."""
    async with party(store_options, instances) as room:
        await room.everybody("A", "B")
        await room["B"].send("session_close", session_id=room["B"].id, reason="bye")
        await room["B"].expect("session_close_ack")
        await members(room["A"], 1)


async def test_wishes_about_voices_are_seen_by_nobody_else(
    store_options: StoreOptions, instances: int
) -> None:
    """116."""
    async with party(store_options, instances) as room:
        await room.everybody("A", "B", "C")
        await room.quiet()
        for guest in room.guests.values():
            guest.inbox.clear()
        await room["B"].send(
            "room_raw_voice_preference",
            room_code=room.code,
            target_session_id=room["A"].id,
            receive_raw_voice=False,
        )
        for name, guest in room.guests.items():
            maps = {
                each["display_name"]: each.get("raw_voice_preferences") for each in await members(guest, 3)
            }
            own = {room["A"].id: False} if name == "B" else None
            assert maps == {"A": None, "B": own if name == "B" else None, "C": None}


async def test_wishes_about_unknown_rooms_and_members_are_refused(store_options: StoreOptions) -> None:
    """117, B59."""
    async with party(store_options, 1) as room:
        await room.everybody("A", "B")
        wish = {"target_session_id": room["B"].id, "receive_raw_voice": False}
        await room["A"].send("room_raw_voice_preference", room_code="000000", **wish)
        await refused(room["A"], "ROOM_NOT_FOUND")
        for nobody in ("s-nobody", room["A"].id):
            await room["A"].send(
                "room_raw_voice_preference",
                room_code=room.code,
                **{**wish, "target_session_id": nobody},
            )
            await refused(room["A"], "PEER_UNAVAILABLE")


async def test_a_room_in_which_nobody_speaks_ends_for_everybody(
    store_options: StoreOptions, instances: int
) -> None:
    """118."""
    async with party(store_options, instances, rooms=SHORT) as room:
        await room.open("A", wish={"hint_lang": "zh"})
        await room.join("B")
        await end(room)
        assert "房间" in (await room["A"].expect("room_expired", room_code=room.code))["message"]
        assert "room" in (await room["B"].expect("room_expired", room_code=room.code))["message"]
        await room["A"].send("room_join", room_code=room.code)
        await refused(room["A"], "ROOM_NOT_FOUND")
        assert not any(len(house.instance.rooms) for house in room.houses)


async def end(room: Party) -> None:
    """Let a room's time pass: by Redis' clock and by those of the instances."""
    house = room.houses[0]
    await house.redis("PEXPIRE", house.keys.room(room.code), 1)
    await wait_until(lambda: _is_gone(room), description="the room has ended")
    for each in room.houses:
        each.clock.advance(21)


async def _is_gone(room: Party) -> bool:
    house = room.houses[0]
    return not await house.redis("EXISTS", house.keys.room(room.code))


async def test_a_room_in_which_somebody_speaks_lives(store_options: StoreOptions) -> None:
    """119: a room whose time by our clock is over is looked at, and lives on as Redis says."""
    async with party(store_options, 1, rooms=SHORT) as room:
        await room.node()
        await room.everybody("A", "B")
        house = room.houses[0]
        await house.redis("PEXPIRE", house.keys.room(room.code), 5000)
        await house.redis("HSET", house.keys.room(room.code), "spoken_ms", 1)
        await room.say("A")
        await room.quiet()
        assert await house.redis("PTTL", house.keys.room(room.code)) > 15_000
        house.clock.advance(21)
        await room.quiet()
        assert not room["A"].seen("room_expired")


async def test_a_member_changes_its_language_and_its_name(
    store_options: StoreOptions, instances: int
) -> None:
    async with party(store_options, instances) as room:
        node = await room.node()
        await room.everybody("A", "B")
        await room["B"].send("room_change", room_code=room.code, preferred_lang="DE", display_name=" Bea ")
        await wait_until(
            lambda: room["A"].seen("room_members")[-1]["members"][-1].get("display_name") == "Bea",
            description="the change is seen",
        )
        await room.say("A")
        job = await node.job()
        assert job["tgt_lang"] == "de"
        await node.answer(job, translated="hallo")
        assert (await room["B"].expect("translation_result"))["text_translated"] == "hallo"


@pytest.mark.parametrize("about", [{"mode": "smell"}, {"preferred_lang": "auto"}])
async def test_what_a_room_cannot_offer_is_refused(
    store_options: StoreOptions, about: dict[str, Any]
) -> None:
    async with party(store_options, 1) as room:
        guest = await room.arrive("A")
        await guest.send("room_create", client_ts=1, **about)
        await guest.expect("error")
        await guest.send("room_create", client_ts=1)
        await guest.expect("room_create_ack")


async def test_guessing_codes_leads_nowhere_and_ends_the_connection(store_options: StoreOptions) -> None:
    """B55: after five wrong codes a right one sounds wrong too."""
    limits = {"guesses_per_minute": 5, "guesses_per_connection": 8}
    async with party(store_options, 1, rooms=limits) as room:
        await room.open("A")
        guest = await room.arrive("B")
        wrong = "123456" if room.code != "123456" else "123457"
        for _ in range(5):
            await guest.send("room_join", room_code=wrong)
            await refused(guest, "ROOM_NOT_FOUND")
        for code in (room.code, wrong, wrong):
            await guest.send("room_join", room_code=code)
            await refused(guest, "ROOM_NOT_FOUND")
        assert await guest.closed() == 4529


async def test_right_codes_are_no_guesses(store_options: StoreOptions) -> None:
    async with party(store_options, 1, rooms={"guesses_per_minute": 1}) as room:
        await room.open("A")
        guest = await room.arrive("B")
        for _ in range(3):
            await guest.send("room_join", room_code=room.code)
            await guest.expect("room_create_ack")
            await guest.send("room_leave", room_code=room.code)


async def test_without_redis_a_room_is_refused_and_nobody_is_left_in_it(store_options: StoreOptions) -> None:
    """A join whose outcome is unknown is taken back."""
    async with party(store_options, 1) as room:
        await room.open("A")
        ledger = room.houses[0].instance.stores.rooms
        real = ledger.join

        async def join(*given: Any) -> Any:
            await real(*given)
            raise DependencyDown("away")

        ledger.join = join  # type: ignore[method-assign]
        guest = await room.arrive("B")
        await guest.send("room_join", room_code=room.code)
        await refused(guest, "SCHEDULER_DEPENDENCY_DOWN")
        ledger.join = real  # type: ignore[method-assign]
        await room.quiet()
        assert len((await ledger.read(room.code)).members) == 1
        await guest.send("room_join", room_code=room.code)
        await guest.expect("room_create_ack")
