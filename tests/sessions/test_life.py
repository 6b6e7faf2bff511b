"""Acceptance cases 12 to 17 and 44: a session stays alive, belongs to its socket, survives node trouble."""

from __future__ import annotations

import pytest

from leftovers import assert_nothing_left, in_memory
from support import wait_until
from world import FAST, world

PATIENT = {"server": {"clients": {"silence_s": 100_000.0}}}  # the edge waits longer than any session here


# Heartbeat and ownership


async def test_12_a_heartbeat_is_answered_with_the_servers_time(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.send("client_heartbeat", session_id=speaker.id, timestamp=1)
        answer = await speaker.expect("server_heartbeat", session_id=speaker.id)
        assert abs(answer["timestamp"] - house.clock.wall_ms()) <= 2000


async def test_13_a_heartbeat_for_an_unknown_session_is_refused(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.send("client_heartbeat", session_id="s-unknown", timestamp=1)
        await speaker.expect("error", code="INVALID_SESSION", message="Session does not exist")
        await speaker.sync()


async def test_14_heartbeats_keep_a_silent_session_listening(store_options):
    async with world(store_options, **PATIENT) as house:
        node = await house.node()
        speaker = await house.session()
        for _ in range(30):
            await speaker.sync()
            await house.live(20, node)
        await speaker.say(600)
        assert len((await node.job())["audio"]) == 600


async def test_15_a_heartbeat_with_another_sockets_id_is_refused(store_options):
    async with world(store_options) as house:
        speaker, other = await house.session(), await house.session()
        await speaker.send("client_heartbeat", session_id=other.id, timestamp=1)
        await speaker.expect("error", code="INVALID_SESSION")
        assert speaker.seen("server_heartbeat") == []


async def test_16_audio_for_an_unknown_session_is_refused(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.chunk(600, session_id="s-unknown")
        await speaker.expect("error", code="INVALID_SESSION")


async def test_16_audio_before_any_session_is_refused(store_options):
    async with world(store_options) as house:
        speaker = await house.speaker()
        await speaker.chunk(600, session_id="s-unknown")
        await speaker.expect("error", code="INVALID_SESSION")
        await speaker.init()


async def test_17_audio_with_another_sockets_id_reaches_nobody(store_options):
    async with world(store_options) as house:
        node = await house.node()
        speaker, victim = await house.session(), await house.session()
        await speaker.chunk(600, session_id=victim.id)
        await speaker.expect("error", code="INVALID_SESSION")
        await victim.final()
        await victim.say(60)
        assert len((await node.job())["audio"]) == 60
        assert node.seen("job_assign") == []
        assert victim.inbox == [] or {message["type"] for message in victim.inbox} == {"ui_event"}


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("audio_chunk", {"seq": 0, "is_final": True, "payload": "AAAA"}),
        ("client_heartbeat", {"timestamp": 1}),
        ("tts_started", {"trace_id": "t", "group_id": "g", "ts_start_ms": 1}),
        ("tts_play_ended", {"trace_id": "t", "group_id": "g", "ts_end_ms": 1}),
        ("session_close", {"reason": "mine"}),
        (
            "utterance",
            {
                "utterance_index": 0,
                "manual_cut": True,
                "src_lang": "zh",
                "tgt_lang": "en",
                "audio": "AAAA",
                "audio_format": "opus",
                "sample_rate": 16000,
            },
        ),
    ],
)
async def test_17_no_message_acts_on_another_sockets_session(store_options, kind, fields):
    """B10: whatever names a session is refused for a foreign one, and the victim notices nothing."""
    async with world(store_options, **FAST) as house:
        node = await house.node()
        attacker, victim = await house.session(), await house.session()
        await victim.chunk(600)
        await victim.sync()
        await attacker.send(kind, session_id=victim.id, **fields)
        await attacker.expect("error", code="INVALID_SESSION")
        await house.pass_time(0.45, victim, attacker)
        job = await node.job()
        assert (job["session_id"], len(job["audio"]), job["utterance_index"]) == (victim.id, 600, 0)
        assert node.seen("job_assign") == []
        assert attacker.inbox == []


# Idleness


async def test_a_session_nobody_speaks_to_is_closed_as_a_whole(store_options):
    async with world(store_options, **PATIENT) as house:
        before = in_memory(house)
        speaker = await house.session()
        await house.pass_time(89, speaker)
        await speaker.sync()
        await house.pass_time(95)
        await speaker.expect("error", code="SESSION_CLOSED")
        assert await speaker.closed() == 4410
        assert speaker.inbox == []
        await assert_nothing_left(house, before, speaker.id)


async def test_what_an_idle_client_said_last_is_translated_before_it_is_dismissed(store_options):
    """Flush, then SESSION_CLOSED, then the close; the pause is off, so only the idle rule ends speech."""
    tables = {**PATIENT, "segmentation": {"pause_ms": 0}}
    async with world(store_options, **tables) as house:
        node = await house.node()
        before = in_memory(house)
        speaker = await house.session()
        await speaker.chunk(600)
        await speaker.sync()
        await house.live(91, node)
        job = await node.job()
        assert job["is_manual_cut"] is True
        await speaker.chunk(600)
        await speaker.expect("error", code="INVALID_SESSION")
        await node.answer(job)
        await speaker.expect("translation_result", utterance_index=0)
        await speaker.expect("error", code="SESSION_CLOSED")
        assert await speaker.closed() == 4410
        await assert_nothing_left(house, before, speaker.id)


async def test_an_idle_client_is_dismissed_even_if_the_last_result_never_comes(store_options):
    tables = {**PATIENT, "segmentation": {"pause_ms": 0}}
    async with world(store_options, **tables) as house:
        node = await house.node()
        speaker = await house.session()
        await speaker.chunk(600)
        await speaker.sync()
        await house.live(91, node)
        job = await node.job()
        await house.pass_time(3)
        await speaker.expect("error", code="SESSION_CLOSED")
        assert await speaker.closed() == 4410
        await node.expect("job_cancel", job_id=job["job_id"])


@pytest.mark.parametrize("kind", ["tts_started", "result_ack"])
async def test_every_message_counts_as_activity(store_options, kind):
    fields = {
        "tts_started": {"trace_id": "t", "group_id": "g", "ts_start_ms": 1},
        "result_ack": {"utterance_index": 0},
    }[kind]
    async with world(store_options, **PATIENT) as house:
        speaker = await house.session()
        for _ in range(5):
            await speaker.send(kind, session_id=speaker.id, **fields)
            await speaker.send_raw("?")  # a barrier that does not count
            await speaker.expect("error", code="INVALID_MESSAGE")
            house.clock.advance(60)
        await speaker.sync()


async def test_only_the_idle_session_is_closed(store_options):
    async with world(store_options, **PATIENT) as house:
        quiet, busy = await house.session(), await house.session()
        await house.pass_time(60, quiet, busy)
        await house.pass_time(40, busy)
        assert await quiet.closed() == 4410
        await busy.sync()


# No node, node trouble


async def test_44a_without_a_node_the_client_is_told_at_once_and_the_index_ends_in_time(store_options):
    """Decision 8: told at once, not only after the pending time; and no `error`, which would be an alert."""
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.say(600)
        await speaker.expect("ui_event", event="ERROR", error_code="NO_AVAILABLE_NODE", utterance_index=0)
        await house.pass_time(10, speaker)
        await speaker.expect("missing_result", utterance_index=0, reason="no_available_node")
        assert speaker.seen("error") == []


async def test_44b_later_speech_is_not_blocked_by_an_utterance_without_a_node(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.say(600)
        await speaker.expect("ui_event", event="ERROR")
        await house.pass_time(10, speaker)
        await speaker.expect("missing_result", utterance_index=0)
        node = await house.node()
        await speaker.say(600)
        assert (await node.job())["utterance_index"] == 1


async def test_44c_a_node_that_joins_in_time_gets_what_was_said_before(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.say(600)
        await speaker.expect("ui_event", event="ERROR")
        await house.pass_time(3, speaker)
        node = await house.node()
        job = await node.job(utterance_index=0)
        await node.answer(job)
        await speaker.expect("translation_result", utterance_index=0)
        assert speaker.seen("missing_result") == []


async def test_44d_a_node_is_used_from_its_first_heartbeat_on(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        node = await house.node()
        await speaker.say(600)
        await node.job()
        await speaker.expect("ui_event", event="DISPATCHED")
        assert speaker.seen("ui_event", event="ERROR") == []


async def test_44e_a_node_that_dropped_is_not_waited_for(store_options):
    async with world(store_options) as house:
        first, second = await house.node(), await house.node()
        speaker = await house.session()
        first.reset()
        await speaker.say(600)
        job = await second.job()
        await second.answer(job)
        await speaker.expect("translation_result", utterance_index=0)


async def test_44f_a_job_that_is_never_answered_is_cancelled_moved_and_given_up(store_options):
    async with world(store_options, job_timeout={"failover_max_attempts": 1}) as house:
        nodes = [await house.node(), await house.node()]
        speaker = await house.session()
        await speaker.say(600)
        for attempt in (1, 2):
            node, job = await house.taken(*nodes)
            assert job["attempt_id"] >= attempt
            await speaker.expect("ui_event", event="DISPATCHED")
            await house.live(31, *nodes)
            await node.expect("job_cancel", job_id=job["job_id"])
        await speaker.expect("ui_event", event="ERROR", error_code="JOB_TIMEOUT")
        await speaker.expect("missing_result", utterance_index=0, reason="job_timeout")
        assert speaker.seen("error") == []
        await wait_until(lambda: len(house.instance.roster) == 0, description="the job is forgotten")
