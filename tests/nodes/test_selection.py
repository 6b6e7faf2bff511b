"""Which node gets a job, and what happens when none can (AC-24 to AC-30, AC-53)."""

from __future__ import annotations

from collections import Counter

import pytest

from support import wait_until
from world import KINDS, FakeNode, World, world

STRICT = {"nodes": {"resource_threshold": 25, "memory_threshold": 75}}


async def next_choice(house: World, *nodes: FakeNode) -> FakeNode:
    """Let a new session say something; give the node that gets it and does not finish it."""
    speaker = await house.session()
    await speaker.say()
    return (await house.taken(*nodes))[0]


async def report(house: World, nodes: list[FakeNode], *running: int) -> None:
    for node, jobs in zip(nodes, running, strict=True):
        await node.beat(usage={"running_jobs": jobs})
    await house.written(*nodes)


async def refused(house: World, reason: str, **wish: object) -> None:
    """Say something that no node can take, for this main reason."""
    before = house.counted("no_available_node_total", reason=reason)
    speaker = await house.session(**wish)
    await speaker.say()
    await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE", event="ERROR")
    assert house.counted("no_available_node_total", reason=reason) == before + 1


async def test_ac24_the_node_with_the_fewest_jobs_is_chosen(store_options):
    async with world(store_options) as house:
        nodes = [await house.node() for _ in range(3)]
        await report(house, nodes, 3, 1, 0)
        assert await next_choice(house, *nodes) is nodes[2]
        await report(house, nodes, 2, 1, 2)
        assert await next_choice(house, *nodes) is nodes[1]


async def test_jobs_are_spread_evenly(store_options):
    async with world(store_options) as house:
        nodes = [await house.node() for _ in range(4)]
        chosen = Counter([(await next_choice(house, *nodes)).id for _ in range(12)])
        assert set(chosen.values()) == {3}


@pytest.mark.parametrize(
    ("usage", "chosen"),
    [
        ({"cpu_percent": 25}, True),
        ({"cpu_percent": 25.1}, False),
        ({"cpu_percent": 30}, False),
        ({"gpu_percent": 25}, True),
        ({"gpu_percent": 26}, False),
        ({"gpu_percent": None}, False),
        ({"mem_percent": 74}, True),
        ({"mem_percent": 75}, True),
        ({"mem_percent": 76}, False),
    ],
)
async def test_ac25_a_busy_machine_is_left_alone(store_options, usage, chosen):
    async with world(store_options, node_health={"require_gpu": True}, **STRICT) as house:
        node = await house.node()
        await node.beat(usage=usage)
        await house.written(node)
        if chosen:
            assert await next_choice(house, node) is node
        else:
            await refused(house, "resource_threshold_exceeded")


@pytest.mark.parametrize(("cpu", "chosen"), [(85, True), (85.1, False)])
async def test_ac25_the_threshold_is_85_unless_said_otherwise(store_options, cpu, chosen):
    async with world(store_options) as house:
        node = await house.node()
        await node.beat(usage={"cpu_percent": cpu})
        await house.written(node)
        if chosen:
            await next_choice(house, node)
        else:
            await refused(house, "resource_threshold_exceeded")


async def test_ac25_of_two_the_cooler_one_is_chosen(store_options):
    async with world(store_options, **STRICT) as house:
        hot, cool = await house.node(), await house.node()
        await hot.beat(usage={"cpu_percent": 30})
        await cool.beat(usage={"cpu_percent": 20})
        await house.written(hot, cool)
        for _ in range(3):
            assert await next_choice(house, hot, cool) is cool


async def test_ac26_a_full_node_is_waited_for(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await report(house, [node], 4)
        await speaker.say()
        await speaker.expect("ui_event", event="ERROR", error_code="NO_AVAILABLE_NODE")
        assert house.counted("no_available_node_total", reason="capacity_exceeded") == 1
        house.clock.advance(9)
        await report(house, [node], 3)
        await node.answer(await node.job(utterance_index=0))
        await speaker.expect("translation_result", utterance_index=0)
        assert house.counted("no_available_node_total", reason="capacity_exceeded") == 1


async def test_ac27_the_other_direction_will_not_do(store_options):
    async with world(store_options) as house:
        one_way = {"asr_languages": ["en"], "semantic_languages": ["zh"]}
        node = await house.node(language_capabilities=one_way)
        await refused(house, "lang_pair_unsupported", src_lang="zh", tgt_lang="en")
        speaker = await house.session(src_lang="en", tgt_lang="zh")
        await speaker.say()
        await node.job()


async def test_ac28_a_two_way_session_needs_a_node_for_both_directions(store_options):
    two_way = {"src_lang": "auto", "tgt_lang": "en", "mode": "two_way_auto", "lang_a": "zh", "lang_b": "en"}
    async with world(store_options) as house:
        await house.node(language_capabilities={"asr_languages": ["zh"], "semantic_languages": ["en"]})
        await refused(house, "lang_pair_unsupported", **two_way)
        both = await house.node("zh", "en")
        speaker = await house.session(**two_way)
        await speaker.say()
        await both.job(session_id=speaker.id)


async def test_ac29_a_private_node_serves_no_stranger(store_options):
    async with world(store_options) as house:
        private = await house.node(accept_public_jobs=False)
        await refused(house, "not_in_public_pool")
        assert not private.seen("job_assign")


async def test_ac30_a_node_with_a_queue_is_left_alone_until_it_is_empty(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await node.beat(usage={"gpu_queue_length": 2})
        await house.written(node)
        await refused(house, "capacity_exceeded")
        await speaker.say()
        await node.beat()
        await node.job(session_id=speaker.id)


async def test_a_service_that_is_not_ready_is_needed_only_by_those_who_ask_for_it(store_options):
    async with world(store_options) as house:
        no_voice = [{"type": kind, "ready": kind != "tts"} for kind in KINDS]
        node = await house.node()
        await node.beat(capability_by_type=no_voice)
        await house.written(node)
        await refused(house, "model_not_available")
        speaker = await house.session(pipeline={"use_asr": True, "use_nmt": True, "use_tts": False})
        await speaker.say()
        await node.job(session_id=speaker.id)


async def test_without_nodes_that_is_said(store_options):
    async with world(store_options) as house:
        await refused(house, "no_nodes")


async def test_ac53_of_a_hundred_utterances_at_once_a_node_gets_its_capacity(store_options):
    async with world(store_options) as house:
        node = await house.node(max_concurrent_jobs=4)
        speakers = [await house.session() for _ in range(100)]
        for speaker in speakers:
            await speaker.say()
        await house.settled(*speakers)
        assert len(node.seen("job_assign")) == 4
        assert len(await house.reserved()) == 4
        for _ in range(100):
            await node.answer(await node.job())
            assert len(await house.reserved()) <= 4
        await wait_until(lambda: all(each.seen("translation_result") for each in speakers), description="all")


async def test_nodes_of_every_pool_are_used(store_options):
    async with world(store_options, pools={"pool_count": 4}) as house:
        ids = [f"n{number}" for number in range(8)]
        nodes = [await house.node(node_id=name, max_concurrent_jobs=1) for name in ids]
        assert len({facts.pool for facts in house.instance.snapshot.nodes()}) > 1
        chosen = [(await next_choice(house, *nodes)).id for _ in ids]
        assert sorted(chosen) == ids
        await refused(house, "capacity_exceeded")


async def test_a_session_stays_in_the_pool_it_used_last(store_options):
    async with world(store_options, pools={"pool_count": 4}) as house:
        nodes = [await house.node(node_id=f"n{number}") for number in range(8)]
        speaker = await house.session()
        pools = set()
        for index in range(6):
            await speaker.say()
            node, job = await house.taken(*nodes, utterance_index=index)
            await node.answer(job)
            await speaker.expect("translation_result", utterance_index=index)
            pools.add(house.instance.snapshot.node(node.id).pool)
        assert len(pools) == 1
