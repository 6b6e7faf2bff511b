"""Acceptance cases 133 to 139: pieces of one speech reach one node, and nothing else sticks."""

from __future__ import annotations

from collections import Counter

import pytest

from lingua_scheduler.store.keys import Keys
from world import FAST, FakeNode, Speaker, World, world

PAUSE_S = 0.46  # of FAST, with the hang-over window
PIECE = 3000  # bytes of noise that last the longest duration of FAST


async def answered(house: World, nodes: list[FakeNode], speaker: Speaker, index: int) -> FakeNode:
    """Answer an utterance; give the node that had it."""
    node, job = await house.taken(*nodes, utterance_index=index)
    await node.answer(job)
    await speaker.expect("translation_result", utterance_index=index)
    await house.settled(speaker)
    return node


async def pause(house: World, speaker: Speaker) -> None:
    """Speak and fall silent until the silence cuts."""
    await speaker.chunk(600)
    await house.pass_time(PAUSE_S, speaker)


async def two_nodes(house: World) -> list[FakeNode]:
    return [await house.node(), await house.node()]


async def occupy(house: World, nodes: list[FakeNode], busy: FakeNode) -> None:
    """Give a node a job of somebody else that it does not finish, so that the other one is less loaded."""
    for _ in range(len(nodes)):
        stranger = await house.session()
        await stranger.say()
        node, job = await house.taken(*nodes)
        if node is busy:
            return
        await node.answer(job)
        await house.settled(node)
    raise AssertionError("the node got no job")


async def test_133_cuts_by_silence_stay_with_their_node(store_options):
    async with world(store_options, **FAST) as house:
        nodes, speaker = await two_nodes(house), await house.session()
        await pause(house, speaker)
        first = await answered(house, nodes, speaker, 0)
        await occupy(house, nodes, first)

        for index in range(1, 11):
            await pause(house, speaker)
            assert await answered(house, nodes, speaker, index) is first


async def test_133_the_preference_needs_a_free_slot(store_options):
    async with world(store_options, **FAST) as house:
        nodes = [await house.node(max_concurrent_jobs=1), await house.node(max_concurrent_jobs=1)]
        speaker = await house.session()
        await pause(house, speaker)
        first = await answered(house, nodes, speaker, 0)
        await occupy(house, nodes, first)
        await pause(house, speaker)

        assert await answered(house, nodes, speaker, 1) is not first


async def test_134_manual_utterances_use_both_nodes(store_options):
    async with world(store_options) as house:
        nodes, speaker = await two_nodes(house), await house.session()
        used = Counter()
        for index in range(40):
            await speaker.say()
            used[(await answered(house, nodes, speaker, index)).id] += 1

        assert len(used) == 2


async def test_135_a_manual_cut_lets_go_of_the_node(store_options):
    async with world(store_options, **FAST) as house:
        nodes, speaker = await two_nodes(house), await house.session()
        await pause(house, speaker)
        first = await answered(house, nodes, speaker, 0)
        await occupy(house, nodes, first)

        for index in range(1, 22):
            await speaker.say()
            assert await answered(house, nodes, speaker, index) is not first


@pytest.mark.parametrize("turn", range(3))
async def test_136_a_turn_stays_on_one_node_with_its_last_piece(store_options, turn):
    async with world(store_options, **FAST) as house:
        nodes, speaker = await two_nodes(house), await house.session()
        for number in range(4):
            first = number * 4
            for _ in range(3):
                await speaker.chunk(PIECE)
            await speaker.sync()
            if turn == 0:
                await speaker.final()
            elif turn == 1:
                await house.pass_time(PAUSE_S, speaker)
            else:
                await speaker.chunk(60, final=True)
            taken = [await house.taken(*nodes, utterance_index=first + piece) for piece in range(4)]
            assert len({node.id for node, _ in taken}) == 1
            assert len({job["turn_id"] for _, job in taken}) == 1
            assert [job.get("is_max_duration_triggered", False) for _, job in taken] == [True] * 3 + [False]
            for node, job in taken:
                await node.answer(job)
            await speaker.expect("translation_result", utterance_index=first + 3)
            await house.settled(speaker)


async def test_136_a_turn_waits_for_its_node_although_another_is_free(store_options):
    async with world(store_options, **FAST) as house:
        nodes = [await house.node(max_concurrent_jobs=1), await house.node(max_concurrent_jobs=1)]
        speaker = await house.session()
        await speaker.chunk(PIECE)
        node, job = await house.taken(*nodes, utterance_index=0)
        await speaker.final()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE", utterance_index=1)
        await node.answer(job)

        assert await answered(house, nodes, speaker, 1) is node


@pytest.mark.parametrize("inside_a_turn", [True, False])
async def test_137_a_node_that_went_offline_is_replaced(store_options, inside_a_turn):
    async with world(store_options, **FAST) as house:
        nodes, speaker = await two_nodes(house), await house.session()
        if inside_a_turn:
            await speaker.chunk(PIECE)
        else:
            await pause(house, speaker)
        first = await answered(house, nodes, speaker, 0)
        first.reset()
        (second,) = [node for node in nodes if node is not first]
        await speaker.chunk(PIECE)
        assert await answered(house, [second], speaker, 1) is second
        await speaker.final()

        assert await answered(house, [second], speaker, 2) is second


async def stored(house: World, speaker: Speaker) -> tuple[str | None, int]:
    """Read the recorded node and the life of the session's hash in Redis."""
    redis, keys = house.instance.stores.connection, Keys(house.instance.config.redis.key_prefix)
    key = keys.session(speaker.id)
    field = await redis.call("HGET", key, "timeout_node_id")
    return field.decode() if field else None, await redis.call("PTTL", key)


async def test_138_the_record_can_be_seen_in_redis(store_options):
    async with world(store_options, **FAST) as house:
        nodes, speaker = await two_nodes(house), await house.session()
        await pause(house, speaker)
        node = await answered(house, nodes, speaker, 0)
        recorded, life_ms = await stored(house, speaker)
        assert recorded == node.id
        assert life_ms > 0

        await speaker.say()
        await answered(house, nodes, speaker, 1)
        assert (await stored(house, speaker))[0] is None

        await speaker.chunk(PIECE)
        node = await answered(house, nodes, speaker, 2)
        assert (await stored(house, speaker))[0] == node.id


async def test_139_the_record_does_not_outlive_its_time(store_options):
    async with world(store_options, affinity={"ttl_seconds": 2}, **FAST) as house:
        nodes, speaker = await two_nodes(house), await house.session()
        used = Counter()
        for index in range(20):
            await pause(house, speaker)
            used[(await answered(house, nodes, speaker, index)).id] += 1
            for node in nodes:
                await node.beat()
                await node.sync()
            await house.pass_time(3, speaker)

        assert len(used) == 2
