"""What nodes say of themselves is read for as many of them as are asked about, whatever was written."""

from __future__ import annotations

import pytest

from lingua_scheduler.core.model import NodeId
from lingua_scheduler.store.instances import CompanyOptions
from lingua_scheduler.store.survey import About, Survey
from store.ledgers import POOL, ask, facts


@pytest.fixture
def survey(ledgers):
    return Survey(ledgers.connection, ledgers.options.key_prefix, CompanyOptions())


async def test_many_nodes_are_asked_about_and_those_that_are_gone_left_out(ledgers, survey):
    nodes = [facts(f"n{number}", about={"version": str(number)}) for number in range(60)]
    for node in nodes:
        await ledgers.register(node)
    found = await survey.nodes([*nodes, facts("stranger")])
    assert {node_id: about.said for node_id, about in found.items()} == {
        node.node_id: node.about for node in nodes
    }
    assert all(about.lease_end_ms > 0 and about.jobs == 0 for about in found.values())


async def test_taken_slots_are_counted_also_of_a_full_node(ledgers, survey):
    await ledgers.register(facts("n1", max_jobs=2))
    for number in (1, 2):
        await ledgers.nodes.reserve(ask(f"job-{number}"))
        found = await survey.nodes([facts("n1", max_jobs=2)])
        assert found[NodeId("n1")].jobs == number


@pytest.mark.parametrize("written", ["nonsense", "[]", "{", b"\xff"])
async def test_what_cannot_be_read_is_as_if_nothing_was_said(ledgers, survey, written):
    await ledgers.register(facts("n1"))
    await ledgers.nodes.reserve(ask())
    await ledgers.call("HSET", ledgers.keys.node(POOL, "n1"), "about", written)
    found = await survey.nodes([facts("n1")])
    assert (found[NodeId("n1")].said, found[NodeId("n1")].jobs) == ({}, 1)


def test_of_a_node_that_nobody_asked_nothing_is_known():
    assert (About().said, About().jobs) == ({}, 0)
