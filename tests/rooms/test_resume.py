"""Speakers and listeners who lose connection, instance or Redis, and what the others hear of it."""

from __future__ import annotations

from typing import Any

import pytest

from comeback import RESUMES, left, resumed
from lingua_scheduler.errors import DependencyDown
from lingua_scheduler.store.connection import StoreOptions
from neighbours import acquainted, shown
from party import TEXT, Party, members, party
from support import wait_until
from world import Speaker, World, world


def heard(guest: Speaker) -> list[str]:
    """List what a guest was told, in order."""
    return [message["text_translated"] for message in guest.seen("translation_result")]


async def back(room: Party, name: str, house: World, **wish: Any) -> Speaker:
    """Let a guest come back to an instance."""
    guest = await resumed(house, room[name], **wish)
    assert guest.ack["resumed"] is True
    room.guests[name], room.homes[name] = guest, house
    return guest


@pytest.mark.parametrize("to", [0, 1])
async def test_a_listener_who_comes_back_hears_what_it_missed_in_order(
    store_options: StoreOptions, to: int
) -> None:
    """On the instance it was on, or on another one while that lives."""
    async with party(store_options, 2) as room:
        node = await room.node()
        await room.open("A")
        await room.join("B", wish=RESUMES)
        await left(room.house("B"), room["B"])
        for index in range(3):
            await room.say("A")
            await node.answer(await node.job(), translated=f"word {index}")
        await room.quiet("A")
        await back(room, "B", room.houses[to])
        await members(room["B"], 2)
        await room.say("A")
        await node.answer(await node.job(), translated="word 3")
        await room.quiet()
        assert heard(room["B"]) == [f"word {index}" for index in range(4)]
        assert room["B"].seen("room_members")


async def test_what_a_listener_acknowledged_it_is_not_told_again(store_options: StoreOptions) -> None:
    async with party(store_options, 1) as room:
        node = await room.node()
        await room.open("A")
        await room.join("B", wish=RESUMES)
        for index in range(3):
            await room.say("A")
            await node.answer(await node.job(), translated=f"word {index}")
        await room.quiet()
        speaker = room["A"].id
        await room["B"].send(
            "result_ack", session_id=room["B"].id, utterance_index=1, speaker_session_id=speaker
        )
        await room["B"].sync()
        await left(room.house("B"), room["B"])
        await back(room, "B", room.houses[0])
        await room.quiet()
        assert heard(room["B"]) == ["word 2"]


async def test_a_listener_whose_instance_has_died_is_found_again(store_options: StoreOptions) -> None:
    """What is said meanwhile waits for it, in order."""
    async with world(store_options) as a:
        dying = world(store_options)
        b = await dying.__aenter__()
        async with world(store_options) as c:
            await acquainted(a, b, c)
            room = Party(a, b)
            node = await room.node()
            await shown(c, 1)
            await room.open("A")
            await room.join("B", wish=RESUMES)
            await dying.__aexit__(None, None, None)
            await a.instance.company.look()
            for index in range(3):
                await room.say("A")
                await node.answer(await node.job(), translated=f"word {index}")
            await a.settled()
            await back(room, "B", c)
            await wait_until(lambda: len(heard(room["B"])) == 3, description="everything was heard")
            assert heard(room["B"]) == ["word 0", "word 1", "word 2"]
            await room.say("A")
            await node.answer(await node.job(), translated="word 3")
            await room["B"].expect("translation_result", text_translated="word 3")


@pytest.mark.parametrize("features", [None, TEXT])
async def test_a_speaker_who_goes_on_elsewhere_is_heard_once(
    store_options: StoreOptions, features: list[str] | None
) -> None:
    """Its jobs, and the languages that waited for their words, go on with its new owner."""
    async with party(store_options, 2) as room:
        node = await room.node(**({"features": features} if features else {}))
        await room.open("A", wish=RESUMES)
        for name in "BD":
            await room.join(name)
        await room.say("A")
        first = await node.job(tgt_lang="en")
        await room.quiet()
        await left(room.house("A"), room["A"])
        await back(room, "A", room.houses[1])
        await room.quiet()
        await node.answer(first, translated="en 0")
        await node.answer(await node.job(tgt_lang="ja"), translated="ja 0")
        for name, lang in (("B", "en"), ("D", "ja")):
            assert (await room[name].expect("translation_result"))["text_translated"] == f"{lang} 0"
        await room.say("A")
        await node.answer(await node.job(tgt_lang="en"), translated="en 1")
        await node.answer(await node.job(tgt_lang="ja"), translated="ja 1")
        await room.quiet()
        assert (heard(room["B"]), heard(room["D"])) == (["en 1"], ["ja 1"])
        assert not any(room[name].seen("missing_result") for name in "BD")


async def test_what_was_told_before_a_speaker_moved_is_not_told_again(store_options: StoreOptions) -> None:
    async with party(store_options, 2) as room:
        node = await room.node()
        await room.open("A", wish=RESUMES)
        await room.join("B")
        for index in range(2):
            await room.say("A")
            await node.answer(await node.job(), translated=f"word {index}")
        await room.quiet()
        await left(room.house("A"), room["A"])
        await back(room, "A", room.houses[1])
        await room.quiet()
        assert heard(room["B"]) == ["word 0", "word 1"]
        assert not room["A"].seen("translation_result")


async def test_members_of_a_dead_instance_are_removed_when_they_could_have_come_back(
    store_options: StoreOptions,
) -> None:
    async with world(store_options) as a:
        dying = world(store_options)
        b = await dying.__aenter__()
        await acquainted(a, b)
        room = Party(a, b)
        await room.open("A")
        await room.join("B", wish=RESUMES)
        await dying.__aexit__(None, None, None)
        await a.instance.company.look()
        a.instance.rooms.look()
        a.clock.advance(30)
        await room["A"].sync()
        a.instance.rooms.look()
        await room.quiet_on(a)
        assert len((await a.instance.stores.rooms.read(room.code)).members) == 2
        a.clock.advance(31)
        a.instance.rooms.look()
        await members(room["A"], 1)


async def test_a_lost_instance_that_lives_again_has_lost_its_members(store_options: StoreOptions) -> None:
    async with party(store_options, 2) as room:
        await room.open("A")
        await room.join("B", wish=RESUMES)
        a = room.house("A")
        a.instance.rooms.instance_lost(room.house("B").instance.id)
        a.clock.advance(61)
        await room["A"].sync()
        a.instance.rooms.look()
        await members(room["A"], 1)
        await room["B"].expect("room_expired")


async def test_while_redis_is_away_the_room_is_as_it_was(
    store_options: StoreOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the room cannot be read; everything else goes on."""
    async with party(store_options, 1) as room:
        node = await room.node()
        await room.everybody("A", "B")

        async def away(*_: Any, **__: Any) -> Any:
            raise DependencyDown("away")

        ledger = room.houses[0].instance.stores.rooms
        monkeypatch.setattr(ledger, "speak", away)
        monkeypatch.setattr(ledger, "read", away)
        await room.say("A")
        await node.answer(await node.job())
        await room["B"].expect("translation_result")


async def test_a_letter_that_comes_twice_is_heard_once(
    store_options: StoreOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with party(store_options, 2) as room:
        node = await room.node()
        await room.everybody("A", "B")
        inbox = room.house("A").instance.stores.inbox
        send, failures = inbox.send, 0

        async def unheard(to: Any, body: bytes) -> Any:
            nonlocal failures
            posted = await send(to, body)
            if b"peer_heard" in body and failures < 1:
                failures += 1
                raise DependencyDown("the answer is lost")
            return posted

        monkeypatch.setattr(inbox, "send", unheard)
        await room.say("A")
        await node.answer(await node.job())
        await room["B"].expect("translation_result")
        await room.quiet()
        assert failures == 1
        assert not room["B"].seen("translation_result")
