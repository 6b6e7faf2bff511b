"""The read model: which shelves to ask, why nobody will do, and that it follows Redis by version."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lingua_scheduler.core.model import Pair, PoolId
from lingua_scheduler.core.placement import Exclusion
from lingua_scheduler.errors import DependencyDown
from lingua_scheduler.flow.snapshot import Need, PlacementOptions, Snapshot
from store.ledgers import CORE, LEASE_MS, POOL, Ledgers, ask, facts, time_passes
from support import wait_until

ZH_EN = Need((Pair("zh", "en"),), CORE)
OPTIONS = PlacementOptions(refresh_ms=10, sweep_ms=100)


@pytest.fixture
async def ledgers(store_options):
    made = Ledgers(store_options)
    yield made
    await made.connection.close()


@pytest.fixture
def snapshot():
    return Snapshot(OPTIONS)


def languages(*spoken):
    return {"asr": frozenset(spoken), "semantic": frozenset(spoken)}


# Which shelves


def test_alike_nodes_share_a_shelf(snapshot):
    snapshot.put(facts("n1"))
    snapshot.put(facts("n2", max_jobs=9, closed=Exclusion.OFFLINE))
    assert snapshot.shelves(POOL, ZH_EN) == (facts().shelf,)


@pytest.mark.parametrize(
    "other",
    [languages("zh", "en", "de"), {"types": CORE | {"tone"}}, {"asr": frozenset({"zh"})}],
)
def test_nodes_that_can_do_more_have_another_shelf_that_will_do_too(snapshot, other):
    snapshot.put(facts("n1"))
    snapshot.put(facts("n2", **other))
    assert set(snapshot.shelves(POOL, ZH_EN)) == {facts().shelf, facts("n2", **other).shelf}


@pytest.mark.parametrize(
    "unfit", [languages("en"), languages("de"), {"types": frozenset({"asr"})}, {"private": True}]
)
def test_nodes_that_will_not_do_are_not_asked(snapshot, unfit):
    snapshot.put(facts("n1", **unfit))
    assert snapshot.shelves(POOL, ZH_EN) == ()


def test_ac27_the_other_direction_will_not_do(snapshot):
    snapshot.put(facts("n1", asr=frozenset({"en"}), semantic=frozenset({"zh"})))
    assert snapshot.shelves(POOL, ZH_EN) == ()
    assert snapshot.shelves(POOL, Need((Pair("en", "zh"),), CORE)) != ()


def test_ac28_both_directions_need_a_node_that_does_both(snapshot):
    both = Need((Pair("zh", "en"), Pair("en", "zh")), CORE)
    snapshot.put(facts("n1", asr=frozenset({"zh"}), semantic=frozenset({"en"})))
    assert snapshot.shelves(POOL, both) == ()
    snapshot.put(facts("n2"))
    assert snapshot.shelves(POOL, both) == (facts().shelf,)


def test_a_node_that_changes_is_asked_on_its_new_shelf(snapshot):
    snapshot.put(facts("n1"))
    assert snapshot.shelves(POOL, ZH_EN) == (facts().shelf,)
    snapshot.put(facts("n1", types=CORE | {"tone"}))
    assert snapshot.shelves(POOL, ZH_EN) == (facts(types=CORE | {"tone"}).shelf,)
    snapshot.drop(facts("n1").node_id)
    assert snapshot.shelves(POOL, ZH_EN) == ()


def test_of_many_kinds_some_are_asked_and_the_named_ones_are_among_them():
    snapshot = Snapshot(PlacementOptions(shelves=3))
    kinds = [facts(f"n{number}", types=CORE | {f"extra-{number}"}) for number in range(20)]
    for node in kinds:
        snapshot.put(node)
    for node in kinds:
        asked = snapshot.shelves(POOL, ZH_EN, named=(node.node_id, None, facts("stranger").node_id))
        assert len(asked) == len(set(asked)) == 3
        assert node.shelf in asked
    seen = {shelf for _ in range(200) for shelf in snapshot.shelves(POOL, ZH_EN)}
    assert seen == {node.shelf for node in kinds}, "nobody is left out for ever"


def test_clients_cannot_make_it_remember_without_end(snapshot):
    snapshot.put(facts("n1"))
    for number in range(3000):
        snapshot.shelves(POOL, Need((Pair("zh", f"x{number}"),), CORE))
    assert len(snapshot._fitting) <= 1024


def test_alike_nodes_are_shown_as_one_while_any_of_them_is_open(snapshot):
    snapshot.put(facts("n1", closed=Exclusion.OFFLINE))
    snapshot.put(facts("n2"))
    snapshot.put(facts("n3", **languages("de"), closed=Exclusion.STATUS_NOT_READY))
    (kind,) = snapshot.open_kinds()
    assert (kind.asr, kind.closed) == (facts().asr, None)
    snapshot.put(facts("n2", closed=Exclusion.CAPACITY_EXCEEDED))
    assert snapshot.open_kinds() == []


# What changed


def test_it_names_who_came_changed_or_left_once(snapshot):
    for name in ("n1", "n2", "n3"):
        snapshot.put(facts(name))
    assert sorted(snapshot.changed()) == ["n1", "n2", "n3"]
    assert snapshot.changed() == []
    snapshot.put(facts("n1", max_jobs=9))
    snapshot.drop(facts("n2").node_id)
    snapshot.drop(facts("stranger").node_id)
    assert sorted(snapshot.changed()) == ["n1", "n2"]


# Why not


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({}, "capacity_exceeded"),
        (languages("de"), "lang_pair_unsupported"),
        ({"private": True}, "not_in_public_pool"),
        ({"types": frozenset({"asr"})}, "model_not_available"),
        ({"closed": Exclusion.OFFLINE}, "offline"),
        ({"closed": Exclusion.STATUS_NOT_READY}, "status_not_ready"),
        ({"closed": Exclusion.RESOURCE_THRESHOLD_EXCEEDED}, "resource_threshold_exceeded"),
        ({"closed": Exclusion.CAPACITY_EXCEEDED}, "capacity_exceeded"),
    ],
)
def test_it_says_why_nobody_will_do(snapshot, members, reason):
    assert snapshot.explain(ZH_EN).main_reason() == "no_nodes"
    snapshot.put(facts("n1", **members))
    assert snapshot.explain(ZH_EN).main_reason() == reason


def test_reasons_are_counted_per_node_and_follow_changes(snapshot):
    for number in range(3):
        snapshot.put(facts(f"n{number}", closed=Exclusion.OFFLINE))
    snapshot.put(facts("n0"))
    snapshot.put(facts("n1", closed=Exclusion.STATUS_NOT_READY))
    snapshot.put(facts("n1", closed=Exclusion.STATUS_NOT_READY))
    snapshot.drop(facts("n2").node_id)
    assert snapshot.explain(ZH_EN).reasons == {
        Exclusion.CAPACITY_EXCEEDED: 1,
        Exclusion.STATUS_NOT_READY: 1,
    }


# Following Redis


async def test_it_learns_what_other_instances_wrote(snapshot, ledgers):
    await ledgers.register(facts("n1"))
    (changed,) = await snapshot.refresh(ledgers.nodes)
    assert changed == snapshot.node(changed.node_id) == facts("n1")
    assert await snapshot.refresh(ledgers.nodes) == []


async def test_a_node_that_left_is_told_as_offline_and_forgotten(snapshot, ledgers):
    epoch = await ledgers.register(facts("n1"))
    await snapshot.refresh(ledgers.nodes)
    await ledgers.nodes.leave(facts("n1").node_id, POOL, epoch=epoch)
    (changed,) = await snapshot.refresh(ledgers.nodes)
    assert (changed.node_id, changed.closed) == ("n1", Exclusion.OFFLINE)
    assert snapshot.nodes() == []
    assert snapshot.shelves(POOL, ZH_EN) == ()


async def test_a_redis_that_forgot_everything_empties_it(snapshot, ledgers):
    await ledgers.register(facts("n1"))
    await ledgers.register(facts("n2"))
    await snapshot.refresh(ledgers.nodes)
    await ledgers.call("FLUSHALL")
    await time_passes(ledgers)
    await ledgers.register(facts("n2"))
    changed = await snapshot.refresh(ledgers.nodes)
    assert {(node.node_id, node.closed) for node in changed} == {("n1", Exclusion.OFFLINE), ("n2", None)}
    assert [node.node_id for node in snapshot.nodes()] == ["n2"]


async def test_many_nodes_are_learnt_and_forgotten_together(snapshot, ledgers):
    epochs = {f"n{number:03}": await ledgers.register(facts(f"n{number:03}")) for number in range(120)}
    changed = await snapshot.refresh(ledgers.nodes)
    assert sorted(node.node_id for node in changed) == sorted(epochs)
    assert len(snapshot.nodes()) == len(snapshot.changed()) == 120
    for name in list(epochs)[::2]:
        await ledgers.nodes.leave(facts(name).node_id, POOL, epoch=epochs[name])
    changed = await snapshot.refresh(ledgers.nodes)
    assert {node.node_id for node in changed if node.closed is Exclusion.OFFLINE} == {*list(epochs)[::2]}
    assert {node.node_id for node in snapshot.nodes()} == {*list(epochs)[1::2]}


async def test_every_pool_is_followed(ledgers):
    snapshot = Snapshot(OPTIONS, (PoolId(0), PoolId(1), PoolId(2)))
    for number in range(3):
        await ledgers.register(facts(f"n{number}", pool=PoolId(number)))
    await snapshot.refresh(ledgers.nodes)
    assert [snapshot.node(facts(f"n{number}").node_id).pool for number in range(3)] == [0, 1, 2]


async def test_facts_that_nobody_can_read_do_not_stop_it(snapshot, ledgers):
    await ledgers.register(facts("n1"))
    await ledgers.call("HSET", ledgers.keys.node(POOL, "n1"), "facts", "nonsense")
    await ledgers.register(facts("n2"))
    await snapshot.refresh(ledgers.nodes)
    assert [node.node_id for node in snapshot.nodes()] == ["n2"]


async def test_it_goes_on_after_redis_was_away(snapshot, ledgers, monkeypatch):
    changes = ledgers.nodes.changes

    async def away(pool, *, since):
        raise DependencyDown("away")

    await ledgers.register(facts("n1"))
    monkeypatch.setattr(ledgers.nodes, "changes", away)
    with pytest.raises(DependencyDown):
        await snapshot.refresh(ledgers.nodes)
    monkeypatch.setattr(ledgers.nodes, "changes", changes)
    assert await snapshot.refresh(ledgers.nodes) == [facts("n1")]


async def test_what_is_over_is_swept(snapshot, ledgers):
    await ledgers.nodes.register(replace(facts("n1"), max_jobs=1), lease_ms=LEASE_MS, takeover=True)
    await ledgers.nodes.reserve(ask(ttl_ms=1))

    async def free_again():
        await snapshot.sweep(ledgers.nodes)
        return await ledgers.nodes.reserve(ask("job-2"))

    await wait_until(free_again, description="the slot is free again")
