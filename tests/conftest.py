"""Real Redis for every test that asks: one server per worker, one prefix per test, no key left behind."""

from __future__ import annotations

import secrets

import pytest
import uvloop

from lingua_scheduler import log
from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.embedded_cluster import EmbeddedCluster
from lingua_scheduler.store.connection import Connection, StoreOptions
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts
from logs import kept
from support import leaks


def pytest_asyncio_loop_factories():
    return {"uvloop": uvloop.new_event_loop}


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item):
    """Write what a test logged while its output is still captured: its writer is a thread of its own."""
    try:
        return (yield)
    finally:
        log.flush()


@pytest.fixture(autouse=True)
def _log_as_before():
    """Let no test's log settings outlive it."""
    with kept():
        yield


@pytest.fixture(scope="session")
def redis_server():
    """Run one embedded Redis for all tests of a worker."""
    with EmbeddedRedis() as server:
        yield server


@pytest.fixture
def prefix(redis_server):
    """Give the test a prefix of its own; afterwards every key must have a TTL or an owner that removes it."""
    mine = f"test-{secrets.token_hex(4)}"
    yield mine
    with redis_server.client() as client:
        left = leaks(client, Keys(mine))
        client.flushall()
    assert not left, "keys left behind:\n" + "\n".join(left)


@pytest.fixture
def keys(prefix):
    """Give the key catalogue under the test's prefix."""
    return Keys(prefix)


@pytest.fixture
def store_options(redis_server, prefix):
    """Give options that lead to the test's Redis and prefix; for tests that make connections of their own."""
    return StoreOptions(url=redis_server.url, key_prefix=prefix)


@pytest.fixture
async def connection(store_options):
    """Give a connection to the test's Redis."""
    made = Connection(store_options)
    yield made
    await made.close()


@pytest.fixture
def scripts(connection):
    """Give the product's Lua scripts."""
    return Scripts(connection)


@pytest.fixture(scope="session")
def cluster():
    """Run a Redis Cluster of three masters, started by the first test that asks."""
    with EmbeddedCluster() as made:
        yield made


@pytest.fixture
def cluster_options(cluster):
    """Give options that lead to the cluster and a prefix of the test's own; the same check follows."""
    mine = f"test-{secrets.token_hex(4)}"
    yield StoreOptions(url=cluster.url, mode="cluster", key_prefix=mine)
    left = []
    for node in cluster.masters:
        with node.client() as client:
            left += leaks(client, Keys(mine))
            client.flushall()
    assert not left, "keys left behind:\n" + "\n".join(left)


@pytest.fixture
async def cluster_connection(cluster_options):
    """Give a connection to the cluster."""
    made = Connection(cluster_options)
    yield made
    await made.close()


@pytest.fixture(scope="session")
def _three_and_three():
    with EmbeddedCluster(replicas=3) as made:
        yield made


@pytest.fixture
def replicated_cluster(_three_and_three):
    """Give a Redis Cluster of three masters and three replicas, whose masters may be killed; empty again."""
    yield _three_and_three
    for dead in [node for node in _three_and_three.nodes if not node.alive]:
        if dead in _three_and_three.masters:
            _three_and_three.wait_for_promotion(dead)
        _three_and_three.revive(dead)
    for node in _three_and_three.masters:
        with node.client() as client:
            client.flushall()
