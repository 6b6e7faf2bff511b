"""What a node said while Redis was away counts as soon as Redis is back, not with the next heartbeat."""

from __future__ import annotations

from typing import Any

from lingua_scheduler.errors import DependencyDown
from support import wait_until
from world import FakeNode, World, world

SECRET = "10.1.2.3:6379"


class Away:
    """Lets the writing of nodes fail until told otherwise."""

    def __init__(self, house: World) -> None:
        self._ledger = house.instance.stores.nodes
        self._real = self._ledger.beat
        self.calls = 0
        self._ledger.beat = self._fail

    async def _fail(self, *_: Any, **__: Any) -> None:
        self.calls += 1
        raise DependencyDown(f"Redis is not reachable: {SECRET}")

    def over(self) -> None:
        """Let it work again."""
        self._ledger.beat = self._real


def chosen(house: World, node: FakeNode) -> bool:
    """Tell whether placement may choose a node."""
    facts = house.instance.snapshot.node(node.id)
    return facts is not None and facts.closed is None


async def test_a_node_that_became_ready_while_redis_was_away_is_used_soon_after(store_options):
    async with world(store_options) as house:
        node = await (await house.stranger()).register()
        away = Away(house)
        await node.beat()
        told = await node.expect("error", code="SCHEDULER_DEPENDENCY_DOWN")
        assert SECRET not in told["message"], "where Redis is, is no business of a node"
        for tries in (2, 3):
            house.clock.advance(1)
            await wait_until(lambda tries=tries: away.calls == tries, description="it is tried again")
        assert not chosen(house, node)
        away.over()
        house.clock.advance(1)
        await wait_until(lambda: chosen(house, node), description="the node is ready")
        assert node.seen("error") == [], "the node is told once, not at each try"
        speaker = await house.session()
        await speaker.say()
        await node.answer(await node.job())
        await speaker.expect("translation_result")


async def test_a_node_that_left_meanwhile_is_not_written_again(store_options):
    async with world(store_options) as house:
        node = await house.node()
        away = Away(house)
        await node.beat()
        await node.expect("error", code="SCHEDULER_DEPENDENCY_DOWN")
        away.over()
        await node.hang_up()
        await wait_until(lambda: not house.instance.routing.links(), description="it is gone")
        house.clock.advance(10)
        await wait_until(
            lambda: house.instance.snapshot.node(node.id) is None, description="nothing of it is left"
        )
        assert await house.redis("HLEN", house.keys.nodes(0)) == 0
