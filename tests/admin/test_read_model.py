"""Pictures are whole: taken one at a time, in slices, while nodes come and go and Redis may fail."""

from __future__ import annotations

import asyncio
from typing import Any

from asking import ask, look
from lingua_scheduler.admin.read_model import Picture
from lingua_scheduler.core.model import NodeId
from lingua_scheduler.core.placement import Exclusion
from lingua_scheduler.errors import DependencyDown
from lingua_scheduler.store.survey import Survey
from store.ledgers import facts
from world import World, world

SELDOM = {"admin": {"refresh_ms": 10_000}, "placement": {"refresh_ms": 60_000, "sweep_ms": 60_000}}


def put(house: World, number: int, **members: Any) -> None:
    house.instance.snapshot.put(facts(f"n{number:05}", owner=house.instance.id, **members))


def check_whole(picture: Picture) -> None:
    """Hold the sums of a picture against its nodes."""
    ids = [node.node_id for node in picture.nodes]
    assert ids == sorted(set(ids))
    assert picture.abouts.keys() <= set(ids)
    open_nodes = [node for node in picture.nodes if node.closed is None]
    total = picture.scaling.groups[None, "all"]
    assert total.ready_nodes == picture.ready_nodes == len(open_nodes)
    assert total.total_slots == sum(node.max_jobs for node in open_nodes)
    assert total.free_slots == sum(node.free for node in open_nodes)


async def test_pictures_are_whole_though_nodes_come_change_and_go_meanwhile(store_options):
    async with world(store_options, **SELDOM) as house:
        for number in range(3000):
            put(house, number)
        going = asyncio.create_task(house.instance.desk.refresh())
        seen = 0
        while not going.done():
            put(house, 3000 + seen)
            put(house, 2 * seen, closed=Exclusion.OFFLINE, max_jobs=2)
            house.instance.snapshot.drop(NodeId(f"n{2 * seen + 1:05}"))
            seen += 1
            await asyncio.sleep(0)
        await going
        assert seen > 2, "others ran while it was taken"
        check_whole(house.instance.desk.model.picture)
        await house.instance.desk.refresh()
        picture = house.instance.desk.model.picture
        check_whole(picture)
        there = house.instance.snapshot.nodes()
        assert picture.nodes == tuple(sorted(there, key=lambda node: node.node_id))


async def test_a_picture_does_not_change_when_the_next_one_is_taken(store_options):
    async with world(store_options, **SELDOM) as house:
        put(house, 1)
        await house.instance.desk.refresh()
        before = house.instance.desk.model.picture
        put(house, 1, max_jobs=9)
        put(house, 2)
        await house.instance.desk.refresh()
        assert [node.max_jobs for node in before.nodes] == [4]
        assert [node.max_jobs for node in house.instance.desk.model.picture.nodes] == [9, 4]


async def test_one_picture_is_taken_at_a_time(store_options):
    async with world(store_options, **SELDOM) as house:
        for number in range(2000):
            put(house, number)
        before = house.instance.desk.model.picture.version
        await asyncio.gather(*(house.instance.desk.refresh() for _ in range(3)))
        picture = house.instance.desk.model.picture
        assert (picture.version, len(picture.nodes)) == (before + 3, 2000)


async def test_what_redis_did_not_tell_stays_as_it_was(store_options, monkeypatch):
    async with world(store_options, **SELDOM) as house:
        node = await house.node(node_id="old")
        await house.written(node)
        await look(house.instance, "nodes")
        before = house.instance.desk.model.picture
        for number in range(60):
            put(house, number)
        told = Survey._some
        portions = []

        async def fails_in_the_middle(self, nodes):
            portions.append(nodes)
            if len(portions) > 1:
                raise DependencyDown("away")
            return await told(self, nodes)

        monkeypatch.setattr(Survey, "_some", fails_in_the_middle)
        house.clock.advance(10)
        await house.instance.desk.refresh()
        after = house.instance.desk.model.picture
        check_whole(after)
        assert (len(portions), len(after.nodes)) == (2, 61)
        assert (after.version, after.abouts, after.mail) == (before.version + 1, before.abouts, before.mail)
        assert house.instance.desk.model.age_s() == 0

        monkeypatch.setattr(Survey, "_some", told)
        house.clock.advance(10)
        await house.instance.desk.refresh()
        assert house.instance.desk.model.picture.abouts.keys() == {"old"}


async def test_every_node_is_asked_about_in_turn_and_newcomers_first(store_options, monkeypatch):
    async with world(store_options, **SELDOM) as house:
        asked: list[list[str]] = []

        async def noted(_self, nodes):
            asked.append([node.node_id for node in nodes])
            return {}

        monkeypatch.setattr(Survey, "nodes", noted)
        for number in range(250):
            put(house, number)
        for _ in range(3):
            await house.instance.desk.refresh()
        assert [len(some) for some in asked] == [100, 100, 50]
        assert len({node_id for some in asked for node_id in some}) == 250
        await house.instance.desk.refresh()
        assert asked[3] == [], "they were asked just now"
        house.clock.advance(3)
        put(house, 250)
        house.instance.snapshot.drop(NodeId(asked[0][0]))
        await house.instance.desk.refresh()
        assert asked[4] == ["n00250", *asked[0][1:]]


async def test_an_answer_is_made_once_for_all_who_ask_at_the_same_time(store_options):
    async with world(store_options, **SELDOM) as house:
        model, made = house.instance.desk.model, []
        await house.instance.desk.refresh()
        views = house.instance.desk.model._make

        async def noted(key, make):
            def counting(picture):
                made.append(picture.version)
                return make(picture)

            return await views(key, counting)

        model._make = noted
        for number in range(3000):
            put(house, number)
        await house.instance.desk.refresh()
        answers = await asyncio.gather(*(ask(house.instance, "GET", "/api/v1/stats") for _ in range(5)))
        assert len(made) == 1
        assert {said["nodes"]["connected_nodes"] for _, said, _ in answers} == {3000}


async def test_an_answer_is_all_of_one_picture_and_not_kept_beyond_it(store_options):
    async with world(store_options, **SELDOM) as house:
        model, begun, go_on = house.instance.desk.model, asyncio.Event(), asyncio.Event()

        async def nodes(picture: Picture) -> int:
            begun.set()
            await go_on.wait()
            return len(picture.nodes)

        put(house, 1)
        await house.instance.desk.refresh()
        first = model.picture.version
        making = asyncio.create_task(model._make("nodes", nodes))
        await begun.wait()
        put(house, 2)
        await house.instance.desk.refresh()
        go_on.set()
        made = await making
        assert (made.body, made.version) == (b"1", first)
        made = await model._make("nodes", nodes)
        assert (made.body, made.version) == (b"2", first + 1)
