"""The story of a scraper before a machine with several workers: one port, and yet each of them is asked."""

from __future__ import annotations

import json
import os
import signal

import aiohttp

from lingua_scheduler.admin.siblings import SiblingMetrics, Siblings
from processes import lingua
from prometheus import prometheus
from support import wait_until
from world import Speaker

SESSIONS = 5


def environment(store_options) -> dict[str, str]:
    """Lead workers to the test's Redis and prefix."""
    return {"LINGUA_REDIS__URL": store_options.url, "LINGUA_REDIS__KEY_PREFIX": store_options.key_prefix}


async def get(http: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    """Ask on a new connection: the system may give it to any worker."""
    async with http.get(url, headers={"Connection": "close"}) as answer:
        return answer.status, await answer.text()


async def sessions(http: aiohttp.ClientSession, url: str, worker: int) -> float:
    """Read how many sessions one worker has."""
    status, text = await get(http, f"{url}/metrics?worker={worker}")
    assert status == 200, text
    return float(text.partition("\nscheduler_sessions_open ")[2].partition("\n")[0])


async def test_whichever_worker_is_reached_each_can_be_scraped(store_options, tmp_path):
    async with (
        lingua("serve", "--workers", "2", "--port", "0", **environment(store_options)) as serve,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http,
    ):
        url = (await serve.says("workers are ready at")).split(" at ")[1].strip()
        host = url.partition("//")[2]
        for _ in range(SESSIONS):
            await Speaker(await http.ws_connect(f"{url}/ws/session")).init()
        seen = [[await sessions(http, url, worker) for worker in (1, 2)] for _ in range(8)]
        assert seen == [seen[0]] * 8
        assert sum(seen[0]) == SESSIONS
        assert (await get(http, f"{url}/metrics?worker=3"))[0] == 404
        assert (await get(http, f"{url}/metrics?worker=0"))[0] == 400

        _, text = await get(http, f"{url}/api/v1/prometheus/targets")
        assert json.loads(text) == [
            {
                "targets": [host],
                "labels": {"__scheme__": "http", "__param_worker": n, "instance": f"{host}/{n}"},
            }
            for n in ("1", "2")
        ]
        discovery = {"url": f"{url}/api/v1/prometheus/targets", "refresh_interval": "1s"}
        async with prometheus(tmp_path, {"job_name": "lingua", "http_sd_configs": [discovery]}) as watching:

            async def both() -> bool:
                found = await watching.query('up{job="lingua"} == 1')
                return {labels["instance"] for labels, _ in found} == {f"{host}/1", f"{host}/2"}

            await wait_until(both, description="both are scraped", timeout_s=20)
            open_sessions = {
                labels["instance"]: value for labels, value in await watching.query("scheduler_sessions_open")
            }
            assert open_sessions == {f"{host}/{n}": count for n, count in zip("12", seen[0], strict=True)}


async def test_a_worker_that_does_not_answer_is_told_from_one_that_does(store_options):
    async with (
        lingua("serve", "--workers", "2", "--port", "0", **environment(store_options)) as serve,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http,
    ):
        url = (await serve.says("workers are ready at")).split(" at ")[1].strip()
        line = next(line for line in serve.lines if '"worker_ready"' in line and '"worker":1' in line)
        os.kill(json.loads(line)["pid"], signal.SIGKILL)

        async def answer() -> int:
            try:
                return (await get(http, f"{url}/metrics?worker=1"))[0]
            except aiohttp.ClientError:  # the system gave the connection to the one that died
                return 0

        async def dead() -> bool:
            return await answer() == 502

        async def alive() -> bool:
            return await answer() == 200

        await wait_until(dead, description="worker 1 is not there")
        assert (await get(http, f"{url}/metrics?worker=2"))[0] == 200
        await wait_until(alive, description="worker 1 was replaced", timeout_s=20)


async def test_a_process_alone_gives_its_own_metrics_and_itself_as_the_target(tmp_path):
    alone = SiblingMetrics(Siblings(tmp_path, 1, 1), lambda: b"mine")
    await alone.start()
    assert await alone.of(1) == b"mine"
    assert list(tmp_path.iterdir()) == []
    await alone.stop()


async def test_a_socket_that_somebody_left_is_taken_over_and_removed(tmp_path):
    one = SiblingMetrics(Siblings(tmp_path, 1, 2), lambda: b"of one")
    two = SiblingMetrics(Siblings(tmp_path, 2, 2), lambda: b"of two")
    one.siblings.socket(1).touch()
    await one.start()
    assert await two.of(1) == b"of one"
    assert await one.of(2) is None
    await one.stop()
    assert list(tmp_path.iterdir()) == []


async def test_a_folder_whose_name_is_too_long_for_a_socket_leaves_the_own_metrics(tmp_path):
    far = tmp_path / ("x" * 100)
    far.mkdir()
    one = SiblingMetrics(Siblings(far, 1, 2), lambda: b"of one")
    await one.start()
    assert (await one.of(1), await one.of(2)) == (b"of one", None)
    await one.stop()
