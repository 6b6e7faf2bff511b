"""AC-80: every counter that is declared can be made to move; one that nothing moves would be dead.

Each scenario drives a real world and says which counters and histograms it moves. The list of all of them is
that of the registry, so a new one needs a scenario.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from prometheus_client.metrics_core import Metric

from asking import ask, look
from collector import collecting
from comeback import RESUMES, resumed
from dialogue import one_of_each, said
from lingua_scheduler import log
from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.log import LineWriter, get_logger
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.secret import SecretUrl
from lingua_scheduler.store.connection import StoreOptions
from neighbours import shown, two
from party import TEXT, party
from support import wait_until
from world import FAST, World, world


@dataclass(frozen=True)
class Setting:
    """What a scenario may use."""

    store: StoreOptions
    server: EmbeddedRedis
    patch: pytest.MonkeyPatch


Scenario = Callable[[Setting], Awaitable[tuple[World, ...]]]
ENDINGS = {"counter": "_total", "histogram": "_count"}
SCENARIOS: dict[str, tuple[Scenario, frozenset[str]]] = {}


def moves(*names: str) -> Callable[[Scenario], Scenario]:
    """Say which counters a scenario moves."""

    def declared(scenario: Scenario) -> Scenario:
        SCENARIOS[scenario.__name__] = (scenario, frozenset(f"scheduler_{name}" for name in names))
        return scenario

    return declared


def counts(*worlds: World) -> Counter[str]:
    """Give what all counters and histograms of these worlds have counted, whatever their labels."""
    found: Counter[str] = Counter()
    for house in worlds:
        for family in house.instance.metrics.registry.collect():
            if family.type in ENDINGS:
                ending = ENDINGS[family.type]
                values = [sample.value for sample in family.samples if sample.name.endswith(ending)]
                found[named(family)] += sum(values)
    return found


def named(family: Metric) -> str:
    """Give the name under which a family is declared."""
    return f"{family.name}_total" if family.type == "counter" else family.name


async def reached(house: World, name: str, least: float = 1) -> None:
    """Wait until a counter has moved."""
    await wait_until(
        lambda: counts(house)[f"scheduler_{name}"] >= least, description=f"{name} counts {least}"
    )


@moves(
    "audio_frames_total",
    "audio_bytes_total",
    "audio_frames_dropped_total",
    "web_task_finalized_total",
    "empty_finalize_total",
    "duplicate_finalize_suppressed_total",
    "bad_input_total",
    "no_available_node_total",
    "node_registration_total",
    "reserve_attempt_total",
    "phase3_pool_attempt_total",
    "phase3_pool_selected_total",
    "translation_results_total",
    "result_encodings_total",
    "store_call_total",
    "store_call_seconds",
    "phase2_redis_op_total",
    "answer_latency_seconds",
    "dispatch_latency_seconds",
    "stage_seconds",
)
async def somebody_talks(setting: Setting) -> tuple[World, ...]:
    async with world(setting.store) as house:
        speaker = await house.session()
        await speaker.say()
        await speaker.expect("ui_event", event="ERROR", error_code="NO_AVAILABLE_NODE")
        node = await house.node()
        await node.answer(await node.job())
        await speaker.expect("translation_result", utterance_index=0)
        await speaker.chunk(60)
        speaker._seq -= 1
        await speaker.chunk(60)  # the same again
        await speaker.final()
        await speaker.final()  # of nothing
        await speaker.utterance(7)
        await speaker.utterance(7)
        await speaker.sync()
        await node.sync()  # says what cannot be read
    return (house,)


@moves(
    "slow_path_total",
    "slow_lock_wait_total",
    "stats_requests_total",
    "stats_stale_total",
    "stats_request_duration_seconds",
    "event_loop_lag_seconds",
)
async def everything_is_slow(setting: Setting) -> tuple[World, ...]:
    async with world(setting.store, admin={"refresh_ms": 10_000}) as house:
        nodes, company = house.instance.stores.nodes, house.instance.company
        reserve = nodes.reserve

        async def slowly(asked: Any) -> Any:
            house.clock.advance(0.1)
            return await reserve(asked)

        setting.patch.setattr(nodes, "reserve", slowly)
        node, speaker = await one_of_each(house)
        await said(node, speaker)
        await house.settled(speaker)
        await look(house.instance, "stats")
        house.clock.advance(11)
        assert (await ask(house.instance, "GET", "/api/v1/stats"))[0] == 200
        async with company._asking:
            company._sure_until = float("-inf")  # somebody else asks Redis whether we are known
            await speaker.say()
            await wait_until(lambda: company._asking._waiters, description="placement waits")
            house.clock.advance(0.1)
        await node.job()
    return (house,)


@moves(
    "missing_results_total",
    "result_gap_timeout_total",
    "results_held_total",
    "results_late_total",
    "results_dropped_total",
)
async def results_come_out_of_order(setting: Setting) -> tuple[World, ...]:
    async with world(setting.store, **FAST) as house:
        node, speaker = await one_of_each(house)
        first, second = await said(node, speaker, 2)
        await node.answer(second)
        await speaker.expect("ui_event", event="NMT_DONE", utterance_index=1)
        house.clock.advance(0.5)
        await speaker.expect("missing_result", utterance_index=0)
        for _ in range(2):  # late, and once too often
            await node.answer(first)
        await speaker.expect("translation_result", utterance_index=0)
        await house.settled(node, speaker)
    return (house,)


@moves("ack_timeout_total", "failover_total", "node_overload_reject_total")
async def nodes_refuse_and_forget(setting: Setting) -> tuple[World, ...]:
    async with world(setting.store) as house:
        nodes = [await house.node(features=["job_ack", "exact_flags", "any_order"]) for _ in range(3)]
        speaker = await house.session()
        await speaker.say()
        node, job = await house.taken(*nodes)
        await node.fail(job, "NODE_OVERLOADED", "full")
        await house.taken(*nodes, attempt_id=2)
        house.clock.advance(2)
        await house.taken(*nodes, attempt_id=3)
    return (house,)


@moves(
    "model_na_received_total",
    "model_na_rate_limited_total",
    "model_na_marked_total",
    "model_na_notices_total",
    "model_na_by_service_total",
    "model_na_by_reason_total",
    "model_na_rate_limited_by_node_total",
    "model_na_marked_by_node_total",
    "model_na_other_service_total",
    "model_na_other_reason_total",
    "model_na_other_rate_limited_node_total",
    "model_na_other_marked_node_total",
)
async def more_nodes_lack_models_than_have_rows(setting: Setting) -> tuple[World, ...]:
    async with world(setting.store, model_not_available={"node_ratelimit_max": 1}) as house:
        for number in range(65):
            lacking = {"service_id": f"nmt-{number}", "type": "nmt", "device": "cpu", "status": "running"}
            node = await (await house.stranger()).register(
                node_id=f"node-{number}", installed_services=[lacking]
            )
            for _ in range(2):
                await node.send(
                    "MODEL_NOT_AVAILABLE",
                    node_id=node.id,
                    job_id="job-none",
                    model_id=f"nmt-{number}",
                    reason=f"odd {number}",
                )
            await node.sync()
        await reached(house, "model_na_notices_total")
    return (house,)


@moves("room_results_total", "room_encodings_total", "room_deliveries_total", "room_text_jobs_total")
async def a_room_listens(setting: Setting) -> tuple[World, ...]:
    async with party(setting.store, 1) as room:
        node = await room.node(features=TEXT)
        await room.open("A")
        await room.join("B")
        await room.join("D")
        await room.say("A")
        for _ in range(2):
            await node.answer(await node.job())
        for name in ("B", "D"):
            await room[name].expect("translation_result")
    return room.houses


@moves(
    "letters_sent_total",
    "letters_received_total",
    "letter_age_seconds",
    "phase2_dlq_moved_total",
    "session_resume_total",
)
async def instances_write_to_each_other(setting: Setting) -> tuple[World, ...]:
    async with two(setting.store) as (a, b):
        node = await a.node()
        await shown(b, 1)
        speaker = await b.session(**RESUMES)
        await speaker.say()
        await node.answer(await node.job())
        await speaker.expect("translation_result")
        await resumed(a, speaker)
        await a.redis("XADD", a.keys.inbox(a.instance.id), "*", "body", "nonsense", "source", "x")
        await reached(a, "phase2_dlq_moved_total")
    return (a, b)


@moves("instances_lost_total", "instances_adopted_total")
async def an_instance_vanishes(setting: Setting) -> tuple[World, ...]:
    async with two(setting.store, peers={"settle_ms": 100, "look_ms": 100}) as (a, b):
        await b.instance.watch.stop()
        await b.redis("DEL", b.keys.presence(b.instance.id))
        line = await b.redis("HGET", b.keys.registry(), b.instance.id)
        await b.redis("HSET", b.keys.registry(), b.instance.id, b"1 " + line.split(b" ", 1)[1])
        await wait_until(lambda: len(a.instance.company.reachable) == 1, description="it is missed")
        a.clock.advance(1)
        await reached(a, "instances_lost_total")
        await reached(a, "instances_adopted_total")
    return (a, b)


@moves("store_reconnect_total", "store_corrupt_value_total", "duplicate_job_blocked_total")
async def redis_is_not_as_it_was_left(setting: Setting) -> tuple[World, ...]:
    async with world(setting.store) as house:
        node, speaker = await one_of_each(house)
        await said(node, speaker)
        await house.redis("HSET", house.keys.session(speaker.id), "claim:1:en", "job-of-somebody-else")
        await speaker.say()
        await reached(house, "duplicate_job_blocked_total")
        await house.written(node)
        await house.redis("HSET", house.keys.node(0, node.id), "facts", "nonsense")
        await house.instance.stores.nodes.changes(0, since=0)
        await reached(house, "store_corrupt_value_total")

        async def cut_off() -> bool:
            with setting.server.client() as killer:
                killer.client_kill_filter(_type="normal", skipme=True)
            return counts(house)["scheduler_store_reconnect_total"] > 0

        await wait_until(cut_off, description="it has connected anew")
    return (house,)


@moves("auth_refused_total")
async def a_stranger_knocks(setting: Setting) -> tuple[World, ...]:
    async with world(setting.store, auth={"allow_anonymous_sessions": "never"}) as house:
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await house.speaker()
    return (house,)


@moves("slow_consumer_closed_total")
async def a_node_stops_reading(setting: Setting) -> tuple[World, ...]:
    server = {"port": 0, "nodes": {"send_queue_bytes": 1_000_000}}
    async with world(setting.store, server=server) as house:
        node = await house.node(max_concurrent_jobs=256)
        node._reader.cancel()
        speakers = [await house.session() for _ in range(12)]
        for index in range(4):
            for speaker in speakers:
                await speaker.utterance(index, b"\x01\x7f" * 200_000)
        await reached(house, "slow_consumer_closed_total")
    return (house,)


@moves("spans_exported_total", "spans_dropped_total")
async def a_collector_takes_spans_again(setting: Setting) -> tuple[World, ...]:
    async with collecting() as collector:
        collector.status = 400
        tracing = {"enabled": True, "endpoint": SecretUrl(collector.url), "flush_ms": 10}
        async with world(setting.store, tracing=tracing) as house:
            node, speaker = await one_of_each(house)
            for name in ("spans_dropped_total", "spans_exported_total"):
                (job,) = await said(node, speaker)
                await node.answer(job)
                await reached(house, name)
                collector.status = 200
    return (house,)


@moves("log_lines_dropped_total")
async def the_log_cannot_be_written(setting: Setting) -> tuple[World, ...]:
    full = os.open("/dev/full", os.O_WRONLY)
    setting.patch.setattr(log._logs, "writer", LineWriter(full))
    async with world(setting.store) as house:
        get_logger("lingua_scheduler").error("somebody_must_look_at_this")
        await reached(house, "log_lines_dropped_total")
    counted = counts(house)
    os.close(full)
    assert counted["scheduler_log_lines_dropped_total"] > 0
    return (house,)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_what_a_scenario_promises_to_move_moves(name, store_options, redis_server, monkeypatch) -> None:
    scenario, promised = SCENARIOS[name]
    worlds = await scenario(Setting(store_options, redis_server, monkeypatch))
    counted = counts(*worlds)
    assert sorted(each for each in promised if not counted[each]) == []


def test_every_declared_counter_and_histogram_has_a_scenario() -> None:
    declared = {named(family) for family in Metrics().registry.collect() if family.type in ENDINGS}
    promised = frozenset().union(*(names for _, names in SCENARIOS.values()))
    assert declared - promised == set(), "nothing makes these move: write a scenario, or remove them"
    assert promised - declared == set(), "these are gone"
