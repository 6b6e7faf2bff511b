"""Pieces of one turn stay on one node; nothing else sticks (AC-33, AC-34)."""

from __future__ import annotations

from support import wait_until
from world import FAST, World, world

PIECE = 3000  # bytes of noise that last the longest duration of FAST


async def remembered(house: World, session_id: str) -> bytes | None:
    redis = house.instance.stores.connection
    return await redis.call("HGET", house.keys.session(session_id), "timeout_node_id")


async def test_ac33_a_turn_stays_and_the_next_one_goes_where_there_is_room(store_options):
    async with world(store_options, **FAST) as house:
        nodes = [await house.node(), await house.node()]
        speaker = await house.session()
        await speaker.chunk(PIECE)
        first, _ = await house.taken(*nodes, utterance_index=0)
        (idler,) = [node for node in nodes if node is not first]
        assert await remembered(house, speaker.id) == first.id.encode()
        until = await house.instance.stores.connection.call(
            "HGET", house.keys.session(speaker.id), "timeout_node_until"
        )
        now = (await house.instance.stores.connection.call("TIME"))[0]
        assert 0 < int(until) / 1000 - int(now) <= 301

        await speaker.chunk(PIECE)
        await first.job(utterance_index=1)
        await speaker.final()
        await first.job(utterance_index=2)
        assert not idler.seen("job_assign")

        await speaker.say()
        await idler.job(utterance_index=3)
        assert await remembered(house, speaker.id) is None

        await speaker.hang_up()
        await house.forget(speaker, nodes=(first, idler))

        async def gone() -> bool:
            return not await house.instance.stores.connection.call("EXISTS", house.keys.session(speaker.id))

        await wait_until(gone, description="nothing of the session is left")


async def test_ac34_when_its_node_dies_the_turn_goes_on_with_another_one(store_options):
    async with world(store_options, **FAST) as house:
        nodes = [await house.node() for _ in range(3)]
        speaker = await house.session()
        await speaker.chunk(PIECE)
        first, _ = await house.taken(*nodes, utterance_index=0)
        first.reset()
        others = [node for node in nodes if node is not first]
        second, _ = await house.taken(*others, utterance_index=0)
        for index in (1, 2):
            await speaker.chunk(PIECE)
            assert (await house.taken(*others, utterance_index=index))[0] is second
        await speaker.final()
        assert (await house.taken(*others, utterance_index=3))[0] is second
        assert await remembered(house, speaker.id) is None
