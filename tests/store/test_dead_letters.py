"""Dead letters: found across all instances, sent again without loss, dropped; single and cluster."""

from __future__ import annotations

import pytest

from lingua_scheduler.core.company import Letter, Posted
from lingua_scheduler.store.dead_letters import Replayed
from lingua_scheduler.store.instances import CompanyOptions
from store.letters import A, B, C, Life, bodies


@pytest.fixture
async def life(store):
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


async def bury(life: Life, *contents: bytes) -> None:
    """Send letters to an instance that cannot deal with them."""
    for body in contents:
        await life.inbox.send(life.id, body)
    for letter in await life.take():
        await life.inbox.bury(letter, "no use")


async def test_there_are_none_at_first(a):
    assert await a.dead_letters.page() == []
    assert await a.dead_letters.drop_all() == 0


async def test_they_are_listed_newest_first_over_all_instances(life, a):
    b = await life(B).enter()
    for n in range(3):
        await bury(a, f"a{n}".encode())
        await bury(b, f"b{n}".encode())
    listed = await a.dead_letters.page()
    assert sorted(bodies(listed)) == [b"a0", b"a1", b"a2", b"b0", b"b1", b"b2"]
    assert [letter.buried_ms for letter in listed] == sorted(
        (letter.buried_ms for letter in listed), reverse=True
    )


async def test_pages_follow_each_other_without_gap_or_repetition(life, a):
    """Also when entries of several instances have the same id."""
    for each in (A, B, C):
        await a.inbox._mark(graves=a.keys.graves(), id=each, keep_s=60)
        for entry in ("5-1", "5-2", "6-0"):
            await a.call("XADD", a.keys.dead(each), entry, "body", f"{each} {entry}")
        await a.call("EXPIRE", a.keys.dead(each), 60)
    seen, last = [], None
    while page := await a.dead_letters.page(most=2, before=last):
        assert len(page) <= 2
        seen += bodies(page)
        last = page[-1].id
    every = [f"{each} {entry}".encode() for entry in ("6-0", "5-2", "5-1") for each in (C, B, A)]
    assert seen == every


async def test_one_is_found_by_its_id(a):
    await bury(a, b"x")
    (listed,) = await a.dead_letters.page()
    assert await a.dead_letters.find(listed.id) == listed
    assert listed.id.startswith(f"{A}/")


@pytest.mark.parametrize(
    "letter_id", ["", "x", "instance-a/", "instance-a/7", "instance-a/7-x", "a b/1-1", "/1-1"]
)
async def test_an_id_of_nothing_finds_nothing(a, letter_id):
    await bury(a, b"x")
    dead = a.dead_letters
    assert await dead.find(letter_id) is None
    assert await dead.replay(letter_id) is None
    assert not await dead.drop(letter_id)
    assert len(await dead.page()) == 1


async def test_an_entry_that_no_instance_wrote_is_listed_as_far_as_it_can_be_read(a):
    await bury(a, b"x")
    await a.call("XADD", a.keys.dead(A), "*", "deliveries", "many", "reason", b"\xff")
    newest, _ = await a.dead_letters.page()
    assert (newest.body, newest.deliveries, newest.reason, newest.sent_ms) == (b"", 0, "\ufffd", 0)


async def test_a_letter_goes_back_to_its_own_instance_while_that_lives(life, a):
    b = await life(B).enter()
    await b.inbox.send(A, b"x")
    await a.inbox.bury((await a.take())[0], "no use")
    (dead,) = await a.dead_letters.page()
    assert await b.dead_letters.replay(dead.id) == Replayed(Posted.SENT, A)
    (again,) = await a.take()
    assert (again.body, again.source, again.deliveries) == (b"x", B, 1)
    assert await a.dead_letters.page() == []


async def test_a_letter_of_a_dead_instance_goes_to_one_that_lives(life, a):
    b = await life(B).enter()
    await bury(a, b"x")
    await a.die()
    (dead,) = await b.dead_letters.page()
    assert await b.dead_letters.replay(dead.id) == Replayed(Posted.SENT, B)
    assert bodies(await b.take()) == [b"x"]


async def test_a_letter_goes_where_it_is_told_to(life, a):
    b = await life(B).enter()
    await bury(a, b"x", b"y")
    newest, oldest = await a.dead_letters.page()
    assert await a.dead_letters.replay(newest.id, to=B) == Replayed(Posted.SENT, B)
    assert await a.dead_letters.replay(oldest.id, to=C) == Replayed(Posted.GONE, C)
    assert bodies(await a.dead_letters.page()) == [b"x"]
    assert bodies(await b.take()) == [b"y"]


async def test_a_letter_that_nobody_can_take_stays(life, a):
    await bury(a, b"x")
    full = life(B, limits=CompanyOptions(inbox_max=1))
    (dead,) = await full.dead_letters.page()
    await a.inbox.send(A, b"y")
    assert await full.dead_letters.replay(dead.id) == Replayed(Posted.FULL, A)
    await a.die()
    assert (await full.dead_letters.replay(dead.id)).posted is Posted.GONE
    assert bodies(await full.dead_letters.page()) == [b"x"]


async def test_one_or_all_are_dropped(life, a):
    b = await life(B).enter()
    await bury(a, b"x", b"y")
    await bury(b, b"z")
    assert await a.dead_letters.drop((await a.dead_letters.page())[0].id)
    assert await a.dead_letters.drop_all() == 2
    assert await b.dead_letters.page() == []


async def test_dead_letters_outlive_their_instance(life, a):
    b = await life(B).enter()
    await bury(a, b"x")
    await a.instances.leave(a.presence)
    assert bodies(await b.dead_letters.page()) == [b"x"]


async def test_graves_whose_time_is_over_are_not_looked_at(a):
    await a.call("ZADD", a.keys.graves(), 1, C)
    await bury(a, b"x")
    assert await a.call("ZRANGE", a.keys.graves(), 0, -1) == [A.encode()]


async def test_burying_what_is_not_there_leaves_no_letter(a):
    await a.inbox.bury(Letter(f"{C}/1-1", b"x", B, 1, 0), "no use")
    assert await a.dead_letters.page() == []
