"""How long a job may take, and what follows when it takes longer (AC-44 to AC-46, AC-48, AC-51, AC-52)."""

from __future__ import annotations

from support import wait_until
from world import world


async def test_ac44_a_job_without_a_node_times_out_once(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.say()
        await speaker.expect("ui_event", event="ERROR", error_code="NO_AVAILABLE_NODE")
        await house.pass_time(9.9, speaker)
        await speaker.sync()
        assert not speaker.seen("missing_result")
        await house.pass_time(0.2, speaker)
        event = await speaker.expect("ui_event", event="ERROR", error_code="JOB_TIMEOUT")
        assert event["elapsed_ms"] >= 10_000
        await speaker.expect("missing_result", utterance_index=0, reason="no_available_node")
        await house.pass_time(60, speaker)
        await speaker.sync()
        assert not speaker.seen("missing_result")


async def test_ac45_a_silent_node_loses_its_job_after_its_time_and_not_before(store_options):
    async with world(store_options) as house:
        first, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await first.job()
        second = await house.node()
        await house.live(12, first, second)
        await speaker.sync()
        assert not first.seen("job_cancel")
        await house.live(20, first, second)
        cancel = await first.expect("job_cancel", job_id=job["job_id"])
        assert (cancel["reason"], cancel["attempt_id"]) == ("job_timeout", 1)
        assert (await second.job(job_id=job["job_id"]))["attempt_id"] == 2


async def test_ac46_after_four_silent_nodes_there_is_one_time_out_and_no_slot_held(store_options):
    async with world(store_options, results={"gap_timeout_ms": 300_000}) as house:
        nodes = [await house.node() for _ in range(5)]
        speaker = await house.session()
        await speaker.say()
        attempts = []
        for _ in range(4):
            node, job = await house.taken(*nodes)
            attempts.append((job["attempt_id"], node.id))
            await speaker.sync()
            await house.live(31, *nodes)
        assert [number for number, _ in attempts] == [1, 2, 3, 4]
        assert len({node_id for _, node_id in attempts}) == 4
        await speaker.expect("missing_result", utterance_index=0, reason="job_timeout")
        assert len(speaker.seen("ui_event", error_code="JOB_TIMEOUT")) == 1

        async def free() -> bool:
            return not await house.reserved()

        await wait_until(free, description="every slot is free again")


async def test_ac48_a_second_instance_adds_neither_a_cancel_nor_an_assignment(store_options):
    async with world(store_options) as house, world(store_options) as other:
        first, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await first.job()
        second, stranger = await house.node(), await other.node()
        await house.live(32, first, second)
        other.clock.advance(5)
        await second.job(job_id=job["job_id"])
        await speaker.sync()
        assert len(first.seen("job_cancel")) == 1
        assert not second.seen("job_assign")
        assert not stranger.seen("job_assign")


async def test_ac51_closing_a_session_cancels_what_runs_and_frees_the_slot(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await node.job()
        await speaker.send("session_close", session_id=speaker.id, reason="done")
        await wait_until(lambda: house.instance.sessions._closing, description="the session is closing")
        house.clock.advance(3.1)
        assert (await node.expect("job_cancel"))["job_id"] == job["job_id"]

        async def free() -> bool:
            return not await house.reserved()

        await wait_until(free, description="the slot is free again")


async def test_ac52_open_jobs_that_are_not_due_cost_redis_nothing(store_options):
    """Deadlines are in the owner's heap: time that passes over them asks nobody."""
    async with world(store_options) as house:
        node = await house.node(max_concurrent_jobs=256)
        speaker = await house.session()
        for _ in range(100):
            await speaker.say()
            await node.job()
        made = house.instance.metrics.store_call_total
        written = {"job_step", "job_finish", "job_attempt", "node_reserve", "node_release"}

        def calls() -> int:
            return sum(count for (script, _), count in made.read().items() if script in written)

        counted = calls()
        for _ in range(20):
            await house.pass_time(1, speaker)
        await speaker.sync()
        assert calls() == counted


async def test_a_jobs_audio_outlives_the_job_however_long_that_may_take(store_options):
    async with world(store_options, job_timeout={"base_s": 600, "max_s": 900}) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        job = await node.job()
        redis, key = house.instance.stores.connection, house.keys.audio(speaker.id, job["job_id"])
        assert await redis.call("TTL", key) > 4 * 900
