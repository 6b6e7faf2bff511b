"""A network between us and Redis that is silent, slow or cut: bounded waits, no stale reply, quick return."""

from __future__ import annotations

import asyncio

import pytest

from lingua_scheduler.chaos.proxy import CLEAR, Proxy, Weather
from lingua_scheduler.embedded import LOCALHOST, EmbeddedRedis
from lingua_scheduler.errors import DependencyDown
from lingua_scheduler.store.connection import Connection, StoreOptions
from support import wait_until

SILENT = Weather(blackhole=True)


@pytest.fixture(scope="module")
def server():
    with EmbeddedRedis(port=0) as made:
        yield made


@pytest.fixture
async def proxy(server):
    async with Proxy((LOCALHOST, server.port)) as made:
        yield made


@pytest.fixture
async def connection(proxy):
    options = StoreOptions(
        url=f"redis://{LOCALHOST}:{proxy.port}",
        command_timeout_s=0.4,
        connect_timeout_s=2.0,
        reconnect_pause_s=0.1,
    )
    made = Connection(options)
    await made.call("FLUSHALL")
    yield made
    await made.close()


async def failure(call):
    """Wait for a call that must fail; give its words and the time it took."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    with pytest.raises(DependencyDown) as told:
        await call
    return str(told.value), loop.time() - started


async def answered(connection):
    try:
        return await connection.call("PING")
    except DependencyDown:
        return False


async def test_a_silent_redis_fails_calls_by_their_deadline_and_then_at_once(connection, proxy):
    proxy.weather = SILENT
    _, took_s = await failure(connection.call("PING"))
    assert 0.35 < took_s < 2
    await wait_until(lambda: not connection.up, description="Redis is known to be away")
    _, took_s = await failure(connection.call("PING"))
    assert took_s < 0.05


async def test_who_waits_behind_a_silent_call_is_told_with_it(connection, proxy):
    proxy.weather = SILENT
    first = asyncio.create_task(failure(connection.call("PING")))
    channel = connection._network._channel
    await wait_until(lambda: channel.under_way, description="the first is under way")
    text, took_s = await failure(channel.submit((b"*1\r\n$4\r\nPING\r\n",), timeout_s=30))
    assert "in time" in text
    assert took_s < 5
    await first


async def test_while_a_silent_redis_is_tried_again_calls_wait_a_moment_and_then_not_at_all(connection, proxy):
    proxy.weather = SILENT
    await failure(connection.call("PING"))
    await wait_until(lambda: not connection.up, description="Redis is known to be away")
    channel = connection._network._channel
    loop = asyncio.get_running_loop()
    await wait_until(lambda: loop.time() > channel._fail_until, description="the pause is over")
    _, took_s = await failure(connection.call("PING"))
    assert took_s < 0.4, "the one that tries waits for a moment"
    _, took_s = await failure(connection.call("PING"))
    assert took_s < 0.05, "nobody else waits"
    assert not channel.idle


async def test_service_is_back_soon_after_the_silence(connection, proxy):
    proxy.weather = SILENT
    await failure(connection.call("PING"))
    for _ in range(20):
        assert not await answered(connection)
    proxy.weather = CLEAR
    loop = asyncio.get_running_loop()
    healed = loop.time()
    await wait_until(lambda: answered(connection), description="Redis is back")
    assert loop.time() - healed < 2.5
    assert connection.up


async def test_a_reply_that_comes_too_late_reaches_nobody(connection, proxy):
    """What was sent before the silence arrives after it: run at most once, and nobody reads its replies."""
    proxy.weather = SILENT
    calls = [asyncio.create_task(failure(connection.call("INCR", f"n{n}"))) for n in range(20)]
    await asyncio.gather(*calls)
    proxy.weather = CLEAR
    await wait_until(lambda: answered(connection), description="Redis is back")
    marks = [f"m{n}".encode() for n in range(100)]
    assert await asyncio.gather(*(connection.call("ECHO", mark) for mark in marks)) == marks
    assert set(await connection.call("MGET", *(f"n{n}" for n in range(20)))) <= {None, b"1"}


async def test_only_the_answers_are_lost(connection, proxy):
    proxy.weather = Weather(blackhole=True, down_only=True)
    text, _ = await failure(connection.call("INCR", "n"))
    assert "in time" in text
    proxy.weather = CLEAR
    await wait_until(lambda: answered(connection), description="Redis is back")
    assert await connection.call("GET", "n") == b"1"


@pytest.mark.parametrize("break_it", [Proxy.reset, Proxy.half_close], ids=["reset", "half-closed"])
async def test_a_connection_that_ends_is_made_anew_without_a_pause(connection, proxy, break_it):
    before = proxy.accepted
    break_it(proxy)
    await answered(connection)
    assert await answered(connection)
    assert proxy.accepted == before + 1


async def test_a_slow_network_in_tiny_pieces_only_takes_longer(connection, proxy):
    proxy.weather = Weather(latency_ms=0.1, jitter_ms=0.2, slice_bytes=7)
    marks = [f"m{n}".encode() for n in range(20)]
    assert await asyncio.gather(*(connection.call("ECHO", mark) for mark in marks)) == marks
    assert connection.up
