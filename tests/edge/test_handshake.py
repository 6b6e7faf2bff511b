"""Who gets through the door: upgrades, origins, paths, headers, and everything that is not HTTP at all."""

from __future__ import annotations

import logging

import pytest
from aiohttp import web

from edge.frames import text
from edge.world import HEARTBEAT, KEY
from support import wait_until

ORIGINS = ("https://good.example", "http://localhost:5173")


@pytest.fixture(autouse=True)
def quiet(caplog, capfd):
    """No library may log a warning or print anything, whatever a peer does."""
    yield
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert "Traceback" not in "".join(capfd.readouterr())


async def test_an_upgrade_leads_to_a_peer_with_the_remote_address(world):
    await world.client()
    [peer] = world.sessions.peers
    assert peer.remote == "127.0.0.1"
    assert not world.nodes.peers
    await world.client("/ws/node")
    assert len(world.nodes.peers) == 1


async def test_the_key_is_answered_as_the_protocol_says(world):
    client = await world.raw()
    assert await client.upgrade(Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ==") == 101
    assert "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in client.head
    assert "aiohttp" not in client.head


@pytest.mark.parametrize("version", ["8", "7", "0", "14", "", None])
async def test_only_version_13_is_spoken(world, version):
    client = await world.raw()
    assert await client.upgrade(Sec_WebSocket_Version=version) == 426
    assert "Sec-WebSocket-Version: 13" in client.head
    assert "Connection: close" in client.head
    assert await client.at_end()


@pytest.mark.parametrize("key", [None, "", "c2hvcnQ=", KEY + "x", "!" * 24, "é" * 16])
async def test_a_bad_key_is_refused(world, key):
    assert await (await world.raw()).upgrade(Sec_WebSocket_Key=key) == 400


@pytest.mark.parametrize("headers", [{"Upgrade": None}, {"Upgrade": "h2c"}, {"Connection": "close"}])
async def test_a_request_that_asks_for_no_websocket_is_told_what_this_is(world, headers):
    assert await (await world.raw()).upgrade(**headers) == 426


async def test_a_handshake_with_a_body_is_refused(world):
    client = await world.raw()
    assert await client.upgrade(Content_Length="5", then=b"hello") == 400


async def test_deflate_is_declined(world):
    client = await world.client(Sec_WebSocket_Extensions="permessage-deflate; client_max_window_bits")
    assert "permessage" not in client.head


@pytest.mark.parametrize(
    "path",
    [
        "/ws/session/../node",
        "//ws/node",
        "/ws//node",
        "/ws/%2e%2e/ws/node",
        "/ws/nod%65",
        "/ws/node/",
        "/ws/node;x",
        "/WS/NODE",
        "/ws",
        "/",
        "http://localhost/ws/node",
    ],
)
async def test_path_tricks_lead_nowhere(world, path):
    assert await (await world.raw()).upgrade(path) == 404
    assert not world.nodes.peers


async def test_a_query_is_allowed_but_not_without_end(world):
    assert await (await world.raw()).upgrade("/ws/session?v=1") == 101
    assert await (await world.raw()).upgrade("/ws/session?" + "q" * 100_000) in (400, 414)


async def test_a_huge_header_is_refused(world):
    assert await (await world.raw()).upgrade(Cookie="c" * 200_000) in (400, 431)


async def test_many_headers_are_refused_by_their_sum(world):
    many = {f"X_{at}": "v" * 4000 for at in range(50)}
    assert await (await world.raw()).upgrade(**many) == 431


async def test_slow_headers_are_cut_off(start):
    """The deadline counts from the first moment: a byte now and then does not move it."""
    world = await start(handshake_timeout_s=0.2)
    silent, slow = await world.raw(), await world.raw()
    slow.send(b"GET /ws/session HTTP/1.1\r\nHost: x\r\nX-Slow: ")

    def dripped_until_the_end():
        if not slow.writer.is_closing():
            slow.send(b"x")
        return slow.reader.at_eof() or slow.reader.exception()

    await wait_until(dripped_until_the_end, description="the slow client is cut off")
    assert await silent.at_end()


async def test_an_open_socket_is_not_cut_off_by_the_handshake_deadline(start):
    world = await start(handshake_timeout_s=0.1)
    early, late = await world.client(), await world.raw()
    assert await late.at_end()
    assert await early.is_open()


async def test_frames_behind_the_handshake_in_the_same_packet_are_read(world):
    client = await world.raw()
    assert await client.upgrade(then=text(**HEARTBEAT)) == 101
    assert await client.is_open()
    assert len(world.sessions.peers[0].messages) == 1


@pytest.mark.parametrize("origin", [None, "https://good.example", "http://localhost:5173"])
async def test_listed_origins_and_programs_are_let_in(start, origin):
    world = await start(allowed_origins=ORIGINS)
    assert await (await world.raw()).upgrade(Origin=origin) == 101


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "https://good.example.evil.com",
        "https://evil.com/https://good.example",
        "https://good.example@evil.com",
        "https://good.example:8443",
        "http://good.example",
        "https://xgood.example",
        "http://localhost:5174",
        "http://localhost",
    ],
)
async def test_other_origins_are_refused_before_the_upgrade(start, origin):
    world = await start(allowed_origins=ORIGINS)
    assert await (await world.raw()).upgrade(Origin=origin) == 403
    assert not world.sessions.peers


async def test_without_a_list_only_the_own_pages_are_let_in(world):
    assert await (await world.raw()).upgrade(Host="talk.example", Origin="https://talk.example") == 101
    assert await (await world.raw()).upgrade(Host="localhost:5010", Origin="http://localhost:5010") == 101
    assert await (await world.raw()).upgrade(Host="localhost:5010", Origin="http://localhost:5173") == 403
    assert await (await world.raw()).upgrade(Host="localhost", Origin="null") == 403


async def test_a_tls_hello_on_the_plain_port_is_closed(world):
    client = await world.raw()
    client.send(bytes.fromhex("16030100f1010000ed0303") + bytes(range(200)))
    assert await client.at_end()
    assert await (await world.client()).is_open()


@pytest.mark.parametrize("noise", [b"\r\n\r\n", b"\x00" * 5000, b"SSH-2.0-x\r\n", b"GET / HTTP/9.9\r\n\r\n"])
async def test_noise_is_closed(world, noise):
    client = await world.raw()
    client.send(noise + b"\r\n\r\n")
    client.writer.write_eof()
    assert await client.at_end()


async def test_no_more_connections_than_the_cap(start):
    world = await start(max_connections=2)
    first, _ = await world.client(), await world.client()
    refused = await world.raw()
    assert await refused.upgrade() == 503
    assert "Retry-After: " in refused.head
    first.end()
    await wait_until(lambda: world.edge.connections == 1, description="a place is free")
    assert await (await world.raw()).upgrade() == 101


async def test_a_storm_of_handshakes_is_spread(start):
    world = await start(handshake_burst=3, handshakes_per_s=0.001)
    statuses = [await (await world.raw()).upgrade() for _ in range(5)]
    assert statuses == [101, 101, 101, 503, 503]


async def test_a_draining_edge_keeps_what_it_has_and_takes_nothing_new(start):
    async def health(_request: web.Request) -> web.Response:
        return web.Response(text="fine")

    world = await start(routes=[web.get("/health", health)])
    old = await world.client()
    world.edge.drain()
    assert await (await world.raw()).upgrade() == 503
    assert await old.is_open()
    plain = await world.raw()
    plain.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await plain.response())[0] == 200
    world.edge.resume()
    assert await (await world.raw()).upgrade() == 101
