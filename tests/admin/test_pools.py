"""Pools and simulated placement over HTTP: the same decisions as placement, with nothing changed."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from lingua_scheduler.core.pools import CoreServices
from world import World, world

CORE = CoreServices()
CORE_SERVICES = [
    {"service_id": service_id, "type": kind, "device": "gpu", "status": "running"}
    for kind, service_id in (("asr", CORE.asr), ("nmt", CORE.nmt), ("tts", CORE.tts))
]
TWO_EQUAL_POOLS = {
    "by_capability": [
        {"pool_id": 10, "name": "ten", "required_services": [CORE.asr, CORE.nmt, CORE.tts]},
        {"pool_id": 11, "required_services": [CORE.asr, CORE.nmt, CORE.tts]},
    ],
    "tenant_overrides": [{"tenant_id": "tenant-A", "pool_id": 11}],
}


async def get(house: World, path: str) -> tuple[int, Any]:
    await house.instance.desk.refresh()
    async with aiohttp.ClientSession() as http, http.get(f"{house.instance.url}{path}") as answer:
        return answer.status, await answer.json(content_type=None)


async def node(house: World, node_id: str):
    made = await (await house.stranger()).register(node_id=node_id, installed_services=CORE_SERVICES)
    await made.beat(installed_services=CORE_SERVICES)
    await made.expect("node_status", status="ready")
    return made


async def test_pools_show_their_nodes_and_what_they_require(store_options):
    async with world(store_options, pools=TWO_EQUAL_POOLS) as house:
        await node(house, "node-cap-1")
        await node(house, "node-cap-0")
        status, shown = await get(house, "/api/v1/phase3/pools")
        assert status == 200
        pools = {pool["pool_id"]: pool for pool in shown["pools"]}
        assert pools[10]["sample_node_ids"] == ["node-cap-1"]
        assert pools[10]["pool_name"] == "ten"
        assert pools[11]["sample_node_ids"] == ["node-cap-0"]
        assert "pool_name" not in pools[11]
        assert (pools[10]["total_nodes"], pools[10]["ready_nodes"]) == (1, 1)
        assert shown["config"]["tenant_overrides"] == [{"tenant_id": "tenant-A", "pool_id": 11}]


async def test_a_node_that_fits_no_pool_is_shown_and_never_asked(store_options):
    async with world(store_options, pools=TWO_EQUAL_POOLS) as house:
        await house.node(node_id="odd-one")
        _, shown = await get(house, "/api/v1/phase3/pools")
        nowhere = next(pool for pool in shown["pools"] if pool["pool_id"] == -1)
        assert nowhere["sample_node_ids"] == ["odd-one"]
        speaker = await house.session()
        await speaker.say()
        await speaker.expect("ui_event", event="ERROR", error_code="NO_AVAILABLE_NODE")


async def test_ac_70_a_tenant_prefers_its_own_pool(store_options):
    async with world(store_options, pools=TWO_EQUAL_POOLS) as house:
        await node(house, "node-cap-1")
        await node(house, "node-cap-0")
        _, of_a = await get(house, "/api/v1/phase3/simulate?tenant_id=tenant-A")
        _, of_b = await get(house, "/api/v1/phase3/simulate?tenant_id=tenant-B")
        assert (of_a["debug"]["preferred_pool"], of_a["selected_node_id"]) == (11, "node-cap-0")
        assert (of_b["debug"]["preferred_pool"], of_b["selected_node_id"]) == (10, "node-cap-1")


@pytest.mark.parametrize("fallback", [True, False])
async def test_ac_72_an_empty_preferred_pool_falls_back_only_if_allowed(store_options, fallback):
    pools = {**TWO_EQUAL_POOLS, "fallback_scan_all_pools": fallback}
    async with world(store_options, pools=pools) as house:
        await node(house, "node-cap-1")  # pool 10; tenant-A's is 11
        _, shown = await get(house, "/api/v1/phase3/simulate?tenant_id=tenant-A")
        assert shown["selected_node_id"] == ("node-cap-1" if fallback else None)
        assert shown["debug"]["fallback_used"] is fallback
        assert shown["debug"]["attempts"][0] == [11, "no_nodes", 0]


async def test_ac_74_simulation_takes_repeated_requirements_and_changes_nothing(store_options, redis_server):
    def everything(client) -> dict[bytes, bytes]:
        return {key: client.dump(key) for key in client.scan_iter()}

    async with world(store_options) as house:
        await house.node(node_id="n1")
        with redis_server.client() as client:
            before, counted = everything(client), house.instance.metrics.render()
            status, shown = await get(house, "/api/v1/phase3/simulate?required=asr&required=nmt&src_lang=zh")
            assert (status, shown["required"], shown["selected_node_id"]) == (200, ["asr", "nmt"], "n1")
            assert everything(client) == before

        def of_jobs(text: bytes) -> list[bytes]:
            background = (b"store_call", b"redis_op", b"autoscale", b"dashboard")
            return [line for line in text.splitlines() if not any(word in line for word in background)]

        assert of_jobs(house.instance.metrics.render()) == of_jobs(counted)


async def test_simulation_says_why_nobody_would_be_chosen(store_options):
    async with world(store_options) as house:
        await house.node("zh", "en", node_id="n1")
        _, shown = await get(house, "/api/v1/phase3/simulate?src_lang=fr&tgt_lang=en")
        assert shown["selected_node_id"] is None
        assert shown["breakdown"]["lang_pair_unsupported"] == 1
        _, shown = await get(house, "/api/v1/phase3/simulate?exclude_node_id=n1")
        assert shown["selected_node_id"] is None


async def test_values_without_end_are_refused(store_options):
    async with world(store_options) as house:
        status, shown = await get(house, f"/api/v1/phase3/simulate?tenant_id={'x' * 200}")
        assert (status, shown["status"]) == (400, 400)


async def test_ac_75_a_strict_tenant_never_leaves_its_pool_not_even_by_failover(store_options):
    pools = {**TWO_EQUAL_POOLS, "strict_eligibility": True}
    async with world(store_options, pools=pools) as house:
        foreign = await node(house, "node-cap-1")
        own = await node(house, "node-cap-0")
        speaker = await house.session(tenant_id="tenant-A")
        await speaker.say()
        job = await own.job()
        await own.hang_up()
        await speaker.expect("ui_event", event="ERROR", error_code="NO_AVAILABLE_NODE")
        assert job["attempt_id"] == 1
        assert not foreign.seen("job_assign")
