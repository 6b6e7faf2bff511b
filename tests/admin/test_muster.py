"""The sums over all nodes are those that counting anew gives, whatever came, changed and left."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.admin.muster import Ability, Muster
from lingua_scheduler.core.model import InstanceId, NodeId, Pair, PoolId
from lingua_scheduler.core.placement import Exclusion
from lingua_scheduler.store.survey import About
from store.ledgers import facts

IDS = st.integers(0, 5).map(lambda number: f"n{number}")
LANGUAGES = st.sampled_from([frozenset({"zh", "en"}), frozenset({"en", "de"})])
NODES = st.builds(
    facts,
    IDS,
    pool=st.sampled_from([PoolId(0), PoolId(1)]),
    owner=st.sampled_from([InstanceId("a"), InstanceId("b")]),
    asr=LANGUAGES,
    semantic=LANGUAGES,
    max_jobs=st.integers(1, 3),
    running_jobs=st.integers(0, 4),
    closed=st.sampled_from([None, None, *Exclusion]),
    private=st.booleans(),
)
ABOUTS = st.builds(About, jobs=st.integers(0, 4))
STEPS = st.lists(st.one_of(NODES, st.tuples(IDS, ABOUTS), IDS))


def counted(muster: Muster) -> tuple[dict[Ability, tuple[int, int, int]], dict[InstanceId, int]]:
    """Count anew what the muster shows."""
    supplies: dict[Ability, tuple[int, int, int]] = {}
    ready: Counter[InstanceId] = Counter()
    abouts = muster.abouts()
    for node in muster.nodes():
        if node.closed is not None or node.private:
            continue
        about = abouts.get(node.node_id)
        taken = node.running_jobs if about is None else about.jobs
        kind = Ability(node.pool, node.asr, node.semantic)
        nodes, slots, free = supplies.get(kind, (0, 0, 0))
        supplies[kind] = nodes + 1, slots + node.max_jobs, free + max(0, node.max_jobs - taken)
        ready[node.owner] += about is None or about.jobs < node.max_jobs
    return supplies, {owner: count for owner, count in ready.items() if count}


@given(STEPS)
def test_sums_are_those_of_the_nodes_that_are_there(steps):
    muster, there = Muster(), {}
    for step in steps:
        if isinstance(step, str):
            muster.drop(NodeId(step))
            there.pop(step, None)
        elif isinstance(step, tuple):
            muster.learn(NodeId(step[0]), step[1])
        else:
            muster.put(step)
            there[step.node_id] = step
        supplies, ready = counted(muster)
        kept = muster.supplies.items()
        assert {kind: (each.nodes, each.slots, each.free) for kind, each in kept} == supplies
        assert muster.ready() == ready
        assert muster.nodes() == tuple(there[node_id] for node_id in sorted(there))
        assert muster.abouts().keys() <= there.keys()


def test_what_it_gave_does_not_change_with_it():
    muster = Muster()
    muster.put(facts("n1"))
    muster.learn(NodeId("n1"), About(jobs=1))
    nodes, abouts, ready = muster.nodes(), muster.abouts(), muster.ready()
    muster.drop(NodeId("n1"))
    assert (len(nodes), len(abouts), ready) == (1, 1, {facts().owner: 1})


def test_an_ability_is_what_its_nodes_can_do():
    ability = Ability(PoolId(0), frozenset({"zh"}), frozenset({"en"}))
    assert ability.serves((Pair("zh", "en"),))
    assert not ability.serves((Pair("zh", "en"), Pair("en", "zh")))
