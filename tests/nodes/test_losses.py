"""A node that goes without a word is missed by name, until it is back; one that says goodbye is not."""

from __future__ import annotations

import pytest

from asking import ask
from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.core.model import InstanceId, NodeId
from lingua_scheduler.flow.losses import KEEP_S, Losses, lost_nodes
from lingua_scheduler.metrics import Metrics
from neighbours import shown, two
from support import wait_until
from world import World, world

GRACE_S = 5


def lost(house: World) -> list[str]:
    """Name the nodes that an instance misses, as Prometheus hears it."""
    return [
        sample.labels["node_id"] for sample in next(iter(house.instance.metrics.lost_nodes.collect())).samples
    ]


async def gone(house: World, node_id: str) -> None:
    """Let the time pass in which a node could come back."""
    snapshot, routing = house.instance.snapshot, house.instance.routing
    await wait_until(
        lambda: routing.link(NodeId(node_id)) is None, description="the loss of the connection is noticed"
    )
    house.clock.advance(GRACE_S + 1)
    await wait_until(lambda: snapshot.node(NodeId(node_id)) is None, description="the node is gone")


async def test_a_node_whose_connection_breaks_is_missed_until_it_is_back(store_options):
    async with world(store_options) as house:
        node = await house.node(node_id="gpu-7")
        node.reset()
        await gone(house, "gpu-7")
        await wait_until(lambda: lost(house) == ["gpu-7"], description="it is missed")
        await house.instance.desk.refresh()
        _, said, _ = await ask(house.instance, "GET", "/api/v1/troubles")
        [trouble] = [each for each in said["troubles"] if each["kind"] == "nodes_lost"]
        assert (trouble["count"], trouble["names"]) == (1, ["gpu-7"])
        await house.node(node_id="gpu-7")
        await house.instance.desk.refresh()
        assert lost(house) == []


@pytest.mark.parametrize("how", ["goodbye", "drained"])
async def test_a_node_that_was_to_go_is_not_missed(store_options, how):
    async with world(store_options) as house:
        node = await house.node(node_id="gpu-7")
        if how == "goodbye":
            await node.hang_up()
        else:
            house.instance.node_door.link(NodeId("gpu-7")).drain(30)
            node.reset()
        await gone(house, "gpu-7")
        assert lost(house) == []


async def test_every_instance_names_a_node_that_another_one_misses(store_options):
    async with two(store_options) as (here, there):
        node = await here.node(node_id="gpu-7")
        await shown(there, 1)
        node.reset()
        await gone(here, "gpu-7")
        await wait_until(lambda: lost(here), description="it is missed")
        await here.instance.company.beat()
        await there.instance.company.look()
        await there.instance.snapshot.refresh(there.instance.stores.nodes)
        await there.instance.desk.refresh()
        _, said, _ = await ask(there.instance, "GET", "/api/v1/troubles")
        assert ["gpu-7"] in [each["names"] for each in said["troubles"] if each["kind"] == "nodes_lost"]
        assert lost(there) == []


def test_losses_are_remembered_for_a_while_and_not_without_end():
    clock = VirtualClock()
    losses = Losses(clock, Metrics())
    for number in range(100):
        losses.node(NodeId(f"n-{number}"))
    losses.instance(InstanceId("i-1"))
    assert len(losses.about()) == 16
    assert lost_nodes(losses.about())[-1] == "n-99"
    assert losses.instances == ("i-1",)
    losses.review({"n-99"}, set())
    assert lost_nodes(losses.about())[-1] == "n-98"
    losses.review(set(), {"i-1"})
    assert losses.instances == ()
    clock.advance(KEEP_S)
    losses.review(set(), set())
    assert losses.about() == {}
