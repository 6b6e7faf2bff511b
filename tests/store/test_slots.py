"""Reservations: never oversold, idempotent, fenced, self-healing; on a single Redis and on a cluster."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from lingua_scheduler.core.model import InstanceId
from lingua_scheduler.core.placement import Exclusion
from store.ledgers import POOL, SHELF, A, B, ask, audit, facts, slot_on
from support import wait_until

NODE = facts("n1")


async def reserve(ledgers, count, **members):
    """Ask for so many slots, one job after the other; give what was taken."""
    taken = [await ledgers.nodes.reserve(ask(f"job-{number}", **members)) for number in range(count)]
    return [reservation for reservation in taken if reservation is not None]


async def test_a_reservation_names_node_owner_epoch_and_shelf(ledgers):
    epoch = await ledgers.register(NODE)
    assert await ledgers.nodes.reserve(ask()) == slot_on("n1", epoch=epoch)


async def test_a_pool_without_nodes_refuses(ledgers):
    assert await ledgers.nodes.reserve(ask()) is None
    assert await ledgers.nodes.reserve(ask(shelves=())) is None
    assert await ledgers.names(ledgers.keys.reserved(POOL)) == []


# At no instant a node holds more than it can.


async def test_a_full_node_is_refused(ledgers):
    await ledgers.register(replace(NODE, max_jobs=2))
    assert len(await reserve(ledgers, 5)) == 2
    assert not (await audit(ledgers))["n1"].on_shelf


async def test_a_released_slot_can_be_taken_again(ledgers):
    await ledgers.register(replace(NODE, max_jobs=1))
    for number in range(5):
        held = await ledgers.nodes.reserve(ask(f"job-{number}"))
        assert await ledgers.nodes.release(held)
    assert (await audit(ledgers))["n1"].jobs == 0


async def test_ac53_of_a_hundred_at_once_from_several_instances_exactly_four_get_it(store):
    several = [store.ledgers(A), store.ledgers(B), store.ledgers(A), store.ledgers(B)]
    await several[0].register(NODE)
    taken = await asyncio.gather(
        *(several[number % 4].nodes.reserve(ask(f"job-{number}")) for number in range(100))
    )
    assert sum(reservation is not None for reservation in taken) == 4
    assert (await audit(several[0]))["n1"].held == 4


async def test_every_slot_of_every_node_is_found(ledgers):
    """No hidden nodes (AC-32): after some of many nodes left, the others are all used to the last slot."""
    epochs = {f"n{number}": await ledgers.register(facts(f"n{number}")) for number in range(150)}
    for number in range(60):
        await ledgers.nodes.leave(facts(f"n{number}").node_id, POOL, epoch=epochs[f"n{number}"])
    taken = await asyncio.gather(
        *(ledgers.nodes.reserve(ask(f"job-{number}")) for number in range(90 * 4 + 1))
    )
    assert sum(reservation is None for reservation in taken) == 1
    used = Counter(reservation.node_id for reservation in taken if reservation)
    assert used == {f"n{number}": 4 for number in range(60, 150)}
    await audit(ledgers)


async def test_no_herding_in_a_burst(store):
    """1,000 jobs at once over 50 equal nodes, from two instances."""
    one, other = store.ledgers(A), store.ledgers(B)
    for number in range(50):
        await one.register(facts(f"n{number}", max_jobs=25))
    taken = await asyncio.gather(
        *((one, other)[number % 2].nodes.reserve(ask(f"job-{number}")) for number in range(1000))
    )
    assert None not in taken
    used = Counter(reservation.node_id for reservation in taken)
    assert max(used.values()) / (1000 / 50) <= 1.25
    await audit(one)


async def test_equal_nodes_take_turns(ledgers):
    """Also when each job is over before the next one comes."""
    for number in range(5):
        await ledgers.register(facts(f"n{number}"))
    chosen = []
    for number in range(10):
        held = await ledgers.nodes.reserve(ask(f"job-{number}"))
        chosen.append(held.node_id)
        await ledgers.nodes.release(held)
    assert Counter(chosen) == {f"n{number}": 2 for number in range(5)}


# The same question or the same release once more changes nothing.


async def test_an_unheard_answer_is_given_again(store, ledgers):
    await ledgers.register(NODE)
    await ledgers.register(facts("n2"))
    first = await ledgers.nodes.reserve(ask())
    assert await store.ledgers().nodes.reserve(ask(again=True)) == first
    assert sum(stand.held for stand in (await audit(ledgers)).values()) == 1


async def test_a_question_that_was_never_answered_is_a_new_one(ledgers):
    await ledgers.register(NODE)
    assert (await ledgers.nodes.reserve(ask(again=True))).node_id == "n1"


async def test_a_slot_of_an_older_registration_is_not_given_again(ledgers):
    await ledgers.register(NODE)
    await ledgers.nodes.reserve(ask())
    newer = await ledgers.register(NODE)
    again = await ledgers.nodes.reserve(ask(again=True))
    assert again.epoch == newer
    assert (await audit(ledgers))["n1"].held == 1


async def test_a_slot_is_released_once(ledgers):
    await ledgers.register(NODE)
    held = await ledgers.nodes.reserve(ask("job-1"))
    await ledgers.nodes.reserve(ask("job-2"))
    assert await ledgers.nodes.release(held)
    assert not await ledgers.nodes.release(held)
    assert (await audit(ledgers))["n1"].jobs == 1


async def test_attempts_of_one_job_are_different_slots(ledgers):
    await ledgers.register(NODE)
    first = await ledgers.nodes.reserve(ask(attempt=1))
    second = await ledgers.nodes.reserve(ask(attempt=2))
    await ledgers.nodes.release(first)
    assert (await audit(ledgers))["n1"].held == 1
    assert await ledgers.nodes.release(second)


# A release that comes after the node's slots were counted anew takes nothing away from anybody.


async def test_a_late_release_after_a_new_registration(ledgers):
    await ledgers.register(NODE)
    old = await ledgers.nodes.reserve(ask("job-1"))
    await ledgers.register(NODE)
    await ledgers.nodes.reserve(ask("job-2"))
    assert await ledgers.nodes.release(old)
    assert (await audit(ledgers))["n1"].jobs == 1


async def test_a_late_release_after_the_node_left(ledgers):
    epoch = await ledgers.register(NODE)
    held = await ledgers.nodes.reserve(ask())
    await ledgers.nodes.leave(NODE.node_id, POOL, epoch=epoch)
    assert await ledgers.nodes.release(held)
    assert await audit(ledgers) == {}


async def test_a_late_release_ac55_after_its_time_was_over(ledgers):
    await ledgers.register(NODE)
    held = await ledgers.nodes.reserve(ask("job-1"))
    await ledgers.end_reservation(held)
    await ledgers.nodes.sweep(POOL)
    other = await ledgers.nodes.reserve(ask("job-2"))
    assert not await ledgers.nodes.release(held)
    assert (await audit(ledgers))["n1"].jobs == 1
    await ledgers.nodes.release(other)
    assert (await audit(ledgers))["n1"].jobs == 0


async def test_a_late_release_of_something_that_never_was(ledgers):
    epoch = await ledgers.register(NODE)
    assert not await ledgers.nodes.release(slot_on("n1", epoch=epoch))
    assert (await audit(ledgers))["n1"].jobs == 0


# AC-54: what nobody gives back frees itself.


async def test_ac54_a_slot_is_free_again_when_its_time_is_over(ledgers):
    await ledgers.register(replace(NODE, max_jobs=1))
    await ledgers.nodes.reserve(ask("job-1", ttl_ms=1))

    async def free_again():
        await ledgers.nodes.sweep(POOL)
        return await ledgers.nodes.reserve(ask("job-2"))

    assert await wait_until(free_again, description="the slot is free again")
    assert (await audit(ledgers))["n1"].held == 1


async def test_a_slot_whose_time_is_not_over_stays(ledgers):
    await ledgers.register(NODE)
    await ledgers.nodes.reserve(ask())
    assert await ledgers.nodes.sweep(POOL) == 0
    assert (await audit(ledgers))["n1"].held == 1


async def test_freed_slots_are_told_to_who_waits(ledgers):
    await ledgers.register(replace(NODE, max_jobs=1))
    held = await ledgers.nodes.reserve(ask())
    version = (await ledgers.nodes.changes(POOL, since=0)).version
    await ledgers.end_reservation(held)
    await ledgers.nodes.sweep(POOL)
    (node,) = (await ledgers.nodes.changes(POOL, since=version)).nodes
    assert node.free == 1


async def test_many_are_freed_at_once(ledgers):
    await ledgers.register(replace(NODE, max_jobs=150))
    for held in await reserve(ledgers, 150):
        await ledgers.end_reservation(held)
    assert await ledgers.nodes.sweep(POOL) == 150
    assert (await audit(ledgers))["n1"].jobs == 0


# A preferred node comes first; a binding one is the only one while it can be expected back.


@pytest.fixture
async def epoch(ledgers):
    await ledgers.register(facts("idle"))
    epoch = await ledgers.register(facts("mine", running_jobs=2))
    await ledgers.beat(facts("mine", running_jobs=2), epoch)
    return epoch


async def test_a_preferred_node_is_taken_although_others_are_idler(ledgers, epoch):
    assert (await ledgers.nodes.reserve(ask(prefer="mine"))).node_id == "mine"


async def test_a_full_preferred_node_gives_way(ledgers, epoch):
    taken = await reserve(ledgers, 3, prefer="mine")
    assert [reservation.node_id for reservation in taken] == ["mine", "mine", "idle"]


async def test_a_full_binding_node_is_waited_for(ledgers, epoch):
    assert len(await reserve(ledgers, 3, prefer="mine", bound=True)) == 2


@pytest.mark.parametrize("closed", [Exclusion.CAPACITY_EXCEEDED, Exclusion.RESOURCE_THRESHOLD_EXCEEDED])
async def test_a_busy_binding_node_is_waited_for(ledgers, epoch, closed):
    await ledgers.beat(facts("mine", closed=closed), epoch)
    assert await ledgers.nodes.reserve(ask(prefer="mine", bound=True)) is None
    assert (await ledgers.nodes.reserve(ask(prefer="mine"))).node_id == "idle"


@pytest.mark.parametrize("closed", [Exclusion.OFFLINE, Exclusion.STATUS_NOT_READY])
async def test_a_binding_node_that_is_lost_gives_way(ledgers, epoch, closed):
    await ledgers.beat(facts("mine", closed=closed), epoch)
    assert (await ledgers.nodes.reserve(ask(prefer="mine", bound=True))).node_id == "idle"


async def test_a_binding_node_whose_lease_is_over_gives_way(ledgers, epoch):
    await ledgers.end_lease("mine")
    assert (await ledgers.nodes.reserve(ask(prefer="mine", bound=True))).node_id == "idle"


async def test_a_binding_node_that_left_gives_way(ledgers, epoch):
    await ledgers.nodes.leave(facts("mine").node_id, POOL, epoch=epoch)
    assert (await ledgers.nodes.reserve(ask(prefer="mine", bound=True))).node_id == "idle"


async def test_a_binding_node_of_an_unreachable_instance_gives_way(ledgers, epoch):
    await ledgers.register(facts("mine", owner=B))
    question = ask(prefer="mine", bound=True, reachable=frozenset({A}))
    assert (await ledgers.nodes.reserve(question)).node_id == "idle"


async def test_a_binding_node_that_cannot_do_this_job_gives_way(ledgers, epoch):
    await ledgers.beat(facts("mine", types=frozenset({"asr"})), epoch)
    assert (await ledgers.nodes.reserve(ask(prefer="mine", bound=True))).node_id == "idle"


# Who is not chosen.


async def test_not_chosen_are_nodes_on_other_shelves(ledgers):
    await ledgers.register(facts("n1", types=frozenset({"asr"})))
    assert await ledgers.nodes.reserve(ask()) is None


async def test_the_least_loaded_of_several_shelves_is_chosen(ledgers):
    other = facts("n2", types=frozenset({"asr", "nmt", "tts", "tone"}))
    await ledgers.register(NODE)
    await ledgers.register(other)
    taken = await reserve(ledgers, 8, shelves=(SHELF, other.shelf))
    assert Counter(reservation.node_id for reservation in taken) == {"n1": 4, "n2": 4}
    assert taken[0].node_id != taken[1].node_id


async def test_nodes_of_unreachable_instances_are_passed_over_and_stay_there_for_others(ledgers):
    for number in range(20):
        await ledgers.register(facts(f"b{number}", owner=B))
    await ledgers.register(facts("a", running_jobs=3))
    here = await ledgers.nodes.reserve(ask("job-1", reachable=frozenset({A})))
    assert here.node_id == "a"
    there = await ledgers.nodes.reserve(ask("job-2", reachable=frozenset({B})))
    assert there.owner == B
    nobody = ask("job-3", reachable=frozenset({InstanceId("instance")}))
    assert await ledgers.nodes.reserve(nobody) is None, "a name that is part of another is not that name"
    await audit(ledgers)


async def test_not_chosen_are_nodes_that_had_the_job(ledgers):
    for number in range(3):
        await ledgers.register(facts(f"n{number}"))
    tried = frozenset({facts("n0").node_id, facts("n2").node_id})
    assert {r.node_id for r in await reserve(ledgers, 4, without=tried)} == {"n1"}


async def test_nodes_without_a_line_are_taken_off_the_shelf(ledgers):
    await ledgers.register(NODE)
    await ledgers.call("ZADD", ledgers.keys.shelf(POOL, SHELF), "0", "ghost")
    assert (await ledgers.nodes.reserve(ask())).node_id == "n1"
    await audit(ledgers)


async def test_who_asks_for_one_node_only_gets_that_one_or_none(ledgers):
    for name in ("n1", "n2"):
        await ledgers.register(facts(name, max_jobs=1))
    only = {"prefer": facts("n1").node_id, "only": True}
    assert (await ledgers.nodes.reserve(ask("job-1", **only))).node_id == "n1"
    assert await ledgers.nodes.reserve(ask("job-2", **only)) is None
    assert await ledgers.nodes.peek(ask("job-2", **only)) is None
    await ledgers.end_lease("n1")
    assert await ledgers.nodes.reserve(ask("job-2", **only)) is None
    assert (await ledgers.nodes.reserve(ask("job-2"))).node_id == "n2"
    await audit(ledgers)


# Looking without taking


async def test_peeking_names_the_node_that_would_be_taken_and_takes_nothing(ledgers):
    await ledgers.register(facts("busy", running_jobs=2))
    await ledgers.register(facts("idle"))
    await ledgers.end_lease("idle")
    await ledgers.register(facts("free"))
    before = await ledgers.call("DUMP", ledgers.keys.shelf(POOL, SHELF))
    assert (await ledgers.nodes.peek(ask())).node_id == "free"
    assert await ledgers.call("DUMP", ledgers.keys.shelf(POOL, SHELF)) == before
    assert await ledgers.call("EXISTS", ledgers.keys.reserved(POOL)) == 0
    assert (await ledgers.nodes.reserve(ask())).node_id == "free"


async def test_peeking_into_a_pool_that_is_full_finds_nobody(ledgers):
    await ledgers.register(facts("n1", max_jobs=1))
    await ledgers.nodes.reserve(ask())
    assert await ledgers.nodes.peek(ask("job-2")) is None


async def test_ac31_among_a_thousand_nodes_of_one_pair_no_dead_one_is_ever_chosen(ledgers):
    """What a choice costs is measured by `lingua bench placement`; here only who is chosen."""
    await asyncio.gather(*(ledgers.register(facts(f"n{number}", max_jobs=10)) for number in range(1000)))
    dead = {f"n{number}" for number in range(0, 100, 3)}
    await asyncio.gather(*(ledgers.end_lease(node_id) for node_id in dead))
    chosen = await reserve(ledgers, 2000)
    assert len(chosen) == 2000
    assert not dead & {reservation.node_id for reservation in chosen}
