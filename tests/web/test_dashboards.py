"""The pages for operators in a real browser: they load, they show text as text, they find what is wrong."""

from __future__ import annotations

import asyncio
import re
import secrets
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

import lingua_scheduler
from lingua_scheduler.app import running
from lingua_scheduler.store.connection import StoreOptions
from support import wait_until
from web.onlooker import MARKUP, PAGES, operator
from web.onlooker import odd_node as odd
from world import KINDS, SERVICES, FakeNode, Speaker, configured

pytestmark = pytest.mark.asyncio(loop_scope="module")

WEB = Path(lingua_scheduler.__file__).parent / "web"
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
MANY = 520


class Deployment:
    """One instance in real time, and whoever is connected to it."""

    def __init__(self, instance, http) -> None:
        self.instance = instance
        self.url = instance.url
        self._http = http

    async def node(self, *languages: str, **fields) -> FakeNode:
        socket = await self._http.ws_connect(f"{self.url}/ws/node", max_msg_size=0)
        node = await FakeNode(socket).register(*languages, **fields)
        said = {name: fields[name] for name in ("installed_services", "capability_by_type") if name in fields}
        await node.beat(usage=fields.get("usage"), **said)
        return node

    async def session(self, **wish) -> Speaker:
        return await Speaker(await self._http.ws_connect(f"{self.url}/ws/session")).init(**wish)

    async def known(self, count: int) -> None:
        """Wait until so many nodes are shown with what they say of themselves."""
        model = self.instance.desk.model
        await wait_until(
            lambda: len(model.picture.abouts) >= count, description=f"{count} nodes", timeout_s=60
        )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def deploy(redis_server):
    """Give a function that runs an instance of its own until the end of the file."""
    async with AsyncExitStack() as stack:
        unlimited = aiohttp.TCPConnector(limit=0)
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=unlimited))

        async def start(**tables) -> Deployment:
            store = StoreOptions(url=redis_server.url, key_prefix=f"boards-{secrets.token_hex(4)}")
            tables = {"admin": {"refresh_ms": 200}, **tables}
            return Deployment(await stack.enter_async_context(running(configured(store, **tables))), http)

        yield start
    with redis_server.client() as client:
        client.flushall()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def empty(deploy):
    """Give a deployment without nodes and sessions."""
    return await deploy(instance={"id": "lonely"})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def busy(deploy):
    """Give a deployment in which much is wrong, told with markup wherever somebody may say something."""
    made = await deploy(instance={"id": "busy"})
    services = [{**SERVICES[0], "service_id": MARKUP, "version": MARKUP}, *SERVICES[1:]]
    short = [{"type": kind, "ready": kind != "tts", "reason": MARKUP} for kind in KINDS]
    await made.node(node_id="odd", platform=MARKUP, installed_services=services)
    await made.node(node_id="short", capability_by_type=short)
    await made.node(node_id="hot", usage={"cpu_percent": 99.0})
    await made.session(src_lang="zh", tgt_lang="en")
    await made.session(src_lang="ko", tgt_lang="fr")
    inbox = made.instance.stores.inbox
    await made.instance.watch.stop()  # nobody else takes the letter
    await inbox.send(made.instance.id, b"{}")
    (letter,) = await inbox.take(block_s=0.1)
    await inbox.bury(letter, MARKUP)
    await made.instance.snapshot.refresh(made.instance.stores.nodes)
    made.instance.snapshot.put(odd("busy"))
    await made.instance.desk.refresh()
    looking = asyncio.create_task(_keep_looking(made))
    yield made
    looking.cancel()


async def _keep_looking(made: Deployment) -> None:
    while True:
        await made.instance.desk.refresh()
        await asyncio.sleep(1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crowded(deploy):
    """Give a deployment of many nodes."""
    made = await deploy(instance={"id": "crowded"})
    for number in range(MANY):
        hardware = {"cpu_cores": 8, "memory_gb": 32, "gpus": [{"name": "G", "memory_gb": 1 + number % 48}]}
        await made.node(node_id=f"node-{number:03}", hardware=hardware)
    await made.known(MANY)
    return made


@pytest.mark.parametrize("page", PAGES)
async def test_ac_81_a_page_loads_without_complaints_and_shows_markup_as_text(browser, busy, page):
    async with operator(browser) as person:
        await person.visit(f"{busy.url}/{page}")
        if page != "languages":  # tags of languages cannot be markup
            await person.reads(MARKUP, "main")
        assert await person.page.locator("img, main b b").count() == 0
        assert await person.page.evaluate("() => globalThis.hacked") is None
        assert await person.page.locator("nav a[aria-current]").get_attribute("href") == f"/{page}"


@pytest.mark.parametrize("page", PAGES)
async def test_an_empty_system_is_shown_as_one(browser, empty, page):
    texts = {
        "dashboard": "No node is ready",
        "cluster": "No node is connected",
        "compute-power": "No node is known",
        "models": "No node has told of a service",
        "languages": "nobody asks for one",
    }
    async with operator(browser) as person:
        await person.visit(f"{empty.url}/{page}")
        await person.reads(texts[page], "main")
        await person.reads("Updated", ".updated")


async def test_the_dashboard_says_first_what_is_wrong_and_where(browser, busy):
    async with operator(browser) as person:
        await person.visit(f"{busy.url}/dashboard")
        kinds = await person.page.evaluate(
            "() => [...document.querySelectorAll('.troubles li')].map((each) => each.dataset.kind)"
        )
        assert kinds[0] == "pair_unserved"
        assert {"nodes_excluded", "service_gap", "dead_letters"} <= set(kinds)
        wrong = await person.page.inner_text(".wrong")
        assert "No node serves ko → fr" in wrong
        assert "tts is not ready on 1 of the" in wrong
        assert "its processor, GPU or memory is too busy" in wrong
        first = "() => document.querySelector('main h1').nextElementSibling.classList.contains('wrong')"
        assert await person.page.evaluate(first)
        assert (await person.tile("users"), await person.tile("deadLetters")) == ("2", "▲ high: 1")

        await person.page.click('.troubles a[href*="resource_threshold_exceeded"]')
        await person.reads("1 of 4 nodes", "#nodes")
        assert await person.rows("#nodes") == ["hot"]


async def test_the_cluster_page_shows_instances_nodes_pools_and_letters(browser, busy):
    async with operator(browser) as person:
        await person.visit(f"{busy.url}/cluster")
        keys = await person.page.evaluate(
            "() => [...document.querySelectorAll('[data-tile]')].map((tile) => tile.dataset.tile)"
        )
        assert len(keys) == 8
        assert (await person.tile("nodesTotal"), await person.tile("deadLetters")) == ("4", "▲ high: 1")
        assert await person.rows("main > section:first-of-type") == ["busy"]
        nodes = await person.page.inner_text("#nodes")
        assert "Not chosen: its processor, GPU or memory is too busy" in nodes
        assert "99 %" in nodes
        assert f"tts not ready: {MARKUP}" in nodes
        assert "tts: 2 of 4 ready" in await person.page.inner_text("#pools")
        assert MARKUP in await person.page.inner_text("#letters")


async def test_the_matrix_shows_capacity_and_demand(browser, busy):
    async with operator(browser) as person:
        await person.visit(f"{busy.url}/languages")
        served = person.page.locator(".matrix td.free", has_text="zh → en")
        assert "slots free" in await served.get_attribute("title")
        unserved = person.page.locator(".matrix td.unserved")
        assert (
            await unserved.get_attribute("title") == "ko → fr: nobody serves it, sessions that ask for it: 1"
        )
        heads = "() => document.querySelectorAll('.matrix th[scope=row]').length"
        assert await person.page.evaluate(heads) == 4
        await person.page.fill("#lang", "FR")
        await wait_until(
            lambda: person.page.evaluate(
                "() => document.querySelector('.matrix th[scope=row]').textContent === 'fr'"
            ),
            description="the language that was asked for comes first",
        )


async def test_with_many_nodes_a_page_stays_small_and_any_node_is_found(browser, crowded):
    async with operator(browser) as person:
        await person.visit(f"{crowded.url}/cluster")
        await person.reads(f"{MANY} of {MANY} nodes", "#nodes")
        assert await person.rows("#nodes") == [f"node-{number:03}" for number in range(50)]
        assert await person.page.evaluate("() => document.querySelectorAll('*').length") < 6000
        pager = person.page.locator("#nodes .pager")
        await pager.get_by_text("Next").click()
        await person.reads(f"51 to 100 of {MANY}", "#nodes .pager")
        assert (await person.rows("#nodes"))[0] == "node-050"
        await pager.get_by_text("Previous").click()
        await person.reads(f"1 to 50 of {MANY}", "#nodes .pager")

        await person.page.fill("#find", "node-51")
        await person.reads(f"10 of {MANY} nodes", "#nodes")
        assert (await person.rows("#nodes"))[-1] == "node-519"
        assert person.page.url.endswith("/cluster?find=node-51")
        await person.page.select_option("#state", "offline")
        await person.reads(f"0 of {MANY} nodes", "#nodes")

        await person.visit(f"{crowded.url}/compute-power")
        sizes = await person.page.evaluate(
            "() => [...document.querySelectorAll('tbody td.usage:nth-of-type(2)')]"
            ".map((cell) => parseFloat(cell.textContent))"
        )
        assert len(sizes) == 50
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] == 48

        await person.visit(f"{crowded.url}/dashboard")
        took_ms = await person.page.evaluate(
            "async () => { const began = performance.now();"
            " await new Promise(requestAnimationFrame); return performance.now() - began; }"
        )
        assert took_ms < 1000


@pytest.mark.parametrize("page", PAGES)
async def test_a_phone_shows_all_of_it_in_chinese_and_everything_has_a_name(browser, busy, page):
    async with operator(browser, **PHONE, locale="zh-CN") as person:
        await person.visit(f"{busy.url}/{page}")
        assert await person.page.get_attribute("html", "lang") == "zh-Hans"
        assert await person.page.evaluate("() => document.documentElement.scrollWidth") <= 390
        nameless = await person.page.evaluate(
            """() => [...document.querySelectorAll('button, select, input, a, [tabindex], [role=img]')]
              .filter((each) => !each.getAttribute('aria-label') && !each.textContent.trim())
              .filter((each) => !each.labels?.length).map((each) => each.outerHTML)"""
        )
        assert nameless == []
        tables = "() => [...document.querySelectorAll('table')].every((table) => table.caption?.textContent"
        tables += (
            " && table.querySelector('thead th[scope=col]') && table.querySelector('tbody th[scope=row]'))"
        )
        assert await person.page.evaluate(tables.replace("('table')", "('.scroller:not([hidden]) table')"))
        banner = person.page.locator(".banner")
        assert await banner.get_attribute("aria-live") == "polite"

        await person.page.click("#ui")
        assert await person.page.get_attribute("html", "lang") == "en"
        await person.page.reload()
        await person.reads("Dashboard", "nav")


async def test_pages_name_only_what_is_there_and_have_no_script_or_style_in_line():
    for page in PAGES:
        text = (WEB / f"{page}.html").read_text()
        for name in re.findall(r'(?:src|href)="/web/([^"]+)"', text):
            assert (WEB / name).is_file(), name
        assert not re.search(r"<script(?![^>]*src=)|<style|style=|\son\w+=", text)


async def test_scripts_of_the_pages_set_no_styles_as_text():
    for script in WEB.glob("ops-*.js"):
        assert not re.search(r'"style"|style:|\.srcdoc|javascript:', script.read_text()), script.name


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_texts_stand_out_from_their_ground(scheme):
    light, dark = (WEB / "ops.css").read_text().split("@media (prefers-color-scheme: dark)", 1)
    block = light if scheme == "light" else dark
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
    pairs = [
        *((text, ground) for text in ("text", "soft") for ground in ("ground", "surface", "tint")),
        *((level, ground) for level in ("good", "warn", "bad") for ground in (f"{level}-ground", "surface")),
        *(("text", ground) for ground in ("bad-ground", "warn-ground")),
        ("accent", "surface"),
        ("second", "surface"),
        ("on-accent", "accent"),
    ]
    ratios = {}
    for pair in pairs:
        high, low = sorted((_luminance(colours[name]) for name in pair), reverse=True)
        ratios[pair] = round((high + 0.05) / (low + 0.05), 2)
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < 4.5} == {}
