"""The files of the pages over HTTP: all of them, nothing else, and nothing that a page may not do."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from hatchling.builders.wheel import WheelBuilder

import lingua_scheduler
from lingua_scheduler.admin.pages import ServedLanguage, served_languages
from lingua_scheduler.core.model import InstanceId, NodeId, PoolId
from lingua_scheduler.core.placement import Exclusion, NodeFacts
from support import wait_until
from world import world

WEB = Path(lingua_scheduler.__file__).parent / "web"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    content_type: str
    body: bytes


async def get(url: str, **headers: str) -> Answer:
    """Ask without unpacking anything."""
    async with aiohttp.ClientSession(auto_decompress=False) as http, http.get(url, headers=headers) as answer:
        return Answer(answer.status, answer.headers, answer.content_type, await answer.read())


async def test_the_talk_page_is_at_the_root_with_a_strict_policy(store_options):
    async with world(store_options) as house:
        answer = await get(f"{house.instance.url}/")
        policy = dict(
            part.strip().partition(" ")[::2] for part in answer.headers["Content-Security-Policy"].split(";")
        )
        host = house.instance.url.partition("//")[2]
        assert answer.status == 200
        assert answer.content_type == "text/html"
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["worker-src"] == policy["style-src"] == "'self'"
        assert policy["connect-src"] == f"'self' ws://{host} wss://{host}"
        assert policy["frame-ancestors"] == "'none'"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "microphone=(self)" in answer.headers["Permissions-Policy"]


async def test_a_host_that_is_none_does_not_get_into_the_policy(store_options):
    async with world(store_options) as house:
        answer = await get(f"{house.instance.url}/", Host="a; script-src *")
        if answer.status == 200:
            assert "script-src *" not in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("name", "content_type"),
    [("talk.js", "text/javascript"), ("style.css", "text/css"), ("icon.svg", "image/svg+xml")],
)
async def test_files_have_their_types_and_are_sent_again_only_when_they_changed(
    store_options, name, content_type
):
    async with world(store_options) as house:
        url = f"{house.instance.url}/web/{name}"
        whole = await get(url, **{"Accept-Encoding": "identity"})
        packed = await get(url, **{"Accept-Encoding": "gzip"})
        assert whole.content_type == packed.content_type == content_type
        assert whole.body == (WEB / name).read_bytes()
        assert packed.headers["Content-Encoding"] == "gzip"
        assert len(packed.body) < len(whole.body)
        assert whole.headers["ETag"] != packed.headers["ETag"]
        assert whole.headers["Cache-Control"] == "no-cache"
        again = await get(url, **{"Accept-Encoding": "identity", "If-None-Match": whole.headers["ETag"]})
        assert (again.status, again.body) == (304, b"")
        assert again.headers["ETag"] == whole.headers["ETag"]


@pytest.mark.parametrize("path", ["/room", "/room/123456"])
async def test_the_room_page_is_at_its_address_and_at_the_link_of_a_room(store_options, path):
    async with world(store_options) as house:
        answer = await get(f"{house.instance.url}{path}", **{"Accept-Encoding": "identity"})
        assert (answer.status, answer.content_type) == (200, "text/html")
        assert answer.body == (WEB / "room.html").read_bytes()
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/room/",
        "/room/12345",
        "/room/abcdef",
        "/web/",
        "/web/nothing.js",
        "/web/..%2Fapp.py",
        "/web/%2e%2e/app.py",
        "/nothing",
    ],
)
async def test_nothing_else_is_served(store_options, path):
    async with world(store_options) as house:
        assert (await get(f"{house.instance.url}{path}")).status == 404


@pytest.mark.parametrize("page", ["talk.html", "room.html"])
def test_a_page_names_only_what_is_there_and_has_no_script_or_style_in_line(page):
    text = (WEB / page).read_text()
    named = set(re.findall(r'(?:src|href)="([^"]+)"', text)) - {"/", "/room"}
    for name in named:
        assert (WEB / name.removeprefix("/web/")).is_file(), name
    assert not re.search(r"<script(?![^>]*src=)|<style|style=|\son\w+=", text)


def test_scripts_name_only_what_is_there_and_never_write_markup():
    for script in WEB.glob("*.js"):
        text = script.read_text()
        for name in re.findall(r'from "\./([^"]+)"', text):
            assert (WEB / name).is_file(), f"{script.name}: {name}"
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), (
            script.name
        )


def test_the_documentation_names_every_module_and_no_other():
    pages = [(ROOT / "docs" / page).read_text() for page in ("talk.md", "dashboards.md")]
    named = set(re.findall(r"[\w-]+\.js\b", "".join(pages)))
    assert named == {script.name for script in WEB.glob("*.js")}


def test_the_pages_are_part_of_the_package(tmp_path):
    [wheel] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert {f"lingua_scheduler/web/{file.name}" for file in WEB.iterdir()} <= inside


def facts(name: str, *, asr: str, semantic: str, types: str = "asr nmt tts", **members: object) -> NodeFacts:
    return NodeFacts(
        node_id=NodeId(name),
        pool=PoolId(0),
        owner=InstanceId("i"),
        asr=frozenset(asr.split()),
        semantic=frozenset(semantic.split()),
        types=frozenset(types.split()),
        max_jobs=1,
        **members,
    )


def test_languages_are_those_of_nodes_that_everybody_may_use_now():
    nodes = [
        facts("a", asr="en", semantic="en pt"),
        facts("b", asr="en zh", semantic="zh", types="asr nmt"),
        facts("closed", asr="fr", semantic="en", closed=Exclusion.OFFLINE),
        facts("private", asr="de", semantic="en", private=True),
        facts("voice only", asr="it", semantic="en", types="tts"),
        facts("odd", asr="a/b", semantic="en c.d"),
    ]
    assert served_languages(nodes) == [ServedLanguage("en", into=["pt", "zh"], voiced=["pt"])]


async def test_languages_over_http_follow_the_nodes(store_options):
    async with world(store_options) as house:
        url = f"{house.instance.url}/api/v1/languages"
        async with aiohttp.ClientSession() as http:
            async with http.get(url) as answer:
                assert await answer.json() == {"languages": []}
            await house.node("zh", "en")
            nodes = house.instance.snapshot.nodes
            await wait_until(
                lambda: any(facts.closed is None for facts in nodes()), description="the node is known"
            )
            async with http.get(url) as answer:
                assert answer.headers["Cache-Control"] == "no-store"
                assert (await answer.json())["languages"] == [
                    {"lang": "en", "into": ["zh"], "voiced": ["zh"]},
                    {"lang": "zh", "into": ["en"], "voiced": ["en"]},
                ]
