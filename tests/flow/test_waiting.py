"""The waiting room: who is woken, in which order, and that no free slot is forgotten."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from lingua_scheduler.core.model import InstanceId, JobId, NodeId, Pair, PoolId
from lingua_scheduler.core.modules import Requirements
from lingua_scheduler.core.placement import Exclusion, NodeFacts, Reservation
from lingua_scheduler.flow.job import Job, Stage
from lingua_scheduler.flow.waiting import Seat, WaitingRoom

ZH_EN, EN_ZH, DE_FR = (Pair("zh", "en"),), (Pair("en", "zh"),), (Pair("de", "fr"),)
CORE = frozenset({"asr"})


def node(
    node_id: str = "n1", *languages: str, closed: Exclusion | None = None, **members: object
) -> NodeFacts:
    spoken = frozenset(languages or ("zh", "en"))
    return NodeFacts(
        NodeId(node_id),
        PoolId(0),
        InstanceId("a"),
        spoken,
        spoken,
        CORE,
        max_jobs=4,
        closed=closed,
        **members,
    )


def job(
    name: str,
    until: float = 10.0,
    pairs: tuple[Pair, ...] = ZH_EN,
    types: frozenset[str] = CORE,
    **members: object,
) -> Job:
    return Job(
        id=JobId(name),
        session=None,
        brief=None,
        pairs=pairs,
        needs=Requirements(modules=frozenset(), services=types, models=frozenset()),
        created_at=0.0,
        created_wall_ms=0,
        pending_until=until,
        **members,
    )


class People:
    """Jobs that asked, were refused, and wait; they note when they are woken."""

    def __init__(self) -> None:
        self.room = WaitingRoom()
        self.woken: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.stack = ExitStack()

    async def wait(self, *jobs: Job, **refusal: object) -> None:
        """Let jobs wait in the room."""
        for each in jobs:
            seat = self.stack.enter_context(self.room.seat(each))
            seat.listen()
            seat.refused(**refusal)
            self.tasks[each.id] = asyncio.create_task(self._sit(seat))
        await self.settle()

    async def _sit(self, seat: Seat) -> None:
        await seat.wait()
        self.woken.append(seat.job.id)

    async def settle(self) -> list[str]:
        """Let everybody who was woken note it; give the notes so far."""
        for _ in range(5):
            await asyncio.sleep(0)
        return self.woken


@pytest.fixture
async def people():
    made = People()
    yield made
    for task in made.tasks.values():
        task.cancel()
    await asyncio.gather(*made.tasks.values(), return_exceptions=True)
    made.stack.close()
    assert not made.room._queues, "nobody stays behind"
    assert len(made.room) == 0


async def test_the_earliest_deadline_is_first(people):
    await people.wait(job("late", 30), job("early", 10), job("middle", 20))
    for expected in (["early"], ["early", "middle"], ["early", "middle", "late"]):
        people.room.capacity(node(), 1)
        assert await people.settle() == expected


async def test_equal_deadlines_are_served_as_they_came(people):
    await people.wait(job("first"), job("second"), job("third"))
    people.room.capacity(node(), 2)
    assert await people.settle() == ["first", "second"]


async def test_no_more_are_woken_than_there_are_slots(people):
    await people.wait(*(job(f"j{number}") for number in range(5)))
    people.room.capacity(node(), 3)
    assert len(await people.settle()) == 3
    people.room.capacity(node(), 0)
    assert len(await people.settle()) == 3


async def test_only_jobs_the_node_can_do_are_woken(people):
    await people.wait(
        job("other pair", pairs=DE_FR),
        job("other service", types=frozenset({"asr", "tone"})),
        job("had it before", tried={NodeId("n1")}),
        job("fits", until=99),
    )
    people.room.capacity(node(), 10)
    assert await people.settle() == ["fits"]


async def test_a_closed_node_wakes_nobody(people):
    await people.wait(job("j"))
    people.room.capacity(node(closed=Exclusion.STATUS_NOT_READY), 4)
    assert await people.settle() == []


async def test_no_pair_starves_another(people):
    """The most urgent of all pairs a node can do is first, however many wait for one of them."""
    await people.wait(*(job(f"zh{number}", 20 + number) for number in range(10)), job("en", 25.5, EN_ZH))
    for _ in range(7):
        people.room.capacity(node(), 1)
    assert await people.settle() == ["zh0", "zh1", "zh2", "zh3", "zh4", "zh5", "en"]


async def test_a_job_that_ended_is_woken_and_its_place_is_free(people):
    ended = job("ended")
    await people.wait(ended, job("next"))
    people.room.leave(ended)
    assert await people.settle() == ["ended"]
    people.room.capacity(node(), 1)
    assert await people.settle() == ["ended", "next"]


async def test_leaving_without_having_a_seat_is_harmless(people):
    people.room.leave(job("nobody"))


async def test_a_woken_job_that_loses_the_race_waits_again_in_its_old_order(people):
    urgent = job("urgent", 5)
    await people.wait(urgent, job("other", 20))
    people.room.capacity(node(), 1)
    assert await people.settle() == ["urgent"]

    seat = people.room._seats[urgent]
    seat.listen()
    seat.refused()
    people.tasks["again"] = asyncio.create_task(people._sit(seat))
    await people.settle()
    people.room.capacity(node(), 1)

    assert await people.settle() == ["urgent", "urgent"]


async def test_capacity_that_appears_while_a_job_asks_is_not_missed():
    room, asking = WaitingRoom(), job("j")
    with room.seat(asking) as seat:
        seat.listen()
        room.capacity(node(), 1)
        seat.refused()
        async with asyncio.timeout(1):
            await seat.wait()


async def test_an_offer_that_was_not_needed_goes_to_the_next(people):
    """The job got a slot of another node while it was offered this one."""
    await people.wait(job("next", 20))
    lucky = job("lucky", 5)
    with people.room.seat(lucky) as seat:
        seat.listen()
        people.room.capacity(node("n1"), 1)
        lucky.reservation = Reservation(NodeId("n2"), PoolId(0), InstanceId("a"), 1, "", lucky.id, 1)
    assert await people.settle() == ["next"]


async def test_an_offer_that_was_used_is_used_up(people):
    await people.wait(job("next", 20))
    lucky = job("lucky", 5)
    with people.room.seat(lucky) as seat:
        seat.listen()
        people.room.capacity(node("n1"), 1)
        lucky.reservation = Reservation(NodeId("n1"), PoolId(0), InstanceId("a"), 1, "", lucky.id, 1)
    assert await people.settle() == []


async def test_an_offer_to_a_job_that_ended_goes_to_the_next(people):
    await people.wait(job("next", 20))
    gone = job("gone", 5)
    with people.room.seat(gone) as seat:
        seat.listen()
        people.room.capacity(node(), 1)
        gone.stage = Stage.ENDED
    assert await people.settle() == ["next"]


async def test_an_offer_whose_node_was_asked_in_vain_is_over(people):
    """Somebody else was faster; to wake all the others would be polling."""
    await people.wait(job("next", 20))
    slow = job("slow", 5)
    with people.room.seat(slow) as seat:
        seat.listen()
        people.room.capacity(node(), 1)
        seat.listen()
        seat.refused()
        assert await people.settle() == []


@pytest.mark.parametrize("refusal", [{"without": {NodeId("n1")}}, {"bound_to": NodeId("n2")}])
async def test_an_offer_whose_node_could_not_be_asked_goes_to_the_next(people, refusal):
    await people.wait(job("next", 20))
    choosy = job("choosy", 5)
    with people.room.seat(choosy) as seat:
        seat.listen()
        people.room.capacity(node("n1"), 1)
        seat.listen()
        seat.refused(**refusal)
        assert await people.settle() == ["next"]


async def test_an_offer_is_shown_to_nobody_twice(people):
    choosy = job("choosy", 5)
    with people.room.seat(choosy) as seat:
        seat.listen()
        people.room.capacity(node("n1"), 1)
        seat.listen()
        seat.refused(without={NodeId("n1")})
        assert seat.offer is None
        assert not seat._woken.is_set()


async def test_a_bound_job_waits_for_its_node_only(people):
    await people.wait(job("bound", 5), bound_to=NodeId("n1"))
    people.room.capacity(node("n2"), 4)
    assert await people.settle() == []
    people.room.capacity(node("n1"), 1)
    assert await people.settle() == ["bound"]


@pytest.mark.parametrize("closed", [Exclusion.OFFLINE, Exclusion.STATUS_NOT_READY])
async def test_a_bound_job_looks_up_when_its_node_is_closed(people, closed):
    await people.wait(job("bound", 5), bound_to=NodeId("n1"))
    people.room.capacity(node("n2", closed=closed), 4)
    assert await people.settle() == []
    people.room.capacity(node("n1", closed=closed), 4)
    assert await people.settle() == ["bound"]


async def test_the_room_counts_who_does_nothing_but_wait(people):
    await people.wait(job("one"), job("two"))
    with people.room.seat(job("asking")) as seat:
        seat.listen()
        assert len(people.room) == 2
