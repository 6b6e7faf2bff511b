"""Stable hashes, shelves, and the reason that is named when nobody will do."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from lingua_scheduler.core.model import InstanceId, NodeId, Pair, PoolId
from lingua_scheduler.core.placement import Exclusion, NodeFacts, Refusal, stable_hash

NODE = NodeFacts(
    node_id=NodeId("n1"),
    pool=PoolId(0),
    owner=InstanceId("a"),
    asr=frozenset({"zh", "en", "de"}),
    semantic=frozenset({"zh", "en"}),
    types=frozenset({"asr", "nmt"}),
    max_jobs=4,
)


def test_the_reference_hash():
    assert stable_hash("abc", 0) == 0x42E4F4CAFDACEEAB


@pytest.mark.parametrize(
    ("key", "seed", "count", "pool"),
    [
        ("abc", 0, 16, 11),
        ("abc", 0, 7, 1),
        ("tenant-A", 0, 16, 11),
        ("tenant-A", 0, 2, 1),
        ("tenant-B", 0, 16, 14),
        ("tenant-B", 0, 2, 0),
        ("node-1", 0, 16, 3),
        ("node-2", 0, 16, 6),
        ("default", 0, 16, 14),
        ("abc", 1, 16, 10),
    ],
)
def test_ac73_the_reference_pools(key, seed, count, pool):
    assert stable_hash(key, seed) % count == pool


def test_ac13_a_node_serves_what_it_hears_times_what_it_translates_into():
    """Directed, self pairs included, never towards a language it cannot translate into."""
    served = {
        str(pair)
        for pair in (Pair(src, tgt) for src in ("zh", "en", "de") for tgt in ("zh", "en", "de"))
        if NODE.serves((pair,))
    }
    assert served == {"zh:zh", "zh:en", "en:zh", "en:en", "de:zh", "de:en"}


def test_several_directions_must_all_be_served():
    assert NODE.serves((Pair("zh", "en"), Pair("en", "zh")))
    assert not NODE.serves((Pair("de", "en"), Pair("en", "de")))


@pytest.mark.parametrize(
    "alike",
    [
        {"node_id": NodeId("n2")},
        {"owner": InstanceId("b")},
        {"max_jobs": 9},
        {"running_jobs": 3},
        {"closed": Exclusion.OFFLINE},
        {"sequential": True},
        {"about": {"version": "2"}},
    ],
)
def test_nodes_that_differ_only_in_load_or_name_share_a_shelf(alike):
    assert replace(NODE, **alike).shelf == NODE.shelf


@pytest.mark.parametrize(
    "different",
    [
        {"asr": frozenset({"zh", "en"})},
        {"semantic": frozenset({"zh", "en", "de"})},
        {"types": frozenset({"asr"})},
        {"private": True},
    ],
)
def test_nodes_that_can_do_other_things_do_not(different):
    assert replace(NODE, **different).shelf != NODE.shelf


def test_a_private_node_stands_alone():
    assert replace(NODE, private=True).shelf != replace(NODE, private=True, node_id=NodeId("n2")).shelf


@pytest.mark.parametrize(("running", "free"), [(0, 4), (3, 1), (4, 0), (9, 0)])
def test_free_slots_are_what_is_not_running(running, free):
    assert replace(NODE, running_jobs=running).free == free
    assert replace(NODE, running_jobs=running, closed=Exclusion.OFFLINE).free == 0


def test_nothing_examined_means_that_there_are_no_nodes():
    assert Refusal().main_reason() == "no_nodes"


def test_the_reason_met_most_often_is_named():
    refusal = Refusal({Exclusion.OFFLINE: 1, Exclusion.CAPACITY_EXCEEDED: 3, Exclusion.STATUS_NOT_READY: 2})
    assert refusal.main_reason() == "capacity_exceeded"


def test_equals_are_named_in_their_written_order():
    order = list(Exclusion)
    for first, second in itertools.pairwise(order):
        assert Refusal({second: 2, first: 2}).main_reason() == first.value
