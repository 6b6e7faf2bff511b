"""What is slow is logged with numbers, and a slow hour is not an hour of warnings."""

import json

from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.log import LogOptions
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.slowness import ObservabilityOptions
from lingua_scheduler.watch import LagMonitor, WatchOptions
from logs import captured
from support import wait_until
from world import world

WARNINGS = LogOptions(level="warning", format="json")


def found(written, event):
    return [line for line in map(json.loads, written.lines) if line["event"] == event]


def test_a_slow_section_is_counted_and_logged_with_its_time() -> None:
    metrics = Metrics(ObservabilityOptions(path_warn_ms=50))
    with captured(WARNINGS) as written:
        metrics.took("placement", 0.05)
        metrics.took("placement", 0.081)
        for _ in range(100):
            metrics.took("request", 2.0)
    first, *others = found(written, "slow_path")
    assert (first["path"], first["took_ms"], first["times"]) == ("placement", 81, 1)
    assert [line["times"] for line in others] == [1, 2, 4, 8, 16, 32, 64]
    count = metrics.registry.get_sample_value
    assert count("scheduler_slow_path_total", {"path": "placement"}) == 1
    assert count("scheduler_slow_path_total", {"path": "request"}) == 100


def test_a_late_event_loop_is_logged_with_its_lag() -> None:
    clock = VirtualClock()
    monitor = LagMonitor(clock, WatchOptions(lag_warn_ms=250), lambda _lag: None)
    with captured(WARNINGS) as written:
        monitor.start()
        clock._now += 0.5 + 0.2
        clock.advance(0)
        clock._now += 0.5 + 0.34
        clock.advance(0)
    (line,) = found(written, "event_loop_late")
    assert (line["lag_ms"], line["level"]) == (340, "warning")


async def test_a_placement_that_takes_long_is_logged_with_its_time(store_options):
    """The critical path of an utterance: from the question for a slot to the assignment."""
    with captured(WARNINGS) as written:
        async with world(store_options, observability={"path_warn_ms": 20}) as house:
            node, speaker = await house.node(), await house.session()
            dispatch = house.instance.dispatch
            await house.redis("CLIENT", "PAUSE", 300)
            await speaker.say()
            await wait_until(lambda: dispatch._lanes, description="a slot is asked for")
            await speaker.sync()
            house.clock.advance(0.12)
            await node.answer(await node.job())
            await speaker.expect("translation_result")
    (line,) = found(written, "slow_path")
    assert (line["path"], line["took_ms"]) == ("placement", 120)
