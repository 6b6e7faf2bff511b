"""Load balancers and Prometheus get plain answers."""

from __future__ import annotations

import aiohttp

from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.store.connection import StoreOptions
from support import wait_until
from world import world


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as http, http.get(url) as answer:
        return answer.status, await answer.text()


async def test_health_is_ok_and_metrics_are_in_the_prometheus_format(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        assert await get(f"{house.instance.url}/health") == (200, "OK")
        assert (await get(f"{house.instance.url}/ready"))[0] == 200
        status, text = await get(f"{house.instance.url}/metrics")
        assert status == 200
        assert "scheduler_sessions_open 1.0" in text
        await speaker.hang_up()


async def test_readiness_fails_while_redis_is_away_and_health_does_not():
    with EmbeddedRedis(port=0) as server:
        async with world(StoreOptions(url=server.url, reconnect_pause_s=0.01)) as house:
            url, port = house.instance.url, server.port
            server.kill()

            async def ready() -> bool:
                return (await get(f"{url}/ready"))[0] == 200

            await wait_until(lambda: not house.instance.stores.up, description="the loss is noticed")
            assert not await ready()
            assert (await get(f"{url}/health"))[0] == 200
            server.start()
            assert server.port == port
            await wait_until(ready, description="ready again")
