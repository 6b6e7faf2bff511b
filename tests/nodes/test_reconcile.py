"""Connected and schedulable are two facts; when Redis loses a connected node, its owner writes it again."""

from __future__ import annotations

from support import wait_until
from world import world


async def test_after_a_flush_a_connected_node_is_schedulable_again_without_its_doing(
    store_options, redis_server
):
    async with world(store_options) as house:
        node = await house.node(node_id="n1")
        speaker = await house.session()
        versions = house.instance.snapshot._versions
        await wait_until(lambda: all(versions.values()), description="the snapshot knows the node's pool")
        with redis_server.client() as client:
            client.flushall()
        await speaker.say()
        job = await node.job(utterance_index=0)
        await node.answer(job)
        await speaker.expect("translation_result", utterance_index=0)
        assert not node.seen("error")
