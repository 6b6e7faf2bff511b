"""`lingua up` beside a node that the scheduler does not want says so and ends; it does not wait for ever."""

from __future__ import annotations

import asyncio

import pytest

from lingua_scheduler.commands.serve import _registered
from lingua_scheduler.errors import NodeRefused
from lingua_scheduler.node.demo import demo_node
from world import world


async def test_a_refused_node_ends_the_start(store_options):
    async with world(store_options, node_health={"require_gpu": True}) as house:
        node = demo_node(house.instance.url)
        serving = asyncio.create_task(node.run())
        with pytest.raises(NodeRefused):
            await asyncio.wait_for(_registered(node, serving), 10)
