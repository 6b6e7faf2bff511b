from __future__ import annotations

import pytest

from lingua_scheduler.store.keys import Keys
from support import leaks, wait_until


@pytest.fixture
def client(redis_server):
    """Give a client to an empty Redis, and leave it empty."""
    with redis_server.client() as client:
        yield client
        client.flushall()


def test_a_key_without_an_end_is_a_leak(client):
    keys = Keys("mine")
    client.hset(keys.session("s"), "owner", "a")
    client.hset("mine:unheard", "of", "it")
    assert sorted(leaks(client, keys)) == [
        "mine:unheard: no TTL, and no owner in the catalogue",
        "mine:{session:s}:session: no TTL, and no owner in the catalogue",
    ]


def test_a_key_with_a_ttl_or_an_owner_is_no_leak(client):
    keys = Keys("mine")
    client.set("mine:unheard", "x", ex=60)
    client.zadd(keys.leases(0), {"node": 1})
    client.set(keys.audio("s", "j"), b"x", ex=60)
    assert leaks(client, keys) == []


def test_a_key_outside_the_prefix_is_a_leak_even_with_a_ttl(client):
    client.set("mine2:x", "x", ex=60)
    assert leaks(client, Keys("mine")) == ["mine2:x: outside the prefix mine"]


def test_a_key_of_another_type_than_the_catalogue_says_is_named(client):
    keys = Keys("mine")
    client.set(keys.leases(0), "x", ex=60)
    assert leaks(client, keys) == ["mine:{pool:0}:leases: is a string, the catalogue says zset"]


async def test_waiting_gives_what_the_predicate_gave():
    steps = iter([0, "", "found"])
    assert await wait_until(lambda: next(steps), description="something") == "found"

    async def later():
        return "async"

    assert await wait_until(later, description="something") == "async"


async def test_waiting_in_vain_names_what_was_waited_for():
    with pytest.raises(AssertionError, match="the moon"):
        await wait_until(lambda: False, description="the moon", timeout_s=0.01)
