"""Nodes that stand in Redis only: a fleet larger than one machine can play with sockets.

They are written and renewed straight through the store, are like the nodes that are there, and have all
slots taken: instances see them and never choose them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from lingua_scheduler.bench.process import BenchError
from lingua_scheduler.bench.profile import Profile
from lingua_scheduler.core.model import InstanceId, NodeId, PoolId
from lingua_scheduler.core.placement import NodeFacts
from lingua_scheduler.core.stored import Beat
from lingua_scheduler.store.connection import Connection, StoreOptions
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.nodes import NodeStore
from lingua_scheduler.store.scripts import Scripts

_OWNER = InstanceId("bench-elsewhere")
_POOL = PoolId(0)
_AT_ONCE = 100
_TICK_S = 0.1
_LEASES = 6  # heartbeats that may fail before a node is gone


def key_prefix(profile: Profile) -> str:
    """Name the prefix of the keys of a run."""
    return str(profile.settings.get("redis.key_prefix", StoreOptions().key_prefix))


@asynccontextmanager
async def standing(redis: Connection, profile: Profile) -> AsyncIterator[None]:
    """Let as many nodes more as the profile says stand in Redis for the length of a block."""
    if not profile.fleet.standing:
        yield
        return
    store = NodeStore(redis, Scripts(redis), Keys(key_prefix(profile)))
    crowd = _Standing(store, profile.fleet.heartbeat_s)
    await crowd.come(profile.fleet.standing)
    beating = asyncio.create_task(crowd.beat())
    try:
        yield
        if beating.done():
            beating.result()
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


class _Standing:
    def __init__(self, store: NodeStore, heartbeat_s: float) -> None:
        self._store = store
        self._heartbeat_s = heartbeat_s
        self._lease_ms = round(heartbeat_s * _LEASES * 1000)
        self._nodes: list[tuple[NodeFacts, int]] = []

    async def come(self, number: int) -> None:
        """Register them, each like a node that is there."""
        there = await self._store.changes(_POOL, since=0)
        if there is None or not there.nodes:
            raise BenchError("there is no node that others could be like")
        model = there.nodes[0]
        every = [
            replace(
                model,
                node_id=NodeId(f"standing-{each}"),
                owner=_OWNER,
                running_jobs=model.max_jobs,
                closed=None,
            )
            for each in range(number)
        ]
        epochs = await _all(
            [self._store.register(facts, lease_ms=self._lease_ms, takeover=True) for facts in every]
        )
        self._nodes = list(zip(every, epochs, strict=True))

    async def beat(self) -> None:
        """Renew all of them, evenly over the time between two heartbeats."""
        ticks = max(1, round(self._heartbeat_s / _TICK_S))
        while True:
            for tick in range(ticks):
                some = self._nodes[tick::ticks]
                beats = [
                    self._store.beat(facts, epoch=epoch, lease_ms=self._lease_ms) for facts, epoch in some
                ]
                if any(each is not Beat.RENEWED for each in await _all(beats)):
                    raise BenchError("a node that stands in Redis was removed")
                await asyncio.sleep(_TICK_S)


async def _all(calls: Sequence[Awaitable[Any]]) -> list[Any]:
    done: list[Any] = []
    for start in range(0, len(calls), _AT_ONCE):
        done += await asyncio.gather(*calls[start : start + _AT_ONCE])
    return done
