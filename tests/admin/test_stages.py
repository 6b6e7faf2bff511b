"""Where the time of an utterance goes, which pools are asked and what nodes lack, counted on the way."""

from __future__ import annotations

import pytest

from asking import ask, look
from lingua_scheduler.metrics import STAGES
from neighbours import shown, two
from support import wait_until
from world import FAST, world


async def test_every_stage_of_an_answered_utterance_is_measured(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.say()
        await speaker.expect("ui_event", event="ERROR", error_code="NO_AVAILABLE_NODE")
        house.clock.advance(2)
        node = await house.node()
        job = await node.job()
        await house.settled(speaker)
        house.clock.advance(3)
        await node.answer(job)
        await speaker.expect("translation_result")

        def seconds(stage: str) -> float:
            return house.counted("stage_seconds_sum", stage=stage)

        assert [seconds(stage) for stage in ("wait", "placement", "node", "delivery")] == [2, 0, 3, 0]
        assert house.counted("phase3_pool_selected_total", pool="0", outcome="hit", fallback="false") == 1
        assert house.counted("phase3_pool_attempt_total", pool="0", result="success") == 1


async def test_the_pause_that_ends_an_utterance_is_the_time_of_its_cut(store_options):
    async with world(store_options, **FAST) as house:
        speaker = await house.session()
        await speaker.chunk(600)
        await house.pass_time(0.1, speaker)
        await speaker.chunk(600)
        await house.pass_time(0.3, speaker)  # the pause
        house.clock.advance(0.15)  # the tail window
        await wait_until(lambda: house.counted("stage_seconds_count", stage="cut"), description="it is cut")
        assert house.counted("stage_seconds_sum", stage="cut") == pytest.approx(0.45)
        await speaker.say()
        await speaker.sync()
        assert house.counted("stage_seconds_count", stage="cut") == 2
        assert house.counted("stage_seconds_sum", stage="cut") == pytest.approx(0.45)


async def test_every_way_between_instances_is_a_hop(store_options):
    async with two(store_options) as (a, b):
        node = await a.node()
        await shown(b, 1)
        speaker = await b.session()
        await speaker.say()
        await node.answer(await node.job())
        await speaker.expect("translation_result")
        for there in (a, b):  # the job to the node's instance, the result to the session's
            await wait_until(
                lambda there=there: there.counted("stage_seconds_count", stage="hop") == 1,
                description="its letter was dealt with",
            )
        near = await a.session()
        await near.say()
        await node.answer(await node.job())
        await near.expect("translation_result")
        assert a.counted("stage_seconds_count", stage="hop") == 1


def test_every_stage_has_a_measurement_somewhere():
    """A new stage needs a test above."""
    assert set(STAGES) == {"cut", "wait", "placement", "hop", "node", "delivery"}


async def test_ready_and_draining_are_told_to_prometheus(store_options):
    async with world(store_options) as house:
        assert (house.counted("ready"), house.counted("draining")) == (1, 0)
        status, _, _ = await ask(house.instance, "POST", "/api/v1/drain", json={"deadline_s": 60})
        assert status == 202
        assert (house.counted("ready"), house.counted("draining")) == (0, 1)


async def test_a_search_in_vain_is_a_miss(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.say()
        await speaker.expect("ui_event", event="ERROR", error_code="NO_AVAILABLE_NODE")
        assert house.counted("phase3_pool_selected_total", pool="none", outcome="miss", fallback="false") == 1


async def test_what_nodes_lack_is_counted_by_service_and_by_node(store_options):
    async with world(store_options, model_not_available={"node_ratelimit_max": 1}) as house:
        node = await house.node(node_id="n1")
        speaker = await house.session()
        for _ in range(2):
            about = {"node_id": "n1", "job_id": "job-none", "model_id": "nmt-service", "reason": "oom"}
            await node.send("MODEL_NOT_AVAILABLE", **about)
        await node.sync()
        counters = (await look(house.instance, "metrics"))["model_not_available"]
        assert counters["by_service_top"] == [{"key": "nmt-service", "count": 1}]
        assert counters["marked_by_node_top"] == [{"key": "n1", "count": 1}]
        assert counters["rate_limited_by_node_top"] == [{"key": "n1", "count": 1}]
        await speaker.sync()


async def test_sessions_whose_clients_are_away_are_shown(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.hang_up()
        away = house.instance.sessions.get(speaker.id)
        await wait_until(lambda: not away.attached, description="the server has noticed")
        (row,) = (await look(house.instance, "sessions"))["sessions"]
        assert (row["session_id"], row["state"]) == (speaker.id, "away")


async def test_the_last_heartbeat_is_the_moment_it_came(store_options):
    async with world(store_options) as house:
        node = await house.node(node_id="n1", heartbeat_interval_seconds=1)
        house.clock.advance(2)
        await node.beat()
        await house.written(node)
        (row,) = (await look(house.instance, "nodes"))["nodes"]
        assert row["last_heartbeat"] == house.clock.wall_ms()
