"""Rooms in Redis: the same for every instance, in one slot, gone with the last member or with silence."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import cycle

import pytest

from lingua_scheduler.core.model import InstanceId, SessionId
from lingua_scheduler.core.room_ledger import Change, Newcomer, Refusal
from lingua_scheduler.core.rooms import Mode, RoomOptions
from lingua_scheduler.errors import CorruptValue, StoreError
from lingua_scheduler.store.keys import hash_tag
from lingua_scheduler.store.rooms import RoomStore
from lingua_scheduler.store.scripts import Scripts
from store.ledgers import A as HERE
from store.ledgers import B as THERE
from support import wait_until

A, B, C = SessionId("s-a"), SessionId("s-b"), SessionId("s-c")
LIFE_MS = 1_800_000


def newcomer(session_id: SessionId = A, owner: InstanceId = HERE, epoch: int = 1, **said) -> Newcomer:
    """Describe who wants to be a member."""
    return Newcomer(session_id, owner, epoch, **said)


@pytest.fixture
def rooms(store):
    """Give the room store of an instance; further ones see the same rooms."""

    def connect(owner: InstanceId = HERE, draw=None, **options) -> RoomStore:
        ledgers = store.ledgers(owner)
        more = {"draw": draw} if draw else {}
        return RoomStore(Scripts(ledgers.connection), ledgers.keys, RoomOptions(**options), **more)

    return connect


def places(ledgers, code: str) -> list[str]:
    """Name every key that a room may have."""
    return list(RoomStore(Scripts(ledgers.connection), ledgers.keys, RoomOptions())._places(code).values())


async def lives(ledgers, code: str) -> list[int]:
    """Tell how long each key of a room lives, of those that exist."""
    return [
        await ledgers.call("PTTL", key) for key in places(ledgers, code) if await ledgers.call("EXISTS", key)
    ]


async def age(ledgers, code: str, ms: int) -> None:
    """Let a room have been silent for so long."""
    spoken_ms = int(await ledgers.call("HGET", ledgers.keys.room(code), "spoken_ms"))
    await ledgers.call("HSET", ledgers.keys.room(code), "spoken_ms", spoken_ms - ms)
    for key in places(ledgers, code):
        await ledgers.call("PEXPIRE", key, LIFE_MS - ms)


def ids(room) -> list[str]:
    """Name the members in their order."""
    return [member.session_id for member in room.members]


# Opening and joining


async def test_who_opens_a_room_is_its_first_member(rooms, ledgers):
    room = await rooms().create(newcomer(display_name="Ann  Lee \u738b", preferred_lang="zh", mode=Mode.TEXT))
    (member,) = room.members
    assert (len(room.code), room.room_id[:5]) == (6, "room-")
    assert (member.session_id, member.owner, member.epoch, member.number) == (A, HERE, 1, 1)
    assert (member.display_name, member.preferred_lang, member.mode) == ("Ann  Lee \u738b", "zh", Mode.TEXT)
    assert member.joined_at.startswith("20")
    assert member.joined_at.endswith("Z")
    assert member.raw_voice == {}
    assert LIFE_MS - 5000 < room.remaining_ms <= LIFE_MS
    seen = await rooms(THERE).read(room.code)
    assert replace(seen, remaining_ms=room.remaining_ms) == room


async def test_another_instance_sees_the_members_in_the_order_of_joining(rooms):
    here, there = rooms(), rooms(THERE)
    room = await here.create(newcomer())
    await there.join(room.code, newcomer(C, THERE, preferred_lang="ja"))
    await here.join(room.code, newcomer(B))
    seen = await there.read(room.code)
    assert ids(seen) == [A, C, B]
    assert [member.owner for member in seen.members] == [HERE, THERE, HERE]
    assert [member.preferred_lang for member in seen.members] == [None, "ja", None]


async def test_everything_of_a_room_is_in_its_slot(rooms, ledgers):
    room = await rooms().create(newcomer())
    assert {hash_tag(key) for key in places(ledgers, room.code)} == {f"room:{room.code}"}


async def test_an_unknown_code_leads_nowhere(rooms):
    """Case 99."""
    assert await rooms().join("000000", newcomer()) is Refusal.NOT_FOUND
    assert await rooms().read("000000") is None


@pytest.mark.parametrize("code", ["", "abc", "1}{2", "1234567"])
async def test_what_is_no_code_leads_nowhere(rooms, code):
    assert await rooms().join(code, newcomer()) is Refusal.NOT_FOUND
    assert await rooms().read(code) is None


async def test_nobody_joins_twice(rooms):
    """Case 101."""
    here = rooms()
    room = await here.create(newcomer())
    assert await here.join(room.code, newcomer()) is Refusal.ALREADY
    assert (await here.read(room.code)).version == room.version


async def test_a_room_that_is_full_takes_nobody(rooms):
    """Case 104."""
    here = rooms(capacity=2)
    room = await here.create(newcomer())
    await here.join(room.code, newcomer(B))
    assert await here.join(room.code, newcomer(C)) is Refusal.FULL
    assert await here.join(room.code, newcomer(B)) is Refusal.ALREADY
    await here.leave(room.code, A, epoch=1)
    assert ids(await here.join(room.code, newcomer(C))) == [B, C]


async def test_of_many_who_join_at_once_as_many_as_fit_become_members(rooms):
    here, there = rooms(capacity=5), rooms(THERE, capacity=5)
    room = await here.create(newcomer())
    crowd = [newcomer(SessionId(f"s-{number}")) for number in range(20)]
    answers = await asyncio.gather(
        *(each.join(room.code, one) for each, one in zip(cycle((here, there)), crowd, strict=False))
    )
    assert answers.count(Refusal.FULL) == 16
    members = (await here.read(room.code)).members
    assert [member.number for member in members] == [1, 2, 3, 4, 5]


async def test_a_code_that_is_taken_is_not_given_again(rooms):
    draws = iter(["111111", "111111", "111111", "222222"])
    here = rooms(draw=lambda: next(draws))
    first = await here.create(newcomer())
    second = await here.create(newcomer(B))
    assert (first.code, second.code) == ("111111", "222222")
    assert ids(await here.read("111111")) == [A]


async def test_when_every_code_is_taken_no_room_is_opened(rooms):
    here = rooms(draw=lambda: "111111")
    await here.create(newcomer())
    with pytest.raises(StoreError, match="taken"):
        await here.create(newcomer(B))


# Leaving


async def test_who_leaves_is_no_member_any_more(rooms):
    """Case 105."""
    here = rooms()
    room = await here.create(newcomer())
    await here.join(room.code, newcomer(B))
    left = await here.leave(room.code, A, epoch=1)
    assert ids(left) == ids(await here.read(room.code)) == [B]
    assert left.remaining_ms > 0


async def test_leaving_again_changes_nothing(rooms):
    here = rooms()
    room = await here.create(newcomer())
    await here.join(room.code, newcomer(B))
    left = await here.leave(room.code, B, epoch=1)
    assert await here.leave(room.code, B, epoch=1) is Refusal.NOT_FOUND
    assert (await here.read(room.code)).version == left.version


async def test_with_its_last_member_a_room_ends(rooms, ledgers):
    """Case 106."""
    here = rooms()
    room = await here.create(newcomer())
    await here.join(room.code, newcomer(B))
    await here.change(room.code, A, Change(raw_voice=(B, False)))
    await here.leave(room.code, B, epoch=1)
    ended = await here.leave(room.code, A, epoch=1)
    assert (ended.members, ended.remaining_ms, ended.room_id) == ((), 0, room.room_id)
    assert await here.join(room.code, newcomer()) is Refusal.NOT_FOUND
    assert await ledgers.call("EXISTS", *places(ledgers, room.code)) == 0


async def test_an_older_owner_does_not_remove_a_session_that_moved(rooms):
    here, there = rooms(), rooms(THERE)
    room = await here.create(newcomer())
    await there.move(room.code, A, owner=THERE, epoch=2)
    assert await here.leave(room.code, A, epoch=1) is Refusal.NOT_FOUND
    assert ids(await here.read(room.code)) == [A]
    assert (await there.leave(room.code, A, epoch=2)).members == ()


async def test_who_comes_back_is_last(rooms):
    here = rooms()
    room = await here.create(newcomer())
    await here.join(room.code, newcomer(B))
    await here.leave(room.code, A, epoch=1)
    assert ids(await here.join(room.code, newcomer())) == [B, A]


# Changing


async def test_a_member_changes_its_language_name_and_mode(rooms):
    here = rooms()
    room = await here.create(newcomer(display_name="Ann", preferred_lang="zh"))
    changed = await here.change(room.code, A, Change(preferred_lang="en", mode=Mode.CAPTIONS))
    (member,) = changed.members
    assert (member.display_name, member.preferred_lang, member.mode) == ("Ann", "en", Mode.CAPTIONS)
    (member,) = (await here.change(room.code, A, Change(display_name="A  N", preferred_lang=""))).members
    assert (member.display_name, member.preferred_lang, member.mode) == ("A  N", None, Mode.CAPTIONS)
    (member,) = (await here.change(room.code, A, Change(display_name=""))).members
    assert member.display_name is None
    assert (member.number, member.joined_at) == (1, room.members[0].joined_at)


async def test_a_change_that_changes_nothing_is_no_news(rooms):
    here = rooms()
    room = await here.create(newcomer(preferred_lang="zh"))
    await here.join(room.code, newcomer(B))
    told = await here.change(room.code, A, Change(preferred_lang="zh", mode=Mode.VOICE))
    assert (await here.change(room.code, A, Change())).version == told.version == room.version + 1
    muted = await here.change(room.code, A, Change(raw_voice=(B, False)))
    assert (await here.change(room.code, A, Change(raw_voice=(B, False)))).version == muted.version


async def test_a_wish_about_a_voice_belongs_to_who_said_it(rooms, ledgers):
    """Case 116."""
    here = rooms()
    room = await here.create(newcomer())
    await here.join(room.code, newcomer(B))
    told = await here.change(room.code, B, Change(raw_voice=(A, False)))
    assert [dict(member.raw_voice) for member in told.members] == [{}, {A: False}]
    assert len(await lives(ledgers, room.code)) == 3
    told = await here.change(room.code, B, Change(raw_voice=(A, True)))
    assert [dict(member.raw_voice) for member in told.members] == [{}, {A: True}]


@pytest.mark.parametrize("target", [C, A, SessionId("s-a s-b"), SessionId("x")])
async def test_a_wish_is_about_another_member(rooms, target):
    """With a wish that cannot be, nothing else is changed."""
    here = rooms()
    room = await here.create(newcomer())
    await here.join(room.code, newcomer(B))
    asked = Change(raw_voice=(target, False), preferred_lang="en")
    assert await here.change(room.code, A, asked) is Refusal.NO_PEER
    assert (await here.read(room.code)).version == room.version + 1


async def test_a_wish_ends_with_either_of_the_two(rooms):
    here = rooms()
    room = await here.create(newcomer())
    for session_id in (B, C):
        await here.join(room.code, newcomer(session_id))
    for one, other in ((A, B), (B, A), (B, C), (A, C)):
        await here.change(room.code, one, Change(raw_voice=(other, False)))
    await here.leave(room.code, B, epoch=1)
    told = await here.join(room.code, newcomer(B))
    assert {member.session_id: dict(member.raw_voice) for member in told.members} == {
        A: {C: False},
        B: {},
        C: {},
    }


async def test_to_a_stranger_a_room_looks_like_none(rooms):
    """Case 117, and no way to find out which codes are in use."""
    here = rooms()
    code = (await here.create(newcomer())).code
    for tried in (code, "000000"):
        assert await here.change(tried, B, Change(raw_voice=(A, False))) is Refusal.NOT_FOUND
        assert await here.leave(tried, B, epoch=1) is Refusal.NOT_FOUND
        assert await here.move(tried, B, owner=HERE, epoch=1) is Refusal.NOT_FOUND
        assert await here.speak(tried, B) is Refusal.NOT_FOUND


# Moving


async def test_a_session_that_moved_is_held_by_its_new_owner(rooms):
    here, there = rooms(), rooms(THERE)
    room = await here.create(newcomer(display_name="A B"))
    moved = await there.move(room.code, A, owner=THERE, epoch=2)
    (member,) = moved.members
    assert (member.owner, member.epoch, member.number, member.display_name) == (THERE, 2, 1, "A B")
    assert moved.version > room.version
    assert (await there.move(room.code, A, owner=THERE, epoch=2)).version == moved.version


async def test_a_late_move_of_an_older_owner_is_refused(rooms):
    here, there = rooms(), rooms(THERE)
    room = await here.create(newcomer())
    await there.move(room.code, A, owner=THERE, epoch=3)
    assert await here.move(room.code, A, owner=HERE, epoch=2) is Refusal.NOT_FOUND
    assert (await here.read(room.code)).members[0].owner == THERE


# Times


async def test_speech_lets_a_room_live_on(rooms, ledgers):
    """Case 119."""
    here = rooms()
    room = await here.create(newcomer())
    await here.join(room.code, newcomer(B))
    await here.change(room.code, A, Change(raw_voice=(B, True)))
    await age(ledgers, room.code, 1_700_000)
    told = await here.speak(room.code, B)
    assert LIFE_MS - 5000 < told.remaining_ms <= LIFE_MS
    left = await lives(ledgers, room.code)
    assert len(left) == 3
    assert min(left) > LIFE_MS - 5000


async def test_speech_is_noted_once_a_second(rooms, ledgers):
    here = rooms()
    room = await here.create(newcomer())
    soon_ms = int(await ledgers.call("HINCRBY", ledgers.keys.room(room.code), "spoken_ms", 900))
    assert (await here.speak(room.code, A)).spoken_ms == soon_ms, "not a second away"
    await age(ledgers, room.code, 3000)
    assert (await here.speak(room.code, A)).spoken_ms >= room.spoken_ms
    far_ms = int(await ledgers.call("HINCRBY", ledgers.keys.room(room.code), "spoken_ms", 3_600_000))
    assert (await here.speak(room.code, A)).spoken_ms < far_ms, "another server's clock was wrong"


async def test_joining_lets_a_room_live_on_but_leaving_and_changing_do_not(rooms, ledgers):
    here = rooms()
    room = await here.create(newcomer())
    await age(ledgers, room.code, 1_000_000)
    assert (await here.join(room.code, newcomer(B))).remaining_ms > LIFE_MS - 5000
    await age(ledgers, room.code, 1_000_000)
    for told in (
        await here.change(room.code, A, Change(raw_voice=(B, False))),
        await here.move(room.code, A, owner=THERE, epoch=2),
        await here.leave(room.code, B, epoch=1),
        await here.read(room.code),
    ):
        assert told.remaining_ms <= LIFE_MS - 1_000_000
    assert max(await lives(ledgers, room.code)) <= LIFE_MS - 1_000_000


async def test_a_room_ends_by_silence(rooms, ledgers):
    """Case 118."""
    here = rooms(expiry_s=1)
    room = await here.create(newcomer())
    await here.join(room.code, newcomer(B))
    await here.change(room.code, A, Change(raw_voice=(B, False)))
    for key in places(ledgers, room.code):
        await ledgers.call("PEXPIRE", key, 20)

    async def over() -> bool:
        return await here.read(room.code) is None

    await wait_until(over, description="the room has expired")
    assert await here.join(room.code, newcomer(C)) is Refusal.NOT_FOUND
    assert await here.speak(room.code, A) is Refusal.NOT_FOUND
    assert await ledgers.call("EXISTS", *places(ledgers, room.code)) == 0


# News


async def test_who_knows_the_room_is_given_only_its_times(rooms, ledgers):
    here = rooms()
    room = await here.create(newcomer())
    await age(ledgers, room.code, 5000)
    seen = await here.read(room.code, known=room)
    assert seen.members is room.members
    assert seen.remaining_ms <= LIFE_MS - 5000
    spoken = await here.speak(room.code, A, known=seen)
    assert spoken.members is room.members
    assert spoken.spoken_ms > seen.spoken_ms


async def test_who_knows_an_older_version_is_given_the_room(rooms):
    here, there = rooms(), rooms(THERE)
    room = await here.create(newcomer())
    await there.join(room.code, newcomer(B, THERE))
    assert ids(await here.speak(room.code, A, known=room)) == [A, B]
    assert ids(await here.read(room.code, known=room)) == [A, B]


async def test_a_new_room_under_an_old_code_is_news(rooms):
    here = rooms(draw=lambda: "111111")
    old = await here.create(newcomer())
    await here.leave(old.code, A, epoch=1)
    new = await here.create(newcomer(B))
    assert new.version > old.version
    assert new.room_id != old.room_id
    assert ids(await here.read("111111", known=old)) == [B]


# What should not be


async def test_a_line_nobody_can_read_is_no_member(rooms, ledgers):
    here = rooms()
    room = await here.create(newcomer())
    for name, line in (("s-x", "nonsense"), ("s-y", b"2 1 a 1 voice * \xff"), ("s-z", "2 1 a 1 loud * x")):
        await ledgers.call("HSET", ledgers.keys.members(room.code), name, line)
        assert ids(await here.read(room.code)) == [A]
        assert ids(await here.leave(room.code, SessionId(name), epoch=1)) == [A]


async def test_a_room_that_lost_its_fields_is_a_corrupt_value(rooms, ledgers):
    here = rooms()
    room = await here.create(newcomer())
    await ledgers.call("HSET", ledgers.keys.room(room.code), "version", "x")
    with pytest.raises(CorruptValue, match="lost"):
        await here.read(room.code)
    await ledgers.call("HDEL", ledgers.keys.room(room.code), "id", "version")
    with pytest.raises(CorruptValue, match="lost"):
        await here.read(room.code)


async def test_what_is_left_of_a_lost_room_is_not_found_again(rooms, ledgers):
    here = rooms(draw=lambda: "111111")
    room = await here.create(newcomer())
    await here.join(room.code, newcomer(B))
    await ledgers.call("DEL", ledgers.keys.room(room.code))
    assert await here.leave(room.code, A, epoch=1) is Refusal.NOT_FOUND
    assert await here.speak(room.code, A) is Refusal.NOT_FOUND
    assert ids(await here.create(newcomer(C))) == [C]
