"""Pairing codes and notices: each counts once, whichever instance asks; single and cluster."""

from __future__ import annotations

import asyncio

import pytest

from lingua_scheduler.core.model import NodeId
from lingua_scheduler.errors import CorruptValue
from store.ledgers import B
from support import wait_until

N1, N2 = NodeId("n1"), NodeId("n2")
LIFE_S = 300


async def test_a_code_leads_to_its_node_once(ledgers):
    assert await ledgers.pairing.offer("012345", N1, life_s=LIFE_S)
    assert await ledgers.pairing.redeem("012345") == N1
    assert await ledgers.pairing.redeem("012345") is None


async def test_a_code_works_on_another_instance(store, ledgers):
    await ledgers.pairing.offer("012345", N1, life_s=LIFE_S)
    assert await store.ledgers(B).pairing.redeem("012345") == N1
    assert await ledgers.pairing.redeem("012345") is None


async def test_of_many_who_use_a_code_at_once_one_gets_the_node(store, ledgers):
    other = store.ledgers(B)
    await ledgers.pairing.offer("012345", N1, life_s=LIFE_S)
    asked = [each.pairing.redeem("012345") for each in (ledgers, other) * 10]
    assert sorted(await asyncio.gather(*asked), key=str) == [None] * 19 + [N1]


async def test_a_code_that_is_taken_is_not_given_to_another_node(ledgers):
    assert await ledgers.pairing.offer("012345", N1, life_s=LIFE_S)
    assert not await ledgers.pairing.offer("012345", N2, life_s=LIFE_S)
    assert await ledgers.pairing.redeem("012345") == N1
    assert await ledgers.pairing.offer("012345", N2, life_s=LIFE_S)


async def test_a_code_ends_by_itself(ledgers):
    key = ledgers.keys.pairing("012345")
    await ledgers.pairing.offer("012345", N1, life_s=LIFE_S)
    assert LIFE_S * 1000 - 5000 < await ledgers.call("PTTL", key) <= LIFE_S * 1000
    await ledgers.call("PEXPIRE", key, 1)

    async def over() -> bool:
        return not await ledgers.call("EXISTS", key)

    await wait_until(over, description="the code has expired")
    assert await ledgers.pairing.redeem("012345") is None


async def test_a_code_that_was_never_given_leads_nowhere(ledgers):
    assert await ledgers.pairing.redeem("999999") is None


async def test_a_key_of_the_wrong_type_is_a_corrupt_value(ledgers):
    key = ledgers.keys.pairing("012345")
    await ledgers.call("HSET", key, "a", "b")
    await ledgers.call("EXPIRE", key, 60)
    with pytest.raises(CorruptValue):
        await ledgers.pairing.redeem("012345")
    await ledgers.call("DEL", key)


async def test_of_all_instances_one_is_the_first_to_notice(store, ledgers):
    other = store.ledgers(B)
    asked = [each.notices.first("nmt-m2m100 any", window_ms=5000) for each in (ledgers, other) * 5]
    assert sorted(await asyncio.gather(*asked)) == [False] * 9 + [True]
    assert await other.notices.first("nmt-m2m100 2.0", window_ms=5000), "another subject is another notice"


async def test_after_its_window_a_subject_is_noticed_again(ledgers):
    assert await ledgers.notices.first("tts } {x} any", window_ms=20)

    async def again() -> bool:
        return await ledgers.notices.first("tts } {x} any", window_ms=5000)

    await wait_until(again, description="the window is over")
