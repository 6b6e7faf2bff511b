"""What can be done to Redis itself: paused, cut, emptied, filled, restarted, failed over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from lingua_scheduler.chaos.faults import Fault
from lingua_scheduler.chaos.fleet import RedisHouse
from lingua_scheduler.chaos.plan import Step
from lingua_scheduler.embedded import EmbeddedRedis

_KILL_EVERY_S = 0.5
_TOO_LITTLE = "1mb"


class RedisFaults:
    """Does faults to the servers of a run, past every proxy."""

    def __init__(self, redis: RedisHouse) -> None:
        self._redis = redis
        self.ways: dict[Fault, Callable[[Step], Awaitable[None]]] = {
            Fault.REDIS_PAUSE: self._pause,
            Fault.REDIS_KILL_CONNECTIONS: self._kill_connections,
            Fault.REDIS_SCRIPT_FLUSH: self._script_flush,
            Fault.REDIS_FULL: self._full,
            Fault.REDIS_FLUSH: self._flush,
            Fault.REDIS_RESTART: self._restart,
            Fault.REDIS_FAILOVER: self._fail_over,
            Fault.REDIS_PRIMARY_LOST: self._lose_primary,
        }

    async def _everywhere(self, *command: str | int) -> None:
        """Say something to every server; one that cannot do it, such as a replica, is passed over."""
        for server in self._redis.servers:
            await self._redis.ask(server, *command)

    async def _pause(self, step: Step) -> None:
        await self._everywhere("CLIENT", "PAUSE", round(step.lasts_s * 1000), "ALL")
        await asyncio.sleep(step.lasts_s)

    async def _kill_connections(self, step: Step) -> None:
        for _ in range(round(step.lasts_s / _KILL_EVERY_S)):
            await self._everywhere("CLIENT", "KILL", "TYPE", "normal")
            await asyncio.sleep(_KILL_EVERY_S)

    async def _script_flush(self, step: Step) -> None:
        await self._everywhere("SCRIPT", "FLUSH")
        await asyncio.sleep(step.lasts_s)

    async def _full(self, step: Step) -> None:
        await self._everywhere("CONFIG", "SET", "maxmemory", _TOO_LITTLE)
        await asyncio.sleep(step.lasts_s)
        await self._everywhere("CONFIG", "SET", "maxmemory", "0")

    async def _flush(self, step: Step) -> None:
        await self._everywhere("FLUSHALL")
        await asyncio.sleep(step.lasts_s)

    async def _restart(self, step: Step) -> None:
        for server in self._redis.servers:
            await asyncio.to_thread(server.kill)
        await asyncio.sleep(step.lasts_s)
        for server in self._redis.servers:
            await asyncio.to_thread(server.start)

    async def _fail_over(self, step: Step) -> None:
        """Let a replica take over from its primary in order: nothing is lost."""
        for server in self._redis.servers:
            if await self._role(server) == b"slave":
                await self._redis.ask(server, "CLUSTER", "FAILOVER")
                break
        await asyncio.sleep(step.lasts_s)

    async def _lose_primary(self, step: Step) -> None:
        """Freeze a primary until its replica has taken over; it comes back as a replica."""
        for server in self._redis.servers:
            if await self._role(server) == b"master":
                await self._redis.frozen(server, step.lasts_s)
                break

    async def _role(self, server: EmbeddedRedis) -> bytes | None:
        said = await self._redis.ask(server, "ROLE")
        return said[0] if said else None
