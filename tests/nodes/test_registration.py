"""Registration over the socket: who is accepted, with which codes, and whose id it is (AC-01 to AC-11)."""

from __future__ import annotations

import re

import pytest

from lingua_scheduler.wire.close import CloseCode
from support import wait_until
from world import KINDS, World, world

GPU = {"node_health": {"require_gpu": True}}
NO_GPU = {"cpu_cores": 8, "memory_gb": 32}
EMPTY = {"asr_languages": ["zh"], "semantic_languages": [], "tts_languages": ["zh"]}


async def names(house: World, part: str) -> list[str]:
    """List the keys that contain this text."""
    return [key.decode() for key in await house.redis("KEYS", f"{house.keys.prefix}:*{part}*")]


async def test_ac01_a_node_without_an_id_gets_one_that_nobody_can_guess(store_options):
    async with world(store_options) as house:
        node = await house.stranger()
        await node.ask_to_register()
        ack = await node.expect("node_register_ack")
        assert re.fullmatch(r"node-[0-9A-F]{20,}", ack["node_id"])
        assert ack["status"] == "registering"


async def test_ac02_an_acknowledged_node_is_in_redis_with_its_owner_and_lease(store_options):
    async with world(store_options) as house:
        await (await house.stranger()).register(node_id="n1")
        key = house.keys.node(0, "n1")
        assert await house.redis("HGET", key, "owner") == house.instance.id.encode()
        assert 0 < await house.redis("TTL", key) <= 45
        assert await house.redis("ZSCORE", house.keys.leases(0), "n1") is not None


@pytest.mark.parametrize("version", [None, "1.0", "2", "2.00"])
async def test_ac03_and_ac04_another_schema_version_is_refused_without_a_trace(store_options, version):
    async with world(store_options) as house:
        node = await house.stranger()
        await node.ask_to_register(node_id="n1", capability_schema_version=version)
        await node.expect("error", code="INVALID_CAPABILITY_SCHEMA")
        await house.written(node)
        assert not node.seen("node_register_ack")
        assert await names(house, "n1") == []


@pytest.mark.parametrize("hardware", [NO_GPU, {**NO_GPU, "gpus": []}])
async def test_ac05_a_machine_without_a_gpu_is_refused(store_options, hardware):
    async with world(store_options, **GPU) as house:
        node = await house.stranger()
        await node.ask_to_register(node_id="n1", hardware=hardware)
        await node.expect("error", code="NO_GPU_AVAILABLE")
        assert await names(house, "n1") == []


async def test_a_machine_without_a_gpu_is_welcome_where_none_is_required(store_options):
    async with world(store_options) as house:
        await (await house.stranger()).register(hardware=NO_GPU)


async def test_ac06_missing_languages_are_named_and_the_socket_stays_usable(store_options):
    async with world(store_options) as house:
        node = await house.stranger()
        await node.ask_to_register(node_id="n1", language_capabilities=EMPTY)
        error = await node.expect("error", code="INVALID_CAPABILITY_SCHEMA")
        assert error["details"]["missing"] == ["semantic_languages"]
        assert await names(house, "n1") == []
        await node.register(node_id="n1")


async def test_nodes_may_come_without_languages_where_that_is_allowed(store_options):
    async with world(store_options, nodes={"allow_empty_languages": True}) as house:
        node = await (await house.stranger()).register(language_capabilities=EMPTY)
        await node.beat()
        await node.expect("node_status", status="ready")
        speaker = await house.session()
        await speaker.say()
        await speaker.expect("ui_event", error_code="NO_AVAILABLE_NODE")
        await node.beat(language_capabilities={**EMPTY, "semantic_languages": ["en"]})
        await node.job(utterance_index=0)


async def test_schema_gpu_and_languages_are_checked_in_this_order(store_options):
    async with world(store_options, **GPU) as house:
        node = await house.stranger()
        bad = {"hardware": NO_GPU, "language_capabilities": EMPTY}
        await node.ask_to_register(capability_schema_version="1.0", **bad)
        await node.expect("error", code="INVALID_CAPABILITY_SCHEMA", details={"expected": "2.0"})
        await node.ask_to_register(**bad)
        await node.expect("error", code="NO_GPU_AVAILABLE")


async def test_ac07_a_live_id_is_kept_where_conflicts_are_rejected(store_options):
    async with world(store_options, nodes={"node_id_conflict_policy": "reject"}) as house:
        first = await house.node(node_id="n1")
        second = await house.stranger()
        await second.ask_to_register(node_id="n1")
        await second.expect("error", code="NODE_ID_CONFLICT")
        speaker = await house.session()
        await speaker.say()
        await first.job()


async def test_b61_a_node_may_register_its_own_id_again_where_conflicts_are_rejected(store_options):
    async with world(store_options, nodes={"node_id_conflict_policy": "reject"}) as house:
        node = await house.node(node_id="n1")
        await node.register(node_id="n1")


async def test_a_node_may_return_within_the_grace_where_conflicts_are_rejected(store_options):
    async with world(store_options, nodes={"node_id_conflict_policy": "reject"}) as house:
        first = await house.node(node_id="n1")
        await first.hang_up()
        await wait_until(
            lambda: house.instance.snapshot.node("n1").closed == "offline", description="it is offline"
        )
        await house.node(node_id="n1")


async def test_ac08_a_newcomer_takes_an_id_over_and_the_old_socket_takes_nothing_away(store_options):
    async with world(store_options) as house:
        first = await house.node(node_id="n1")
        second = await house.node(node_id="n1")
        assert await first.closed() == CloseCode.REPLACED
        house.clock.advance(10)
        await house.written(second)
        assert await house.redis("EXISTS", house.keys.node(0, "n1"))
        speaker = await house.session()
        await speaker.say()
        await second.job()
        assert house.counted("nodes_connected") == 1


async def test_the_jobs_of_a_replaced_connection_move(store_options):
    async with world(store_options) as house:
        first, speaker = await house.node(node_id="n1"), await house.session()
        await speaker.say()
        await first.job(attempt_id=1)
        other = await house.node(node_id="n2")
        await (await house.stranger()).register(node_id="n1")
        await other.job(attempt_id=2)


@pytest.mark.parametrize(
    "frame", ["{", "[]", '{"type":"dance"}', '{"type":"node_heartbeat"}', '{"type":"node_register"}']
)
async def test_ac09_what_is_no_message_is_answered_and_the_socket_stays_open(store_options, frame):
    async with world(store_options) as house:
        node = await house.stranger()
        await node.send_raw(frame)
        await node.expect("error", code="INVALID_MESSAGE")
        await node.register()


async def test_ac10_a_long_frame_of_strange_letters_hurts_nobody(store_options):
    async with world(store_options) as house:
        node = await house.stranger()
        await node.send_raw("汉" * 700)
        await node.expect("error", code="INVALID_MESSAGE")
        await node.register()


async def test_ac11_a_language_with_a_colon_is_refused(store_options):
    async with world(store_options) as house:
        node = await house.stranger()
        await node.ask_to_register("a:b")
        await node.expect("error", code="INVALID_MESSAGE")
        assert not node.seen("node_register_ack")


async def test_ac11_languages_are_stored_once_in_lower_case(store_options):
    async with world(store_options) as house:
        node = await (await house.stranger()).register("ZH", "zh", " en ", "", "En")
        facts = house.instance.snapshot.node(node.id)
        assert facts.asr == facts.semantic == {"zh", "en"}


@pytest.mark.parametrize(("said", "taken"), [(None, 4), (9, 9), (10**9, 256), (-1, 1), (0, 1)])
async def test_b62_a_capacity_beyond_reason_is_clamped(store_options, said, taken):
    async with world(store_options) as house:
        node = await (await house.stranger()).register(max_concurrent_jobs=said)
        assert house.instance.snapshot.node(node.id).max_jobs == taken


async def test_b62_a_capability_list_beyond_reason_is_refused(store_options):
    async with world(store_options) as house:
        node = await house.stranger()
        await node.ask_to_register(capability_by_type=[{"type": "asr", "ready": True}] * 2000)
        await node.expect("error", code="INVALID_MESSAGE")


async def test_unknown_service_types_are_kept_and_ignored(store_options):
    async with world(store_options) as house:
        lexicon = [{"type": kind, "ready": True, "devices": ["gpu"]} for kind in (*KINDS, "lexicon")]
        await (await house.stranger()).register(capability_by_type=lexicon)


async def test_nodes_that_report_more_often_get_a_shorter_lease(store_options):
    async with world(store_options) as house:
        await (await house.stranger()).register(node_id="n1", heartbeat_interval_seconds=5)
        assert await house.redis("TTL", house.keys.node(0, "n1")) <= 15


# The deadline


async def test_a_connection_that_does_not_register_is_closed(store_options):
    async with world(store_options) as house:
        node = await house.stranger()
        await node.sync()
        house.clock.advance(29)
        await node.sync()
        house.clock.advance(1)
        assert await node.closed() == CloseCode.HANDSHAKE_TIMEOUT


async def test_a_refused_registration_does_not_stop_the_deadline(store_options):
    async with world(store_options) as house:
        node = await house.stranger()
        await node.ask_to_register(capability_schema_version="1.0")
        await node.expect("error")
        house.clock.advance(30)
        assert await node.closed() == CloseCode.HANDSHAKE_TIMEOUT


async def test_a_registered_node_has_no_deadline(store_options):
    async with world(store_options) as house:
        node = await house.node()
        house.clock.advance(31)
        await node.sync()


# One connection, several registrations


async def test_the_same_id_again_is_a_new_registration_and_its_jobs_move(store_options):
    async with world(store_options) as house:
        node, other = await house.node(node_id="n1"), await house.node(node_id="n2")
        speaker = await house.session()
        await speaker.say()
        busy, _ = await house.taken(node, other)
        idle = other if busy is node else node
        await busy.register(node_id=busy.id)
        await idle.job(attempt_id=2)
        await busy.beat()
        await busy.expect("node_status", status="ready")
        assert house.counted("nodes_connected") == 2


async def test_another_id_on_the_same_connection_ends_the_first(store_options):
    async with world(store_options) as house:
        node = await house.node(node_id="n1")
        speaker = await house.session()
        await speaker.say()
        await node.job()
        await node.register(node_id="n2")
        await node.beat()
        await node.expect("node_status", status="ready")
        await node.job(attempt_id=2)
        await house.written(node)
        assert await names(house, "n1") == []
        assert house.counted("nodes_connected") == 1
        await node.beat(node_id="n1")
        await node.expect("error", code="INVALID_MESSAGE")


async def test_a_heartbeat_sent_right_behind_a_registration_counts_for_it(store_options):
    async with world(store_options) as house:
        node = await house.node(node_id="n1")
        await node.ask_to_register(node_id="n2")
        await node.beat(node_id="n2")
        await node.expect("node_status", node_id="n2", status="ready")


async def test_a_refused_second_registration_leaves_the_first_alone(store_options):
    async with world(store_options) as house:
        node = await house.node(node_id="n1")
        await node.ask_to_register(node_id="n2", capability_schema_version="1.0")
        await node.expect("error")
        speaker = await house.session()
        await speaker.say()
        await node.job()


async def test_registrations_are_counted_by_result(store_options):
    async with world(store_options) as house:
        node = await house.stranger()
        await node.ask_to_register(capability_schema_version="1.0")
        await node.expect("error")
        await node.register()
        await node.beat(node_id="other")
        await node.expect("error")
        assert house.counted("node_registration_total", result="accepted") == 1
        assert house.counted("node_registration_total", result="INVALID_CAPABILITY_SCHEMA") == 1
        assert house.counted("node_registration_total", result="INVALID_MESSAGE") == 0


# Two instances


async def test_an_id_is_taken_over_from_another_instance(store_options):
    async with world(store_options) as here, world(store_options) as there:
        first = await here.node(node_id="n1")
        second = await there.node(node_id="n1")
        await first.beat()
        assert await first.closed() == CloseCode.REPLACED
        here.clock.advance(10)
        await wait_until(lambda: not here.instance.node_door._links, description="the old link is gone")
        assert await here.redis("HGET", here.keys.node(0, "n1"), "owner") == there.instance.id.encode()
        await wait_until(
            lambda: here.instance.snapshot.node("n1").owner == there.instance.id, description="both know it"
        )
        speaker = await there.session()
        await speaker.say()
        await second.job()


async def test_a_live_id_is_kept_from_another_instance_where_conflicts_are_rejected(store_options):
    policy = {"nodes": {"node_id_conflict_policy": "reject"}}
    async with world(store_options, **policy) as here, world(store_options, **policy) as there:
        await here.node(node_id="n1")
        second = await there.stranger()
        await second.ask_to_register(node_id="n1")
        await second.expect("error", code="NODE_ID_CONFLICT")


async def test_the_jobs_of_a_node_that_went_to_another_instance_move(store_options):
    async with world(store_options) as here, world(store_options) as there:
        first, speaker = await here.node(node_id="n1"), await here.session()
        await speaker.say()
        await first.job()
        other = await here.node(node_id="n2")
        await there.node(node_id="n1")
        await first.beat()
        await first.closed()
        await other.job(attempt_id=2)


async def test_ac35_each_instance_dispatches_to_a_node_right_after_its_first_heartbeat(store_options):
    async with world(store_options) as here, world(store_options) as there:
        for house in (here, there):
            node, speaker = await house.node(), await house.session()
            await speaker.say()
            await node.answer(await node.job())
            await speaker.expect("translation_result")
