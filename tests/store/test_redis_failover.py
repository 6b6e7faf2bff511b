"""Masters die, move or are demoted under load: each caller gets its own reply, and service comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lingua_scheduler.chaos.proxy import Proxy
from lingua_scheduler.embedded import LOCALHOST, EmbeddedRedis
from lingua_scheduler.embedded_cluster import QUICK_REPLICATION, follow, promote
from lingua_scheduler.errors import DependencyDown
from lingua_scheduler.store.connection import Connection, StoreOptions
from lingua_scheduler.store.keys import slot
from lingua_scheduler.store.scripts import Scripts
from support import wait_until

LUA = Path(__file__).parent / "lua"
CALLERS = 12
RECOVERY_S = 5.0
QUICK = {"command_timeout_s": 1.0, "connect_timeout_s": 1.0, "reconnect_pause_s": 0.02}


class Load:
    """Callers that never stop; each writes marks of its own and compares what comes back."""

    def __init__(self, connection, name="keep"):
        self.connection = connection
        self.script = Scripts(connection, LUA).load(name)
        self.acknowledged = [set() for _ in range(CALLERS)]
        self.last = [0] * CALLERS  # per caller, the number of its last acknowledged call
        self.failures = []
        self._going = True
        self._tasks = []

    async def __aenter__(self):
        self._tasks = [asyncio.create_task(self._call(number)) for number in range(CALLERS)]
        await self.flows("the load begins")
        return self

    async def __aexit__(self, *_):
        self._going = False
        await asyncio.gather(*self._tasks)

    async def flows(self, description):
        """Wait until every caller has been answered anew."""
        before = list(self.last)
        await wait_until(
            lambda: all(now > then + 1 for now, then in zip(self.last, before, strict=True)),
            description=description,
            timeout_s=RECOVERY_S,
        )

    async def _call(self, caller):
        number = 0
        while self._going:
            number += 1
            mark = f"{caller}-{number}"
            try:
                kept, echoed = await asyncio.gather(
                    self.script(kept=key(caller), mark=mark), self.connection.call("ECHO", mark)
                )
            except DependencyDown as failure:
                self.failures.append(str(failure))
                await asyncio.sleep(0.005)
                continue
            assert (kept, echoed) == (1, mark.encode())
            self.acknowledged[caller].add(mark.encode())
            self.last[caller] = number


def key(caller):
    return f"load:{{{caller}}}"


def lost_marks(load, *servers):
    """Count the marks that were acknowledged and are on none of the servers."""
    there = [set() for _ in range(CALLERS)]
    for server in servers:
        with server.client() as client:
            for caller, kept in enumerate(there):
                kept.update(client.smembers(key(caller)) if client.keys(key(caller)) else ())
    return sum(len(told - kept) for told, kept in zip(load.acknowledged, there, strict=True))


@pytest.fixture
def pair():
    """Run a master and a replica of the test's own."""
    with (
        EmbeddedRedis(port=0, settings=QUICK_REPLICATION) as master,
        EmbeddedRedis(port=0, settings=QUICK_REPLICATION) as replica,
    ):
        follow(replica, master)
        yield master, replica


@pytest.fixture
async def connect():
    """Make connections that are closed after the test."""
    made = []

    def connect(*urls, **options):
        made.append(Connection(StoreOptions(url=",".join(urls), **{**QUICK, **options})))
        return made[-1]

    yield connect
    for each in made:
        await each.close()


# A master and its replicas


async def test_of_several_addresses_the_master_is_found(pair, connect):
    master, replica = pair
    for urls in ((replica.url, master.url), (master.url, replica.url)):
        assert await connect(*urls).call("INCR", "x")


async def test_only_replicas_are_a_redis_that_is_not_reachable(pair, connect):
    with pytest.raises(DependencyDown, match=r"not reachable: .* is a slave and no master"):
        await connect(pair[1].url).call("GET", "x")


async def test_a_demoted_master_is_left_for_the_new_one_under_load(pair, connect):
    """There and back again, as Sentinel does it; the sockets of the old master stay open."""
    master, replica = pair
    async with Load(connect(master.url, replica.url)) as load:
        for old, new in ((master, replica), (replica, master)):
            await asyncio.to_thread(promote, new)
            await asyncio.to_thread(follow, old, new)
            await load.flows("the new master serves")
            assert load.connection.up
    assert {text for text in load.failures if "READONLY" in text or "read only" in text}


async def test_a_dead_master_is_left_once_its_replica_is_promoted(pair, connect):
    master, replica = pair
    connection = connect(master.url, replica.url, durability="wait", durability_timeout_ms=400)
    async with Load(connection) as load:
        await asyncio.to_thread(master.kill)
        await wait_until(lambda: not connection.up, description="the loss was seen")
        await asyncio.to_thread(promote, replica)
        acknowledged = sum(map(len, load.acknowledged))
        await wait_until(lambda: connection.up, description="the new master is reached", timeout_s=RECOVERY_S)
    assert lost_marks(load, replica) == 0
    assert acknowledged == sum(map(len, load.acknowledged)), "the new master has no replica"


async def test_an_address_that_moves_is_followed_although_its_old_sockets_live(pair, connect):
    """One name or virtual address: the demotion is learned from the answer, the rest by dialling anew."""
    master, replica = pair
    where = [master]
    async with Proxy(lambda: (LOCALHOST, where[0].port)) as proxy:
        async with Load(connect(f"redis://{LOCALHOST}:{proxy.port}")) as load:
            where[0] = replica
            await asyncio.to_thread(promote, replica)
            await asyncio.to_thread(follow, master, replica)
            await load.flows("the new master serves")
        await load.connection.close()


async def test_a_blocking_read_moves_to_the_new_master(pair, connect):
    master, replica = pair
    connection = connect(master.url, replica.url)
    reader = connection.blocking()
    waiting = asyncio.create_task(reader.call("BLPOP", "queue", 30, block_s=30))
    with master.client() as client:
        await wait_until(
            lambda: client.info("clients")["blocked_clients"] == 1,
            description="the reader waits inside Redis",
        )
    await asyncio.to_thread(promote, replica)
    await asyncio.to_thread(follow, master, replica)
    with pytest.raises(DependencyDown):
        await waiting
    await wait_until(lambda: pushed(connection), description="the new master takes writes")
    assert await reader.call("BLPOP", "queue", 30, block_s=30) == [b"queue", b"x"]


async def pushed(connection):
    try:
        return await connection.call("RPUSH", "queue", "x")
    except DependencyDown:
        return False


async def test_a_server_that_comes_back_empty_is_used_again(pair, connect):
    master, _ = pair
    async with Load(connect(master.url)) as load:
        await asyncio.to_thread(master.kill)
        await wait_until(lambda: not load.connection.up, description="the loss was seen")
        await asyncio.to_thread(master.start)
        await load.flows("the server serves again")


# A cluster of three masters and three replicas


@pytest.mark.parametrize("durability", ["wait", "none"])
async def test_a_killed_master_of_a_cluster_is_replaced_under_load(replicated_cluster, connect, durability):
    connection = connect(
        replicated_cluster.url, mode="cluster", durability=durability, durability_timeout_ms=400
    )
    victim = replicated_cluster.masters[1]
    async with Load(connection) as load:
        await asyncio.to_thread(victim.kill)
        await wait_until(lambda: load.failures, description="the loss was seen")
        heir = await asyncio.to_thread(replicated_cluster.wait_for_promotion, victim)
        await wait_until(
            lambda: served_by(heir, connection), description="the heir serves", timeout_s=RECOVERY_S
        )
        if durability == "wait":  # the heir has no replica yet, so it confirms nothing
            await asyncio.to_thread(replicated_cluster.revive, victim)
        await load.flows("every caller is served again")
    assert not [text for text in load.failures if any(word in text for word in ("MOVED", "ASK", "SLOT"))]
    if durability == "wait":
        assert lost_marks(load, *replicated_cluster.masters) == 0


async def served_by(heir, connection):
    """Tell whether a call for one of the heir's slots is answered."""
    names = [str(number) for number in range(1000)]
    network = connection._network
    mine = [name for name in names if network.has_slot((LOCALHOST, heir.port), slot(name))]
    try:
        return bool(mine) and await connection.call("SET", mine[0], "x", "EX", 60)
    except DependencyDown:
        return False


async def test_a_planned_handover_of_a_master_fails_no_call(replicated_cluster, connect):
    """As before maintenance; the old master becomes the replica and sends callers on."""
    old, heir = replicated_cluster.masters[2], replicated_cluster.replicas[2]
    async with Load(connect(replicated_cluster.url, mode="cluster")) as load:
        with heir.client() as client:
            await asyncio.to_thread(client.execute_command, "CLUSTER FAILOVER")
        await asyncio.to_thread(replicated_cluster.wait_for_promotion, old)
        await load.flows("every caller is served")
    assert load.failures == []
    assert lost_marks(load, *replicated_cluster.masters) == 0
