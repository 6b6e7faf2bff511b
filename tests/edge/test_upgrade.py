"""How a connection leaves the HTTP library for the pump: nothing is lost, nothing of the library stays."""

from __future__ import annotations

import asyncio
import gc
import json

from aiohttp.web_protocol import RequestHandler

from edge.frames import BINARY, TEXT, frame, text
from edge.world import HEARTBEAT
from lingua_scheduler.edge.pump import Pump
from lingua_scheduler.edge.writer import Sink
from lingua_scheduler.wire.close import CloseCode
from support import wait_until

BEAT = text(**HEARTBEAT)


class Held:
    """Keeps answers back until told."""

    def __init__(self) -> None:
        self.asked, self.goes_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, _request: object, _response: object) -> None:
        self.asked.set()
        await self.goes_on.wait()


def alive(kind: type) -> int:
    return sum(type(each) is kind for each in gc.get_objects())


async def test_all_that_comes_right_behind_the_handshake_is_heard(world):
    """Also when it is more than the library reads ahead, and ends within a frame."""
    client = await world.raw()
    beats = b"".join(text(**HEARTBEAT | {"timestamp": at}) for at in range(100))
    noise = frame(BINARY, bytes(60_000)) * 5
    last = text(**HEARTBEAT | {"timestamp": 100})
    assert await client.upgrade(then=beats + noise + last[:-3]) == 101
    client.send(last[-3:])
    assert await client.is_open()
    assert [message.timestamp for message in world.sessions.peers[0].messages] == list(range(101))


async def test_what_comes_while_the_handshake_is_answered_is_heard(start):
    held = Held()
    world = await start(before_answers=held)
    client = await world.raw()
    client.ask(then=BEAT)
    await held.asked.wait()
    client.send(BEAT + BEAT[:5])
    await client.writer.drain()
    held.goes_on.set()
    assert (await client.response())[0] == 101
    client.send(BEAT[5:])
    assert await client.is_open()
    assert len(world.sessions.peers[0].messages) == 3


async def test_nothing_of_the_library_stays_with_an_open_socket(world):
    gc.collect()
    tasks, handlers = asyncio.all_tasks(), alive(RequestHandler)
    clients = [await world.client() for _ in range(3)]
    await wait_until(lambda: asyncio.all_tasks() <= tasks, description="the requests are over")
    library = world.edge._runner.server
    await wait_until(lambda: not library.connections, description="the library has let go")
    gc.collect()
    assert alive(RequestHandler) == handlers
    assert all([await client.is_open() for client in clients])
    assert world.edge.connections == 3


async def test_the_end_of_a_connection_frees_it_without_the_collectors_help(world):
    gc.collect()
    pumps, sinks = alive(Pump), alive(Sink)
    gc.disable()
    try:
        client = await world.client()
        client.send(BEAT + frame(TEXT, b"not a message") + BEAT[:20])
        await client.message()
        [peer] = world.sessions.peers
        client.end()
        await wait_until(lambda: peer.lost_count, description="the peer is told")
        await wait_until(lambda: alive(Pump) == pumps, description="the pump is freed")
        del peer.sink
        assert alive(Sink) == sinks
    finally:
        gc.enable()


async def test_a_transport_that_is_full_when_it_is_taken_over_is_known_to_be(start):
    filler = b"x" * 65536
    filled = []

    async def fill(request, _response):
        while not request.protocol.writing_paused:
            request.transport.write(filler)
            filled.append(len(filler))

    world = await start(before_answers=fill)
    client = await world.raw()
    client.writer.transport.pause_reading()
    client.ask()
    await wait_until(lambda: world.sessions.peers, description="the connection is taken over")
    [peer] = world.sessions.peers
    peer.sink.post(b"waits")
    assert [waiting.payload for waiting in peer.sink._backlog] == [b"waits"]
    client.writer.transport.resume_reading()
    assert set(await client.reader.readexactly(sum(filled))) == {ord("x")}
    assert (await client.response())[0] == 101
    assert await client.frame() == (TEXT, b"waits")


async def test_an_upgrade_under_way_when_the_edge_stops_leaves_nothing_behind(start):
    held = Held()
    world = await start(before_answers=held)
    client = await world.raw()
    client.ask()
    await held.asked.wait()
    stopping = asyncio.create_task(world.edge.stop())
    await wait_until(lambda: world.edge._stopping, description="the edge stops")
    held.goes_on.set()
    assert await client.at_end()
    await stopping
    assert not world.sessions.peers
    assert world.edge.connections == 0


async def test_a_stop_ends_upgraded_connections_and_tells_their_peers_first(world):
    client = await world.client()
    [peer] = world.sessions.peers
    peer.sink.post(b"last words")
    stopping = asyncio.create_task(world.edge.stop())
    assert await client.frame() == (TEXT, b"last words")
    assert await client.close_code() == CloseCode.SERVICE_RESTART
    client.end()
    await stopping
    assert world.edge.connections == 0
    assert peer.lost_count == 1


async def test_an_answer_leaves_although_the_client_has_ended_its_side(world):
    client = await world.client()
    [peer] = world.sessions.peers
    hear = peer.received

    def answer(message):
        hear(message)
        peer.sink.post(json.dumps({"heard": message.timestamp}).encode())

    peer.received = answer
    client.send(BEAT)
    client.writer.write_eof()
    assert await client.message() == {"heard": 1}
    assert await client.at_end()
