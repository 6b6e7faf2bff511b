"""Instances: one process per id, known while it lives, adopted once when it has died; single and cluster."""

from __future__ import annotations

import asyncio

import pytest

from lingua_scheduler.core.company import Posted, Renewal
from lingua_scheduler.errors import InstanceIdTaken
from lingua_scheduler.store.instances import CompanyOptions
from store.letters import STARTED_MS, A, B, C, Life
from support import wait_until


@pytest.fixture
def life(store):
    """Give processes on the store under test."""

    def begin(*args, **members) -> Life:
        begun = Life(store.options, *args, **members)
        store.opened.append(begun)
        return begun

    return begin


# Presence


async def test_an_instance_that_entered_is_known_with_a_lease_and_an_inbox(life):
    a = await life().enter()
    assert 0 < await a.call("PTTL", a.keys.presence(A)) <= 10_000
    assert await a.instances.company() == {A: a.presence}
    assert await a.instances.missing() == []
    groups = await a.call("XINFO", "GROUPS", a.keys.inbox(A))
    assert groups[0][1] == b"scheduler"


async def test_all_instances_are_seen_by_each_other(life):
    members = [await life(each).enter() for each in (A, B, C)]
    for member in members:
        assert (await member.instances.company()).keys() == {A, B, C}


async def test_renewing_says_what_is_new_and_keeps_the_start(life):
    """AC-58: the time of the start does not move."""
    a = await life().enter()
    assert await a.instances.renew(a.says(draining=True, about={"jobs": 7})) is Renewal.HELD
    seen = (await a.instances.company())[A]
    assert (seen.draining, seen.about, seen.started_ms) == (True, {"jobs": 7}, STARTED_MS)
    fields = await a.call("HMGET", a.keys.presence(A), "draining", "started_ms", "url", "boot")
    assert fields == [b"1", str(STARTED_MS).encode(), b"http://instance-a", b"boot-1"]


async def test_renewing_extends_the_lease(life):
    a = await life().enter()
    await a.call("PEXPIRE", a.keys.presence(A), 1500)
    assert await a.instances.renew(a.presence) is Renewal.HELD
    assert await a.call("PTTL", a.keys.presence(A)) > 5000


async def test_a_presence_that_was_lost_is_written_anew(store, life):
    """Redis was restarted without its data."""
    a = await life().enter()
    store.on_every_server("FLUSHALL")
    assert await a.instances.company() == {}
    assert await a.instances.renew(a.presence) is Renewal.LOST
    assert await a.instances.company() == {A: a.presence}
    assert await a.inbox.send(A, b"x") is Posted.SENT


async def test_an_instance_that_left_leaves_nothing(life):
    a, b = await life().enter(), await life(B).enter()
    await a.instances.leave(a.presence)
    assert (await b.instances.company()).keys() == {B}
    assert await b.instances.missing() == []
    assert await a.call("EXISTS", a.keys.presence(A), a.keys.inbox(A)) == 0


async def test_an_instance_that_left_letters_is_missing(life):
    a, b = await life().enter(), await life(B).enter()
    await b.inbox.send(A, b"x")
    await a.instances.leave(a.presence)
    assert await b.inbox.send(A, b"y") is Posted.GONE
    assert await b.instances.missing() == [A]
    assert await a.waiting() == 1


# One process per id


async def test_entering_again_with_the_same_boot_is_no_conflict(life):
    a = await life().enter()
    await a.enter()


async def test_a_second_process_waits_for_the_first_to_lapse(life):
    first = await life().enter()
    second = life(boot="boot-2")
    entering = asyncio.create_task(second.enter())
    await wait_until(lambda: second.connection.up, description="the second one has asked")
    assert not entering.done()
    await first.die()
    await entering
    assert (await second.instances.company())[A].boot == "boot-2"


async def test_a_second_process_gives_up_when_the_first_renews(life):
    """F35: two instances with one id."""
    first = await life().enter()
    entering = asyncio.create_task(life(boot="boot-2").enter())

    async def renewed() -> bool:
        assert await first.instances.renew(first.presence) is Renewal.HELD
        return entering.done()

    await wait_until(renewed, description="the second one has given up")
    with pytest.raises(InstanceIdTaken, match="id instance-a: stop it, or start this one"):
        await entering
    assert (await first.instances.company())[A].boot == "boot-1"


async def test_a_second_process_gives_up_after_a_bit_more_than_one_lease(life):
    first = await life().enter()
    await first.call("PERSIST", first.keys.presence(A))
    brief = CompanyOptions(presence_ttl_s=0.05)
    with pytest.raises(InstanceIdTaken):
        await life(boot="boot-2", limits=brief).enter()
    await first.instances.renew(first.presence)


async def test_one_of_many_that_ask_at_once_gets_the_id(life):
    lives = [life(boot=f"boot-{n}") for n in range(4)]
    held = await asyncio.gather(*(each.instances.renew(each.presence) for each in lives))
    assert sorted(held) == [Renewal.LOST, *[Renewal.TAKEN] * 3]
    assert await lives[0].instances.company() == {A: lives[held.index(Renewal.LOST)].presence}


async def test_a_process_whose_id_was_taken_over_cannot_renew_or_leave(life):
    old, new = await life().enter(), life(boot="boot-2")
    await old.die()
    await new.enter()
    assert await old.instances.renew(old.presence) is Renewal.TAKEN
    await old.instances.leave(old.presence)
    assert await new.instances.company() == {A: new.presence}
    assert await new.call("EXISTS", new.keys.presence(A)) == 1


async def test_garbage_where_the_presence_should_be_is_replaced(life):
    a = life()
    await a.call("SET", a.keys.presence(A), "x")
    await a.call("SET", a.keys.inbox(A), "x")
    await a.call("SET", a.keys.registry(), "x")
    await a.enter()
    assert await a.instances.company() == {A: a.presence}


# The dead


async def test_a_dead_instance_is_missing_until_somebody_adopts_it(life):
    a, b = await life().enter(), await life(B).enter()
    await a.die()
    assert await b.instances.missing() == [A]
    assert await b.instances.adopt(A, by=B)
    assert await b.instances.missing() == []


@pytest.mark.parametrize("line", [b"nonsense", b"9999999999999 0 boot nonsense", b"1 0 boot \xff"])
async def test_a_line_nobody_can_read_is_no_company(life, line):
    b = await life(B).enter()
    await b.call("HSET", b.keys.registry(), A, line)
    assert (await b.instances.company()).keys() == {B}
    assert await b.instances.missing() == ([] if line[:1] == b"9" else [A])
    await b.instances.adopt(A, by=B)
    assert await b.instances.missing() == []


async def test_exactly_one_adopts(life):
    a = await life().enter()
    others = [life(each) for each in (B, C)]
    await a.die()
    won = await asyncio.gather(*(other.instances.adopt(A, by=other.id) for other in others))
    assert sorted(won) == [False, True]
    winner = others[won.index(True)]
    assert await winner.instances.adopt(A, by=winner.id), "the one in charge may stay so"
    assert 0 < await a.call("PTTL", a.keys.adopter(A)) <= 30_000


async def test_an_adoption_that_was_not_finished_is_free_again(life):
    a, b, c = await life().enter(), await life(B).enter(), life(C)
    await a.die()
    await b.instances.adopt(A, by=B)
    await a.call("DEL", a.keys.adopter(A))
    line = (await a.call("HGET", a.keys.registry(), A)).split(b" ")
    assert int(line[1]) > STARTED_MS // 2, "the registry knows until when it is adopted"
    await a.call("HSET", a.keys.registry(), A, b" ".join([line[0], b"1", *line[2:]]))
    assert await c.instances.missing() == [A]
    assert await c.instances.adopt(A, by=C)


async def test_one_that_lives_is_neither_adopted_nor_forgotten(life):
    a, b = await life().enter(), life(B)
    assert not await b.instances.adopt(A, by=B)
    await b.instances.forget(A)
    assert await b.instances.company() == {A: a.presence}
    assert await a.waiting() == 0
    assert await a.call("EXISTS", a.keys.inbox(A)) == 1


async def test_a_forgotten_instance_leaves_nothing(life):
    a, b = await life().enter(), await life(B).enter()
    await a.die()
    await b.instances.adopt(A, by=B)
    await b.instances.forget(A)
    keys = a.keys
    assert await a.call("EXISTS", keys.presence(A), keys.inbox(A), keys.adopter(A)) == 0
    assert (await b.instances.company(), await b.instances.missing()) == ({B: b.presence}, [])


async def test_an_instance_with_letters_is_not_forgotten(life):
    a, b = await life().enter(), await life(B).enter()
    await b.inbox.send(A, b"x")
    await a.die()
    await b.instances.adopt(A, by=B)
    await b.instances.forget(A)
    assert await a.waiting() == 1
    assert await a.call("HEXISTS", a.keys.registry(), A) == 1


async def test_one_that_returns_before_it_is_struck_stays_in_the_registry(life):
    a, b = await life().enter(), await life(B).enter()
    await a.die()
    await b.instances.adopt(A, by=B)
    await a.enter()
    await b.instances._strike(registry=b.keys.registry(), id=A, boot="")
    assert (await b.instances.company()).keys() == {A, B}


# The secret


async def test_the_first_proposal_becomes_the_secret_of_all(store, life):
    a, b = life(), life(B)
    assert await a.instances.shared_secret(b"\x00one") == b"\x00one"
    assert await b.instances.shared_secret(b"two") == b"\x00one"
    assert 86_000 < await a.call("TTL", a.keys.secret()) <= 86_400
    store.on_every_server("FLUSHALL")
    assert await b.instances.shared_secret(b"\x00one") == b"\x00one"
