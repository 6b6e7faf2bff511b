"""Heartbeats over the socket: leases, languages, the status machine, and silence (AC-12 to AC-20)."""

from __future__ import annotations

import pytest

from lingua_scheduler.wire.close import CloseCode
from world import KINDS, FakeNode, Speaker, World, world

GPU = {"node_health": {"require_gpu": True}}
ASR_DOWN = [{"type": kind, "ready": kind != "asr"} for kind in KINDS]
ALL_DOWN = [{"type": kind, "ready": False} for kind in KINDS]


def pairs(house: World, node: FakeNode) -> set[str]:
    """Name the directions in which placement would ask for this node."""
    facts = house.instance.snapshot.node(node.id)
    return {f"{src}:{tgt}" for src in facts.asr for tgt in facts.semantic}


async def statuses(house: World, node: FakeNode) -> list[str]:
    """List the status changes the node was told and has not looked at yet."""
    await house.written(node)
    return [message["status"] for message in node.seen("node_status")]


async def refused(speaker: Speaker) -> None:
    """Speak, and be told that there is no node."""
    await speaker.say()
    await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")


async def test_ac12_a_heartbeat_of_an_unknown_node_is_an_error_and_leaves_no_key(store_options):
    async with world(store_options) as house:
        node = await house.stranger()
        node.id = "ghost"
        await node.beat()
        error = await node.expect("error", code="NODE_UNAVAILABLE")
        assert "node_register" in error["message"]
        assert await house.redis("KEYS", "*ghost*") == []
        await node.register(node_id="ghost")


async def test_ac13_a_node_serves_every_pair_of_its_languages(store_options):
    async with world(store_options) as house:
        assert pairs(house, await house.node("zh", "en")) == {"zh:zh", "zh:en", "en:zh", "en:en"}


async def test_ac14_what_a_heartbeat_leaves_out_stays(store_options):
    async with world(store_options) as house:
        node = await house.node("zh", "en")
        await house.redis("EXPIRE", house.keys.node(0, node.id), 5)
        await node.send(
            "node_heartbeat",
            node_id=node.id,
            resource_usage={"cpu_percent": 1, "mem_percent": 1, "running_jobs": 0},
        )
        await house.written(node)
        assert pairs(house, node) == {"zh:zh", "zh:en", "en:zh", "en:en"}
        assert await house.redis("TTL", house.keys.node(0, node.id)) > 5
        speaker = await house.session()
        await speaker.say()
        await node.job()


async def test_ac15_changed_languages_count_at_once(store_options):
    async with world(store_options) as house:
        node = await house.node("zh", "en")
        await node.beat(language_capabilities={"asr_languages": ["zh", "en"], "semantic_languages": ["en"]})
        await house.written(node)
        assert pairs(house, node) == {"zh:en", "en:en"}
        await refused(await house.session(src_lang="en", tgt_lang="zh"))
        speaker = await house.session(src_lang="zh", tgt_lang="en")
        await speaker.say()
        await node.job(tgt_lang="en")


async def test_empty_lists_mean_none_any_more(store_options):
    async with world(store_options) as house:
        node = await house.node()
        await node.beat(language_capabilities={"asr_languages": [], "semantic_languages": []})
        await house.written(node)
        await refused(await house.session())


async def test_a_heartbeat_under_another_id_is_refused(store_options):
    async with world(store_options) as house:
        node = await house.node()
        await node.beat(node_id="somebody-else")
        await node.expect("error", code="INVALID_MESSAGE")


# The status machine


async def test_ac16_so_many_healthy_heartbeats_in_a_row_make_a_node_ready(store_options):
    async with world(store_options, node_health={"health_check_count": 3}) as house:
        node = await (await house.stranger()).register()
        for good in (True, True, False, True, True):
            await node.beat(**({} if good else {"capability_by_type": ASR_DOWN}))
        assert await statuses(house, node) == []
        await node.beat()
        change = await node.expect("node_status", status="ready")
        assert change["node_id"] == node.id
        assert change["timestamp"] == house.clock.wall_ms() // 1000


async def test_ac17_a_node_that_never_becomes_healthy_is_degraded_after_its_warm_up(store_options):
    async with world(store_options) as house:
        node = await (await house.stranger()).register()
        for _ in range(3):
            house.clock.advance(19)
            await node.beat(capability_by_type=ALL_DOWN)
            assert await statuses(house, node) == []
        house.clock.advance(3)
        await node.expect("node_status", status="degraded", reason="warmup_timeout")


async def test_ac18_three_unhealthy_heartbeats_degrade_a_node_and_one_healthy_restores_it(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await node.beat(capability_by_type=ALL_DOWN)
        await node.beat(capability_by_type=ALL_DOWN)
        assert await statuses(house, node) == []
        await node.beat(capability_by_type=ALL_DOWN)
        await node.expect("node_status", status="degraded")
        await house.written(node)
        await refused(speaker)
        await node.beat()
        await node.expect("node_status", status="ready")
        await node.job(utterance_index=0)


@pytest.mark.parametrize("percent", [130, -1, None])
async def test_ac19_a_gpu_usage_that_is_no_percentage_is_unhealthy_not_invalid(store_options, percent):
    async with world(store_options, **GPU) as house:
        node = await (await house.stranger()).register()
        await node.beat(usage={"gpu_percent": percent})
        assert await statuses(house, node) == []
        assert not node.seen("error")
        await node.beat(usage={"gpu_percent": 100})
        await node.expect("node_status", status="ready")


async def test_ac19_services_outside_the_core_never_make_a_node_unhealthy(store_options):
    async with world(store_options) as house:
        node = await (await house.stranger()).register()
        await node.beat(
            capability_by_type=[{"type": kind, "ready": True} for kind in KINDS]
            + [{"type": "tone", "ready": False}]
        )
        await node.expect("node_status", status="ready")


# Silence


async def test_ac20_a_silent_node_is_not_chosen_and_its_jobs_move(store_options):
    async with world(store_options, job_timeout={"base_s": 60}) as house:
        silent, speaker = await house.node(), await house.session()
        await speaker.say()
        await silent.job(utterance_index=0)
        other = await house.node()
        house.clock.advance(44)
        await other.beat()
        await house.written(other)
        assert await statuses(house, silent) == []
        house.clock.advance(1)
        await silent.expect("node_status", status="offline", reason="heartbeat_timeout")
        await other.job(utterance_index=0, attempt_id=2)
        await speaker.say()
        await other.job(utterance_index=1)


async def test_a_node_that_was_silent_must_register_again(store_options):
    async with world(store_options) as house:
        node = await house.node(node_id="n1")
        house.clock.advance(45)
        await node.expect("node_status", status="offline")
        await node.beat()
        await node.expect("error", code="NODE_UNAVAILABLE")
        await node.register(node_id="n1")
        await node.beat()
        await node.expect("node_status", status="ready")
        house.clock.advance(40)
        await node.sync()
        speaker = await house.session()
        await speaker.say()
        await node.job()


async def test_a_silent_node_that_does_not_register_again_is_disconnected(store_options):
    """First-generation nodes ignore errors; a closed connection makes them register."""
    async with world(store_options) as house:
        node = await house.node()
        house.clock.advance(45)
        await node.expect("node_status", status="offline")
        house.clock.advance(29)
        await node.beat()
        await node.expect("error")
        house.clock.advance(1)
        assert await node.closed() == CloseCode.LEASE_LOST


async def test_a_node_that_beats_often_is_missed_sooner(store_options):
    async with world(store_options) as house:
        node = await house.node(heartbeat_interval_seconds=2)
        house.clock.advance(6)
        await node.expect("node_status", status="offline")


# Redis forgot


async def test_ac84_a_heartbeat_restores_a_node_that_redis_forgot(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await house.redis("FLUSHALL")
        await node.beat()
        await house.written(node)
        assert not node.seen("error")
        assert 0 < await house.redis("TTL", house.keys.node(0, node.id)) <= 45
        await speaker.say()
        await node.answer(await node.job())
        await speaker.expect("translation_result")


async def test_jobs_that_a_restored_node_had_before_still_move_when_it_is_lost(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node(), await house.session()
        await speaker.say()
        await node.job()
        await house.redis("FLUSHALL")
        await node.beat()
        await house.written(node)
        other = await house.node()
        node.reset()
        await other.job(attempt_id=2)


@pytest.mark.parametrize("said", [1, 0], ids=["and says so", "and does not count"])
async def test_a_restored_node_is_not_given_more_while_it_still_runs_something(store_options, said):
    async with world(store_options) as house:
        node, speaker = await house.node(max_concurrent_jobs=1), await house.session()
        await speaker.say()
        job = await node.job()
        await house.redis("FLUSHALL")
        for _ in range(2):  # the first one restores it, the second one tells its load
            await node.beat(usage={"running_jobs": said})
            await house.written(node)
        await speaker.say()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE", utterance_index=1)
        await node.answer(job)
        await speaker.expect("translation_result", utterance_index=0)
        await node.beat()
        await node.job(utterance_index=1)
