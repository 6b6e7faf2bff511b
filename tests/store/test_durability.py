"""Durable calls: answered once a replica has what they wrote or found, and never mixed up with others."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.embedded_cluster import QUICK_REPLICATION, follow
from lingua_scheduler.errors import DependencyDown, StoreError
from lingua_scheduler.store.connection import Connection, StoreOptions
from lingua_scheduler.store.scripts import Scripts
from support import wait_until

LUA = Path(__file__).parent / "lua"


@pytest.fixture(scope="module")
def pair():
    """Run a master with one replica."""
    with (
        EmbeddedRedis(port=0, settings=QUICK_REPLICATION) as master,
        EmbeddedRedis(port=0, settings=QUICK_REPLICATION) as replica,
    ):
        follow(replica, master)
        yield master, replica


@pytest.fixture
def master(pair):
    yield pair[0]
    with pair[0].client() as client:
        client.flushall()


@pytest.fixture
def replica(pair, master):
    return pair[1]


@pytest.fixture
async def connect(master):
    """Make connections that are closed after the test."""
    made = []

    def connect(**options):
        chosen = {"url": master.url, "durability": "wait", "durability_timeout_ms": 200, **options}
        made.append(Connection(StoreOptions(**chosen)))
        return made[-1]

    yield connect
    for each in made:
        await each.close()


@contextmanager
def stalled(server):
    """Keep a server from doing anything."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def commands(server, name):
    """Count how often a server ran a command."""
    with server.client() as client:
        return client.info("commandstats").get(f"cmdstat_{name}", {"calls": 0})["calls"]


async def test_an_answered_call_is_on_the_replica(connect, replica):
    keep = Scripts(connect(), LUA).load("keep")
    with replica.client() as reader:
        for number in range(50):
            await keep(kept="k", mark=f"m{number}")
            assert reader.sismember("k", f"m{number}")


async def test_an_unknown_script_is_durable_from_its_first_run(connect, master, replica):
    with master.client() as client:
        client.script_flush()
    await Scripts(connect(), LUA).load("keep")(kept="k", mark="x")
    with replica.client() as reader:
        assert reader.sismember("k", "x")


async def test_without_a_replica_the_outcome_is_unknown_and_others_are_answered(redis_server, connect):
    connection = connect(url=redis_server.url, key_prefix="test", durability_timeout_ms=100)
    keep = Scripts(connection, LUA).load("keep")
    loop = asyncio.get_running_loop()
    started = loop.time()
    durable = asyncio.create_task(keep(kept="test:k", mark="x"))
    other = asyncio.create_task(connection.call("ECHO", "hello"))
    assert await other == b"hello"
    with pytest.raises(DependencyDown, match=r"no replica confirmed .* 100 ms; the outcome is unknown"):
        await durable
    assert loop.time() - started < 2
    assert connection.up
    await connection.call("UNLINK", "test:k", "test:{replicated:0}:mark")


async def test_a_replica_that_stalls_confirms_nothing_until_it_goes_on(connect, replica):
    keep = Scripts(connect(), LUA).load("keep")
    await keep(kept="k", mark="before")
    with stalled(replica), pytest.raises(DependencyDown, match="no replica confirmed"):
        await keep(kept="k", mark="during")
    assert await keep(kept="k", mark="after") == 1


async def test_what_a_call_found_must_be_on_a_replica_too(connect, replica):
    """The second try finds its work done and writes nothing: even on a new socket this confirms nothing."""
    first, second = (Scripts(connect(), LUA).load("keep") for _ in range(2))
    with stalled(replica):
        for keep in (first, first, second):
            with pytest.raises(DependencyDown, match="no replica confirmed"):
                await keep(kept="k", mark="x")
    assert await second(kept="k", mark="x") == 0
    with replica.client() as reader:
        assert reader.sismember("k", "x")


async def test_durable_calls_of_one_tick_share_one_wait(connect, master):
    keep = Scripts(connect(), LUA).load("keep")
    await keep(kept="k", mark="first")
    before = commands(master, "wait")
    await asyncio.gather(*(keep(kept="k", mark=n) for n in range(200)))
    assert commands(master, "wait") - before <= 2


async def test_only_durable_calls_wait_and_only_when_asked_to(connect, master):
    waits, marks = commands(master, "wait"), commands(master, "set")
    await connect(durability="none").call("INCR", "x", durable=True)
    await Scripts(connect(durability="none"), LUA).load("keep")(kept="k", mark="x")
    await connect().call("INCR", "x")
    assert (commands(master, "wait"), commands(master, "set")) == (waits, marks)


@pytest.mark.parametrize("seed", range(3))
async def test_each_caller_gets_its_own_reply_whatever_the_others_do(connect, seed):
    """Durable and plain calls, errors, and calls given up at any moment share one socket."""
    chance = random.Random(seed)
    connection = connect(command_timeout_s=10, durability_timeout_ms=4000)
    names = Scripts(connection, LUA).load("echo")
    await connection.call("SET", "word", "x")
    answers = 0

    async def caller(name):
        nonlocal answers
        for number in range(15):
            mark = f"{name}-{number}".encode()
            kind = chance.randrange(4)
            try:
                async with asyncio.timeout(chance.choice((None, None, 0, 0.0005, 0.003))):
                    if kind == 0:
                        with pytest.raises(StoreError):
                            await connection.call("LPUSH", "word", mark, durable=True)
                    elif kind == 1:
                        assert await connection.call("ECHO", mark) == mark
                    else:
                        assert await names(key=f"e{name}", mark=mark) == mark
                answers += 1
            except TimeoutError:
                pass

    await asyncio.gather(*map(caller, range(60)))
    assert answers > 300
    assert connection.up


async def test_sockets_killed_while_a_replica_is_waited_for_never_mix_replies(connect, master):
    connection = connect(command_timeout_s=5, reconnect_pause_s=0.0)
    echo = Scripts(connection, LUA).load("echo")
    lost = ran = 0
    going = True

    async def caller(name):
        nonlocal lost, ran
        while going:
            mark = f"{name}-{ran}-{lost}".encode()
            try:
                assert await echo(key=f"e{name}", mark=mark) == mark
                ran += 1
            except DependencyDown:
                lost += 1

    tasks = [asyncio.create_task(caller(name)) for name in range(20)]
    with master.client() as killer:
        for _ in range(15):
            done = ran
            await wait_until(lambda done=done: ran > done + 20, description="calls go through")
            await asyncio.to_thread(killer.client_kill_filter, _type="normal", skipme=True)
    going = False
    await asyncio.gather(*tasks)


async def test_a_user_who_may_not_wait_is_told(connect, master):
    connection = connect(url=f"redis://waiter:secret@127.0.0.1:{master.port}")
    with master.client() as client:
        client.execute_command("ACL SETUSER waiter on >secret ~* +@all -wait")
    with pytest.raises(DependencyDown, match=r"no replica confirmed the write: .*'wait' command"):
        await connection.call("INCR", "x", durable=True)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"url": "redis://a", "durability_timeout_ms": 1500}, "durability_timeout_ms must be less than half"),
        ({}, "durability needs a Redis with replicas"),
    ],
)
def test_waits_that_cannot_end_well_are_refused(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        StoreOptions(durability="wait", **options)
    assert StoreOptions(durability="none", **options)


# On a cluster


async def test_every_server_of_a_cluster_confirms(replicated_cluster, connect):
    connection = connect(url=replicated_cluster.url, mode="cluster", durability_timeout_ms=1000)
    keep = Scripts(connection, LUA).load("keep")
    names = [f"k{number}" for number in range(200)]
    assert await asyncio.gather(*(keep(kept=name, mark="x") for name in names)) == [1] * 200
    held = set()
    for node in replicated_cluster.replicas:
        with node.client() as client:
            held |= {key.decode() for key in client.keys("*")}
            assert client.info("commandstats").get("cmdstat_sadd")
    assert held >= set(names)


async def test_only_servers_without_a_replica_refuse(replicated_cluster, connect):
    connection = connect(url=replicated_cluster.url, mode="cluster", durability_timeout_ms=100)
    keep = Scripts(connection, LUA).load("keep")
    names = [f"k{number}" for number in range(60)]
    await asyncio.gather(*(keep(kept=name, mark="x") for name in names))
    with stalled(replicated_cluster.replicas[0]):
        again = await asyncio.gather(*(keep(kept=name, mark="y") for name in names), return_exceptions=True)
    refused = [reply for reply in again if isinstance(reply, DependencyDown)]
    assert 0 < len(refused) < len(names)
    assert all(re.search("no replica confirmed", str(each)) for each in refused)
    assert [each for each in again if not isinstance(each, DependencyDown)] == [1] * (60 - len(refused))
