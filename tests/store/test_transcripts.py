"""Transcripts in Redis: bounded, written once, ended with their session or room, read by who took part."""

from __future__ import annotations

from typing import Any

import pytest

from lingua_scheduler.core.model import SessionId
from lingua_scheduler.core.room_ledger import Newcomer
from lingua_scheduler.core.rooms import Room, RoomOptions
from lingua_scheduler.core.transcript import Line, Transcript, TranscriptOptions
from lingua_scheduler.store.jobs import LifeOptions
from lingua_scheduler.store.rooms import RoomStore
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.sessions import SessionStore
from lingua_scheduler.store.transcripts import TranscriptStore
from store.ledgers import A, Ledgers
from support import wait_until

ANNA, BO, CHEN = SessionId("s-anna"), SessionId("s-bo"), SessionId("s-chen")
AT_MS = 1_700_000_000_000
LEASE_S = LifeOptions().session_lease_s


class House:
    """The stores a transcript lies beside, and the transcripts."""

    def __init__(self, ledgers: Ledgers, **options: Any) -> None:
        self.ledgers, self.keys, self.call = ledgers, ledgers.keys, ledgers.call
        scripts, given = Scripts(ledgers.connection), TranscriptOptions(**options)
        self.sessions = SessionStore(
            ledgers.connection, scripts, ledgers.keys, LifeOptions(), transcript_keep_s=given.keep_s
        )
        self.rooms = RoomStore(scripts, ledgers.keys, RoomOptions())
        self.store = TranscriptStore(ledgers.connection, scripts, ledgers.keys, given, LifeOptions())

    async def open(self, session_id: SessionId = ANNA) -> None:
        await self.sessions.open(session_id, A, {}, epoch=1)

    async def keep(self, *lines: Line) -> None:
        for each in lines:
            await self.store.keep(each, began_ms=AT_MS)

    async def ttl_s(self, *keys: str) -> list[float]:
        return [round(await self.call("PTTL", key) / 1000) for key in keys]


def line(index: int = 0, speaker: SessionId = ANNA, **members: Any) -> Line:
    plain = {"at_ms": AT_MS + 1000 * index, "lang": "zh", "text": "你好", "tgt_lang": "en"}
    return Line(speaker=speaker, index=index, **{"translation": "hello", **plain, **members})


def indexes(found: Transcript | None) -> list[int]:
    assert found is not None
    return [entry.index for entry in found.entries]


@pytest.fixture
def house(ledgers):
    return House(ledgers)


# A session's


async def test_what_a_session_said_is_read_in_order_with_its_translations(house):
    await house.open()
    await house.keep(line(1), line(0), line(0, tgt_lang="fr", translation="bonjour"))
    found = await house.store.of_session(ANNA)
    assert indexes(found) == [0, 1]
    assert found.entries[0].translations == {"en": "hello", "fr": "bonjour"}
    assert (found.began_wall_ms, found.dropped) == (AT_MS, 0)
    assert await house.store.of_session(BO) is None


async def test_a_line_that_is_written_again_is_left_as_it_is(house):
    await house.open()
    await house.keep(line(), line(translation="other", at_ms=AT_MS + 9))
    await house.store.keep(line(tgt_lang="zh", asked="en"), began_ms=AT_MS + 5)
    found = await house.store.of_session(ANNA)
    assert [entry.translations for entry in found.entries] == [{"en": "hello"}]
    assert found.began_wall_ms == AT_MS


async def test_the_oldest_lines_leave_when_there_are_too_many(ledgers):
    house = House(ledgers, max_entries=3)
    await house.open()
    await house.keep(*(line(index) for index in (0, 1, 3, 2, 4)))
    found = await house.store.of_session(ANNA)
    assert (indexes(found), found.dropped) == ([2, 3, 4], 2)
    assert await house.call("ZCARD", house.keys.transcript_order(ANNA)) == 3


async def test_the_oldest_lines_leave_when_they_are_too_long_and_the_newest_stays(ledgers):
    house = House(ledgers, max_bytes=1024)
    await house.open()
    await house.keep(*(line(index, text="x" * 300) for index in range(4)))
    assert indexes(await house.store.of_session(ANNA)) == [2, 3]
    await house.keep(line(4, text="x" * 5000))
    found = await house.store.of_session(ANNA)
    assert (indexes(found), found.dropped) == ([4], 4)
    kept = int(await house.call("HGET", house.keys.transcript(ANNA), "#bytes"))
    assert kept == await house.call("HSTRLEN", house.keys.transcript(ANNA), "4:en")


async def test_it_outlives_its_session_by_the_grace(house):
    places = house.keys.transcript(ANNA), house.keys.transcript_order(ANNA)
    await house.open()
    await house.keep(line())
    assert await house.ttl_s(*places) == [LEASE_S + 600] * 2
    await house.call("PEXPIRE", places[0], 5000)
    assert await house.sessions.renew({ANNA: 1}, A) == {}
    assert await house.ttl_s(*places) == [LEASE_S + 600] * 2
    await house.sessions.close(ANNA, epoch=0)
    assert await house.ttl_s(*places) == [LEASE_S + 600] * 2, "somebody newer has the session"
    await house.sessions.close(ANNA, epoch=1)
    assert await house.ttl_s(*places) == [600] * 2
    assert indexes(await house.store.of_session(ANNA)) == [0]
    await house.keep(line(1))
    assert await house.ttl_s(*places) == [600] * 2


async def test_a_line_prolongs_nothing_the_session_does(house):
    """A session is renewed as long as somebody has it, however rarely it speaks."""
    places = house.keys.transcript(ANNA), house.keys.transcript_order(ANNA)
    await house.open()
    await house.keep(line())
    for place in places:
        await house.call("PEXPIRE", place, 5000)
    await house.keep(line(1))
    assert await house.ttl_s(*places) == [5] * 2
    assert await house.sessions.renew({ANNA: 1}, A) == {}
    assert await house.ttl_s(*places) == [LEASE_S + 600] * 2


async def test_what_comes_after_the_session_has_ended_lives_for_the_grace(house):
    places = house.keys.transcript(ANNA), house.keys.transcript_order(ANNA)
    await house.keep(line())
    assert await house.ttl_s(*places) == [600] * 2


async def test_without_grace_nothing_is_kept_of_a_session_that_has_ended(ledgers):
    house = House(ledgers, keep_s=0)
    await house.open()
    await house.keep(line())
    assert indexes(await house.store.of_session(ANNA)) == [0]
    await house.sessions.close(ANNA, epoch=1)
    await house.keep(line())
    assert await house.store.of_session(ANNA) is None
    assert await house.call("EXISTS", house.keys.transcript(ANNA)) == 0


async def test_when_its_time_is_over_nothing_is_left(house):
    await house.open()
    await house.keep(line())
    places = house.keys.transcript(ANNA), house.keys.transcript_order(ANNA)
    for key in places:
        await house.call("PEXPIRE", key, 1)

    async def gone() -> bool:
        return await house.call("EXISTS", *places) == 0

    await wait_until(gone, description="the transcript has expired")
    assert await house.store.of_session(ANNA) is None


async def test_a_line_that_cannot_be_read_does_not_hide_the_others(house):
    await house.open()
    await house.keep(line(0), line(1))
    await house.call("HSET", house.keys.transcript(ANNA), "0:en", "{", "#began", "soon", "#dropped", "")
    found = await house.store.of_session(ANNA)
    assert (indexes(found), found.began_wall_ms) == ([1], AT_MS + 1000)


async def test_a_key_of_another_type_reads_as_nothing(house):
    await house.call("SET", house.keys.transcript(ANNA), "x", "EX", 60)
    assert await house.store.of_session(ANNA) is None
    await house.call("DEL", house.keys.transcript(ANNA))


# A room's


async def opened(house: House, *others: SessionId) -> Room:
    """Open a room of Anna's with these others."""
    room = await house.rooms.create(Newcomer(ANNA, A, 1))
    for other in others:
        await house.rooms.join(room.code, Newcomer(other, A, 1))
    return room


async def test_who_is_or_was_in_a_room_reads_all_of_it_and_nobody_else(house):
    room = await opened(house, BO)
    await house.store.keep_in_room(room.code, room.room_id, line(0, name="Anna"))
    await house.store.keep_in_room(room.code, room.room_id, line(0, BO, lang="en", tgt_lang="zh"))
    assert await house.store.of_room(room.code, CHEN) is None
    await house.rooms.leave(room.code, BO, epoch=1)
    await house.rooms.join(room.code, Newcomer(CHEN, A, 1))
    for reader in (ANNA, BO, CHEN):
        found = await house.store.of_room(room.code, reader)
        assert [(entry.speaker, entry.name) for entry in found.entries] == [(ANNA, "Anna"), (BO, "")]
    assert await house.store.of_room(room.code, SessionId("nobody")) is None


async def test_a_speaker_who_has_left_before_the_result_came_took_part(house):
    room = await opened(house, BO)
    await house.rooms.leave(room.code, BO, epoch=1)
    await house.store.keep_in_room(room.code, room.room_id, line(0, BO))
    assert indexes(await house.store.of_room(room.code, BO)) == [0]


async def test_a_room_s_transcript_begins_when_the_first_of_those_present_came(house):
    room = await opened(house, BO)
    spoken_ms = room.spoken_ms + 60_000
    await house.store.keep_in_room(room.code, room.room_id, line(at_ms=spoken_ms))
    found = await house.store.of_room(room.code, ANNA)
    assert found.began_wall_ms <= room.spoken_ms
    assert found.entries[0].began_ms == spoken_ms - found.began_wall_ms


async def test_a_room_s_transcript_ends_with_the_room(house):
    room = await opened(house)
    await house.store.keep_in_room(room.code, room.room_id, line())
    places = house.keys.room_transcript(room.code), house.keys.room_transcript_order(room.code)
    assert await house.ttl_s(*places) == await house.ttl_s(house.keys.room(room.code)) * 2
    await house.call("PEXPIRE", places[0], 5000)
    await house.rooms.join(room.code, Newcomer(BO, A, 1))
    assert await house.ttl_s(*places) == await house.ttl_s(house.keys.room(room.code)) * 2
    await house.rooms.leave(room.code, BO, epoch=1)
    await house.rooms.leave(room.code, ANNA, epoch=1)
    assert await house.call("EXISTS", *places) == 0
    assert await house.store.of_room(room.code, ANNA) is None
    await house.store.keep_in_room(room.code, room.room_id, line(1))
    assert await house.call("EXISTS", *places) == 0


async def test_another_room_of_the_same_code_has_nothing_of_the_one_before(house):
    room = await opened(house)
    await house.store.keep_in_room(room.code, room.room_id, line())
    await house.rooms.leave(room.code, ANNA, epoch=1)
    again = RoomStore(Scripts(house.ledgers.connection), house.keys, RoomOptions(), draw=lambda: room.code)
    other = await again.create(Newcomer(BO, A, 1))
    await house.store.keep_in_room(room.code, room.room_id, line(1))
    await house.store.keep_in_room(room.code, other.room_id, line(2, BO))
    assert await house.store.of_room(room.code, ANNA) is None
    assert indexes(await house.store.of_room(room.code, BO)) == [2]


async def test_a_room_s_transcript_is_bounded_too(ledgers):
    house = House(ledgers, max_entries=2)
    room = await opened(house)
    for index in range(4):
        await house.store.keep_in_room(room.code, room.room_id, line(index))
    found = await house.store.of_room(room.code, ANNA)
    assert (indexes(found), found.dropped) == ([2, 3], 2)


@pytest.mark.parametrize("code", ["", "12345", "abcdef", "123456}", "{x}"])
async def test_what_is_no_code_leads_nowhere(house, code):
    assert await house.store.of_room(code, ANNA) is None
