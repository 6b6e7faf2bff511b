"""The way to Redis: one shared connection for commands, dedicated ones for blocking reads.

The same `call` serves a single server and a cluster. Replies are bytes, ints, None and lists of these, never
decoded. Errors arrive translated: DependencyDown (not reachable, or no answer by the deadline: the outcome is
unknown), CorruptValue (wrong type stored), StoreError (anything else). No call that may have run is repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import closing
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from redis.asyncio.connection import parse_url

from lingua_scheduler.errors import ConfigError
from lingua_scheduler.store.channel import Channel, ChannelLimits
from lingua_scheduler.store.cluster import Cluster
from lingua_scheduler.store.dialing import Address, Dialer, Login
from lingua_scheduler.store.durability import Confirmation
from lingua_scheduler.store.packing import Argument, packed


class StoreOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach Redis."""

    url: str = ""
    """Address: `redis://`, `rediss://` or `unix://`, possibly with a secret. Several, with commas: servers of
    the cluster, or a master and its replicas in any order. Empty means the embedded Redis."""
    mode: Literal["single", "cluster"] = "single"
    """One master, wherever among the addresses it is, or Redis Cluster."""
    username: str = ""
    """User to log in as, instead of the one in the address."""
    password_file: str = ""
    """File with the password, instead of the one in the address; read at each connect, so that it may
    change."""
    key_prefix: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.:-]{1,64}$")] = "lingua"
    """First part of every key; two environments on one Redis use two prefixes."""
    command_timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 3.0
    """A call without an answer after this time fails; its outcome is unknown."""
    connect_timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 5.0
    """Time for one connect, including TLS and authentication."""
    reconnect_pause_s: Annotated[float, msgspec.Meta(ge=0)] = 0.2
    """After a failed connect or a silence, calls fail at once for this long before the next try."""
    batch_calls: Annotated[int, msgspec.Meta(ge=1)] = 1000
    """Most calls that travel as one batch."""
    queued_bytes: Annotated[int, msgspec.Meta(ge=1024)] = 64 * 1024 * 1024
    """Most bytes of calls that one server has yet to answer; a call beyond fails at once."""
    durability: Literal["none", "wait"] = "none"
    """With wait, what a promise rests on counts as written once a replica has it too; this needs replicas."""
    durability_timeout_ms: Annotated[int, msgspec.Meta(ge=1)] = 1000
    """Time for a replica to confirm a write; after it the call fails, its outcome unknown."""

    def __post_init__(self) -> None:
        """Refuse waits that nobody ends, or so long that a call behind another one never sees its end."""
        if self.durability == "none":
            return
        if not self.url:
            raise ValueError("durability needs a Redis with replicas: set url, the embedded one has none")
        if self.durability_timeout_ms >= self.command_timeout_s * 500:
            raise ValueError("durability_timeout_ms must be less than half of command_timeout_s")

    def __repr__(self) -> str:
        """Name the address without its secrets."""
        parts = [urlsplit(url) for url in self.url.split(",")]
        shown = ",".join(f"{part.scheme}://{part.netloc.rpartition('@')[2]}{part.path}" for part in parts)
        return f"StoreOptions(url={shown!r}, mode={self.mode!r}, key_prefix={self.key_prefix!r})"


class Connection:
    """Calls to Redis; connects with the first call, and again with the next call after a loss."""

    def __init__(self, options: StoreOptions, *, on_state: Callable[[bool], None] | None = None) -> None:
        self._options = options
        self._told_up = False
        self._on_state = on_state
        self._login = Login(options.username, options.password_file)
        self._waits = options.durability == "wait"
        self._network = _network(options, self._login, self._state_changed)
        self._readers: list[BlockingConnection] = []

    @property
    def up(self) -> bool:
        """Redis answered the last time it was asked; on a cluster, every server that was asked."""
        return self._network.up

    async def call(self, *args: Argument, route: str | bytes | None = None, durable: bool = False) -> Any:
        """Run one command and return its reply; `route` names a key for commands that have none.

        A durable one is answered once its effect is as safe as `redis.durability` says, or DependencyDown.
        """
        return await self.asked(args, route=route, durable=durable)

    def asked(
        self, args: tuple[Argument, ...], *, route: str | bytes | None = None, durable: bool = False
    ) -> Awaitable[Any]:
        """Begin a call, to be awaited at once: `call` without a coroutine of its own."""
        return self._network.call(
            args,
            route=route,
            timeout_s=self._options.command_timeout_s,
            durable=durable and self._waits,
        )

    async def in_order(
        self, first: tuple[Argument, ...], then: Coroutine[Any, Any, Any], *, durable: bool = False
    ) -> Any:
        """Run a command, and a call about the same slot after it, without waiting in between.

        Gives the answer to the call, once both are answered. When a slot of a cluster moves, or a socket is
        lost, the command may come second, or not at all.
        """
        with closing(then):
            before = asyncio.ensure_future(self.asked(first, durable=durable))
            if isinstance(before, asyncio.Task):  # it leaves when it runs for the first time
                await asyncio.sleep(0)
            try:
                answer = await then
            except BaseException:
                before.add_done_callback(_heard)
                raise
            await before
            return answer

    def blocking(self) -> BlockingConnection:
        """Make a connection of its own for commands that block; closed with this one at the latest."""
        reader = BlockingConnection(self._options, self._login)
        self._readers = [*(each for each in self._readers if not each.closed), reader]
        return reader

    async def close(self) -> None:
        """Fail whoever still waits, then close every socket."""
        await asyncio.gather(*(reader.close() for reader in self._readers))
        await self._network.close()

    def _state_changed(self, _: bool) -> None:  # noqa: FBT001
        up = self._network.up
        if up != self._told_up:
            self._told_up = up
            if self._on_state is not None:
                self._on_state(up)


class BlockingConnection:
    """One caller's own sockets for commands that wait inside Redis, such as XREADGROUP with BLOCK."""

    def __init__(self, options: StoreOptions, login: Login) -> None:
        self._options = options
        self._login = login
        self._network = _network(options, login, _nobody_cares)
        self.closed = False

    async def call(self, *args: Argument, block_s: float) -> Any:
        """Run one command that may block for `block_s`; giving up closes the socket, so Redis stops too."""
        network = self._network
        timeout_s = block_s + self._options.command_timeout_s
        try:
            return await network.call(args, route=None, timeout_s=timeout_s, durable=False)
        except asyncio.CancelledError:
            if network is self._network and not self.closed:
                self._network = _network(self._options, self._login, _nobody_cares)
            await network.close()
            raise

    async def close(self) -> None:
        """Fail a waiting call and close the sockets."""
        self.closed = True
        await self._network.close()


class _SingleServer:
    """One Redis master."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def up(self) -> bool:
        return self._channel.answers is True

    def call(
        self,
        args: tuple[Argument, ...],
        *,
        route: str | bytes | None,  # noqa: ARG002
        timeout_s: float,
        durable: bool,
    ) -> Awaitable[Any]:
        return self._channel.submit(packed(args), timeout_s=timeout_s, durable=durable)

    async def close(self) -> None:
        await self._channel.close()


def _heard(call: asyncio.Future[Any]) -> None:
    """Take an answer that nobody waits for any more."""
    if not call.cancelled():
        call.exception()


def _nobody_cares(_: bool) -> None:  # noqa: FBT001
    """Take a state change that is told by the calls themselves."""


def _network(
    options: StoreOptions, login: Login, on_state: Callable[[bool], None]
) -> _SingleServer | Cluster:
    limits = ChannelLimits(
        reconnect_pause_s=options.reconnect_pause_s,
        batch_calls=options.batch_calls,
        queued_bytes=options.queued_bytes,
    )
    addresses = [_address(url) for url in options.url.split(",")]
    if options.mode == "single":
        master = Dialer(addresses, login, timeout_s=options.connect_timeout_s)
        return _SingleServer(Channel(master, limits, on_state, _confirmation(options, lambda _: True)))
    if any("path" in address for address in addresses):
        raise ConfigError("redis.url: a cluster is not reachable through a unix socket")
    shared = addresses[0]

    def channel(host: str, port: int) -> Channel:
        there = {**shared, "host": host, "port": port}
        server = Dialer([there], login, timeout_s=options.connect_timeout_s, any_role=True)
        confirmation = _confirmation(options, lambda where: cluster.has_slot((host, port), where))
        return Channel(server, limits, on_state, confirmation)

    seeds = [(address.get("host", "localhost"), address.get("port", 6379)) for address in addresses]
    cluster = Cluster(seeds, channel, on_state, refresh_pause_s=options.reconnect_pause_s)
    return cluster


def _confirmation(options: StoreOptions, has_slot: Callable[[int], bool]) -> Confirmation | None:
    if options.durability == "none":
        return None
    return Confirmation(options.key_prefix, options.durability_timeout_ms, has_slot)


def _address(url: str) -> Address:
    try:
        return {**parse_url(url.strip())}
    except ValueError as error:
        raise ConfigError(f"redis.url: {error}") from None
