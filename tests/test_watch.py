"""Background loops never stop unnoticed, and an event loop that is late says so."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from lingua_scheduler.aio import Alarms
from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.errors import DependencyDown
from lingua_scheduler.log import flush
from lingua_scheduler.watch import LagMonitor, Watch, WatchOptions
from support import wait_until
from world import World, world

OPTIONS = WatchOptions(stuck_after_s=4)


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def alarms(clock):
    return Alarms(clock)


@pytest.fixture
async def watch(clock, alarms):
    made = Watch(clock, alarms, OPTIONS)
    yield made
    await made.stop()


class Body:
    """A loop's body that does what the test says, and counts its turns."""

    def __init__(self) -> None:
        self.turns = 0
        self.go = asyncio.Event()
        self.go.set()
        self.failure: BaseException | None = None

    async def __call__(self) -> None:
        self.turns += 1
        await self.go.wait()
        if self.failure is not None:
            raise self.failure

    async def turned(self, times: int = 2) -> None:
        """Wait for so many more turns."""
        goal = self.turns + times
        await wait_until(lambda: self.turns >= goal, description="the loop turns")


async def test_a_loop_that_hangs_is_named_when_its_turn_lasts_too_long_and_recovers(watch, clock):
    body, other = Body(), Body()
    watch.loop("inbox", body, every_s=0)
    watch.loop("sweep", other, every_s=0)
    await body.turned()
    body.go.clear()
    turn = body.turns
    await wait_until(lambda: body.turns > turn, description="it hangs")
    await other.turned()
    clock.advance(4)
    assert watch.stuck() == []
    clock.advance(0.5)
    await other.turned()
    assert watch.stuck() == ["loop inbox has hung for 4.5 s"]
    body.go.set()
    await body.turned()
    assert watch.stuck() == []


async def test_a_loop_that_pauses_is_not_stuck_however_long_that_is(watch, clock):
    watch.loop("rare", Body(), every_s=3600)
    clock.advance(7200)
    assert watch.stuck() == []


@pytest.mark.parametrize(("every_s", "pause_s"), [(0, 0.2), (0.5, 0.5), (30, 1.0)])
async def test_a_loop_that_failed_is_tried_again_soon_however_seldom_it_turns(watch, every_s, pause_s):
    """Redis is back: an instance must be ready within seconds."""
    watch.loop("leases", Body(), every_s=every_s)
    [loop] = watch._loops
    assert loop.pause_s == every_s
    loop.failing_since = 1.0
    assert loop.pause_s == pause_s


async def test_a_turn_that_fails_is_not_the_last_and_failing_for_long_is_a_complaint(watch, clock):
    body = Body()
    body.failure = DependencyDown("Redis is away")
    watch.loop("leases", body, every_s=0)
    await body.turned(1)
    clock.advance(5)
    assert watch.stuck() == ["loop leases has failed for 5.0 s"]
    body.failure = None
    await body.turned()
    assert watch.stuck() == []


async def test_a_fault_of_our_own_is_logged_once_in_a_row_with_its_traceback(watch, capfd):
    body = Body()
    body.failure = ZeroDivisionError("a fault of ours")
    watch.loop("presence", body, every_s=0)
    await body.turned(2)
    body.failure = None
    await body.turned()
    flush()
    lines = capfd.readouterr().err
    assert lines.count("loop_failed") == 1
    assert "ZeroDivisionError" in lines


async def test_a_loop_whose_task_has_ended_is_named(watch):
    body = Body()
    watch.loop("snapshot", body, every_s=0)
    body.failure = asyncio.CancelledError()
    await wait_until(watch.stuck, description="the end is noticed")
    assert watch.stuck() == ["loop snapshot has ended"]


async def test_overdue_alarms_are_a_complaint(watch, clock, alarms):
    alarms.set(clock.now() + 1, lambda: None)
    clock._now += 6  # time passes and no timer fires
    assert watch.stuck() == ["deadlines are overdue by 5.0 s"]
    clock.advance(0)
    assert watch.stuck() == []


async def test_nothing_runs_after_the_stop(watch):
    body = Body()
    watch.loop("inbox", body, every_s=0)
    await body.turned()
    await watch.stop()
    turns = body.turns
    await asyncio.sleep(0)
    assert (body.turns, watch.stuck()) == (turns, [])


def late(clock: VirtualClock, seconds: float) -> None:
    """Let the next callbacks run so late."""
    clock.advance(0.499)
    clock._now += 0.001 + seconds
    clock.advance(0)


async def test_the_lag_of_the_event_loop_is_measured_twice_a_second(clock):
    seen: list[float] = []
    monitor = LagMonitor(clock, WatchOptions(), seen.append)
    monitor.start()
    clock.advance(1)
    assert seen == [0.0, 0.0]
    late(clock, 0.3)
    assert seen[2] == pytest.approx(0.3)
    assert not monitor.overloaded
    await monitor.stop()
    clock.advance(5)
    assert len(seen) == 3


def test_too_much_lag_refuses_new_sessions_until_it_has_calmed(clock):
    monitor = LagMonitor(clock, WatchOptions(lag_limit_ms=1000), lambda _lag: None)
    monitor.start()
    late(clock, 1.2)
    assert monitor.overloaded
    late(clock, 1.2)
    clock.advance(1.9)
    assert monitor.overloaded
    clock.advance(0.2)
    assert not monitor.overloaded


async def complaints(house: World) -> tuple[int, list[str]]:
    async with aiohttp.ClientSession() as http, http.get(f"{house.instance.url}/ready") as answer:
        return answer.status, (await answer.json())["complaints"]


async def test_an_instance_with_a_loop_that_hangs_is_not_ready_within_five_seconds_and_says_which(
    store_options,
):
    async with world(store_options) as house:
        body = Body()
        house.instance.watch.loop("rooms", body, every_s=0)
        await body.turned()
        body.go.clear()
        turn = body.turns
        await wait_until(lambda: body.turns > turn, description="it hangs")
        assert await complaints(house) == (200, [])
        house.clock.advance(5)

        async def noticed() -> bool:
            return await complaints(house) == (503, ["loop rooms has hung for 5.0 s"])

        await wait_until(noticed, description="it is named")
        body.go.set()

        async def recovered() -> bool:
            return await complaints(house) == (200, [])

        await wait_until(recovered, description="it is ready again")


async def test_an_instance_watches_all_its_loops(store_options):
    async with world(store_options) as house:
        known = {loop.name for loop in house.instance.watch._loops}
        assert {"inbox", "presence", "company", "snapshot", "sweep", "leases"} <= known


async def test_an_instance_that_is_too_late_takes_no_new_sessions_but_keeps_its_own_and_its_nodes(
    store_options,
):
    async with world(store_options) as house:
        speaker = await house.session()
        late(house.clock, 1.2)
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await house.speaker()
        assert (refusal.value.status, "Retry-After" in refusal.value.headers) == (503, True)
        await speaker.sync()
        await house.node()
        assert house.instance.metrics.registry.get_sample_value(
            "scheduler_event_loop_lag_seconds_sum"
        ) == pytest.approx(1.2)
        house.clock.advance(2)
        await (await house.session()).sync()
