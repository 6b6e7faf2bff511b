"""A node that stops reading costs bounded memory, loses its connection, and its jobs move (AC-86, F14)."""

from __future__ import annotations

from support import wait_until
from world import FakeNode, Speaker, World, world

AUDIO = b"\x01\x7f" * 200_000  # 12.5 s
TIGHT = {"server": {"port": 0, "nodes": {"send_queue_bytes": 1_000_000}}, "job_timeout": {"base_s": 60}}


async def stops_reading(node: FakeNode) -> None:
    node._reader.cancel()
    await wait_until(node._reader.done, description="it reads no more")


async def talk(house: World, utterances: int) -> Speaker:
    """Open a session and say so many long things."""
    speaker = await house.session()
    for index in range(utterances):
        await speaker.utterance(index, AUDIO)
    return speaker


async def test_ac86_a_node_that_stops_reading_is_closed_and_its_jobs_move(store_options):
    async with world(store_options, **TIGHT) as house:
        slow = await house.node(max_concurrent_jobs=256)
        await stops_reading(slow)
        speakers = [await talk(house, 4) for _ in range(12)]

        await wait_until(
            lambda: house.counted("slow_consumer_closed_total") == 1, description="the node is closed"
        )
        other = await house.node(max_concurrent_jobs=1)
        for _ in range(48):
            await other.answer(await other.job())
        for speaker in speakers:
            for index in range(4):
                await speaker.expect("translation_result", utterance_index=index)
        await house.settled(*speakers)
        assert await house.reserved() == []


async def test_ac86_other_nodes_are_not_disturbed(store_options):
    async with world(store_options, **TIGHT) as house:
        slow, other = await house.node("zh", "en"), await house.node("de", "fr")
        await stops_reading(slow)
        await talk(house, 4)
        speaker = await house.session(src_lang="de", tgt_lang="fr")
        await speaker.say()
        await other.answer(await other.job())
        await speaker.expect("translation_result")


async def test_f14_a_node_that_takes_nothing_for_long_is_closed(store_options):
    async with world(store_options, server={"port": 0, "nodes": {"send_stall_s": 5}}) as house:
        slow = await house.node(max_concurrent_jobs=256)
        await stops_reading(slow)
        speakers = [await talk(house, 4) for _ in range(12)]
        await house.settled(*speakers)
        assert house.counted("slow_consumer_closed_total") == 0
        house.clock.advance(5)
        await wait_until(
            lambda: house.counted("slow_consumer_closed_total") == 1, description="the node is closed"
        )
        await wait_until(lambda: not house.instance.routing.links(), description="the link is gone")
