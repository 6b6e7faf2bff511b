"""The domain stores on a single Redis and on a cluster: each test that asks runs on both."""

from __future__ import annotations

import pytest

from store.ledgers import Store


@pytest.fixture(params=["single", "cluster"])
async def store(request):
    """Give a store that several instances can connect to."""
    if request.param == "single":
        options = request.getfixturevalue("store_options")
        servers = [request.getfixturevalue("redis_server")]
    else:
        options = request.getfixturevalue("cluster_options")
        servers = request.getfixturevalue("cluster").masters

    def on_every_server(command: str) -> None:
        for server in servers:
            with server.client() as client:
                client.execute_command(*command.split())

    made = Store(options, on_every_server)
    yield made
    for ledgers in made.opened:
        await ledgers.connection.close()


@pytest.fixture
def ledgers(store):
    """Give the ledgers of one instance."""
    return store.ledgers()
