"""Registrations, leases, epochs and what snapshots read, on a single Redis and on a cluster."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from lingua_scheduler.core.model import PoolId
from lingua_scheduler.core.placement import Exclusion
from lingua_scheduler.core.stored import Beat
from lingua_scheduler.errors import CorruptValue, NodeRefused
from store.ledgers import LEASE_MS, POOL, A, B, ask, audit, facts, time_passes
from support import wait_until

NODE = facts("n1")


async def test_a_registration_is_there_with_owner_and_lease_when_it_is_answered(ledgers):
    epoch = await ledgers.register(NODE)
    key = ledgers.keys.node(POOL, "n1")
    assert await ledgers.call("HMGET", key, "owner", "epoch") == [A.encode(), str(epoch).encode()]
    assert 0 < await ledgers.call("PTTL", key) <= LEASE_MS
    assert (await audit(ledgers))["n1"].on_shelf


async def test_every_registration_gets_a_higher_epoch(ledgers):
    epochs = [await ledgers.register(NODE) for _ in range(5)]
    assert epochs == sorted(set(epochs))


async def test_epochs_grow_on_when_redis_has_forgotten_everything(store, ledgers):
    before = await ledgers.register(NODE)
    store.on_every_server("FLUSHALL")
    assert await ledgers.register(NODE) > before


async def test_a_lease_can_be_short(ledgers):
    await ledgers.nodes.register(NODE, lease_ms=3000, takeover=True)
    assert await ledgers.call("PTTL", ledgers.keys.node(POOL, "n1")) <= 3000


# What an older registration does after a newer one has no effect.


@pytest.fixture
async def epochs(ledgers):
    old = await ledgers.register(NODE)
    new = await ledgers.register(replace(NODE, owner=B))
    return old, new


async def test_an_old_epoch_cannot_delete_the_newer_one(ledgers, epochs):
    assert not await ledgers.nodes.leave(NODE.node_id, POOL, epoch=epochs[0])
    assert (await audit(ledgers))["n1"].line.owner == B
    assert await ledgers.call("EXISTS", ledgers.keys.where("n1"))


async def test_an_old_epoch_cannot_renew_it(ledgers, epochs):
    await ledgers.call("PEXPIRE", ledgers.keys.node(POOL, "n1"), 1000)
    assert await ledgers.beat(NODE, epochs[0]) is Beat.REPLACED
    assert await ledgers.call("PTTL", ledgers.keys.node(POOL, "n1")) <= 1000


async def test_an_old_epoch_cannot_close_it(ledgers, epochs):
    assert await ledgers.beat(replace(NODE, closed=Exclusion.OFFLINE), epochs[0]) is Beat.REPLACED
    assert (await audit(ledgers))["n1"].on_shelf


async def test_an_old_epoch_cannot_write_it_when_it_is_late(ledgers, monkeypatch):
    """Two connections claim the id; the first to claim is the last to write."""
    gate = asyncio.Event()
    register = ledgers.nodes._register
    waiting = []

    async def slow(**values):
        if not waiting:
            waiting.append(values)
            await gate.wait()
        return await register(**values)

    slow.source = register.source
    monkeypatch.setattr(ledgers.nodes, "_register", slow)
    first = asyncio.ensure_future(ledgers.register(NODE))
    await wait_until(lambda: waiting, description="the first one is about to write")
    newer = await ledgers.register(replace(NODE, owner=B))
    gate.set()
    with pytest.raises(NodeRefused, match="registered again"):
        await first
    assert (await audit(ledgers))["n1"].line.epoch == str(newer)


async def test_a_node_leaves_nothing_behind_but_its_change(ledgers):
    keys = ledgers.keys
    epoch = await ledgers.register(NODE)
    assert await ledgers.nodes.leave(NODE.node_id, POOL, epoch=epoch)
    left = await ledgers.names(keys.version(POOL), keys.where("n1"))
    assert left == sorted([keys.changes(POOL).encode(), keys.version(POOL).encode()])


async def test_leaving_twice_is_harmless(ledgers):
    epoch = await ledgers.register(NODE)
    assert await ledgers.nodes.leave(NODE.node_id, POOL, epoch=epoch)
    assert not await ledgers.nodes.leave(NODE.node_id, POOL, epoch=epoch)


async def test_ac23_many_registrations_that_end_leave_no_keys(ledgers):
    keys = ledgers.keys
    for number in range(200):
        epoch = await ledgers.register(facts(f"n{number}"))
        await ledgers.nodes.leave(facts(f"n{number}").node_id, POOL, epoch=epoch)
    everywhere = [keys.version(POOL), *(keys.where(f"n{number}") for number in range(30))]
    assert len(await ledgers.names(*everywhere)) == 2


# With the policy `reject` a live node keeps its id.


async def test_a_live_id_is_refused_and_nothing_changes(ledgers):
    epoch = await ledgers.register(NODE)
    with pytest.raises(NodeRefused) as refused:
        await ledgers.register(replace(NODE, owner=B), takeover=False)
    assert refused.value.code == "NODE_ID_CONFLICT"
    assert (await audit(ledgers))["n1"].line.epoch == str(epoch)


async def test_an_id_whose_node_lost_its_connection_is_free(ledgers):
    epoch = await ledgers.register(NODE)
    await ledgers.beat(replace(NODE, closed=Exclusion.OFFLINE), epoch)
    assert await ledgers.register(NODE, takeover=False) > epoch


async def test_an_id_whose_lease_is_over_is_free(ledgers):
    epoch = await ledgers.register(NODE)
    await ledgers.end_lease("n1")
    assert await ledgers.register(NODE, takeover=False) > epoch


async def test_an_id_that_lives_in_another_pool_is_refused(ledgers):
    await ledgers.register(replace(NODE, pool=PoolId(3)))
    with pytest.raises(NodeRefused):
        await ledgers.register(NODE, takeover=False)


async def test_an_id_is_refused_although_nobody_remembers_its_claim(ledgers):
    await ledgers.register(NODE)
    await ledgers.call("DEL", ledgers.keys.where("n1"))
    with pytest.raises(NodeRefused):
        await ledgers.register(NODE, takeover=False)


async def test_of_many_at_once_one_gets_it(store):
    several = [store.ledgers() for _ in range(5)]
    outcomes = await asyncio.gather(
        *(ledgers.register(NODE, takeover=False) for ledgers in several), return_exceptions=True
    )
    assert sum(isinstance(outcome, int) for outcome in outcomes) == 1
    assert all(isinstance(outcome, int | NodeRefused) for outcome in outcomes)


async def test_a_node_that_changes_its_pool_is_only_in_the_new_one(ledgers):
    await ledgers.register(replace(NODE, pool=PoolId(3)))
    await ledgers.register(NODE)
    assert await audit(ledgers, 3) == {}
    assert set(await audit(ledgers)) == {"n1"}


# What a heartbeat renews and changes.


async def test_a_heartbeat_renews_the_lease(ledgers):
    epoch = await ledgers.register(NODE)
    await ledgers.call("PEXPIRE", ledgers.keys.node(POOL, "n1"), 1000)
    assert await ledgers.beat(NODE, epoch) is Beat.RENEWED
    assert await ledgers.call("PTTL", ledgers.keys.node(POOL, "n1")) > 1000


async def test_a_heartbeat_says_that_the_lease_has_ended(ledgers):
    epoch = await ledgers.register(NODE)
    await ledgers.end_lease("n1")
    assert await ledgers.beat(NODE, epoch) is Beat.GONE
    assert not await ledgers.call("EXISTS", ledgers.keys.node(POOL, "n1"))


async def test_a_heartbeat_of_an_unknown_node_creates_no_key(ledgers):
    assert await ledgers.beat(NODE, 1) is Beat.GONE
    assert await ledgers.names(ledgers.keys.node(POOL, "n1"), ledgers.keys.where("n1")) == []


@pytest.mark.parametrize("closed", list(Exclusion))
async def test_a_heartbeat_hides_a_closed_node_and_shows_it_again(ledgers, closed):
    epoch = await ledgers.register(NODE)
    await ledgers.beat(replace(NODE, closed=closed), epoch)
    assert not (await audit(ledgers))["n1"].on_shelf
    assert await ledgers.nodes.reserve(ask()) is None
    await ledgers.beat(NODE, epoch)
    assert await ledgers.nodes.reserve(ask()) is not None


async def test_a_heartbeat_moves_a_node_with_its_reservations_to_another_shelf(ledgers):
    epoch = await ledgers.register(NODE)
    held = await ledgers.nodes.reserve(ask())
    less = replace(NODE, types=frozenset({"asr"}))
    await ledgers.beat(less, epoch)
    stand = (await audit(ledgers))["n1"]
    assert (stand.line.shelf, stand.jobs) == (less.shelf, 1)
    assert await ledgers.nodes.reserve(ask("job-2")) is None
    assert await ledgers.nodes.release(held), "a release finds the node on its new shelf"
    assert (await audit(ledgers))["n1"].jobs == 0


async def test_a_heartbeat_finds_the_node_on_a_shelf_this_instance_has_forgotten(store, ledgers):
    """Otherwise the node would stand on two shelves and be oversold."""
    epoch = await ledgers.register(NODE)
    await ledgers.nodes.reserve(ask())
    stranger = store.ledgers()
    await stranger.beat(replace(NODE, types=frozenset({"asr"})), epoch)
    assert (await audit(ledgers))["n1"].jobs == 1


async def test_an_old_leave_does_not_make_it_forget_the_shelf(ledgers):
    old = await ledgers.register(NODE)
    new = await ledgers.register(NODE)
    await ledgers.nodes.reserve(ask())
    await ledgers.nodes.leave(NODE.node_id, POOL, epoch=old)
    await ledgers.beat(replace(NODE, types=frozenset({"asr"})), new)
    assert (await audit(ledgers))["n1"].jobs == 1


# What a node runs beyond our reservations counts as load of others (AC-24).


async def test_ac24_the_least_loaded_node_is_chosen(ledgers):
    nodes = [facts(f"n{number}") for number in range(3)]
    epochs = [await ledgers.register(node) for node in nodes]

    async def report(*running):
        for node, epoch, jobs in zip(nodes, epochs, running, strict=True):
            await ledgers.beat(replace(node, running_jobs=jobs), epoch)

    await report(3, 1, 0)
    first = await ledgers.nodes.reserve(ask("job-1"))
    assert first.node_id == "n2"
    await report(2, 1, 2)
    assert (await ledgers.nodes.reserve(ask("job-2"))).node_id == "n1"


async def test_our_own_jobs_are_not_counted_twice(ledgers):
    epoch = await ledgers.register(NODE)
    await ledgers.nodes.reserve(ask("job-1"))
    await ledgers.nodes.reserve(ask("job-2"))
    await ledgers.beat(replace(NODE, running_jobs=2), epoch)
    assert (await audit(ledgers))["n1"].jobs == 2


async def test_a_node_that_is_full_of_it_is_hidden_until_it_says_less(ledgers):
    epoch = await ledgers.register(NODE)
    await ledgers.beat(replace(NODE, running_jobs=4), epoch)
    assert await ledgers.nodes.reserve(ask()) is None
    await ledgers.beat(replace(NODE, running_jobs=3), epoch)
    assert await ledgers.nodes.reserve(ask()) is not None
    assert await ledgers.nodes.reserve(ask("job-2")) is None


async def test_a_node_that_said_nothing_new_keeps_its_load(ledgers):
    """Its owner writes something else about it; what it ran when it last reported may be over by now."""
    epoch = await ledgers.register(replace(NODE, running_jobs=1))
    held = await ledgers.nodes.reserve(ask())
    said = replace(NODE, running_jobs=2)
    await ledgers.beat(said, epoch)
    await ledgers.nodes.release(held)
    less = replace(said, types=frozenset({"asr"}))
    assert await ledgers.nodes.beat(less, epoch=epoch, lease_ms=LEASE_MS, reported=False) is Beat.RENEWED
    stand = (await audit(ledgers))["n1"]
    assert (stand.jobs, stand.line.shelf) == (1, less.shelf)


async def test_a_reconnected_node_counts_what_it_still_holds(ledgers):
    await ledgers.register(replace(NODE, running_jobs=3))
    assert (await audit(ledgers))["n1"].jobs == 3


async def test_more_than_the_capacity_is_harmless(ledgers):
    epoch = await ledgers.register(NODE)
    held = await ledgers.nodes.reserve(ask())
    await ledgers.beat(replace(NODE, running_jobs=1000), epoch)
    await ledgers.nodes.release(held)
    assert (await audit(ledgers))["n1"].jobs == 999


# How snapshots learn what happened.


async def test_the_first_question_is_answered_completely(ledgers):
    await ledgers.register(NODE)
    await ledgers.register(facts("n2"))
    changes = await ledgers.nodes.changes(POOL, since=0)
    assert changes.complete
    assert {node.node_id for node in changes.nodes} == {"n1", "n2"}


async def test_facts_come_back_as_they_were_written(ledgers):
    node = replace(NODE, sequential=True, private=True, closed=Exclusion.STATUS_NOT_READY)
    await ledgers.register(node)
    (read,) = (await ledgers.nodes.changes(POOL, since=0)).nodes
    assert read == replace(node, running_jobs=node.max_jobs), "a closed node counts as full"


async def test_nothing_new_is_nothing(ledgers):
    await ledgers.register(NODE)
    version = (await ledgers.nodes.changes(POOL, since=0)).version
    assert await ledgers.nodes.changes(POOL, since=version) is None


async def test_only_what_changed_is_told(ledgers):
    await ledgers.register(NODE)
    version = (await ledgers.nodes.changes(POOL, since=0)).version
    epoch = await ledgers.register(facts("n2"))
    changes = await ledgers.nodes.changes(POOL, since=version)
    assert not changes.complete
    assert [node.node_id for node in changes.nodes] == ["n2"]
    assert await ledgers.beat(facts("n2"), epoch) is Beat.RENEWED
    assert await ledgers.nodes.changes(POOL, since=changes.version) is None, "a beat alone is no change"


async def test_a_node_that_left_is_gone(ledgers):
    epoch = await ledgers.register(NODE)
    version = (await ledgers.nodes.changes(POOL, since=0)).version
    await ledgers.nodes.leave(NODE.node_id, POOL, epoch=epoch)
    changes = await ledgers.nodes.changes(POOL, since=version)
    assert (changes.nodes, changes.gone) == ((), ("n1",))


async def test_a_full_node_that_has_a_slot_again_is_told_with_its_load(ledgers):
    """Somebody on another instance may wait for it."""
    await ledgers.register(NODE)
    held = [await ledgers.nodes.reserve(ask(f"job-{number}")) for number in range(4)]
    version = (await ledgers.nodes.changes(POOL, since=0)).version
    await ledgers.nodes.release(held[0])
    changes = await ledgers.nodes.changes(POOL, since=version)
    assert [(node.node_id, node.free) for node in changes.nodes] == [("n1", 1)]
    await ledgers.nodes.release(held[1])
    assert await ledgers.nodes.changes(POOL, since=changes.version) is None


async def test_a_heartbeat_that_frees_slots_is_told(ledgers):
    epoch = await ledgers.register(replace(NODE, running_jobs=4))
    version = (await ledgers.nodes.changes(POOL, since=0)).version
    await ledgers.beat(replace(NODE, running_jobs=1), epoch)
    (node,) = (await ledgers.nodes.changes(POOL, since=version)).nodes
    assert node.free == 3


async def test_who_is_too_far_behind_gets_everything(ledgers):
    await ledgers.register(NODE)
    version = (await ledgers.nodes.changes(POOL, since=0)).version
    await ledgers.call("INCRBY", ledgers.keys.version(POOL), 10_001)
    changes = await ledgers.nodes.changes(POOL, since=version)
    assert changes.complete
    assert [node.node_id for node in changes.nodes] == ["n1"]


async def test_who_knows_more_than_redis_gets_everything(store, ledgers):
    await ledgers.register(NODE)
    version = (await ledgers.nodes.changes(POOL, since=0)).version
    store.on_every_server("FLUSHALL")
    changes = await ledgers.nodes.changes(POOL, since=version)
    assert (changes.complete, changes.nodes) == (True, ())


async def test_a_version_is_never_reached_twice(store, ledgers):
    """After FLUSHALL the same number of registrations must not look like no change."""
    await ledgers.register(NODE)
    version = (await ledgers.nodes.changes(POOL, since=0)).version
    store.on_every_server("FLUSHALL")
    await time_passes(ledgers)
    await ledgers.register(facts("n2"))
    changes = await ledgers.nodes.changes(POOL, since=version)
    assert [node.node_id for node in changes.nodes] == ["n2"]


async def test_facts_that_nobody_can_read_are_absent(ledgers):
    await ledgers.register(NODE)
    await ledgers.register(facts("n2"))
    await ledgers.call("HSET", ledgers.keys.node(POOL, "n1"), "facts", '{"owner": 1}')
    changes = await ledgers.nodes.changes(POOL, since=0)
    assert ([node.node_id for node in changes.nodes], changes.gone) == (["n2"], ("n1",))


# Nothing stays for ever because somebody died.


async def test_ac22_a_node_of_a_dead_instance_leaves_no_residue(ledgers):
    await ledgers.register(NODE)
    await ledgers.nodes.reserve(ask())
    await ledgers.end_lease("n1")
    assert await ledgers.nodes.reserve(ask("job-2")) is None, "not even before the sweep"
    assert await ledgers.nodes.sweep(POOL) == 1
    assert await audit(ledgers) == {}


async def test_a_living_node_stays(ledgers):
    await ledgers.register(NODE)
    assert await ledgers.nodes.sweep(POOL) == 0
    assert set(await audit(ledgers)) == {"n1"}


async def test_a_node_that_came_back_meanwhile_stays(ledgers):
    await ledgers.register(NODE)
    await ledgers.end_lease("n1")
    await ledgers.register(NODE)
    assert await ledgers.nodes.sweep(POOL) == 0
    assert (await audit(ledgers))["n1"].on_shelf


async def test_all_of_many_are_removed_at_once(ledgers):
    for number in range(120):
        await ledgers.register(facts(f"n{number}"))
        await ledgers.end_lease(f"n{number}")
    assert await ledgers.nodes.sweep(POOL) == 120
    assert await audit(ledgers) == {}


async def test_two_sweepers_do_not_disturb_each_other(store):
    one, other = store.ledgers(), store.ledgers(B)
    for number in range(20):
        await one.register(facts(f"n{number}"))
        await one.end_lease(f"n{number}")
    await asyncio.gather(one.nodes.sweep(POOL), other.nodes.sweep(POOL))
    assert await audit(one) == {}


async def test_what_nobody_can_read_is_swept_too(ledgers):
    await ledgers.call("ZADD", ledgers.keys.reserved(POOL), 1, b"\xff nonsense")
    await ledgers.call("ZADD", ledgers.keys.leases(POOL), 1, "ghost")
    await ledgers.call("HSET", ledgers.keys.nodes(POOL), "ghost", "nonsense")
    assert await ledgers.nodes.sweep(POOL) == 2
    assert await ledgers.names(ledgers.keys.nodes(POOL)) == []


async def test_all_goes_on_when_the_server_forgets_the_scripts(store, ledgers):
    epoch = await ledgers.register(NODE)
    store.on_every_server("SCRIPT FLUSH")
    held = await ledgers.nodes.reserve(ask())
    store.on_every_server("SCRIPT FLUSH")
    assert await ledgers.beat(NODE, epoch) is Beat.RENEWED
    assert await ledgers.nodes.release(held)
    store.on_every_server("SCRIPT FLUSH")
    assert await ledgers.nodes.leave(NODE.node_id, POOL, epoch=epoch)


async def test_a_key_of_the_wrong_type_is_a_corrupt_value_and_no_crash(ledgers):
    await ledgers.call("SET", ledgers.keys.nodes(POOL), "text", "EX", 60)
    for attempt in (
        ledgers.register(NODE),
        ledgers.beat(NODE, 1),
        ledgers.nodes.reserve(ask(prefer="n1")),
        ledgers.nodes.leave(NODE.node_id, POOL, epoch=1),
    ):
        with pytest.raises(CorruptValue):
            await attempt
    await ledgers.call("DEL", ledgers.keys.nodes(POOL))


async def test_a_line_that_nobody_can_read_is_no_node(ledgers):
    await ledgers.register(NODE)
    await ledgers.call("HSET", ledgers.keys.nodes(POOL), "n1", "nonsense")
    assert await ledgers.nodes.reserve(ask()) is None
    assert await ledgers.nodes.reserve(ask(prefer="n1", bound=True)) is None
    await ledgers.register(NODE)
    assert (await audit(ledgers))["n1"].on_shelf
