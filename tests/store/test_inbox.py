"""Letters: handed out at least once, in order, until they are settled or buried; single and cluster."""

from __future__ import annotations

import asyncio

import pytest

from lingua_scheduler.core.company import Letter, Posted
from lingua_scheduler.core.model import InstanceId
from lingua_scheduler.errors import DependencyDown, StoreError
from lingua_scheduler.store.inbox import BATCH
from lingua_scheduler.store.instances import GROUP, CompanyOptions
from store.ledgers import time_passes
from store.letters import A, B, C, Life, bodies
from support import wait_until


@pytest.fixture
def life(store):
    """Give processes on the store under test."""

    def begin(*args, **members) -> Life:
        begun = Life(store.options, *args, **members)
        store.opened.append(begun)
        return begun

    return begin


@pytest.fixture
async def a(life):
    """Give an instance that lives."""
    return await life().enter()


@pytest.fixture
async def b(life):
    """Give another one."""
    return await life(B).enter()


# Sending


async def test_a_letter_arrives_with_its_sender_and_age(a, b):
    assert await b.inbox.send(A, b"\x00\xff") is Posted.SENT
    await time_passes(b)
    (letter,) = await a.take()
    assert (letter.body, letter.source, letter.deliveries) == (b"\x00\xff", B, 1)
    assert 20 <= letter.age_ms < 10_000


async def test_letters_arrive_in_order_and_in_batches(a, b):
    sent = [str(n).encode() for n in range(BATCH + 10)]
    for body in sent:
        await b.inbox.send(A, body)
    first, second = await a.take(), await a.take()
    assert (len(first), len(second)) == (BATCH, 10)
    assert bodies(first + second) == sent
    assert await a.take() == []


async def test_nothing_is_written_to_one_that_does_not_live(b):
    """AC-59."""
    assert await b.inbox.send(A, b"x") is Posted.GONE
    assert await b.call("EXISTS", b.keys.inbox(A)) == 0


async def test_a_full_inbox_refuses_and_keeps_what_it_has(life, b):
    narrow = life(limits=CompanyOptions(inbox_max=2))
    await narrow.enter()
    sent = [await narrow.inbox.send(A, body) for body in (b"1", b"2", b"3")]
    assert sent == [Posted.SENT, Posted.SENT, Posted.FULL]
    letters = await narrow.take()
    assert await narrow.inbox.send(A, b"4") is Posted.FULL, "taken is not settled"
    await narrow.inbox.settle(letters[:1])
    assert await narrow.inbox.send(A, b"4") is Posted.SENT
    assert bodies(letters + await narrow.take()) == [b"1", b"2", b"4"]


async def test_who_waits_is_woken_by_a_letter(a, b):
    taking = asyncio.create_task(a.inbox.take(block_s=5))
    await asyncio.sleep(0)
    await b.inbox.send(A, b"x")
    assert bodies(await taking) == [b"x"]


async def test_waiting_ends_without_letters(a):
    assert await a.inbox.take(block_s=0.01) == []


async def test_waiting_does_not_hold_up_other_calls(a):
    """AC-56: blocking reads have a connection of their own."""
    taking = asyncio.create_task(a.inbox.take(block_s=5))
    await a.call("PING")
    await a.instances.renew(a.presence)
    assert not taking.done()
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking


# Settling and taking again


async def test_what_is_settled_is_gone(a, b):
    await b.inbox.send(A, b"x")
    await a.inbox.settle(await a.take())
    assert (await a.waiting(), await a.pending()) == (0, 0)
    assert await a.inbox.retake(idle_ms=0) == []


async def test_settling_twice_or_nothing_is_harmless(a, b):
    await b.inbox.send(A, b"x")
    letters = await a.take()
    await a.inbox.settle(letters)
    await a.inbox.settle(letters)
    await a.inbox.settle([])


async def test_many_letters_are_settled_at_once(a, b):
    many = [Letter(f"{A}/1-{n}", b"", B, 1, 0) for n in range(5000)]
    await b.inbox.send(A, b"x")
    await a.inbox.settle([*many, *await a.take()])
    assert await a.waiting() == 0


async def test_what_is_not_settled_comes_again_and_is_counted(a, b):
    await b.inbox.send(A, b"x")
    await a.take()
    assert await a.inbox.retake(idle_ms=60_000) == [], "it was taken just now"
    assert [letter.deliveries for letter in await a.inbox.retake(idle_ms=0)] == [2]
    assert [letter.deliveries for letter in await a.inbox.retake(idle_ms=0)] == [3]


async def test_all_that_is_not_settled_comes_again(a, b):
    """AC-61: the last of many stuck letters is tried as often as the first."""
    for n in range(3 * BATCH + 5):
        await b.inbox.send(A, str(n).encode())
    while await a.take():
        pass
    again = await a.inbox.retake(idle_ms=0)
    assert bodies(again) == [str(n).encode() for n in range(3 * BATCH + 5)]
    assert {letter.deliveries for letter in again} == {2}


async def test_a_new_life_gets_what_the_former_one_left_before_anything_new(life, a, b):
    """AC-63: a restart under the same id."""
    for n in range(BATCH + 3):
        await b.inbox.send(A, str(n).encode())
    taken = await a.take() + await a.take()
    await a.inbox.settle(taken[:2])
    await a.die()
    reborn = await life(boot="boot-2").enter()
    await b.inbox.send(A, b"new")
    left = [letter for _ in range(3) for letter in await reborn.take()]
    assert bodies(left) == [str(n).encode() for n in range(2, BATCH + 3)] + [b"new"]
    assert [letter.deliveries for letter in left] == [2] * (BATCH + 1) + [1]
    assert await reborn.take() == []


async def test_letters_that_wait_unread_during_an_outage_are_handed_out_once(life, a, b):
    await b.inbox.send(A, b"x")
    await a.die()
    reborn = await life(boot="boot-2").enter()
    letters = await reborn.take()
    assert [(letter.body, letter.deliveries) for letter in letters] == [(b"x", 1)]
    await reborn.inbox.settle(letters)
    assert await reborn.take() == []


# Trouble


@pytest.mark.parametrize("how", ["DEL", "XGROUP DESTROY", "SET"])
async def test_a_lost_inbox_is_made_again(a, b, how):
    """F49: nothing that is still in the stream is lost, and there is no loop of errors."""
    await b.inbox.send(A, b"x")
    await a.take()
    rest = {"DEL": [], "SET": ["garbage"], "XGROUP DESTROY": [GROUP]}[how]
    await a.call(*how.split(), a.keys.inbox(A), *rest)
    assert bodies(await a.take()) == ([b"x"] if how == "XGROUP DESTROY" else [])
    assert a.inbox.remade == 1
    await b.inbox.send(A, b"y")
    assert bodies(await a.take()) == [b"y"]
    assert a.inbox.remade == 1


async def test_an_inbox_lost_while_somebody_waits_is_made_again(a, b):
    taking = asyncio.create_task(a.inbox.take(block_s=5))
    waits = "blocked_clients"

    async def blocked() -> bool:
        return f"{waits}:0".encode() not in await a.connection.call("INFO", "clients", route=a.keys.inbox(A))

    await wait_until(blocked, description="the reader waits in Redis")
    await a.call("DEL", a.keys.inbox(A))
    await wait_until(lambda: a.inbox.remade, description="the inbox is made again")
    await b.inbox.send(A, b"x")
    assert bodies(await taking) == [b"x"]


async def test_an_inbox_lost_before_retaking_is_made_again(a, b):
    await a.call("DEL", a.keys.inbox(A))
    assert await a.inbox.retake(idle_ms=0) == []
    assert a.inbox.remade == 1


async def test_letters_sent_into_a_lost_inbox_are_read(a, b):
    """The stream is there again before its reader notices that the group is gone."""
    await a.call("DEL", a.keys.inbox(A))
    await b.inbox.send(A, b"x")
    assert bodies(await a.take()) == [b"x"]
    assert await a.call("TTL", a.keys.inbox(A)) > 0


async def test_opening_an_inbox_that_is_there_changes_nothing(a, b):
    await b.inbox.send(A, b"x")
    assert not await a.inbox.open()
    assert bodies(await a.take()) == [b"x"]


async def test_letters_deleted_under_their_reader_are_acknowledged_and_counted(life, a, b):
    """F49: what was trimmed does not stay pending for ever."""
    for n in range(BATCH + 6):
        await b.inbox.send(A, str(n).encode())
    taken = await a.take() + await a.take()
    await a.call("XTRIM", a.keys.inbox(A), "MAXLEN", 3)
    assert bodies(await a.inbox.retake(idle_ms=0)) == bodies(taken[-3:])
    assert (a.inbox.vanished, await a.pending()) == (BATCH + 3, 3)
    reborn = life(boot="boot-2")
    await a.call("XDEL", a.keys.inbox(A), taken[-3].id.partition("/")[2])
    assert bodies(await reborn.take()) == bodies(taken[-2:])
    assert (reborn.inbox.vanished, await a.pending()) == (1, 2)


@pytest.mark.parametrize(
    ("fields", "body"),
    [(("a", b"\xff", "b", "c"), b"a \xff b c"), (("source", b"\xff\xfe"), b"source \xff\xfe")],
)
async def test_an_entry_that_no_instance_wrote_is_handed_out_all_the_same(a, b, fields, body):
    """F47: whoever reads it can bury it, and the next letter is not delayed."""
    await a.call("XADD", a.keys.inbox(A), "*", *fields)
    await b.inbox.send(A, b"x")
    poison, letter = await a.take()
    assert (poison.body, letter.body) == (body, b"x")
    await a.inbox.bury(poison, "not a letter")
    (dead,) = await a.dead_letters.page()
    assert (dead.body, dead.reason) == (body, "not a letter")


async def test_an_entry_of_another_time_has_an_age_that_makes_sense(a):
    await a.call("XADD", a.keys.inbox(A), "1-1", "body", "old")
    await a.call("XADD", a.keys.inbox(A), "9999999999999-1", "body", "of the future")
    old, future = await a.take()
    assert old.age_ms > 1e12
    assert future.age_ms == 0


async def test_a_reader_goes_on_after_redis_cut_its_connection(store, a, b):
    taking = asyncio.create_task(a.inbox.take(block_s=5))
    await asyncio.sleep(0)
    await b.inbox.send(A, b"x")
    await taking
    store.on_every_server("CLIENT KILL TYPE normal")

    async def heard() -> bool:
        try:
            await b.inbox.send(A, b"y")
            return b"y" in bodies(await a.inbox.take(block_s=0.05))
        except DependencyDown:
            return False

    await wait_until(heard, description="letters arrive again")


async def test_an_error_that_is_not_a_loss_is_told(a):
    with pytest.raises(StoreError):
        await a.inbox.retake(idle_ms="x")
    await a.connection.close()
    with pytest.raises(DependencyDown):
        await a.inbox.take(block_s=0)


# Burying


async def test_a_buried_letter_leaves_the_inbox_with_its_story(a, b):
    """AC-60."""
    await b.inbox.send(A, b"x")
    await a.take()
    (letter,) = await a.inbox.retake(idle_ms=0)
    await a.inbox.bury(letter, "nobody wants it")
    assert (await a.waiting(), await a.pending()) == (0, 0)
    (dead,) = await b.dead_letters.page()
    assert (dead.body, dead.source, dead.reason, dead.deliveries) == (b"x", B, "nobody wants it", 2)
    assert dead.buried_ms >= dead.sent_ms > 1e12


async def test_a_letter_is_buried_once(a, b):
    await b.inbox.send(A, b"x")
    (letter,) = await a.take()
    await a.inbox.bury(letter, "first")
    await a.inbox.bury(letter, "again")
    assert [dead.reason for dead in await a.dead_letters.page()] == ["first"]


async def test_a_settled_letter_cannot_be_buried(a, b):
    await b.inbox.send(A, b"x")
    (letter,) = await a.take()
    await a.inbox.settle([letter])
    await a.inbox.bury(letter, "late")
    assert await a.dead_letters.page() == []


async def test_the_oldest_dead_letters_go_beyond_the_limit(life, b):
    narrow = await life(limits=CompanyOptions(dead_max=3)).enter()
    for n in range(5):
        await b.inbox.send(A, str(n).encode())
    for letter in await narrow.take():
        await narrow.inbox.bury(letter, "")
    assert bodies(await narrow.dead_letters.page()) == [b"4", b"3", b"2"]


async def test_dead_letters_do_not_stay_for_ever(a, b):
    await b.inbox.send(A, b"x")
    await a.inbox.bury((await a.take())[0], "")
    week_s = 7 * 86_400
    assert 0 < await a.call("TTL", a.keys.dead(A)) <= week_s
    assert 0 < await a.call("TTL", a.keys.graves()) <= week_s


# Inheriting


async def test_the_adopter_inherits_pending_and_new_letters(a, b):
    """AC-62."""
    for n in range(3):
        await b.inbox.send(A, str(n).encode())
    await a.take()
    for n in range(3, BATCH + 6):
        await b.inbox.send(A, str(n).encode())
    await a.die()
    assert await b.instances.adopt(A, by=B)
    got: list[Letter] = []
    while letters := await b.inbox.inherit(A):
        got += letters
        await b.inbox.settle_inherited(A, letters)
    assert bodies(got) == [str(n).encode() for n in range(BATCH + 6)]
    assert [letter.deliveries for letter in got] == [2] * 3 + [1] * (BATCH + 3)
    await b.instances.forget(A)
    assert await b.call("EXISTS", b.keys.inbox(A)) == 0


async def test_what_the_adopter_does_not_settle_it_inherits_again(a, b):
    await b.inbox.send(A, b"x")
    await a.die()
    await b.instances.adopt(A, by=B)
    assert bodies(await b.inbox.inherit(A)) == [b"x"]
    assert [letter.deliveries for letter in await b.inbox.inherit(A)] == [2]


async def test_an_inherited_letter_is_buried_where_it_was(a, b):
    """Ids of two streams may be alike; only the dead instance's letter is touched."""
    for each in (A, B):
        await a.call("XADD", a.keys.inbox(each), "7-7", "body", each)
    await a.die()
    await b.instances.adopt(A, by=B)
    (letter,) = await b.inbox.inherit(A)
    await b.inbox.bury(letter, "of no use")
    assert bodies(await b.take()) == [B.encode()]
    (dead,) = await b.dead_letters.page()
    assert (dead.instance_id, dead.body) == (A, A.encode())


async def test_nobody_but_the_adopter_inherits(life, a, b):
    c = await life(C).enter()
    await b.inbox.send(A, b"x")
    await a.die()
    await b.instances.adopt(A, by=B)
    assert await c.inbox.inherit(A) == []
    assert bodies(await b.inbox.inherit(A)) == [b"x"]


async def test_an_adopter_stays_in_charge_while_it_inherits(a, b):
    await b.inbox.send(A, b"x")
    await a.die()
    await b.instances.adopt(A, by=B)
    await b.call("PEXPIRE", b.keys.adopter(A), 2000)
    await b.inbox.inherit(A)
    assert await b.call("PTTL", b.keys.adopter(A)) > 10_000


async def test_one_that_returns_keeps_the_letters_nobody_has_taken_yet(life, a, b):
    """What the adopter holds is not handed out twice; if it never settles it, the owner gets it back."""
    for n in range(BATCH + 2):
        await b.inbox.send(A, str(n).encode())
    await a.die()
    await b.instances.adopt(A, by=B)
    await b.inbox.inherit(A)
    reborn = await life(boot="boot-2").enter()
    assert await b.inbox.inherit(A) == []
    await b.instances.forget(A)
    assert bodies(await reborn.take()) == [str(n).encode() for n in (BATCH, BATCH + 1)]
    assert len(await reborn.inbox.retake(idle_ms=0)) == BATCH + 2


async def test_an_inbox_without_its_group_is_inherited(a, b):
    await b.inbox.send(A, b"x")
    await a.die()
    await a.call("XGROUP", "DESTROY", a.keys.inbox(A), GROUP)
    await b.instances.adopt(A, by=B)
    assert bodies(await b.inbox.inherit(A)) == [b"x"]


async def test_deleted_letters_do_not_hide_the_others_from_the_adopter(a, b):
    for n in range(12 * BATCH):
        await b.inbox.send(A, str(n).encode())
    while await a.take():
        pass
    await a.call("XTRIM", a.keys.inbox(A), "MAXLEN", 2)
    await b.inbox.send(A, b"new")
    await a.die()
    await b.instances.adopt(A, by=B)
    got = []
    while letters := await b.inbox.inherit(A):
        got += bodies(letters)
        await b.inbox.settle(letters)
    assert got == [str(12 * BATCH - 2).encode(), str(12 * BATCH - 1).encode(), b"new"]
    assert b.inbox.vanished == 12 * BATCH - 2


async def test_two_prefixes_on_one_redis_do_not_hear_each_other(store, a, b):
    """AC-65."""
    other = Life(store.options, InstanceId("x"))
    other.keys.prefix = f"{a.keys.prefix}x"
    store.opened.append(other)
    assert await other.instances.company() == {}
    assert await other.inbox.send(A, b"x") is Posted.GONE
