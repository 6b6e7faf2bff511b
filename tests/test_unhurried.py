"""Work on many things gives them all, in order, and lets others run meanwhile."""

from __future__ import annotations

import asyncio
from time import perf_counter

from lingua_scheduler.aio import unhurried


def busy(seconds: float) -> None:
    until = perf_counter() + seconds
    while perf_counter() < until:
        pass


async def test_everything_is_given_in_order():
    assert [each async for each in unhurried(range(1000))] == list(range(1000))
    assert [each async for each in unhurried([])] == []


async def test_others_run_while_there_is_much_to_do():
    turns = []

    async def other() -> None:
        while True:
            turns.append(len(done))
            await asyncio.sleep(0)

    done: list[int] = []
    running = asyncio.create_task(other())
    async for each in unhurried(range(20)):
        busy(0.0015)
        done.append(each)
    running.cancel()
    assert turns == [*range(1, 21)], "after each item that took its time"


async def test_little_work_is_done_in_one_go():
    asyncio.get_running_loop().call_soon(seen := [].append, "others")
    assert [each async for each in unhurried("ab")] == ["a", "b"]
    assert seen.__self__ == []
