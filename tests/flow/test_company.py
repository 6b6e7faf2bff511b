"""What an instance thinks of the others, and of itself."""

from __future__ import annotations

from neighbours import two
from support import wait_until
from world import world


async def test_an_instance_never_doubts_itself(store_options):
    """A letter to itself that found no presence says that Redis has lost it, not that its nodes are away."""
    async with world(store_options) as house:
        company = house.instance.company
        company.doubt(house.instance.id)
        assert company.reachable == {house.instance.id}


async def test_who_said_goodbye_is_not_counted_as_lost(store_options):
    quick = {"settle_ms": 100, "look_ms": 100}
    async with world(store_options, peers=quick) as house:
        company, gone = house.instance.company, []
        really = company.lost
        company.lost = lambda instance_id: (gone.append(instance_id), really(instance_id))
        async with world(store_options) as other:
            await wait_until(lambda: len(company.reachable) == 2, description="it is seen")
        await wait_until(lambda: len(company.reachable) == 1, description="it is not seen any more")
        house.clock.advance(1)
        await wait_until(lambda: gone == [other.instance.id], description="what is there is moved")
        assert house.counted("instances_lost_total") == 0


async def test_who_vanished_without_a_word_is_counted_as_lost(store_options):
    quick = {"settle_ms": 100, "look_ms": 100}
    async with two(store_options, peers=quick) as (a, b):
        await b.instance.watch.stop()
        await b.redis("DEL", b.keys.presence(b.instance.id))
        line = await b.redis("HGET", b.keys.registry(), b.instance.id)
        await b.redis("HSET", b.keys.registry(), b.instance.id, b"1 " + line.split(b" ", 1)[1])
        await wait_until(lambda: len(a.instance.company.reachable) == 1, description="it is missed")
        a.clock.advance(1)
        await wait_until(lambda: a.counted("instances_lost_total") == 1, description="it is counted")
