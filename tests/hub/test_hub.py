"""A hub may be slow, broken, hostile or not where its name leads: all of that is one failure with advice."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp import web

from lingua_scheduler.core.catalogue import ModelHubOptions, NoCatalogue
from lingua_scheduler.hub.hub import Hub, Lookup
from model_hub import ModelHub, model_hub, service
from support import wait_until

METADATA = "http://169.254.169.254/latest/meta-data/iam/security-credentials/"


@pytest.fixture
async def hub():
    async with model_hub(service("piper-tts")) as running:
        yield running


async def failure(base_url: str, lookup: Lookup | None = None, **options: Any) -> NoCatalogue:
    with pytest.raises(NoCatalogue) as refused:
        await Hub(ModelHubOptions(base_url=base_url, **options), lookup).catalogue()
    assert refused.value.advice, "whoever reads this must know what to do"
    assert len(str(refused.value)) < 400
    return refused.value


def leading_to(*addresses: str) -> Lookup:
    """Answer for every name with these addresses, the first of them at the first question."""
    answers = list(addresses)

    async def lookup(_host: str, port: int) -> list[tuple[Any, ...]]:
        address = answers.pop(0)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, port))]

    return lookup


@asynccontextmanager
async def saying(said: bytes, *, until_left: bool = False) -> AsyncIterator[str]:
    """Run a server that answers everybody with these bytes, and hangs up or waits until they leave."""
    left = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        if until_left:
            await reader.read()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        left.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await wait_until(left.is_set, description="the connection is over")


async def test_a_hub_is_asked_for_plain_json_and_nothing_else(hub: ModelHub) -> None:
    catalogue = await Hub(ModelHubOptions(base_url=f"{hub.url}/")).catalogue()
    assert [each.service_id for each in catalogue.services] == ["piper-tts"]
    (request,) = hub.asked
    assert (request.method, request.path_qs) == ("GET", "/api/services")
    assert request.headers["Accept-Encoding"] == "identity"
    assert not {"Cookie", "Authorization"} & set(request.headers)


async def test_nothing_that_an_answer_names_is_fetched(hub: ModelHub) -> None:
    entry = service("x")
    entry["variants"][0]["artifact"]["url"] = f"{hub.url}/artifact.zip"
    hub.services = [entry]
    await Hub(ModelHubOptions(base_url=hub.url)).catalogue()
    assert [request.path for request in hub.asked] == ["/api/services"]


@pytest.mark.parametrize("status", [204, 400, 401, 404, 429, 500, 503])
async def test_any_other_status_than_200_is_a_failure(hub: ModelHub, status: int) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status, content_type="application/json")

    hub.handler = answer
    assert f"answered {status}" in str(await failure(hub.url))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("target", [METADATA, "/api/services/", "http://127.0.0.1:1/"])
async def test_no_redirect_is_followed(hub: ModelHub, status: int, target: str) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": target})

    hub.handler = answer
    assert "redirects are not followed" in str(await failure(hub.url))
    assert len(hub.asked) == 1


@pytest.mark.parametrize("kind", ["text/html", "text/plain", "application/octet-stream"])
async def test_what_is_not_json_is_not_read(hub: ModelHub, kind: str) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=b'{"services": []}', content_type=kind)

    hub.handler = answer
    assert "not JSON" in str(await failure(hub.url))


async def test_json_by_another_name_is_json(hub: ModelHub) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=b'{"services": []}', content_type="application/hal+json")

    hub.handler = answer
    assert (await Hub(ModelHubOptions(base_url=hub.url)).catalogue()).services == ()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"services": 1}', b'{"services":' + b"[" * 50_000])
async def test_json_that_is_no_catalogue_is_a_failure(hub: ModelHub, body: bytes) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    hub.handler = answer
    assert "no catalogue" in str(await failure(hub.url))


async def test_bad_entries_leave_the_good_ones(hub: ModelHub) -> None:
    hub.services = [
        None,
        {"name": "no id"},
        service("good"),
        {"service_id": "x", "variants": [{"version": "1"}]},
    ]
    catalogue = await Hub(ModelHubOptions(base_url=hub.url)).catalogue()
    assert ([each.service_id for each in catalogue.services], catalogue.skipped) == (["good", "x"], 3)


async def test_a_packed_bomb_is_not_unpacked(hub: ModelHub) -> None:
    async def answer(_request: web.Request) -> web.Response:
        packed = gzip.compress(b'{"services": [' + b" " * 5_000_000 + b"]}")
        return web.Response(
            body=packed, content_type="application/json", headers={"Content-Encoding": "gzip"}
        )

    hub.handler = answer
    assert "packed" in str(await failure(hub.url))


async def test_a_huge_answer_is_refused_by_what_it_says_of_itself(hub: ModelHub) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=b" " * 5000, content_type="application/json")

    hub.handler = answer
    assert "larger than 2048 bytes" in str(await failure(hub.url, max_answer_bytes=2048))


async def test_an_endless_answer_is_left_as_soon_as_it_is_too_long(hub: ModelHub) -> None:
    gone = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 10_000)
        except (ConnectionError, asyncio.CancelledError):
            gone.set()
            raise

    hub.handler = answer
    assert "larger than" in str(await failure(hub.url, max_answer_bytes=100_000))
    await wait_until(gone.is_set, description="the hub has noticed that nobody listens")


async def test_a_hub_that_drips_is_left_after_the_whole_time(hub: ModelHub) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.01)

    hub.handler = answer
    assert "no complete answer within 0.2 s" in str(await failure(hub.url, timeout_s=0.2))


async def test_a_hub_that_says_nothing_is_left_after_the_whole_time() -> None:
    async with saying(b"", until_left=True) as url:
        assert "no complete answer" in str(await failure(url, timeout_s=0.1))


@pytest.mark.parametrize(
    "said",
    [
        b"no http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"",
    ],
)
async def test_what_is_not_http_is_a_failure(said: bytes) -> None:
    async with saying(said) as url:
        await failure(url)


async def test_a_hub_that_is_not_there_is_a_failure() -> None:
    assert "cannot be connected to" in str(await failure("http://127.0.0.1:1"))


async def test_a_hub_that_cannot_show_who_it_is_is_a_failure(hub: ModelHub) -> None:
    await failure(hub.url.replace("http:", "https:"))


async def test_a_name_without_an_address_is_a_failure() -> None:
    async def lookup(_host: str, _port: int) -> list[tuple[Any, ...]]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    assert "has no address" in str(await failure("http://hub.example.com", lookup))


async def test_a_name_that_is_never_found_is_left_after_the_time_to_connect() -> None:
    async def lookup(_host: str, _port: int) -> list[tuple[Any, ...]]:
        await asyncio.sleep(5)
        return []

    assert "not found in time" in str(await failure("http://hub", lookup, connect_timeout_s=0.05))


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "0.0.0.0",
        "0xa9fea9fe",
        "2852039166",
    ],
)
async def test_the_metadata_of_a_cloud_is_never_asked_however_it_is_spelled(host: str) -> None:
    refused = await failure(f"http://{host}", allow_private=True)
    assert "forbidden" in str(refused)


@pytest.mark.parametrize("name", ["hub", "hub.internal", "metadata.google.internal", "hub.example.com"])
async def test_a_name_that_leads_to_a_forbidden_address_is_not_asked(name: str) -> None:
    refused = await failure(f"http://{name}", leading_to("169.254.169.254"), allow_private=True)
    assert "forbidden" in str(refused)


async def test_one_bad_address_among_good_ones_is_enough() -> None:
    async def lookup(_host: str, port: int) -> list[tuple[Any, ...]]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in ("127.0.0.1", "169.254.1.1")
        ]

    assert "forbidden" in str(await failure("http://hub", lookup))


async def test_a_public_name_that_leads_inside_is_asked_only_if_the_operator_says_so(hub: ModelHub) -> None:
    url = hub.url.replace("127.0.0.1", "hub.example.com")
    refused = await failure(url, leading_to("127.0.0.1"))
    assert "private address 127.0.0.1" in str(refused)
    assert "model_hub.allow_private = true" in refused.advice
    assert not hub.asked
    allowed = ModelHubOptions(base_url=url, allow_private=True)
    assert (await Hub(allowed, leading_to("127.0.0.1")).catalogue()).services


@pytest.mark.parametrize("name", ["hub", "hub.internal", "hub.lingua.svc.cluster.local"])
async def test_a_hub_in_the_own_network_simply_works(hub: ModelHub, name: str) -> None:
    options = ModelHubOptions(base_url=hub.url.replace("127.0.0.1", name))
    assert (await Hub(options, leading_to("127.0.0.1")).catalogue()).services
    assert hub.asked[0].host.startswith(f"{name}:")


async def test_a_name_is_looked_up_once_and_the_connection_goes_to_what_was_checked(hub: ModelHub) -> None:
    """A name that leads elsewhere at the second question gains nothing."""
    lookup = leading_to("127.0.0.1", "169.254.169.254")
    options = ModelHubOptions(base_url=hub.url.replace("127.0.0.1", "hub"))
    assert (await Hub(options, lookup).catalogue()).services
    assert "forbidden" in str(await failure(options.base_url, lookup))


async def test_no_proxy_of_the_environment_is_used(hub: ModelHub, monkeypatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert (await Hub(ModelHubOptions(base_url=hub.url)).catalogue()).services
