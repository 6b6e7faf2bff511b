"""An operator takes a node out of service: it gets no new jobs, finishes what it has, and can come back."""

from __future__ import annotations

import asyncio

from lingua_scheduler.core.model import NodeId
from lingua_scheduler.node.demo import demo_node
from support import wait_until
from world import FakeNode, World, world


def link_of(house: World, node: FakeNode):
    link = house.instance.node_door.link(NodeId(node.id))
    assert link is not None
    return link


async def test_a_drained_node_is_told_and_gets_no_new_jobs(store_options):
    async with world(store_options) as house:
        first = await house.node(node_id="one")
        link_of(house, first).drain(30)
        await first.expect("node_control", command="drain")
        await first.expect("node_status", status="draining")
        await house.written(first)
        other = await house.node(node_id="two")
        speaker = await house.session()
        for index in range(3):
            await speaker.say()
            await other.answer(await other.job(utterance_index=index))
            await speaker.expect("translation_result", utterance_index=index)
        assert not first.seen("job_assign")


async def test_no_job_slips_through_before_the_pool_knows(store_options):
    """A slot that was reserved at the same moment is not used."""
    async with world(store_options) as house:
        node = await house.node(node_id="one")
        speaker = await house.session()
        await speaker.sync()
        link_of(house, node).drain(30)
        await speaker.say()
        await speaker.expect("ui_event", event="ERROR", error_code="NO_AVAILABLE_NODE")
        assert not node.seen("job_assign")
        link_of(house, node).resume()
        await node.answer(await node.job())
        await speaker.expect("translation_result")


async def test_what_the_node_has_may_finish(store_options):
    async with world(store_options) as house:
        node = await house.node()
        speaker = await house.session()
        await speaker.say()
        job = await node.job()
        link = link_of(house, node)
        link.drain(30)
        assert link.busy
        await node.answer(job)
        await speaker.expect("translation_result", utterance_index=0)
        await wait_until(lambda: not link.busy, description="the node is done")
        house.clock.advance(31)
        assert not link.holds.cut_off


async def test_jobs_that_are_not_done_at_the_deadline_move_and_the_node_stays_drained(store_options):
    async with world(store_options) as house:
        first = await house.node(node_id="one")
        speaker = await house.session()
        await speaker.say()
        late = await first.job()
        link = link_of(house, first)
        link.drain(5)
        await house.written(first)
        second = await house.node(node_id="two")
        house.clock.advance(4.9)
        await speaker.sync()
        assert not second.seen("job_assign")
        house.clock.advance(0.2)
        job = await second.job()
        assert (job["job_id"], job["attempt_id"]) == (late["job_id"], 2)
        await second.answer(job, translated="by the second")
        result = await speaker.expect("translation_result", utterance_index=0)
        assert result["text_translated"] == "by the second"
        assert link.holds.cut_off
        assert link.holds.by_operator


async def test_a_drain_is_taken_back(store_options):
    async with world(store_options) as house:
        node = await house.node()
        link = link_of(house, node)
        link.drain(30)
        await node.expect("node_status", status="draining")
        link.resume()
        await node.expect("node_control", command="resume")
        await node.expect("node_status", status="ready")
        speaker = await house.session()
        await speaker.say()
        await node.answer(await node.job())
        await speaker.expect("translation_result")
        house.clock.advance(31)
        await speaker.sync()
        assert not link.holds


async def test_a_heartbeat_or_a_new_registration_does_not_end_a_drain(store_options):
    async with world(store_options) as house:
        node = await house.node(node_id="one")
        link_of(house, node).drain(30)
        await node.expect("node_status", status="draining")
        await node.beat()
        await node.register(node_id="one")
        await node.expect("node_status", status="draining")
        await node.beat()
        await house.written(node)
        assert not node.seen("node_status", status="ready")
        link_of(house, node).resume()
        await node.expect("node_status", status="registering")
        await node.beat()
        await node.expect("node_status", status="ready")


async def test_a_drained_node_that_disappears_is_gone_like_any_other(store_options):
    async with world(store_options) as house:
        node = await house.node(node_id="one")
        link_of(house, node).drain(30)
        await node.hang_up()
        await wait_until(lambda: not house.instance.node_door.links(), description="the loss is noticed")
        house.clock.advance(31)
        again = await house.node(node_id="one")
        assert not link_of(house, again).holds


async def test_a_node_of_the_sdk_obeys_and_comes_back(store_options):
    idle = {"nodes": {"resource_threshold": 100, "memory_threshold": 100}}
    async with world(store_options, **idle) as house:
        node = demo_node(house.instance.url, node_id="sdk", languages=("zh", "en"))
        serving = asyncio.create_task(node.run())
        await wait_until(lambda: house.instance.snapshot.node(NodeId("sdk")), description="it is registered")
        link = house.instance.node_door.link(NodeId("sdk"))
        link.drain(30)
        await wait_until(lambda: node._protocol.draining, description="it knows")
        link.resume()
        await wait_until(lambda: not node._protocol.draining, description="it knows that, too")
        speaker = await house.session(audio_format="pcm16", sample_rate=16000)
        await speaker.chunk(b"\x11\x22" * 16000, final=True)
        await speaker.expect("translation_result", utterance_index=0)
        await node.drain()
        await serving
