"""The end of an instance as a process: signals drain it, and the exit code says how that went."""

from __future__ import annotations

import signal
import time
from contextlib import asynccontextmanager

import aiohttp
import pytest

from processes import lingua
from support import wait_until
from world import FakeNode, Speaker


@pytest.fixture
def environment(store_options):
    """Lead instances to the test's Redis and prefix."""
    return {
        "LINGUA_REDIS__URL": store_options.url,
        "LINGUA_REDIS__KEY_PREFIX": store_options.key_prefix,
        "LINGUA_TRANSCRIPT__KEEP_S": "0",  # an ended session leaves nothing
    }


class Peers:
    """Clients and nodes of instances that are processes."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http

    async def session(self, url: str, **wish) -> Speaker:
        return await Speaker(await self._http.ws_connect(f"{url}/ws/session")).init(**wish)

    async def node(self, url: str, **fields) -> FakeNode:
        node = await FakeNode(await self._http.ws_connect(f"{url}/ws/node")).register(**fields)
        await node.beat()
        await node.expect("node_status", status="ready")
        return node

    async def ready(self, url: str) -> tuple[int, list[str]]:
        async with self._http.get(f"{url}/ready") as answer:
            return answer.status, (await answer.json())["complaints"]

    async def know_each_other(self, *urls: str) -> None:
        """Wait until each of these instances sees as many as these."""

        async def seen(url: str) -> bool:
            async with self._http.get(f"{url}/metrics") as answer:
                return f"scheduler_instances_alive {len(urls)}.0" in await answer.text()

        for url in urls:
            await wait_until(lambda url=url: seen(url), description="the others are seen")


@asynccontextmanager
async def peers():
    async with aiohttp.ClientSession() as http:
        yield Peers(http)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_ac_85_a_signal_lets_results_come_and_leaves_nothing_behind(environment, redis_server, number):
    async with (
        lingua("serve", "--port", "0", "--instance-id", "one", **environment) as serve,
        peers() as outside,
    ):
        url = await serve.url()
        node = await outside.node(url)
        speaker = await outside.session(url)
        await speaker.say()
        job = await node.job()
        begun = time.monotonic()
        serve.tell(number)
        await serve.says("drain_started")
        assert await outside.ready(url) == (503, ["draining"])
        await node.answer(job)
        await speaker.expect("translation_result", utterance_index=0)
        assert await serve.ended() == 0
        assert time.monotonic() - begun < 30
        assert (await speaker.closed(), await node.closed()) == (1012, 1012)
        with redis_server.client() as client:
            left = [key.decode() for key in client.scan_iter()]
        assert not [key for key in left if speaker.id in key or "owner" in key or "presence" in key], left
        assert not [key for key in left if node.id in key], left


async def test_a_session_moves_to_another_process_with_its_job(environment):
    moved = {**environment, "LINGUA_DRAIN__SPREAD_MS": "100"}
    async with (
        lingua("serve", "--port", "0", "--instance-id", "old", **moved) as old,
        lingua("serve", "--port", "0", "--instance-id", "new", **environment) as new,
        peers() as outside,
    ):
        first, second = await old.url(), await new.url()
        await outside.know_each_other(first, second)
        node = await outside.node(second)
        speaker = await outside.session(first, supports_resume=True)
        await speaker.say()
        job = await node.job()
        old.tell(signal.SIGTERM)
        await speaker.expect("going_away")
        assert await speaker.closed() == 1012
        assert await old.ended() == 0
        again = await outside.session(second, supports_resume=True, resume_token=speaker.ack["resume_token"])
        assert (again.id, again.ack["resumed"]) == (speaker.id, True)
        await node.answer(job)
        await again.expect("translation_result", utterance_index=0)


async def test_a_second_signal_stops_at_once_and_the_exit_code_says_so(environment):
    async with lingua("serve", "--port", "0", **environment) as serve, peers() as outside:
        url = await serve.url()
        node = await outside.node(url)
        speaker = await outside.session(url)
        await speaker.say()
        await node.job()
        serve.tell(signal.SIGTERM)
        await serve.says("drain_started")
        serve.tell(signal.SIGTERM)
        assert await serve.ended() == 4
        assert await speaker.closed() == 1012


async def test_what_the_deadline_cuts_off_shows_in_the_exit_code(environment):
    settings = {**environment, "LINGUA_DRAIN__DEADLINE_S": "0.5"}
    async with lingua("serve", "--port", "0", **settings) as serve, peers() as outside:
        url = await serve.url()
        node = await outside.node(url)
        speaker = await outside.session(url)
        await speaker.say()
        await node.job()
        serve.tell(signal.SIGTERM)
        assert await serve.ended() == 3
        assert await speaker.closed() == 1012


async def test_a_drain_taken_back_after_a_signal_goes_on_serving(environment):
    async with lingua("serve", "--port", "0", **environment) as serve, peers() as outside:
        url = await serve.url()
        node = await outside.node(url)
        speaker = await outside.session(url)
        await speaker.say()
        job = await node.job()
        serve.tell(signal.SIGTERM)
        await serve.says("drain_started")
        async with aiohttp.ClientSession() as http, http.delete(f"{url}/api/v1/drain") as answer:
            assert answer.status == 200
        await node.answer(job)
        await speaker.expect("translation_result", utterance_index=0)
        assert await outside.ready(url) == (200, [])
        serve.tell(signal.SIGTERM)
        await serve.says("drain_started", times=2)
        assert await serve.ended() == 0
