"""The port as a whole: a real client, plain HTTP beside it, TLS, start, stop, and what no log may hold."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from edge.frames import TEXT, frame, text
from edge.world import HEARTBEAT, World
from lingua_scheduler.edge import server
from lingua_scheduler.errors import ConfigError
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.session import ServerHeartbeat
from support import wait_until

PEM = Path(__file__).with_name("localhost.pem")


@pytest.fixture
async def http():
    """Give a client session."""
    async with aiohttp.ClientSession() as session:
        yield session


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def test_a_usual_client_talks_and_hears(world, http):
    async with http.ws_connect(f"{world.url}/ws/session", compress=15) as socket:
        assert not socket.compress
        await socket.send_json(HEARTBEAT)
        [peer] = world.sessions.peers
        await wait_until(lambda: peer.messages, description="the message has come")
        peer.sink.post(ServerHeartbeat(session_id="s-1", timestamp=2))
        assert (await socket.receive_json())["timestamp"] == 2
        peer.sink.close(CloseCode.SESSION_ENDED, "enough")
        goodbye = await socket.receive()
        assert (goodbye.data, goodbye.extra) == (CloseCode.SESSION_ENDED, "enough")
    assert socket.close_code == CloseCode.SESSION_ENDED


async def test_a_usual_client_hears_why_it_is_closed_for_an_offence(start, http):
    world = await start(clients={"message_burst": 5})
    async with http.ws_connect(f"{world.url}/ws/session") as socket:
        for _ in range(20):
            await socket.send_json(HEARTBEAT)
        assert (await socket.receive()).data == CloseCode.TOO_MANY_MESSAGES
    assert socket.close_code == CloseCode.TOO_MANY_MESSAGES


async def test_a_usual_client_may_close_first(world, http):
    socket = await http.ws_connect(f"{world.url}/ws/node")
    await socket.close(code=CloseCode.GOING_AWAY)
    assert socket.close_code == CloseCode.GOING_AWAY
    await wait_until(lambda: world.nodes.peers[0].lost_count, description="the peer is told")


async def test_other_rooms_serve_http_on_the_same_port(start, http):
    async def hello(_request: web.Request) -> web.Response:
        return web.Response(text="hello")

    world = await start(routes=[web.get("/hello", hello)])
    async with http.get(f"{world.url}/hello") as answer:
        assert await answer.text() == "hello"
    async with http.post(f"{world.url}/hello") as answer:
        assert answer.status == 405
    async with http.get(f"{world.url}/elsewhere") as answer:
        assert answer.status == 404
    async with http.post(f"{world.url}/ws/session") as answer:
        assert answer.status == 405


async def test_a_failing_page_shows_nothing_of_its_failure(start, http):
    async def fail(_request: web.Request) -> web.Response:
        raise RuntimeError("secret inner text")

    world = await start(routes=[web.get("/fail", fail)])
    async with http.get(f"{world.url}/fail") as answer:
        assert answer.status == 500
        assert "secret" not in await answer.text()


async def test_a_body_has_its_limit(start, http):
    async def read(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    world = await start(max_body_bytes=1000, routes=[web.post("/read", read)])
    async with http.post(f"{world.url}/read", data=b"x" * 1000) as answer:
        assert await answer.text() == "1000"
    async with http.post(f"{world.url}/read", data=b"x" * 2000) as answer:
        assert answer.status == 413


async def test_stop_says_goodbye_to_everyone(world):
    clients = [await world.client(), await world.client("/ws/node")]
    stopping = asyncio.create_task(world.edge.stop())
    for client in clients:
        assert await client.close_code() == CloseCode.SERVICE_RESTART
        client.send(frame(8, b"\x03\xf4"))
        assert await client.at_end()
    await stopping
    with pytest.raises(OSError, match=r".+"):
        await world.raw()


async def test_stop_does_not_wait_for_the_deaf(start):
    world = await start(clients={"close_timeout_s": 0.05}, nodes={"close_timeout_s": 0.05})
    deaf = await world.client()
    await world.edge.stop()
    assert await deaf.close_code() == CloseCode.SERVICE_RESTART
    assert await deaf.at_end()


async def test_a_taken_port_is_one_clear_line(world):
    host, port = world.edge.address
    other = World(host=host, port=port)
    with pytest.raises(ConfigError, match=rf"^server.port: cannot listen on {host}:{port}: "):
        await other.edge.start()
    with pytest.raises(RuntimeError):
        _ = other.edge.address


async def test_two_edges_may_share_a_port(start):
    first = await start(reuse_port=True)
    async with World(reuse_port=True, port=first.edge.address[1]) as second:
        assert second.edge.address == first.edge.address


@pytest.mark.parametrize(
    "entry", ["null", "good.example", "https://good.example/page", "ftp://x", "https://"]
)
def test_an_origin_that_is_none_is_refused_at_the_start(entry):
    with pytest.raises(ConfigError, match=r"^server.allowed_origins: "):
        World(allowed_origins=("https://fine.example/", entry))


async def test_a_certificate_that_cannot_be_read_is_one_clear_line(tmp_path):
    broken = tmp_path / "broken.pem"
    broken.write_text("nothing")
    for file in (broken, tmp_path / "absent.pem"):
        with pytest.raises(ConfigError, match=r"^server.tls_certificate_file: cannot be used"):
            await World(tls_certificate_file=str(file)).edge.start()


async def test_tls_works_end_to_end(start, http):
    world = await start(tls_certificate_file=str(PEM))
    url = world.url.replace("http", "wss")
    async with http.ws_connect(f"{url}/ws/session", ssl=trusting()) as socket:
        await socket.send_json(HEARTBEAT)
        [peer] = world.sessions.peers
        await wait_until(lambda: peer.messages, description="the message has come")
        peer.sink.post(b"x" * 500_000)
        assert len((await socket.receive()).data) == 500_000


async def test_tls_keeps_order_for_a_reader_that_pauses(start):
    """What waits leaves when the transport has room, and what came behind the handshake is heard."""
    world = await start(tls_certificate_file=str(PEM))
    client = await world.raw(ssl=trusting())
    assert await client.upgrade(then=text(**HEARTBEAT)) == 101
    assert await client.is_open()
    [peer] = world.sessions.peers
    assert len(peer.messages) == 1
    client.writer.transport.pause_reading()
    posted = []
    while len(peer.sink._backlog) < 50:
        posted.append(b"%d " % len(posted) * 20_000 if len(posted) % 3 else b"%d" % len(posted))
        assert peer.sink.post(posted[-1])
    peer.sink.close(CloseCode.SESSION_ENDED)
    client.writer.transport.resume_reading()
    for payload in posted:
        assert await client.frame() == (TEXT, payload)
    assert await client.close_code() == CloseCode.SESSION_ENDED


async def test_http_on_the_tls_port_and_silence_are_closed(start):
    world = await start(tls_certificate_file=str(PEM), handshake_timeout_s=0.1)
    plain, silent = await world.raw(), await world.raw()
    plain.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert await plain.at_end()
    assert await silent.at_end()


async def test_the_logs_hold_nothing_of_what_peers_send(start, caplog, monkeypatch):
    lines = []
    for level in ("debug", "info", "warning", "error", "exception"):
        monkeypatch.setattr(server._log, level, lambda *a, **k: lines.append((a, k)), raising=False)
    world = await start()
    client = await world.client()
    client.send(
        frame(TEXT, b'{"type":"secret-words"}') + text(type="client_heartbeat", session_id="secret words")
    )
    assert (await client.message())["code"] == (await client.message())["code"] == "INVALID_MESSAGE"
    noisy = await world.raw()
    noisy.send(b"GET /secret-words" + b"s" * 9000 + b" HTTP/1.1\r\n\r\n")
    assert await noisy.at_end()
    assert any("http_refused" in args for args, _ in lines)
    assert "secret" not in repr(lines)
    assert "secret" not in caplog.text
