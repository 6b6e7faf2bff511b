"""The one port of an instance: HTTP for people and machines, WebSockets for clients and nodes.

The edge moves bytes and decides nothing about speech: what comes in is decoded and handed to a door of the
flow.
"""

from __future__ import annotations

import asyncio
import functools
import random
import ssl
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from typing import Annotated, Any, Final

import msgspec
from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from lingua_scheduler.edge.auth import Gatekeeper, OriginPolicy, shown_by
from lingua_scheduler.edge.lanes import Door, Lane, node_lane, session_lane
from lingua_scheduler.edge.limits import NodeSocketOptions, SocketOptions, TokenBucket
from lingua_scheduler.edge.pump import Pump
from lingua_scheduler.edge.surroundings import Surroundings
from lingua_scheduler.edge.upgrade import Upgrade, check_upgrade, take_over
from lingua_scheduler.errors import ConfigError
from lingua_scheduler.flow.credentials import Purpose
from lingua_scheduler.log import get_logger
from lingua_scheduler.wire.address import NODE_PATH, SESSION_PATH
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.node import FromNode
from lingua_scheduler.wire.session import FromClient

_log = get_logger(__name__)

_PURPOSES: Final = {SESSION_PATH: Purpose.SESSION, NODE_PATH: Purpose.NODE}
_RETRY_AFTER_S: Final = (1, 3)

_Count = Annotated[int, msgspec.Meta(ge=1)]
_Positive = Annotated[float, msgspec.Meta(gt=0)]


class EdgeOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where an instance listens, whom it lets in, and what one connection may cost."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 5010
    """Port to listen on; 0 takes any free one."""
    reuse_port: bool = False
    """Let several instances of one machine share the port."""
    backlog: _Count = 1024
    """Connections that may wait to be accepted."""
    tls_certificate_file: str = ""
    """Certificate chain in PEM form; with it the port speaks TLS only."""
    tls_private_file: str = ""
    """Private key of the certificate in PEM form; empty when it is in the same file."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may connect, like https://talk.example; * means all, none only the own."""
    max_connections: _Count = 10_000
    """WebSockets open at the same time; more are told to come back later."""
    handshakes_per_s: _Positive = 500.0
    """Upgrades to WebSocket each second, on average; more are told to come back later."""
    handshake_burst: _Count = 1000
    """Upgrades to WebSocket at once after a quiet time."""
    handshake_timeout_s: _Positive = 5.0
    """Time for a request's headers, and for an idle HTTP connection between two requests."""
    max_header_bytes: _Count = 32 * 1024
    """Longest sum of all headers of a request; one line may be 8190 bytes long."""
    max_body_bytes: _Count = 1024 * 1024
    """Longest body of an HTTP request."""
    clients: SocketOptions = SocketOptions()
    """Limits of each client's connection."""
    nodes: NodeSocketOptions = NodeSocketOptions()
    """Limits of each node's connection."""


class _HttpLog:
    """What the library may say: the kind of a peer's mistake, never its bytes."""

    def debug(self, *_args: object, **_facts: object) -> None:
        """Leave it out."""

    def exception(self, _message: str, *_args: object, exc_info: BaseException | None = None) -> None:
        """Report a fault of ours in full, a peer's by its name."""
        if exc_info is None or isinstance(exc_info, (HttpProcessingError, ConnectionError)):
            _log.info("http_refused", error=type(exc_info).__name__)
        else:
            _log.error("http_failed", exc_info=exc_info)

    warning = error = info = debug


async def _sign(_request: web.Request, response: web.StreamResponse) -> None:
    """Do not tell strangers which library and version answers."""
    response.headers[hdrs.SERVER] = "lingua-scheduler"


class Edge:
    """Listens, upgrades, and keeps the connections of one instance until it stops."""

    def __init__(
        self,
        options: EdgeOptions,
        surroundings: Surroundings,
        *,
        sessions: Door[FromClient],
        nodes: Door[FromNode],
        overloaded: Callable[[], bool] = lambda: False,
        gate: Gatekeeper | None = None,
    ) -> None:
        self._options = options
        self._overloaded = overloaded  # so late that new sessions would make it worse for the others
        self._gate = gate  # None: everybody is let in
        self._around = surroundings
        self._origins = OriginPolicy(options.allowed_origins)
        self._admission = TokenBucket(
            options.handshakes_per_s, options.handshake_burst, surroundings.clock.now()
        )
        self._pumps: set[Pump[Any]] = set()
        self._none_left = asyncio.Event()
        self._draining = self._stopping = False
        self._listener: asyncio.Server | None = None
        self._address: tuple[str, int] | None = None
        self._app = web.Application(middlewares=[self._bounded], client_max_size=options.max_body_bytes)
        self._runner = web.AppRunner(
            self._app,
            access_log=None,
            logger=_HttpLog(),
            keepalive_timeout=options.handshake_timeout_s,
            shutdown_timeout=options.clients.close_timeout_s,
        )
        self._app.on_response_prepare.append(_sign)
        self._add_lane(session_lane(options.clients, sessions, surroundings))
        self._add_lane(node_lane(options.nodes, nodes, surroundings))

    def add_routes(self, routes: Iterable[web.AbstractRouteDef]) -> None:
        """Serve these as well; only before `start`."""
        self._app.add_routes(routes)

    def _add_lane(self, lane: Lane[Any]) -> None:
        self._app.router.add_get(lane.path, functools.partial(self._serve, lane), allow_head=False)

    async def start(self) -> None:
        """Listen; ConfigError when the address or the certificate cannot be used."""
        options = self._options
        tls = self._tls()
        await self._runner.setup()
        if self._runner.server is None:
            raise RuntimeError("the runner has no server")
        try:
            self._listener = await asyncio.get_running_loop().create_server(
                self._runner.server,
                options.host,
                options.port,
                ssl=tls,
                ssl_handshake_timeout=options.handshake_timeout_s if tls else None,
                backlog=options.backlog,
                reuse_port=options.reuse_port or None,
            )
        except OSError as error:
            await self._runner.cleanup()
            raise ConfigError(
                f"server.port: cannot listen on {options.host}:{options.port}: {error.strerror}"
            ) from error
        self._address = host, port = self._listener.sockets[0].getsockname()[:2]
        _log.info("edge_listening", host=host, port=port)

    @property
    def address(self) -> tuple[str, int]:
        """Where the instance really listens."""
        if self._address is None:
            raise RuntimeError("the edge has not been started")
        return self._address

    @property
    def connections(self) -> int:
        """How many WebSockets are open."""
        return len(self._pumps)

    def drain(self) -> None:
        """Refuse new WebSockets; those that are open and plain HTTP go on."""
        self._draining = True

    def resume(self) -> None:
        """Take back `drain`."""
        self._draining = False

    def hang_up(self, code: int = CloseCode.SERVICE_RESTART, reason: str = "instance stops") -> None:
        """Close every WebSocket, after what is queued for it."""
        for pump in tuple(self._pumps):
            pump.sink.close(code, reason)

    async def stop(self, code: int = CloseCode.SERVICE_RESTART, reason: str = "instance stops") -> None:
        """Close everything; whoever does not answer within its close_timeout_s is cut off."""
        self.drain()
        self._stopping = True
        if self._listener is not None:
            self._listener.close()
        self.hang_up(code, reason)
        await self._all_gone()
        for pump in tuple(self._pumps):
            pump.cut()
        await self._all_gone()
        await self._runner.cleanup()

    async def _all_gone(self) -> None:
        """Wait until every WebSocket has ended, as long as one of them may take for its goodbye."""
        slowest_s = max(self._options.clients.close_timeout_s, self._options.nodes.close_timeout_s)
        if self._pumps:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._none_left.wait(), slowest_s)

    def _tls(self) -> ssl.SSLContext | None:
        options = self._options
        if not options.tls_certificate_file:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(options.tls_certificate_file, options.tls_private_file or None)
        except OSError as error:
            raise ConfigError(f"server.tls_certificate_file: cannot be used: {error.strerror}") from error
        return context

    @web.middleware
    async def _bounded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse too many headers; keep the reason of a failure out of the answer."""
        header_bytes = sum(len(name) + len(value) for name, value in request.raw_headers)
        if header_bytes > self._options.max_header_bytes:
            raise web.HTTPRequestHeaderFieldsTooLarge
        try:
            return await handler(request)
        except (web.HTTPException, ConnectionError):
            raise
        except Exception as error:
            resource = request.match_info.route.resource
            _log.exception("request_failed", route=resource.canonical if resource else "")
            raise web.HTTPInternalServerError from error

    async def _serve(self, lane: Lane[Any], request: web.Request) -> web.StreamResponse:
        """Upgrade a request; its connection lives on with a pump."""
        shown, remote = shown_by(request), request.remote or ""
        try:
            upgrade = Upgrade(check_upgrade(request, lane.path, self._origins), shown.protocol)
            admitted = self._gate.admit(_PURPOSES[lane.path], shown, remote) if self._gate else None
            self._admit(lane)
        except web.HTTPException as refusal:
            refusal.force_close()
            raise
        with ExitStack() as inside:
            if admitted is not None:
                inside.enter_context(admitted)
            writer = await upgrade.prepare(request)
            transport = request.transport
            if writer is None or transport is None or transport.is_closing() or self._stopping:
                return upgrade
            pump = Pump(lane, transport, self._around, self._forget, admitted)
            self._pumps.add(pump)
            self._none_left.clear()
            behind = take_over(request, transport, pump)
            inside.pop_all()  # from here on the pump keeps the pass
        pump.open(remote)
        if behind:
            pump.data_received(behind)
        return upgrade

    def _forget(self, pump: Pump[Any]) -> None:
        self._pumps.discard(pump)
        if not self._pumps:
            self._none_left.set()

    def _admit(self, lane: Lane[Any]) -> None:
        """Turn away whom this instance cannot take now."""
        crowded = len(self._pumps) >= self._options.max_connections
        late = lane.path == SESSION_PATH and self._overloaded()
        if self._draining or crowded or late or not self._admission.take(1, self._around.clock.now()):
            after_s = random.randint(*_RETRY_AFTER_S)  # noqa: S311  # spreads a storm, guards nothing
            raise web.HTTPServiceUnavailable(headers={hdrs.RETRY_AFTER: str(after_s)})
