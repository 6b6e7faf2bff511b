"""A real edge on a free port, with a flow that only writes down what reaches it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
import uvloop

from edge.world import World


def pytest_asyncio_loop_factories():
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def start():
    """Give a function that starts an edge; all of them end with the test, and nothing of them is left."""
    async with AsyncExitStack() as stack:

        async def start_edge(**options: object) -> World:
            return await stack.enter_async_context(World(**options))

        yield start_edge


@pytest.fixture
async def world(start):
    """Give an edge with default options."""
    return await start()
