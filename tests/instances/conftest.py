"""Redis under instances that are processes: one server, or a cluster of three masters and three replicas."""

from __future__ import annotations

import pytest

from fleet import ground
from lingua_scheduler.embedded import EmbeddedRedis


@pytest.fixture(scope="session")
def port_server():
    """Run one Redis that is reached by its port, as other machines would."""
    with EmbeddedRedis(port=0) as server:
        yield server


def _place(request):
    if request.param == "single":
        server = request.getfixturevalue("port_server")
        return ground([server], url=server.url)
    cluster = request.getfixturevalue("_three_and_three")
    return ground(cluster.masters, url=cluster.url, mode="cluster")


@pytest.fixture(params=["single", "cluster"])
def place(request):
    """Give a Redis of either kind under a prefix of the test's own."""
    with _place(request) as made:
        yield made


@pytest.fixture(scope="module", params=["single", "cluster"])
def shared_place(request):
    """Give a Redis of either kind that the tests of a module share."""
    with _place(request) as made:
        yield made


@pytest.fixture
def single_place(port_server):
    """Give one Redis server under a prefix of the test's own."""
    with ground([port_server], url=port_server.url) as made:
        yield made
