"""The catalogue is there whether or not the hub is, and nobody who looks waits for it."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from asking import ask, look
from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.core.catalogue import ModelHubOptions
from lingua_scheduler.hub.subscription import Subscription
from lingua_scheduler.metrics import Metrics
from model_hub import ModelHub, model_hub, service
from support import wait_until
from world import World, world


@pytest.fixture
async def hub():
    async with model_hub(service("piper-tts")) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with a local index."""
    entry = service("local-tts")
    (tmp_path / "services_index.json").write_text(json.dumps({entry["service_id"]: entry}))
    return tmp_path


class Subscriber:
    """A subscription whose time is moved by hand."""

    def __init__(self, **options: Any) -> None:
        self.clock = VirtualClock()
        self.metrics = Metrics()
        self.subscription = Subscription(ModelHubOptions(**options), self.clock, self.metrics)

    async def turn(self) -> None:
        """Let it ask, if that is due, and wait for the end of that."""
        await self.subscription.turn()
        await wait_until(lambda: not len(self.subscription._tasks), description="the question is over")

    async def next_question(self, hub_asked: Any) -> float:
        """Move the clock until it asks again; tell how far."""
        before, moved_s = hub_asked(), 0
        while hub_asked() == before:
            assert moved_s <= 1000
            self.clock.advance(1)
            moved_s += 1
            await self.turn()
        return moved_s

    @property
    def ids(self) -> list[str]:
        return [each.service_id for each in self.subscription.standing.catalogue.services]

    def gauge(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"scheduler_service_catalog_{name}")


async def test_ac_82_a_hub_that_is_down_at_the_start_is_replaced_by_the_local_index_until_it_is_back(
    hub: ModelHub, folder: Path
) -> None:
    await hub.stop()
    mine = Subscriber(base_url=hub.url, storage_path=str(folder))
    await mine.turn()
    standing = mine.subscription.standing
    assert mine.ids == ["local-tts"]
    assert (standing.source, standing.fail_count, standing.last_success_at_ms) == ("local", 1, 0)
    assert standing.last_error.startswith("hub_failed: ")
    assert standing.last_error.endswith("; used_local_index=true")
    assert (mine.gauge("fail_count"), mine.gauge("last_success_age_seconds")) == (1, 0)
    await hub.start()
    mine.clock.advance(30)
    await mine.turn()
    standing = mine.subscription.standing
    assert mine.ids == ["piper-tts"]
    assert (standing.source, standing.fail_count, standing.last_error) == ("hub", 0, "")
    mine.clock.advance(12)
    assert (mine.gauge("fail_count"), mine.gauge("last_success_age_seconds")) == (0, 12)


async def test_ac_82_the_pauses_are_30_30_60_120_240_and_300_seconds(hub: ModelHub) -> None:
    async def broken(_request: web.Request) -> web.Response:
        return web.Response(status=500)

    hub.handler = broken
    mine = Subscriber(base_url=hub.url)
    await mine.turn()
    pauses = [await mine.next_question(lambda: len(hub.asked)) for _ in range(7)]
    assert pauses == [30, 30, 60, 120, 240, 300, 300]
    hub.handler = None
    await mine.next_question(lambda: len(hub.asked))
    assert mine.subscription.standing.fail_count == 0
    assert await mine.next_question(lambda: len(hub.asked)) == 30


async def test_a_failure_keeps_what_the_hub_said_before(hub: ModelHub) -> None:
    mine = Subscriber(base_url=hub.url)
    await mine.turn()
    await hub.stop()
    mine.clock.advance(30)
    await mine.turn()
    standing = mine.subscription.standing
    assert (mine.ids, standing.source, standing.fail_count) == (["piper-tts"], "hub", 1)
    assert "used_local_index" not in standing.last_error
    assert mine.gauge("last_success_age_seconds") == 30


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", '{"x": 1}'])
async def test_a_local_index_that_is_of_no_use_replaces_nothing(
    hub: ModelHub, folder: Path, text: str
) -> None:
    mine = Subscriber(base_url=hub.url, storage_path=str(folder))
    await mine.turn()
    await hub.stop()
    (folder / "services_index.json").write_text(text)
    mine.clock.advance(30)
    await mine.turn()
    assert (mine.ids, mine.subscription.standing.source) == (["piper-tts"], "hub")


async def test_one_question_at_a_time_however_long_it_takes(hub: ModelHub) -> None:
    go_on = asyncio.Event()

    async def slow(_request: web.Request) -> web.Response:
        await go_on.wait()
        return web.json_response({"services": []})

    hub.handler = slow
    mine = Subscriber(base_url=hub.url)
    for _ in range(3):
        await mine.subscription.turn()
        mine.clock.advance(1000)
    await wait_until(lambda: hub.asked, description="the hub is asked")
    go_on.set()
    await wait_until(lambda: not len(mine.subscription._tasks), description="the question is over")
    assert len(hub.asked) == 1


async def test_a_question_under_way_ends_with_the_instance(hub: ModelHub) -> None:
    async def slow(_request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    hub.handler = slow
    mine = Subscriber(base_url=hub.url)
    await mine.subscription.turn()
    await wait_until(lambda: hub.asked, description="the hub is asked")
    await mine.subscription.stop()
    assert not len(mine.subscription._tasks)


async def test_without_a_hub_the_local_index_is_read_again_and_again(folder: Path) -> None:
    mine = Subscriber(storage_path=str(folder))
    await mine.turn()
    standing = mine.subscription.standing
    assert (mine.ids, standing.source, standing.fail_count) == (["local-tts"], "local", 0)
    (folder / "services_index.json").write_text(json.dumps({"services": [service("newer")]}))
    mine.clock.advance(30)
    await mine.turn()
    assert mine.ids == ["newer"]
    (folder / "services_index.json").unlink()
    mine.clock.advance(30)
    await mine.turn()
    assert (mine.ids, mine.subscription.standing.fail_count) == (["newer"], 1)
    assert "local_index_failed" in mine.subscription.standing.last_error


async def test_without_both_nothing_is_asked() -> None:
    mine = Subscriber()
    await mine.turn()
    assert not mine.subscription.wanted
    assert mine.subscription.standing.fetched_at_ms == 0


async def test_a_local_index_that_is_no_file_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "services_index.json")
    mine = Subscriber(storage_path=str(tmp_path))
    await mine.turn()
    assert "not a file" in mine.subscription.standing.last_error


async def test_a_local_index_that_is_too_large_is_refused(folder: Path) -> None:
    (folder / "services_index.json").write_text(" " * 2000 + "{}")
    mine = Subscriber(storage_path=str(folder), max_answer_bytes=1024)
    await mine.turn()
    assert "larger than 1024 bytes" in mine.subscription.standing.last_error


async def shown(house: World) -> tuple[dict[str, Any], dict[str, Any]]:
    """Look at the services by their ids, and at how they became known."""
    nodes = (await look(house.instance, "stats"))["nodes"]
    services = {each["service_id"]: each for each in nodes["available_services"]}
    assert nodes["total_services"] == len(services)
    return services, (await look(house.instance, "metrics"))["service_catalog"]


async def fetched(house: World) -> None:
    standing = house.instance.subscription
    await wait_until(lambda: standing.standing.fetched_at_ms, description="the catalogue is there")


async def test_people_see_what_the_hub_offers_and_what_nodes_have(store_options, hub: ModelHub) -> None:
    hub.services = [service("asr-service"), service("unused"), None]
    async with world(store_options, model_hub={"base_url": hub.url}) as house:
        await fetched(house)
        await house.node()
        services, catalogue = await shown(house)
        assert set(services) == {"asr-service", "nmt-service", "tts-service", "semantic-service", "unused"}
        first, second = services["asr-service"]["variants"]
        assert (first["version"], first["platform"], first["artifact"]["size_bytes"]) == (
            "1.0.0",
            "linux-x64",
            7,
        )
        assert second == {"version": "", "platform": "linux", "artifact": None}
        assert (catalogue["source"], catalogue["services"], catalogue["skipped"]) == ("hub", 2, 1)
        assert (catalogue["fail_count"], catalogue["last_error"]) == (0, "")
        assert catalogue["fetched_at_ms"] == catalogue["last_success_at_ms"] == house.clock.wall_ms()


async def test_a_hub_that_is_down_keeps_nobody_from_working(
    store_options, hub: ModelHub, folder: Path
) -> None:
    await hub.stop()
    options = {"base_url": hub.url, "storage_path": str(folder)}
    async with world(store_options, model_hub=options) as house:
        await fetched(house)
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        await node.answer(await node.job())
        await speaker.expect("translation_result")
        services, catalogue = await shown(house)
        assert "local-tts" in services
        assert catalogue["fail_count"] == house.counted("service_catalog_fail_count") == 1
        assert catalogue["last_error"].endswith("used_local_index=true")
        assert (await ask(house.instance, "GET", "/ready"))[0] == 200


async def test_a_hub_that_hangs_makes_no_instance_unready_and_no_request_wait(
    store_options, hub: ModelHub
) -> None:
    async def slow(_request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    hub.handler = slow
    async with world(store_options, model_hub={"base_url": hub.url}) as house:
        await wait_until(lambda: hub.asked, description="the hub is asked")
        house.clock.advance(15)
        async with asyncio.timeout(2):
            assert (await shown(house))[1]["fetched_at_ms"] == 0
        assert not [said for said in house.instance.complaints() if "catalogue" in said]
