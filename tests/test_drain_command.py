"""`lingua drain` gives orders over HTTP; its exit code says what happened."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager

import aiohttp
import msgspec
import pytest

from lingua_scheduler.admin.guard import AdminOptions
from lingua_scheduler.app import Instance, running
from lingua_scheduler.commands.drain import DrainRequest, drain
from lingua_scheduler.errors import ConfigError
from lingua_scheduler.secret import Secret
from support import wait_until
from world import FakeNode, Speaker, configured


@asynccontextmanager
async def instance(store_options, token: str = ""):
    config = msgspec.structs.replace(configured(store_options), admin=AdminOptions(token=Secret(token)))
    async with running(config) as made, aiohttp.ClientSession() as http:
        yield made, http


async def node_of(made: Instance, http: aiohttp.ClientSession) -> FakeNode:
    node = await FakeNode(await http.ws_connect(f"{made.url}/ws/node")).register(node_id="one")
    await node.beat()
    await node.expect("node_status", status="ready")
    return node


async def run(made: Instance, **request) -> int:
    return await asyncio.to_thread(drain, DrainRequest(url=made.url, **request))


async def test_it_waits_until_the_instance_is_empty_and_takes_it_back(store_options, capsys):
    async with instance(store_options) as (made, http):
        node = await node_of(made, http)
        speaker = await Speaker(await http.ws_connect(f"{made.url}/ws/session")).init()
        await speaker.say()
        job = await node.job()
        assert await run(made) == 0
        assert capsys.readouterr().out == "instance: draining, 1 sessions, 1 nodes, 1 jobs\n"
        waiting = asyncio.create_task(run(made, wait=True, as_json=True))
        await node.answer(job)
        await speaker.expect("translation_result")
        assert await waiting == 0
        assert msgspec.json.decode(capsys.readouterr().out)["state"] == "drained"
        assert await run(made, cancel=True) == 0
        assert capsys.readouterr().out == "instance: serving\n"


async def test_it_says_by_its_code_that_the_deadline_cut_something_off(store_options, capsys):
    async with instance(store_options) as (made, http):
        node = await node_of(made, http)
        speaker = await Speaker(await http.ws_connect(f"{made.url}/ws/session")).init()
        await speaker.say()
        await node.job()
        assert await run(made, wait=True, deadline_s=0.2) == 3
        assert "the deadline cut something off" in capsys.readouterr().out


async def test_a_node_is_drained_and_waited_for(store_options, capsys):
    async with instance(store_options) as (made, http):
        node = await node_of(made, http)
        assert await run(made, node_id="one", wait=True) == 0
        assert capsys.readouterr().out == "node one: drained\n"
        await node.expect("node_control", command="drain")
        assert await run(made, node_id="one", cancel=True) == 0
        await node.expect("node_control", command="resume")


async def test_a_node_of_another_instance_is_waited_for_where_it_is(store_options, capsys):
    async with instance(store_options) as (made, _), instance(store_options) as (other, http):
        node = await node_of(other, http)

        async def known() -> bool:
            return await run(made, node_id="one", cancel=True) == 0 and other.id in made.company.living

        await wait_until(known, description="the other instance and its node are known")
        capsys.readouterr()
        assert await run(made, node_id="one") == 0
        assert capsys.readouterr().out == f"node one: told by instance {other.id}, which holds it\n"
        await node.expect("node_control", command="drain")
        assert await run(made, node_id="one", wait=True) == 0
        assert capsys.readouterr().out == "node one: drained\n"


async def test_a_refusal_is_one_line_and_exit_code_1(store_options, capsys):
    async with instance(store_options, token="right") as (made, _):
        assert await run(made) == 1
        assert "answers 401" in capsys.readouterr().err
        assert await run(made, node_id="x/../y") == 1


async def test_the_token_is_read_from_a_file(store_options, capsys, tmp_path):
    file = tmp_path / "token"
    file.write_text("right\n")
    async with instance(store_options, token="right") as (made, _):
        assert await run(made, token_file=file, wait=True) == 0
        assert await run(made, token_file=file, node_id="nobody") == 1
        assert "no node with this id is known" in capsys.readouterr().err


def test_an_instance_that_is_not_there_is_named(capsys):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        assert drain(DrainRequest(url=url)) == 1
    assert capsys.readouterr().err.startswith(f"lingua: {url} cannot be reached")


@pytest.mark.parametrize("url", ["ws://127.0.0.1:5010", "127.0.0.1", "http://[", ""])
def test_an_address_that_makes_no_sense_is_refused(url):
    with pytest.raises(ConfigError, match="--url"):
        drain(DrainRequest(url=url))


def test_a_token_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="--token-file"):
        drain(DrainRequest(url="http://127.0.0.1:1", token_file=tmp_path / "none"))
