"""Of a room and of those who were in it nothing is left."""

from __future__ import annotations

from leftovers import assert_nothing_left, in_memory
from lingua_scheduler.store.connection import StoreOptions
from party import TEXT, party
from support import wait_until


async def test_nothing_is_left_of_a_room(store_options: StoreOptions, instances: int) -> None:
    """In memory, among the alarms or in Redis; also of what was being translated when everybody left."""
    async with party(store_options, instances, session={"close_drain_ms": 0}) as room:
        node = await room.node(features=TEXT)
        before = {house: in_memory(house) for house in room.houses}
        await room.everybody("A", "B", "C", "D")
        for _ in range(2):
            await room.say("A")
            await node.answer(await node.job(tgt_lang="en"))
            await node.answer(await node.job(tgt_lang="ja"))
        await room.quiet()
        await room.say("A")
        await node.job(tgt_lang="en")
        for name, guest in room.guests.items():
            sessions = room.house(name).instance.sessions
            await guest.send("session_close", session_id=guest.id, reason="bye")
            await wait_until(
                lambda sessions=sessions, guest=guest: not (found := sessions.get(guest.id)) or found.closing,
                description="the session is being closed",
            )
            room.house(name).clock.advance(0.1)
            await guest.expect("session_close_ack")
            await guest.hang_up()
        await room.quiet_on(*room.houses)
        for house, then in before.items():
            await assert_nothing_left(house, then)
            assert len(house.instance.rooms) == len(house.instance.room_post) == 0
        keys = [key.decode() for key in await room.houses[0].redis("KEYS", "*{room:*")]
        assert [key for key in keys if "transcript" not in key] == []
