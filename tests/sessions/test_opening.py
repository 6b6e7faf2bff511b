"""Acceptance cases 1 to 11: what a socket and `session_init` answer, and what is agreed."""

from __future__ import annotations

import pytest

from leftovers import assert_nothing_left, in_memory
from lingua_scheduler.wire.session import SessionInit
from world import FAST, world

OPENING = {"client_version": "1", "platform": "test", "src_lang": "zh", "tgt_lang": "en"}
ALL_OPTIONAL = [name for name in SessionInit.__struct_fields__ if name not in OPENING]


async def test_01_a_minimal_init_is_acknowledged_first_and_in_full(store_options):
    async with world(store_options) as house:
        speaker = await house.speaker()
        await speaker.send("session_init", **OPENING)
        ack = await speaker.expect("session_init_ack")
        assert speaker.inbox == []
        assert ack.pop("session_id").startswith("s-")
        assert ack.pop("trace_id")
        expected = {
            "type": "session_init_ack",
            "message": "session created",
            "protocol_version": "1.0",
            "use_binary_frame": False,
            "negotiated_codec": "opus",
            "negotiated_audio_format": "opus",
            "negotiated_sample_rate": 16000,
            "negotiated_channel_count": 1,
            "negotiated_pause_ms": 2000,
            "negotiated_max_duration_ms": 30000,
        }
        assert expected.items() <= ack.items()
        assert "assigned_node_id" not in ack


async def test_02_the_clients_trace_id_is_echoed(store_options):
    async with world(store_options) as house:
        assert (await house.session(trace_id="t-1")).ack["trace_id"] == "t-1"


async def test_03_null_is_absent_and_unknown_members_are_ignored(store_options):
    async with world(store_options) as house:
        speaker = await house.session(**dict.fromkeys(ALL_OPTIONAL), future={"a": [1]}, x=None)
        assert speaker.ack["negotiated_audio_format"] == "opus"


async def test_04_a_refused_init_leaves_the_socket_usable(store_options):
    async with world(store_options) as house:
        speaker = await house.speaker()
        await speaker.send("session_init", client_version="1", platform="test", src_lang="zh")
        await speaker.expect("error", code="INVALID_MESSAGE")
        assert (await speaker.init()).id


@pytest.mark.parametrize("text", ['{"type":"nope"}', "{", "[]"])
async def test_05_what_is_no_message_is_refused_and_the_socket_stays_open(store_options, text):
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.send_raw(text)
        await speaker.expect("error", code="INVALID_MESSAGE")
        await speaker.sync()


async def test_06_a_binary_frame_nobody_agreed_on_is_ignored(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.send_raw(b"\x01\x00\x00")
        await speaker.sync()
        assert speaker.inbox == []


async def test_07_a_message_of_the_server_is_refused(store_options):
    async with world(store_options) as house:
        speaker = await house.session()
        await speaker.send("server_heartbeat", session_id=speaker.id, timestamp=1)
        await speaker.expect("error", code="INVALID_MESSAGE")
        await speaker.sync()


async def test_08_two_sockets_have_two_sessions_with_indexes_of_their_own(store_options):
    async with world(store_options) as house:
        node = await house.node()
        first, second = await house.session(), await house.session()
        assert first.id != second.id
        for speaker in (first, second):
            await speaker.say()
            assert (await node.job(session_id=speaker.id))["utterance_index"] == 0
        await first.say()
        assert (await node.job(session_id=first.id))["utterance_index"] == 1


async def test_10_a_second_init_closes_the_first_session(store_options):
    async with world(store_options) as house:
        node = await house.node()
        speaker = await house.session()
        first = speaker.id
        await speaker.init()
        assert speaker.id != first

        await speaker.chunk(600, final=True, session_id=first)
        await speaker.expect("error", code="INVALID_SESSION")
        await speaker.say()
        assert (await node.job())["session_id"] == speaker.id


async def test_10_results_of_the_first_session_still_reach_the_socket(store_options):
    async with world(store_options) as house:
        node = await house.node()
        speaker = await house.speaker()
        before = in_memory(house)
        await speaker.init()
        first = speaker.id
        await speaker.say(600)
        await speaker.chunk(300)  # said before the second init, so it is translated as well
        await speaker.init()

        for size in (600, 300):
            job = await node.job(session_id=first)
            assert len(job["audio"]) == size
            await node.answer(job)
            await speaker.expect("translation_result", session_id=first)
        await speaker.say()
        await node.answer(await node.job(session_id=speaker.id))
        await speaker.expect("translation_result", session_id=speaker.id, utterance_index=0)
        assert speaker.seen("session_close_ack") == []
        await speaker.send("session_close", session_id=speaker.id, reason="done")
        await speaker.expect("session_close_ack", session_id=speaker.id)
        await assert_nothing_left(house, before, first, speaker.id)


async def test_10_the_first_session_is_given_up_after_the_drain_time(store_options):
    async with world(store_options) as house:
        node = await house.node()
        speaker = await house.session()
        first = speaker.id
        await speaker.say()
        job = await node.job()
        await speaker.init()
        await house.pass_time(3.0, speaker)
        await node.expect("job_cancel", job_id=job["job_id"])
        await node.answer(job)
        await node.sync()
        await speaker.sync()
        assert speaker.seen("translation_result") == []
        assert len(house.instance.sessions) == 1
        assert house.instance.sessions.get(first) is None


async def test_10_the_drop_of_the_socket_ends_the_first_session_too(store_options):
    async with world(store_options) as house:
        node = await house.node()
        before = in_memory(house)
        speaker = await house.session()
        first = speaker.id
        await speaker.say()
        await node.job()
        await speaker.init()
        await speaker.hang_up()
        await house.forget(speaker, nodes=(node,))
        await assert_nothing_left(house, before, first, speaker.id)


async def test_11_pcm16_is_agreed_and_used(store_options):
    async with world(store_options) as house:
        node = await house.node()
        speaker = await house.session(audio_format="pcm16", sample_rate=8000)
        assert speaker.ack["negotiated_codec"] == "pcm16"
        assert speaker.ack["negotiated_audio_format"] == "pcm16"
        assert speaker.ack["negotiated_sample_rate"] == 8000
        await speaker.say(b"\x00\x40" * 320)
        job = await node.job()
        assert (job["audio_format"], job["sample_rate"]) == ("pcm16", 8000)


@pytest.mark.parametrize(
    ("wish", "pause_ms", "max_duration_ms"),
    [
        ({}, 2000, 30_000),
        ({"pause_ms": 800, "max_duration_ms": 5000}, 800, 5000),
        ({"pause_ms": 0, "max_duration_ms": 0}, 200, 1000),
        ({"pause_ms": 2**62, "max_duration_ms": 2**62}, 10_000, 60_000),
    ],
)
async def test_pause_and_longest_utterance_are_kept_within_bounds_and_echoed(
    store_options, wish, pause_ms, max_duration_ms
):
    async with world(store_options) as house:
        ack = (await house.session(**wish)).ack
        assert ack["negotiated_pause_ms"] == pause_ms
        assert ack["negotiated_max_duration_ms"] == max_duration_ms


async def test_an_agreed_pause_is_used(store_options):
    async with world(store_options) as house:
        node = await house.node()
        speaker = await house.session(pause_ms=500)
        await speaker.chunk(600)
        await house.pass_time(0.65, speaker)
        assert (await node.job())["is_timeout_triggered"] is True


@pytest.mark.parametrize(
    "wish",
    [
        {"audio_format": "mp3"},
        {"audio_format": "PCM16"},
        {"audio_format": "opus", "sample_rate": 44_100},
        {"endpointing": "psychic"},
    ],
    ids=str,
)
async def test_what_is_not_offered_is_refused_by_name(store_options, wish):
    async with world(store_options) as house:
        speaker = await house.speaker()
        await speaker.send("session_init", **OPENING, **wish)
        error = await speaker.expect("error", code="UNSUPPORTED_FEATURE")
        assert error["details"]["supported"]
        await speaker.init()


@pytest.mark.parametrize(
    ("languages", "code"),
    [
        ({"src_lang": "auto"}, "INVALID_MESSAGE"),
        ({"src_lang": "auto", "lang_a": "zh"}, "INVALID_MESSAGE"),
        ({"src_lang": "auto", "auto_langs": []}, "INVALID_MESSAGE"),
        ({"tgt_lang": "auto"}, "INVALID_MESSAGE"),
        ({"tgt_lang": "AUTO"}, "INVALID_MESSAGE"),
    ],
    ids=str,
)
async def test_142_languages_that_no_node_could_serve_are_refused(store_options, languages, code):
    async with world(store_options) as house:
        speaker = await house.speaker()
        await speaker.send("session_init", **{**OPENING, **languages})
        await speaker.expect("error", code=code)
        await speaker.init()


@pytest.mark.parametrize("trace_id", ["x" * 129, "x" * 128, "a\nb", "", "<script>"], ids=len)
async def test_a_trace_id_that_cannot_be_used_is_replaced(store_options, trace_id):
    """B50. Jobs append their index to it, so the longest one must leave room for that."""
    async with world(store_options) as house:
        node = await house.node()
        speaker = await house.session(trace_id=trace_id)
        assert speaker.ack["trace_id"] not in ("", trace_id)
        await speaker.say()
        job = await node.job()
        assert job["trace_id"] == f"{speaker.ack['trace_id']}-0"
        await node.answer(job)
        await speaker.expect("translation_result", trace_id=job["trace_id"])


async def test_the_longest_trace_id_that_fits_still_gets_its_result(store_options):
    async with world(store_options) as house:
        node = await house.node()
        speaker = await house.session(trace_id="x" * 100)
        assert speaker.ack["trace_id"] == "x" * 100
        await speaker.say()
        await node.answer(await node.job())
        await speaker.expect("translation_result")


@pytest.mark.parametrize(
    ("wish", "streaming", "interval_ms"),
    [
        ({}, True, 1000),
        ({"enable_streaming_asr": False, "partial_update_interval_ms": 400}, False, 400),
        ({"partial_update_interval_ms": 0}, True, 1000),
        ({"partial_update_interval_ms": 1}, True, 50),
        ({"partial_update_interval_ms": 2**62}, True, 60_000),
    ],
)
async def test_streaming_recognition_is_as_the_client_asks(store_options, wish, streaming, interval_ms):
    async with world(store_options) as house:
        node = await house.node()
        speaker = await house.session(**wish)
        await speaker.say()
        job = await node.job()
        assert job.get("enable_streaming_asr") is streaming
        assert job["partial_update_interval_ms"] == interval_ms


async def test_binary_frames_are_for_clients_that_ask_for_them(store_options):
    async with world(store_options, **FAST) as house:
        node = await house.node()
        speaker = await house.session(supports_binary_frame=True)
        assert speaker.ack["use_binary_frame"] is True
        name = speaker.id.encode()
        head = bytes([1, len(name)]) + (0).to_bytes(4, "little") + (7).to_bytes(4, "little")
        await speaker.send_raw(head + b"\x00\x00" + name + b"\xff" * 600)
        await speaker.send_raw(bytes([2, len(name)]) + (1).to_bytes(4, "little") + bytes(4) + name)
        job = await node.job()
        assert (len(job["audio"]), job["is_manual_cut"]) == (600, True)
