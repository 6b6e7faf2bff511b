"""Draining over HTTP: start, look, take back; an instance and its nodes."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from support import wait_until
from world import World, world

HERE = "/api/v1/drain"


async def ask(house: World, method: str, path: str = HERE, **request: Any) -> tuple[int, dict[str, Any]]:
    async with (
        aiohttp.ClientSession() as http,
        http.request(method, f"{house.instance.url}{path}", **request) as answer,
    ):
        return answer.status, await answer.json(content_type=None)


async def ready(house: World) -> tuple[int, list[str]]:
    status, said = await ask(house, "GET", "/ready")
    return status, said["complaints"]


async def moments(house: World, seconds: float, *, step_s: float = 0.1) -> None:
    """Let time pass in small steps, with the event loop running in between."""
    for _ in range(round(seconds / step_s)):
        house.clock.advance(step_s)
        assert await ready(house)


async def test_an_empty_instance_is_drained_at_once_and_serves_again_when_told_so(store_options):
    async with world(store_options) as house:
        assert await ready(house) == (200, [])
        status, said = await ask(house, "POST", json={"deadline_s": 5})
        assert (status, said["state"], said["cut_off"]) == (202, "drained", 0)
        assert await ready(house) == (503, ["drained"])
        async with aiohttp.ClientSession() as http, http.get(f"{house.instance.url}/health") as answer:
            assert answer.status == 200
        status, said = await ask(house, "DELETE")
        assert (status, said["state"]) == (200, "serving")
        assert await ready(house) == (200, [])
        speaker = await house.session()
        await speaker.sync()


async def test_while_it_drains_nobody_comes_in_and_readiness_says_why(store_options):
    async with world(store_options) as house:
        node = await house.node()
        speaker = await house.session()
        await speaker.say()
        job = await node.job()
        status, said = await ask(house, "POST", json={})
        assert (status, said["state"]) == (202, "draining")
        assert (said["sessions"], said["nodes"], said["jobs"]) == (1, 1, 1)
        assert said["deadline_in_s"] == house.instance.config.drain.deadline_s
        assert await ready(house) == (503, ["draining"])
        async with aiohttp.ClientSession() as http:
            for path in ("/ws/session", "/ws/node"):
                with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
                    await http.ws_connect(f"{house.instance.url}{path}")
                assert (refusal.value.status, "Retry-After" in refusal.value.headers) == (503, True)
        await node.answer(job)
        await speaker.expect("translation_result")


async def test_a_drain_that_is_taken_back_keeps_who_is_still_there(store_options):
    async with world(store_options) as house:
        node = await house.node()
        speaker = await house.session()
        await speaker.say()
        job = await node.job()
        await ask(house, "POST", json={})
        await moments(house, 1)
        status, said = await ask(house, "DELETE")
        assert (status, said["state"], said["deadline_in_s"]) == (200, "serving", None)
        await node.answer(job)
        await speaker.expect("translation_result", utterance_index=0)
        await moments(house, 30)
        await speaker.say()
        await node.beat()
        await node.answer(await node.job())
        await speaker.expect("translation_result", utterance_index=1)


async def test_an_order_that_makes_no_sense_is_refused_with_a_problem(store_options):
    async with world(store_options) as house:
        for body in ("[]", '{"deadline_s": -1}', '{"deadline_s": "soon"}', '{"when": 1}', "{"):
            headers = {"Content-Type": "application/json"}
            status, said = await ask(house, "POST", data=body, headers=headers)
            assert (status, said["title"], said["status"]) == (400, "Bad Request", 400)
        status, said = await ask(house, "POST", data="deadline_s=1")
        assert (status, said["status"]) == (415, 415)
        assert await ready(house) == (200, [])


async def test_a_node_is_drained_and_resumed_by_its_id(store_options):
    async with world(store_options) as house:
        node = await house.node(node_id="one")
        path = "/api/v1/nodes/one/drain"
        assert (await ask(house, "GET", path))[1]["state"] == "serving"
        speaker = await house.session()
        await speaker.say()
        job = await node.job()
        status, said = await ask(house, "POST", path, json={"deadline_s": 10})
        assert (status, said["state"], said["node_id"]) == (202, "draining", "one")
        assert said["instance_id"] == house.instance.id
        await node.expect("node_control", command="drain")
        await node.answer(job)
        await speaker.expect("translation_result")

        async def drained() -> bool:
            return (await ask(house, "GET", path))[1]["state"] == "drained"

        await wait_until(drained, description="the node has finished")
        assert await ready(house) == (200, [])
        status, said = await ask(house, "DELETE", path)
        assert (status, said["state"], said["cut_off"]) == (202, "serving", False)
        await node.expect("node_control", command="resume")


async def test_a_node_nobody_knows_is_not_found(store_options):
    async with world(store_options) as house:
        for method in ("POST", "GET", "DELETE"):
            status, said = await ask(house, method, "/api/v1/nodes/nobody/drain", json={})
            assert (status, said["status"]) == (404, 404)


async def test_a_node_of_another_instance_is_drained_there(store_options):
    async with world(store_options) as house, world(store_options) as neighbour:
        node = await neighbour.node(node_id="far")
        path = "/api/v1/nodes/far/drain"

        async def known() -> bool:
            status, said = await ask(house, "GET", path)
            return status == 200 and said["instance_id"] == neighbour.instance.id and bool(said["url"])

        await wait_until(known, description="the neighbour and its node are known")
        status, said = await ask(house, "POST", path, json={"deadline_s": 10})
        assert (status, said["state"], said["url"]) == (202, None, neighbour.instance.url)
        await node.expect("node_control", command="drain")
        assert (await ask(neighbour, "GET", path))[1]["state"] == "drained"
        await ask(house, "DELETE", path)
        await node.expect("node_control", command="resume")
