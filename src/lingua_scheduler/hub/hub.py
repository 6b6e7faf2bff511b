"""One question to the model hub, to the address that was checked and to no other.

The hub's name is looked up once; every address it leads to must be one that may be connected to, and the
connection goes to one of these. Redirects are not followed, nothing that an answer names is ever fetched, no
cookie and no proxy of the environment is used. An answer must be JSON as it is, not packed: what unpacks to
more than is allowed would have to be unpacked to be noticed.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import hdrs
from aiohttp.abc import AbstractResolver, ResolveResult

from lingua_scheduler.core.addresses import is_address, is_forbidden, is_own_name, is_private
from lingua_scheduler.core.catalogue import Catalogue, ModelHubOptions, NoCatalogue, read_answer

Lookup = Callable[[str, int], Awaitable[list[tuple[Any, ...]]]]
"""Gives what `getaddrinfo` does for a name and a port."""

_CHUNK_BYTES = 64 * 1024
_HEADERS = {
    hdrs.ACCEPT: "application/json",
    hdrs.ACCEPT_ENCODING: "identity",
    hdrs.USER_AGENT: "lingua-scheduler",
}


class Hub:
    """A model hub as it is configured."""

    def __init__(self, options: ModelHubOptions, lookup: Lookup | None = None) -> None:
        self._options = options
        self._lookup = lookup or _look_up

    async def catalogue(self) -> Catalogue:
        """Ask which services there are; NoCatalogue when that fails, in any way."""
        options = self._options
        try:
            async with asyncio.timeout(options.timeout_s):
                body = await self._ask(_Pinned(await self._addresses()))
        except TimeoutError:
            advice = "find out why the hub is slow, or raise model_hub.timeout_s"
            raise NoCatalogue(f"no complete answer within {options.timeout_s:g} s", advice) from None
        return await asyncio.to_thread(read_answer, body, options)

    async def _addresses(self) -> list[ResolveResult]:
        """Look the hub up, once; NoCatalogue when it is where nobody may connect to."""
        parts = urlsplit(self._options.base_url)
        host = parts.hostname or ""
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        try:
            async with asyncio.timeout(self._options.connect_timeout_s):
                found = await self._lookup(host, port)
        except TimeoutError:
            raise NoCatalogue(f"the address of {host} was not found in time", _UNREACHABLE) from None
        except (OSError, UnicodeError):
            raise NoCatalogue(f"{host} has no address", _UNREACHABLE) from None
        checked = []
        for family, _, proto, _, where in found:
            address = str(where[0])
            self._check(host, address)
            checked.append(
                ResolveResult(
                    hostname=host,
                    host=address,
                    port=port,
                    family=family,
                    proto=proto,
                    flags=socket.AI_NUMERICHOST,
                )
            )
        return checked

    def _check(self, host: str, address: str) -> None:
        if is_forbidden(address):
            advice = "nothing is ever fetched from there: set model_hub.base_url to where the hub is"
            raise NoCatalogue(f"{host} leads to {address}, which is forbidden", advice)
        expected = self._options.allow_private or is_address(host) or is_own_name(host)
        if is_private(address) and not expected:
            advice = "if that is your hub, set model_hub.allow_private = true, or its address as base_url"
            raise NoCatalogue(f"{host} is a public name and leads to the private address {address}", advice)

    async def _ask(self, resolver: _Pinned) -> bytes:
        connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, force_close=True)
        try:
            async with (
                aiohttp.ClientSession(
                    connector=connector,
                    timeout=aiohttp.ClientTimeout(total=None, connect=self._options.connect_timeout_s),
                    cookie_jar=aiohttp.DummyCookieJar(),
                    headers=_HEADERS,
                    auto_decompress=False,
                    trust_env=False,
                ) as http,
                http.get(self._options.services_url, allow_redirects=False) as answer,
            ):
                _refuse(answer)
                return await self._body(answer)
        except aiohttp.ConnectionTimeoutError:
            raise NoCatalogue("cannot be connected to in time", _UNREACHABLE) from None
        except aiohttp.ClientConnectorCertificateError:
            advice = "let the hub show a certificate that this machine trusts and that names it"
            raise NoCatalogue("its certificate cannot be trusted", advice) from None
        except aiohttp.ClientConnectionError as error:
            raise NoCatalogue(f"cannot be connected to: {type(error).__name__}", _UNREACHABLE) from None
        except aiohttp.ClientError as error:
            advice = "see with curl what /api/services of the hub says"
            raise NoCatalogue(f"no answer that can be read: {type(error).__name__}", advice) from None

    async def _body(self, answer: aiohttp.ClientResponse) -> bytes:
        most = self._options.max_answer_bytes
        body = bytearray()
        too_large = (answer.content_length or 0) > most
        async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
            body += chunk
            if too_large or len(body) > most:
                advice = "raise model_hub.max_answer_bytes if the catalogue really is so large"
                raise NoCatalogue(f"the answer is larger than {most} bytes", advice)
        return bytes(body)


_UNREACHABLE = "check model_hub.base_url, the network, and whether the hub runs"


def _refuse(answer: aiohttp.ClientResponse) -> None:
    """Refuse an answer that is not worth reading."""
    if HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
        advice = "set model_hub.base_url to where the hub really is"
        raise NoCatalogue(f"answered {answer.status}: redirects are not followed", advice)
    if answer.status != HTTPStatus.OK:
        advice = "look into the log of the hub; model_hub.base_url must be its root, without /api/services"
        raise NoCatalogue(f"answered {answer.status}", advice)
    kind = answer.content_type
    if kind != "application/json" and not kind.endswith("+json"):
        advice = "another program answers there: set model_hub.base_url to where the hub is"
        raise NoCatalogue("answered something that is not JSON", advice)
    if answer.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        advice = "whatever stands before the hub must not pack what was asked for unpacked"
        raise NoCatalogue("answered with a packed body", advice)


class _Pinned(AbstractResolver):
    """Gives the addresses that were checked, whatever the name would lead to by now."""

    def __init__(self, checked: list[ResolveResult]) -> None:
        self._checked = checked

    async def resolve(
        self,
        host: str,  # noqa: ARG002 there is one, which was looked up
        port: int = 0,  # noqa: ARG002
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002
    ) -> list[ResolveResult]:
        """Give what is known."""
        return self._checked

    async def close(self) -> None:
        """Nothing is open."""


async def _look_up(host: str, port: int) -> list[tuple[Any, ...]]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(found)
