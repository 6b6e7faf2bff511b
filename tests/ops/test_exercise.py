"""An exercise for whoever is on call: break a node, a model, a pool, an instance, and see each of them named.

Real instances, real nodes, a real Prometheus with the rules of ops/prometheus (seconds for minutes), the API
that the dashboards read, the dashboard itself where there is a browser, and `lingua doctor`.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from fleet import Fleet, Member, fleet, ground
from lingua_scheduler.embedded import EmbeddedRedis
from processes import lingua
from prometheus import Prometheus, prometheus, quick_rules
from support import wait_until
from web.browser import NAMES, chromium
from world import FakeNode

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATIENCE_S = 40.0
SETTINGS = {
    "LINGUA_NODES__DISCONNECT_GRACE_S": "0.5",
    "LINGUA_POOLS__BY_CAPABILITY": (
        '[{pool_id = 0, name = "all"}, {pool_id = 3, name = "tones", required_services ='
        ' ["node-inference", "nmt-m2m100", "piper-tts", "tone-1"]}]'
    ),
}
TONES = {"asr": "node-inference", "nmt": "nmt-m2m100", "tts": "piper-tts", "tone": "tone-1"}


@dataclass
class Ward:
    """Two instances, and all that watches them."""

    fleet: Fleet
    a: Member
    b: Member
    watching: Prometheus
    page: Any  # the dashboard of the first instance; None where there is no browser

    async def ask(self, path: str) -> dict[str, Any]:
        """Ask the first instance, as the dashboards do."""
        status, text = await self.fleet.get(self.a, path)
        assert status == 200, (path, text)
        return json.loads(text)

    async def until(
        self, path: str, holds: Callable[[dict[str, Any]], bool], description: str
    ) -> dict[str, Any]:
        """Wait until an answer holds; give it."""
        said: dict[str, Any] = {}

        async def fits() -> bool:
            said.update(await self.ask(path))
            return holds(said)

        await wait_until(fits, description=description, timeout_s=PATIENCE_S)
        return said

    async def named(self, kind: str, name: str, *, on_page: str = "") -> None:
        """Wait until API, dashboard and doctor name what is broken."""

        def names(said: dict[str, Any]) -> bool:
            return any(
                trouble["kind"] == kind and name in (trouble["where"], *trouble["names"])
                for trouble in said["troubles"]
            )

        await self.until("/api/v1/troubles", names, f"{kind} {name}")
        findings = await self.doctor()
        assert any(name in each["found"] and each["advice"] for each in findings), findings
        if self.page is not None:
            await _until_read(self.page, on_page or name)

    async def doctor(self) -> list[dict[str, str]]:
        """Run `lingua doctor`; give what it finds in the deployment."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "lingua_scheduler.cli", "doctor", "--json", "--url", self.a.url),
            stdout=asyncio.subprocess.PIPE,
        )
        text, _ = await process.communicate()
        return [each for each in json.loads(text) if each["about"] == "deployment"]


async def _until_read(page: Any, text: str) -> None:
    async def read() -> bool:
        return text in await page.inner_text("body")

    await wait_until(read, description=f"{text!r} on the dashboard", timeout_s=PATIENCE_S)


@asynccontextmanager
async def _dashboard(url: str) -> AsyncIterator[Any]:
    """Open the dashboard, where there is a browser."""
    if not any(map(shutil.which, NAMES)):
        yield None
        return
    async with chromium(None) as browser:
        page = await browser.new_page(locale="en-US")
        await page.goto(f"{url}/dashboard")
        yield page


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ward(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ward]:
    """Run everything once; the exercises follow each other, the worst comes last."""
    folder: Path = tmp_path_factory.mktemp("prometheus")
    with EmbeddedRedis(port=0) as server, ground([server], url=server.url) as place:
        async with AsyncExitStack() as stack:
            home = await stack.enter_async_context(fleet(place))
            a, b = await home.run("inst-a", "inst-b", **SETTINGS)
            targets = [member.url.partition("//")[2] for member in (a, b)]
            job = {"job_name": "lingua", "static_configs": [{"targets": targets}]}
            watching = await stack.enter_async_context(prometheus(folder, job, rules=quick_rules()))
            page = await stack.enter_async_context(_dashboard(a.url))
            yield Ward(home, a, b, watching, page)


@asynccontextmanager
async def going_on(action: Callable[[], Awaitable[None]], every_s: float) -> AsyncIterator[None]:
    """Do something again and again for the length of a block."""

    async def go_on() -> None:
        while True:
            await action()
            await asyncio.sleep(every_s)

    task = asyncio.create_task(go_on())
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_a_node_that_is_killed(ward: Ward) -> None:
    url = ward.b.url.replace("http", "ws", 1)
    async with lingua("node", "--demo", "--node-id", "gpu-7", "--url", url) as node:
        await ward.until(
            "/api/v1/nodes", lambda said: any(each["node_id"] == "gpu-7" for each in said["nodes"]), "gpu-7"
        )
        node.tell(signal.SIGKILL)
        await ward.named("nodes_lost", "gpu-7")
        fired = await ward.watching.fires("LinguaNodeLost", node_id="gpu-7")
        assert fired["summary"] == "The node gpu-7 has gone without a word."
        assert "gpu-7" not in [each["node_id"] for each in (await ward.ask("/api/v1/nodes"))["nodes"]]
    async with lingua("node", "--demo", "--node-id", "gpu-7", "--url", url):
        await ward.watching.quiet("LinguaNodeLost")
        await ward.until(
            "/api/v1/troubles",
            lambda said: not any(each["kind"] == "nodes_lost" for each in said["troubles"]),
            "gpu-7 is back",
        )


async def test_a_model_that_is_missing(ward: Ward) -> None:
    node = await ward.fleet.node(ward.a, "ja", "ko", node_id="mt-1")
    await ward.fleet.serves(ward.a, "ja")
    speaker = await ward.fleet.session(ward.a, src_lang="ja", tgt_lang="ko")
    await speaker.say()
    job = await node.job()
    await node.fail(job, "MODEL_NOT_AVAILABLE", service_id="nmt-service", reason="not found")

    async def report() -> None:  # as older nodes do
        await node.send(
            "MODEL_NOT_AVAILABLE", node_id="mt-1", job_id=job["job_id"], model_id="nmt-service", reason="oom"
        )

    async with going_on(report, 0.4):
        await ward.named("service_gap", "mt-1")
        said = await ward.ask("/api/v1/nodes/mt-1")
        assert "nmt" not in said["ready_types"]
        await ward.watching.fires("LinguaModelsMissing", service_id="nmt-service")
    await speaker.hang_up()
    await node.hang_up()


async def test_a_pool_that_is_empty_while_people_ask_for_it(ward: Ward) -> None:
    services = {
        "installed_services": [
            {"service_id": name, "type": kind, "device": "gpu", "status": "running"}
            for kind, name in TONES.items()
        ],
        "capability_by_type": [{"type": kind, "ready": True} for kind in TONES],
    }
    node: FakeNode = await ward.fleet.node(ward.b, "fr", "de", node_id="tone-1", **services)
    await ward.fleet.serves(ward.a, "fr")
    speaker = await ward.fleet.session(ward.a, src_lang="fr", tgt_lang="de")
    await speaker.say()
    await node.answer(await node.job())
    await speaker.expect("translation_result")
    node.reset()
    async with going_on(speaker.say, 1.0):
        await ward.named("pair_unserved", "fr:de", on_page="fr → de")
        await ward.named("pool_empty", "3 tones")
        rows = {row["pool_id"]: row for row in (await ward.ask("/api/v1/phase3/pools"))["pools"]}
        assert rows[3]["ready_nodes"] == 0
        await ward.watching.fires("LinguaNoNodeForPair", pair="fr:de")
        wanted = await ward.ask("/api/v1/autoscale?pair=fr:de")
        assert wanted["ready_nodes"] == 0
        assert wanted["desired_nodes"] >= 1
    await speaker.hang_up()


async def test_an_instance_that_freezes_and_comes_back(ward: Ward) -> None:
    address = ward.b.url.partition("//")[2]
    ward.b.tell(signal.SIGSTOP)
    try:
        fired = await ward.watching.fires("LinguaInstanceDown", instance=address)
        assert address in fired["summary"]
        await ward.named("instance_lost", "inst-b")
        await ward.watching.fires("LinguaInstanceLost", instance_id="inst-b")
    finally:
        ward.b.tell(signal.SIGCONT)
    await ward.until("/api/v1/cluster", lambda said: said["lost_instances"] == [], "inst-b is back")
    await ward.watching.quiet("LinguaInstanceDown", "LinguaInstanceLost")


async def test_an_instance_that_is_killed(ward: Ward) -> None:
    ward.b.tell(signal.SIGKILL)
    await ward.watching.fires("LinguaInstanceDown", instance=ward.b.url.partition("//")[2])
    await ward.named("instance_lost", "inst-b")
    said = await ward.ask("/api/v1/cluster")
    assert said["lost_instances"] == ["inst-b"]
    assert [each["instance_id"] for each in said["instances"]] == ["inst-a"]
    await ward.watching.fires("LinguaInstanceLost", instance_id="inst-b")
    await ward.watching.fires("LinguaInstanceMissing")
