"""Redis dies and does not come back: the instance still stops in time."""

from __future__ import annotations

import asyncio

from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.store.connection import StoreOptions
from world import world


async def test_an_instance_stops_although_redis_is_gone_for_good():
    with EmbeddedRedis(port=0) as server:
        async with asyncio.timeout(30), world(StoreOptions(url=server.url)) as house:
            node = await house.node()
            speaker = await house.session()
            await speaker.say()
            await node.job()
            server.kill()
            await speaker.say()
            await speaker.expect("ui_event", event="ERROR", error_code="SCHEDULER_DEPENDENCY_DOWN")
