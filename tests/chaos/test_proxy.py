"""The proxy breaks a network as it is told and loses no byte by itself."""

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest

from lingua_scheduler.chaos.proxy import CLEAR, LOCALHOST, Proxy, Weather
from support import wait_until


@asynccontextmanager
async def echo_through_proxy():
    """Run an echo server behind a proxy; give both."""

    async def echo(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, LOCALHOST, 0)
    address = server.sockets[0].getsockname()
    try:
        async with Proxy(address[:2]) as proxy:
            yield proxy
    finally:
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def connected(proxy):
    reader, writer = await asyncio.open_connection(LOCALHOST, proxy.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(
    "weather",
    [
        CLEAR,
        Weather(latency_ms=5, jitter_ms=5),
        Weather(slice_bytes=7),
        Weather(rate_bytes_s=1_000_000),
        Weather(slice_bytes=100, latency_ms=1, down_only=True),
    ],
)
async def test_every_byte_arrives_in_order_in_any_weather(weather):
    said = bytes(range(256)) * 40
    async with echo_through_proxy() as proxy, connected(proxy) as (reader, writer):
        proxy.weather = weather
        writer.write(said)
        assert await asyncio.wait_for(reader.readexactly(len(said)), 10) == said


async def test_latency_delays_and_does_not_add_up():
    async with echo_through_proxy() as proxy, connected(proxy) as (reader, writer):
        proxy.weather = Weather(latency_ms=50, slice_bytes=10)
        loop = asyncio.get_running_loop()
        began = loop.time()
        writer.write(b"x" * 1000)
        await asyncio.wait_for(reader.readexactly(1000), 10)
        assert 0.1 <= loop.time() - began < 1


async def test_a_blackhole_holds_everything_until_it_is_lifted():
    async with echo_through_proxy() as proxy, connected(proxy) as (reader, writer):
        proxy.weather = Weather(blackhole=True)
        writer.write(b"hello")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readexactly(1), 0.1)
        proxy.weather = CLEAR
        assert await asyncio.wait_for(reader.readexactly(5), 10) == b"hello"


async def test_a_reset_is_felt_by_who_is_connected():
    async with echo_through_proxy() as proxy, connected(proxy) as (reader, writer):
        writer.write(b"hello")
        await reader.readexactly(5)
        assert proxy.reset() == 1
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(1), 10)
        await wait_until(lambda: proxy.open == 0, description="the connection is forgotten")


async def test_a_half_close_ends_one_direction_only():
    async with echo_through_proxy() as proxy, connected(proxy) as (reader, writer):
        writer.write(b"hello")
        await reader.readexactly(5)
        proxy.half_close()
        assert await asyncio.wait_for(reader.read(1), 10) == b""
        writer.write(b"still heard")
        await writer.drain()


async def test_who_finds_nobody_behind_the_proxy_is_turned_away():
    async with Proxy(lambda: None) as proxy, connected(proxy) as (reader, _):
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(1), 10) == b""
