"""Several instances under test on one Redis, each with its own clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from lingua_scheduler.store.connection import StoreOptions
from support import wait_until
from world import World, world


@asynccontextmanager
async def two(store: StoreOptions, **tables: dict[str, Any]) -> AsyncIterator[tuple[World, World]]:
    """Run two instances on one Redis that know each other."""
    async with world(store, **tables) as a, world(store, **tables) as b:
        await acquainted(a, b)
        yield a, b


async def acquainted(*worlds: World) -> None:
    """Return when each instance sees all of the others."""
    ids = {each.instance.id for each in worlds}
    for each in worlds:
        await each.instance.company.look()
        assert each.instance.company.reachable == ids


async def shown(world_: World, count: int) -> None:
    """Return when an instance's snapshot shows this many nodes that may be chosen."""
    snapshot = world_.instance.snapshot
    await wait_until(
        lambda: sum(facts.closed is None for facts in snapshot.nodes()) == count,
        description=f"{count} nodes can be chosen",
    )
