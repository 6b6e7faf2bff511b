"""The way out: order, the bounded queue of a slow reader, what gives way first, and the goodbye."""

from __future__ import annotations

import pytest

from edge.frames import CLOSE, PONG, TEXT
from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.session import ServerHeartbeat
from support import wait_until

FILLER = b"x" * 65536


class Slow:
    """A client that does not read, and the sink that leads to it."""

    def __init__(self, client, peer) -> None:
        self.client = client
        self.sink = peer.sink
        self.fillers = 0
        client.writer.transport.pause_reading()
        while not self.sink._paused:
            assert self.sink.post(FILLER)
            self.fillers += 1

    async def read_rest(self) -> list[str]:
        """Let the client read again: what it gets after the filling, until the goodbye or `end`."""
        self.client.writer.transport.resume_reading()
        for _ in range(self.fillers):
            assert await self.client.frame() == (TEXT, FILLER)
        rest = []
        while True:
            opcode, payload = await self.client.frame()
            if opcode == CLOSE:
                return [*rest, f"closed {int.from_bytes(payload[:2], 'big')}"]
            if payload == b"end":
                return rest
            rest.append(payload.decode())


@pytest.fixture
def slow(start):
    """Give a function that connects a client which does not read."""

    async def connect(**limits: object) -> Slow:
        clock = limits.pop("clock", None)
        world = await start(clients=limits, clock=clock)
        made = Slow(await world.client(), world.sessions.peers[0])
        made.world = world
        return made

    return connect


async def test_messages_arrive_in_order_and_whole(world):
    client = await world.client()
    sink = world.sessions.peers[0].sink
    sizes = [0, 1, 125, 126, 65535, 65536, 300_000, 2]
    for size in sizes:
        assert sink.post(b"a" * size)
    assert [len((await client.frame())[1]) for _ in sizes] == sizes


async def test_a_typed_message_is_encoded(world):
    client = await world.client()
    world.sessions.peers[0].sink.post(ServerHeartbeat(session_id="s-1", timestamp=7))
    assert await client.message() == {"type": "server_heartbeat", "session_id": "s-1", "timestamp": 7}


async def test_one_encoding_serves_many_sockets(world):
    clients = [await world.client() for _ in range(3)]
    prepared = b'{"type":"room_expired"}'
    for peer in world.sessions.peers:
        peer.sink.post(prepared)
    assert [(await client.message())["type"] for client in clients] == ["room_expired"] * 3


async def test_nothing_runs_for_a_socket_that_is_not_behind(world):
    await world.client()
    sink = world.sessions.peers[0].sink
    sink.post(b"short")
    await wait_until(lambda: sink._tick is None, description="the tick has ended")
    assert not sink._backlog
    assert sink._stall is None


async def test_what_waits_is_sent_in_order_when_the_client_reads_again(slow):
    slow = await slow()
    for at in range(50):
        assert slow.sink.post(b"%d" % at)
    slow.sink.post(b"end")
    assert await slow.read_rest() == [str(at) for at in range(50)]
    await wait_until(lambda: slow.sink._stall is None, description="nothing waits")
    slow.sink.post(b"direct")
    assert await slow.client.frame() == (TEXT, b"direct")


async def test_nothing_overtakes_what_waits(slow, monkeypatch):
    """Not even when the transport had room."""
    slow = await slow()
    slow.sink.post(b"first")
    with monkeypatch.context() as patch:
        patch.setattr(slow.sink, "_paused", False)
        slow.sink.post(b"second")
    slow.sink.post(b"end")
    assert await slow.read_rest() == ["first", "second"]


async def test_the_oldest_droppable_messages_give_way_first(slow):
    slow = await slow(send_queue_messages=4)
    for name, droppable in [("p1", True), ("r1", False), ("p2", True), ("r2", False)]:
        assert slow.sink.post(name.encode(), droppable=droppable)
    assert slow.sink.post(b"r3")
    assert slow.sink.dropped == 1
    assert slow.sink.post(b"end")
    assert slow.sink.dropped == 2
    assert await slow.read_rest() == ["r1", "r2", "r3"]


async def test_a_newer_partial_replaces_an_older_one(slow):
    slow = await slow(send_queue_messages=2)
    slow.sink.post(b"p1", droppable=True)
    slow.sink.post(b"end")
    assert slow.sink.post(b"p2", droppable=True)
    assert [waiting.payload for waiting in slow.sink._backlog] == [b"end", b"p2"]


async def test_a_droppable_message_never_closes_a_connection(slow):
    slow = await slow(send_queue_messages=2)
    slow.sink.post(b"r1")
    slow.sink.post(b"end")
    assert not slow.sink.post(b"p1", droppable=True)
    assert not slow.sink.closed
    assert await slow.read_rest() == ["r1"]


async def test_as_many_bytes_give_way_as_are_needed(slow):
    slow = await slow(send_queue_bytes=1000)
    for name in (b"a", b"b", b"c"):
        slow.sink.post(name * 300, droppable=True)
    assert slow.sink.post(b"r" * 500)
    assert [waiting.payload[:1] for waiting in slow.sink._backlog] == [b"c", b"r"]
    assert slow.sink._backlog_bytes == 800


async def test_a_reader_that_is_too_slow_is_closed_and_its_queue_freed(slow):
    slow = await slow(send_queue_messages=3)
    assert [slow.sink.post(b"r") for _ in range(3)] == [True] * 3
    assert not slow.sink.post(b"one too many")
    assert slow.sink.closed
    assert not slow.sink._backlog
    assert await slow.read_rest() == ["closed 4408"]
    counted = slow.world.metrics.registry.get_sample_value("scheduler_slow_consumer_closed_total")
    assert counted == 1


async def test_a_peer_that_takes_nothing_is_closed_although_its_queue_has_room(slow):
    clock = VirtualClock()
    slow = await slow(clock=clock, send_stall_s=20, silence_s=1000, close_timeout_s=5)
    slow.sink.post(b"waits")
    await wait_until(lambda: slow.sink._stall, description="the writer waits for the transport")
    clock.advance(19.9)
    assert not slow.sink.closed
    clock.advance(0.2)
    assert slow.sink.close_code == CloseCode.SLOW_CONSUMER
    clock.advance(5)
    await wait_until(lambda: not slow.world.edge.connections, description="the connection is cut")


async def test_a_slow_peer_that_still_takes_something_is_not_stalled(slow):
    clock = VirtualClock()
    slow = await slow(clock=clock, send_stall_s=20, silence_s=1000)
    for _ in range(100):
        slow.sink.post(FILLER)
    await wait_until(lambda: slow.sink._stall, description="the writer waits for the transport")
    clock.advance(15)
    waiting = slow.sink._backlog_bytes
    slow.client.writer.transport.resume_reading()
    while slow.sink._backlog_bytes == waiting:
        await slow.client.frame()
    slow.client.writer.transport.pause_reading()
    clock.advance(15)
    assert not slow.sink.closed


async def test_the_goodbye_comes_behind_what_was_posted_before(slow):
    slow = await slow()
    slow.sink.post(b"last words")
    slow.sink.close(CloseCode.SESSION_ENDED, "bye")
    assert not slow.sink.post(b"too late")
    assert await slow.read_rest() == ["last words", "closed 4413"]


async def test_a_close_tells_the_peer_soon_but_not_inside_the_call(world):
    client = await world.client()
    [peer] = world.sessions.peers
    peer.sink.close(CloseCode.REPLACED, "é" * 200)
    assert peer.lost_count == 0
    peer.sink.close(CloseCode.NORMAL)
    opcode, payload = await client.frame()
    assert (opcode, payload[:2]) == (CLOSE, (4409).to_bytes(2, "big"))
    assert payload[2:].decode() == "é" * 61
    assert peer.lost_count == 1


async def test_who_does_not_answer_the_goodbye_is_cut_off(start):
    clock = VirtualClock()
    world = await start(clock=clock, clients={"close_timeout_s": 5})
    client = await world.client()
    world.sessions.peers[0].sink.close(CloseCode.NORMAL)
    assert await client.close_code() == CloseCode.NORMAL
    assert world.edge.connections == 1
    clock.advance(5)
    assert await client.at_end()


async def test_a_reset_connection_ends_what_waits(slow):
    slow = await slow()
    slow.sink.post(b"waits")
    slow.client.end()
    await wait_until(lambda: slow.sink.closed, description="the loss is noticed")
    assert not slow.sink.post(b"nobody")
    await wait_until(lambda: slow.sink._stall is None, description="nothing waits")


async def test_pings_are_not_answered_while_nobody_reads(slow):
    """A peer that asks and never reads must not make the server's buffer grow."""
    slow = await slow()
    before = slow.sink._transport.get_write_buffer_size()
    slow.sink.pong(b"x" * 125)
    slow.sink.ping()
    assert slow.sink._transport.get_write_buffer_size() == before


class Spied:
    """A transport that counts the writes."""

    def __init__(self, sink) -> None:
        self._transport = sink._transport
        self.writes = []
        sink._transport = self

    def write(self, data: bytes) -> None:
        self.writes.append(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)


async def test_what_one_tick_posts_leaves_with_one_write(world):
    client = await world.client()
    sink = world.sessions.peers[0].sink
    spied = Spied(sink)
    for word in (b"one", b"two", b"three"):
        sink.post(word)
    sink.pong(b"there")
    assert spied.writes == []
    frames = [await client.frame() for _ in range(4)]
    assert frames == [(TEXT, b"one"), (TEXT, b"two"), (TEXT, b"three"), (PONG, b"there")]
    assert len(spied.writes) == 1


async def test_the_goodbye_leaves_with_what_the_tick_posted(world):
    client = await world.client()
    sink = world.sessions.peers[0].sink
    spied = Spied(sink)
    sink.post(b"last words")
    sink.close(CloseCode.SESSION_ENDED)
    assert len(spied.writes) == 1
    assert await client.frame() == (TEXT, b"last words")
    assert await client.close_code() == CloseCode.SESSION_ENDED


async def test_a_tick_that_posts_much_is_not_kept_until_its_end(world):
    """Or the limits of what may wait for a slow reader would mean nothing."""
    client = await world.client()
    sink = world.sessions.peers[0].sink
    spied = Spied(sink)
    for _ in range(20):
        sink.post(b"x" * 10_000)
    assert len(spied.writes) == 2
    sink.post(b"y" * 20_000)
    assert len(spied.writes) == 3  # and the long one behind it, without a copy
    assert [len((await client.frame())[1]) for _ in range(21)] == [10_000] * 20 + [20_000]


async def test_what_a_tick_posted_is_forgotten_when_the_connection_is_cut(world):
    client = await world.client()
    [peer] = world.sessions.peers
    peer.sink.post(b"never")
    peer.sink.abort()
    assert await client.reader.read() == b""
