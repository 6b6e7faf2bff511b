"""Where the time of an utterance goes, which pools are asked and what nodes lack, counted on the way."""

from __future__ import annotations

from asking import look
from support import wait_until
from world import world


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
