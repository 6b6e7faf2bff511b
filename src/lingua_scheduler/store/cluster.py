"""Redis Cluster: which server has which slot, learned from the servers and from their redirections."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from lingua_scheduler.errors import DependencyDown, StoreError
from lingua_scheduler.store.channel import Channel
from lingua_scheduler.store.keys import SLOTS, slot
from lingua_scheduler.store.packing import Argument, Wire, packed
from lingua_scheduler.store.replies import Migrating, Redirected

_ASKING = packed(("ASKING",))
_MAP = packed(("CLUSTER", "SLOTS"))
_MOST_REDIRECTIONS = 8
_MIGRATION_PAUSE_S = 0.02
_SCRIPT = ("EVALSHA", "EVAL")
_SUBCOMMAND_FIRST = frozenset(
    {"XGROUP", "XINFO", "OBJECT", "MEMORY"}
)  # commands whose key follows a subcommand
_NO_KEY = frozenset(
    {"PING", "TIME", "INFO", "SCRIPT", "ECHO", "CONFIG", "CLIENT", "CLUSTER", "DBSIZE", "SCAN"}
)

Address = tuple[str, int]


def first_key(args: tuple[Argument, ...]) -> str | bytes | None:
    """Find the key that decides where a command runs; None when any server will do."""
    name = str(args[0]).upper()
    if name in _NO_KEY or (name in _SCRIPT and args[2] == 0):
        return None
    if name in _SCRIPT:
        place = 3
    elif name in ("XREADGROUP", "XREAD"):
        place = [str(arg).upper() for arg in args].index("STREAMS") + 1
    else:
        place = 2 if name in _SUBCOMMAND_FIRST else 1
    key = args[place]
    return key if isinstance(key, str | bytes) else str(key)


class Cluster:
    """Sends each call to the server that has its slot; a dead server delays only the calls meant for it."""

    def __init__(
        self,
        seeds: list[Address],
        channel: Callable[[str, int], Channel],
        on_state: Callable[[bool], None],
        *,
        refresh_pause_s: float,
    ) -> None:
        self._seeds = seeds
        self._new_channel = channel
        self._on_state = on_state
        self._refresh_pause_s = refresh_pause_s
        self._channels: dict[Address, Channel] = {}
        self._owner: list[Address | None] = [None] * SLOTS
        self._refreshing: asyncio.Task[None] | None = None
        self._refresh_again_at = 0.0

    @property
    def up(self) -> bool:
        """The slots are known and no server that has some failed the last time it was asked."""
        owners = set(self._owner)
        failed = {address for address, channel in self._channels.items() if channel.answers is False}
        return None not in owners and not owners & failed

    def has_slot(self, address: Address, where: int) -> bool:
        """Tell whether a slot belongs to a server, as far as is known."""
        return self._owner[where] == address

    async def call(
        self, args: tuple[Argument, ...], *, route: str | bytes | None, timeout_s: float, durable: bool
    ) -> Any:
        """Run one command where its key lives, following redirections until the deadline."""
        command = packed(args)
        key = route if route is not None else first_key(args)
        where = random.randrange(SLOTS) if key is None else slot(key)  # noqa: S311
        deadline = asyncio.get_running_loop().time() + timeout_s
        try:
            async with asyncio.timeout_at(deadline):
                return await self._follow(command, where, deadline, durable=durable)
        except TimeoutError:
            raise DependencyDown("Redis did not answer in time") from None

    async def close(self) -> None:
        """Fail whoever still waits and close every socket."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))

    async def _follow(self, command: Wire, where: int, deadline: float, *, durable: bool) -> Any:
        ask: Address | None = None
        redirections = 0
        while redirections < _MOST_REDIRECTIONS:
            address = ask or await self._owner_of(where)
            timeout_s = max(0.0, deadline - asyncio.get_running_loop().time())
            try:
                return await self._channel(address).submit(
                    _ASKING + command if ask else command,
                    timeout_s=timeout_s,
                    preamble=1 if ask else 0,
                    durable=durable,
                )
            except Redirected as redirection:
                redirections += 1
                target = (redirection.host or address[0], redirection.port)
                ask = target if redirection.once else None
                if not redirection.once:
                    self._owner[redirection.slot] = target
                    self._refresh()
            except Migrating:
                ask = None
                await asyncio.sleep(_MIGRATION_PAUSE_S)
            except DependencyDown:
                self._refresh()
                raise
        raise DependencyDown("the cluster sent the call around in circles")

    async def _owner_of(self, where: int) -> Address:
        if self._owner[where] is None:
            self._refresh()
            if self._refreshing is not None:
                await asyncio.shield(self._refreshing)
        owner = self._owner[where]
        if owner is None:
            raise DependencyDown(f"no server of the cluster has slot {where}")
        return owner

    def _channel(self, address: Address) -> Channel:
        if address not in self._channels:
            self._channels[address] = self._new_channel(*address)
        return self._channels[address]

    def _refresh(self) -> None:
        """Start to learn the slots again, unless that is under way or was tried just now."""
        loop = asyncio.get_running_loop()
        if self._refreshing is None and loop.time() >= self._refresh_again_at:
            self._refreshing = loop.create_task(self._learn(), name="redis-cluster-slots")

    async def _learn(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            known = [owner for owner in set(self._owner) if owner is not None]
            random.shuffle(known)
            for address in dict.fromkeys((*known, *self._seeds)):
                try:
                    reply = await self._channel(address).submit(_MAP, timeout_s=1.0)
                except StoreError:
                    continue
                self._owner = _owners(reply, asked=address)
                break
            await self._forget_strangers()
        finally:
            self._refresh_again_at = loop.time() + self._refresh_pause_s
            self._refreshing = None
            self._on_state(self.up)

    async def _forget_strangers(self) -> None:
        keep = {*self._owner, *self._seeds}
        for address in [
            each for each, channel in self._channels.items() if each not in keep and channel.idle
        ]:
            await self._channels.pop(address).close()


def _owners(reply: list[Any], *, asked: Address) -> list[Address | None]:
    owners: list[Address | None] = [None] * SLOTS
    for first, last, primary, *_ in reply:
        host = primary[0].decode() if primary[0] else asked[0]
        owners[first : last + 1] = [(host, primary[1])] * (last - first + 1)
    return owners
