from __future__ import annotations

import asyncio
import random
from bisect import bisect_right
from pathlib import Path

import pytest

from lingua_scheduler.embedded import free_port
from lingua_scheduler.errors import DependencyDown, StoreError
from lingua_scheduler.store.cluster import first_key
from lingua_scheduler.store.connection import Connection, StoreOptions
from lingua_scheduler.store.keys import SLOTS, slot
from lingua_scheduler.store.scripts import Scripts
from support import wait_until

LUA = Path(__file__).parent / "lua"


class MovableSlot:
    """One slot of the shared cluster that a test moves from one master to another, and back afterwards."""

    def __init__(self, cluster, key):
        self.slot = slot(key)
        self.masters = cluster.masters
        self.ids = {node: self.on(node, "CLUSTER MYID") for node in self.masters}
        first_slots = [number * SLOTS // len(self.masters) for number in range(len(self.masters))]
        self.source = self.masters[bisect_right(first_slots, self.slot) - 1]
        self.target = next(node for node in self.masters if node is not self.source)

    def on(self, node, *command):
        """Run a command on one master."""
        with node.client() as client:
            return client.execute_command(*command)

    def open(self):
        """Begin to move it: the source redirects what it does not have, the target takes who asks."""
        self.on(self.target, "CLUSTER SETSLOT", self.slot, "IMPORTING", self.ids[self.source])
        self.on(self.source, "CLUSTER SETSLOT", self.slot, "MIGRATING", self.ids[self.target])

    def empty(self):
        """Move every key that the source still has."""
        while keys := self.on(self.source, "CLUSTER GETKEYSINSLOT", self.slot, 10):
            self.on(self.source, "MIGRATE", "127.0.0.1", self.target.port, "", 0, 1000, "KEYS", *keys)

    def finish(self):
        """Make the target the owner, everywhere."""
        for node in (self.target, self.source, *self.masters):
            self.on(node, "CLUSTER SETSLOT", self.slot, "NODE", self.ids[self.target])

    def refusals(self):
        """Count how often the source said: try again."""
        with self.source.client() as client:
            return client.info("errorstats").get("errorstat_TRYAGAIN", {"count": 0})["count"]

    def restore(self):
        """Give it back to the source, empty."""
        for node in self.masters:
            self.on(node, "FLUSHALL")
        self.finish()
        self.source, self.target = self.target, self.source
        self.open()
        self.finish()


@pytest.fixture
def key(cluster_options):
    return f"{cluster_options.key_prefix}:{{moving}}:"


@pytest.fixture
def movable(cluster, key):
    slot_to_move = MovableSlot(cluster, key)
    yield slot_to_move
    slot_to_move.restore()


@pytest.fixture
def moving(replicated_cluster):
    slot_to_move = MovableSlot(replicated_cluster, "{moving}")
    yield slot_to_move
    slot_to_move.restore()


async def ask_all_servers(connection, prefix):
    await asyncio.gather(*(connection.call("EXISTS", f"{prefix}:{n}") for n in range(50)))


async def test_every_key_is_found_on_its_server(cluster_connection, cluster_options):
    names = [f"{cluster_options.key_prefix}:{n}" for n in range(500)]
    await asyncio.gather(*(cluster_connection.call("SET", name, name, "EX", 60) for name in names))
    values = await asyncio.gather(*(cluster_connection.call("GET", name) for name in names))
    assert values == [name.encode() for name in names]
    assert cluster_connection.up


async def test_a_call_without_a_key_goes_to_any_server_or_to_that_of_the_route(cluster_connection, cluster):
    assert await cluster_connection.call("PING") == b"PONG"
    info = (await cluster_connection.call("INFO", "server", route="anything")).decode()
    assert any(f"tcp_port:{node.port}" in info for node in cluster.masters)


async def test_the_state_is_told_once_the_servers_are_known(cluster_options):
    states = []
    connection = Connection(cluster_options, on_state=states.append)
    await connection.call("PING")
    await wait_until(lambda: connection.up, description="the slots are known")
    assert states == [True]
    await connection.close()


async def test_one_reachable_address_is_enough_to_begin(cluster):
    gone = f"redis://127.0.0.1:{free_port()}"
    connection = Connection(StoreOptions(url=f"{gone},{cluster.masters[1].url}", mode="cluster"))
    assert await connection.call("PING") == b"PONG"
    await connection.close()


async def test_without_a_reachable_address_calls_fail_at_once():
    connection = Connection(StoreOptions(url=f"redis://127.0.0.1:{free_port()}", mode="cluster"))
    with pytest.raises(DependencyDown):
        await connection.call("PING")
    assert not connection.up
    await connection.close()


async def test_keys_of_two_slots_are_refused_by_the_server(cluster_connection):
    with pytest.raises(StoreError, match=r"(?i)slot"):
        await cluster_connection.call("MGET", "a", "b")


async def test_a_slot_that_moved_is_followed(cluster_connection, movable, key):
    await ask_all_servers(cluster_connection, key)
    movable.open()
    movable.finish()
    replies = await asyncio.gather(
        *(cluster_connection.call("SET", f"{key}{n}", n, "EX", 60) for n in range(100))
    )
    assert replies == [b"OK"] * 100
    assert movable.on(movable.target, "DBSIZE") == 100
    assert cluster_connection._network._owner[movable.slot] == ("127.0.0.1", movable.target.port)


async def test_a_slot_that_is_moving_is_asked_for_at_its_target(cluster_connection, movable, key):
    """Old keys answer at the source, new ones at the target, and other calls of the tick are not confused."""
    await cluster_connection.call("SET", f"{key}old", "old", "EX", 60)
    movable.open()
    calls = []
    for n in range(100):
        calls.append(cluster_connection.call("SET", f"{key}{n}", n, "EX", 60))
        calls.append(cluster_connection.call("GET", f"{key}old"))
        calls.append(cluster_connection.call("ECHO", n))
    replies = await asyncio.gather(*calls)
    assert replies == [reply for n in range(100) for reply in (b"OK", b"old", str(n).encode())]
    assert movable.on(movable.target, "DBSIZE") == 100


async def test_keys_between_two_servers_are_waited_for(cluster_connection, movable, key):
    await cluster_connection.call("SET", f"{key}1", "one", "EX", 60)
    movable.open()
    before = movable.refusals()
    waiting = asyncio.create_task(cluster_connection.call("MGET", f"{key}1", f"{key}2"))
    await wait_until(lambda: movable.refusals() > before + 2, description="the call was put off")
    assert not waiting.done()
    movable.on(movable.source, "MIGRATE", "127.0.0.1", movable.target.port, f"{key}1", 0, 1000)
    movable.finish()
    assert await waiting == [b"one", None]


async def test_keys_that_stay_between_two_servers_fail_by_the_deadline(cluster_options, movable, key):
    connection = Connection(
        StoreOptions(url=cluster_options.url, mode="cluster", key_prefix="x", command_timeout_s=0.1)
    )
    await connection.call("SET", f"{key}1", "one", "EX", 60)
    movable.open()
    with pytest.raises(DependencyDown):
        await connection.call("MGET", f"{key}1", f"{key}2")
    await connection.close()


async def test_calls_given_up_at_random_never_disturb_the_others(cluster_connection):
    chance = random.Random(1)

    async def caller(name):
        for number in range(20):
            mark = f"{name}-{number}"
            try:
                async with asyncio.timeout(chance.choice((None, 0, 0.0005, 0.002))):
                    assert await cluster_connection.call("ECHO", mark) == mark.encode()
            except TimeoutError:
                pass

    await asyncio.gather(*map(caller, range(100)))
    assert cluster_connection.up


async def test_a_blocking_read_waits_at_the_server_of_its_key(cluster_connection, cluster_options):
    reader = cluster_connection.blocking()
    queue = f"{cluster_options.key_prefix}:queue"
    waiting = asyncio.create_task(reader.call("BLPOP", queue, 30, block_s=30))
    await cluster_connection.call("RPUSH", queue, "x")
    assert await waiting == [queue.encode(), b"x"]


async def test_a_dead_master_delays_only_its_own_slots_until_its_replica_takes_over(replicated_cluster):
    connection = Connection(
        StoreOptions(url=replicated_cluster.url, mode="cluster", command_timeout_s=1, reconnect_pause_s=0.05)
    )
    names = [f"k{n}" for n in range(200)]
    lost = [name for name in names if slot(name) < SLOTS // 3]
    safe = [name for name in names if slot(name) >= SLOTS // 3]
    await asyncio.gather(*(connection.call("SET", name, name) for name in names))
    await connection.call("WAIT", 1, 1000, route=lost[0])
    replicated_cluster.masters[0].kill()  # the slots from 0 on

    async def recovered():
        assert await asyncio.gather(*(connection.call("GET", name) for name in safe)) == [
            name.encode() for name in safe
        ]
        try:
            return await connection.call("GET", lost[0]) == lost[0].encode()
        except DependencyDown:
            assert not connection.up
            return False

    assert not await recovered()
    await wait_until(recovered, description="the replica took over", timeout_s=20)
    await wait_until(lambda: connection.up, description="all servers are reachable")
    await connection.close()


@pytest.mark.parametrize("durability", ["none", "wait"])
async def test_a_slot_that_moves_under_load_fails_no_call_and_runs_each_once(
    replicated_cluster, moving, durability
):
    """Old keys, new keys and keys between two servers: redirections and delays reach no caller."""
    options = StoreOptions(url=replicated_cluster.url, mode="cluster", durability=durability)
    connection = Connection(options)
    scripts = Scripts(connection, LUA)
    keep, copy = scripts.load("keep"), scripts.load("copy")
    rounds = [0] * 10
    going = True

    async def caller(number):
        while going:
            mark = rounds[number]
            old, new = f"{{moving}}:{number}", f"{{moving}}:{number}-{mark}"
            assert await keep(kept=old, mark=mark) == 1
            assert await keep(kept=new, mark=mark) == 1
            assert (
                await copy(source=f"{{moving}}:s{number}", targets=[f"{{moving}}:t{number}"], ttl_s=60) == 1
            )
            assert await connection.call("ECHO", mark) == str(mark).encode()
            rounds[number] += 1

    async def everyone_goes_on():
        before = list(rounds)
        await wait_until(
            lambda: all(now > then + 2 for now, then in zip(rounds, before, strict=True)),
            description="every caller is served",
        )

    await asyncio.gather(*(connection.call("SET", f"{{moving}}:s{n}", n, "EX", 60) for n in range(10)))
    tasks = [asyncio.create_task(caller(number)) for number in range(10)]
    await everyone_goes_on()
    await asyncio.to_thread(moving.open)
    await asyncio.to_thread(moving.empty)
    await everyone_goes_on()
    await asyncio.to_thread(moving.finish)
    await everyone_goes_on()
    going = False
    await asyncio.gather(*tasks)
    sizes = [await connection.call("SCARD", f"{{moving}}:{number}") for number in range(10)]
    assert sizes == rounds
    await connection.close()


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (("GET", "k"), "k"),
        (("get", b"k"), b"k"),
        (("EVALSHA", "sha", 2, "k", "l", "arg"), "k"),
        (("XREADGROUP", "GROUP", "g", "c", "COUNT", 5, "BLOCK", 10, "STREAMS", "k", ">"), "k"),
        (("XREAD", "streams", "k", "$"), "k"),
        (("XGROUP", "CREATE", "k", "g", "$"), "k"),
        (("XADD", "k", "*", "f", "v"), "k"),
        (("EVAL", "return 1", 0), None),
        (("SCRIPT", "LOAD", "return 1"), None),
        (("PING",), None),
    ],
)
def test_the_key_that_decides_where_a_command_runs(command, key):
    assert first_key(command) == key
