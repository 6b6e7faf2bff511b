"""A node whose connection is gone: not chosen, given a moment to return, then removed (AC-21, AC-49)."""

from __future__ import annotations

import pytest

from support import wait_until
from world import FakeNode, World, world


async def offline(house: World, node_id: str) -> None:
    """Wait until a node is written as offline."""

    async def closed() -> bool:
        line = await house.redis("HGET", house.keys.nodes(0), node_id)
        return line is not None and line.endswith(b" offline")

    await wait_until(closed, description=f"{node_id} is offline")


async def gone(house: World, node_id: str) -> None:
    """Wait until nothing of a node is left."""

    async def nothing() -> bool:
        held = [
            await house.redis("ZSCORE", key, node_id) for key in (house.keys.leases(0), house.keys.aside(0))
        ]
        return held == [None, None] and not await house.redis("KEYS", f"*{node_id}*")

    await wait_until(nothing, description=f"nothing of {node_id} is left")


@pytest.mark.parametrize("how", [FakeNode.hang_up, FakeNode.reset])
async def test_ac21_a_lost_node_is_not_chosen_and_is_gone_after_the_grace(store_options, how):
    async with world(store_options) as house:
        node, speaker = await house.node(node_id="n1"), await house.session()
        if (waiting := how(node)) is not None:
            await waiting
        await offline(house, "n1")
        await speaker.say()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        house.clock.advance(4.9)
        assert await house.redis("EXISTS", house.keys.node(0, "n1"))
        house.clock.advance(0.2)
        await gone(house, "n1")
        assert house.instance.snapshot.nodes() == []
        assert house.counted("nodes_connected") == 0


async def test_ac21_a_node_that_returns_within_the_grace_never_left(store_options):
    async with world(store_options) as house:
        first = await house.node(node_id="n1")
        await first.hang_up()
        await offline(house, "n1")
        house.clock.advance(4)
        second = await house.node(node_id="n1")
        house.clock.advance(10)
        await house.written(second)
        assert await house.redis("EXISTS", house.keys.node(0, "n1"))
        assert house.instance.snapshot.node("n1") is not None
        speaker = await house.session()
        await speaker.say()
        await second.job()


async def test_a_node_that_returns_to_another_instance_within_the_grace_stays_known(store_options):
    async with world(store_options) as here, world(store_options) as there:
        first = await here.node(node_id="n1")
        await first.hang_up()
        await offline(here, "n1")
        await there.node(node_id="n1")
        here.clock.advance(6)
        await wait_until(lambda: not here.instance.node_door._links, description="the old link is gone")
        assert await here.redis("HGET", here.keys.node(0, "n1"), "owner") == there.instance.id.encode()
        await wait_until(
            lambda: (facts := here.instance.snapshot.node("n1")) and facts.owner == there.instance.id,
            description="it is known where it is now",
        )


async def test_ac49_the_job_of_a_lost_node_moves_at_once(store_options):
    async with world(store_options) as house:
        nodes = [await house.node(), await house.node()]
        speaker = await house.session()
        await speaker.say()
        busy, job = await house.taken(*nodes)
        other = next(node for node in nodes if node is not busy)
        busy.reset()
        moved = await other.job(attempt_id=2)
        assert (moved["job_id"], moved["audio"]) == (job["job_id"], job["audio"])
        await other.answer(moved)
        await speaker.expect("translation_result", utterance_index=0)


async def test_a_node_that_is_lost_while_it_registers_leaves_nothing(store_options):
    async with world(store_options) as house:
        for _ in range(10):
            node = await house.stranger()
            await node.ask_to_register(node_id="n1")
            node.reset()
        await gone(house, "n1")
        await wait_until(lambda: not house.instance.node_door._links, description="no link stays")


async def test_an_instance_that_stops_takes_its_nodes_with_it(store_options):
    async with world(store_options) as there:
        async with world(store_options) as here:
            await here.node(node_id="n1")
            await wait_until(lambda: there.instance.snapshot.node("n1"), description="both know it")
        await gone(there, "n1")
        await wait_until(lambda: not there.instance.snapshot.nodes(), description="the other one knows")
