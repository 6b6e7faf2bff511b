"""Acceptance cases 52 to 62: whole utterances, numbered by the client and released in order."""

from __future__ import annotations

import pytest

from leftovers import assert_nothing_left, in_memory
from world import FAST, FakeNode, Speaker, World, world

REORDER_S = 2.0


async def cast(house: World, **wish) -> tuple[FakeNode, Speaker]:
    return await house.node("zh", "en", "ja", max_concurrent_jobs=64), await house.session(**wish)


async def no_job(house: World, node: FakeNode, speaker: Speaker) -> None:
    await house.settled(speaker, node)
    assert node.seen("job_assign") == []


async def test_52_a_whole_utterance_is_sent_on_as_it_says(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        audio = bytes(range(256)) * 4
        await speaker.utterance(0, audio, src_lang="ja", tgt_lang="zh", sample_rate=8000)
        job = await node.job()
        assert job["audio"] == audio
        assert (job["src_lang"], job["tgt_lang"]) == ("ja", "zh")
        assert (job["audio_format"], job["sample_rate"]) == ("pcm16", 8000)
        assert job["is_manual_cut"] is True
        assert "padding_ms" not in job
        assert job["turn_id"]


async def test_53_utterances_one_after_the_other_all_go_out(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        for index in range(5):
            await speaker.utterance(index)
            job = await node.job()
            assert job["utterance_index"] == index
            await node.answer(job)
            await speaker.expect("translation_result", utterance_index=index)


async def test_54_utterances_out_of_order_are_sent_in_order(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        for index in (2, 0, 1, 3):
            await speaker.utterance(index)
        assert [(await node.job())["utterance_index"] for _ in range(4)] == [0, 1, 2, 3]


async def test_55_a_missing_index_is_waited_for_only_so_long(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        await speaker.utterance(5)
        await house.pass_time(REORDER_S - 0.01, speaker)
        await no_job(house, node, speaker)
        house.clock.advance(0.02)
        assert (await node.job())["utterance_index"] == 5


async def test_56_a_repeated_utterance_is_one_job(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        await speaker.utterance(0)
        await speaker.utterance(0)
        job = await node.job()
        await no_job(house, node, speaker)
        await node.answer(job)
        await speaker.expect("translation_result")
        await speaker.utterance(0)
        await no_job(house, node, speaker)
        await speaker.utterance(1)
        assert (await node.job())["utterance_index"] == 1


@pytest.mark.parametrize(
    ("wish", "without"),
    [
        ({"use_asr": True, "use_nmt": True, "use_tts": False}, {"use_tts"}),
        ({"use_tts": False}, {"use_tts"}),
        ({}, set()),
    ],
    ids=["57", "58", "empty"],
)
async def test_57_58_the_pipeline_is_honoured_and_may_be_partial(store_options, wish, without):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        await speaker.utterance(0, pipeline=wish)
        steps = (await node.job())["pipeline"]
        assert {name for name, used in steps.items() if used} == {"use_asr", "use_nmt", "use_tts"} - without
        assert len(steps) == 5


async def test_59_a_trace_id_of_its_own_is_on_job_events_and_result(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house, trace_id="session")
        await speaker.utterance(0, trace_id="mine")
        job = await node.job()
        assert job["trace_id"] == "mine"
        await speaker.expect("ui_event", event="DISPATCHED", trace_id="mine")
        await node.answer(job)
        await speaker.expect("translation_result", trace_id="mine")
        await speaker.utterance(1)
        assert (await node.job())["trace_id"] == "session-1"


@pytest.mark.parametrize("audio", ["", "%%%", "AAA", "AAAA", None], ids=repr)
async def test_60_an_utterance_without_readable_audio_is_refused_and_uses_no_index(store_options, audio):
    """Empty, not base64, wrong padding, an odd number of pcm16 bytes, nothing."""
    async with world(store_options) as house:
        node, speaker = await cast(house)
        message = {"utterance_index": 0, "manual_cut": True, "src_lang": "zh", "tgt_lang": "en"}
        message |= {"audio": audio, "audio_format": "pcm16", "sample_rate": 16000}
        await speaker.send("utterance", session_id=speaker.id, **message)
        await speaker.expect("error", code="INVALID_MESSAGE")
        await speaker.utterance(0)
        await node.job(utterance_index=0)


async def test_61_features_are_the_sessions_unless_the_utterance_has_some(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house, features={"emotion_detection": False})
        await speaker.utterance(0)
        assert (await node.job())["features"] == {"emotion_detection": False}
        await speaker.utterance(1, features={"speaker_identification": False})
        assert (await node.job())["features"] == {"speaker_identification": False}


async def test_62_chunks_and_whole_utterances_share_one_counter(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        await speaker.say(60)
        await speaker.utterance(1)
        await speaker.say(60)
        await speaker.utterance(3)
        assert [(await node.job())["utterance_index"] for _ in range(4)] == [0, 1, 2, 3]


async def test_62_an_index_that_chunks_have_used_is_a_repetition(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        await speaker.say(60)
        await node.job()
        await speaker.utterance(0)
        await no_job(house, node, speaker)


async def test_62_a_waiting_utterance_goes_on_when_chunks_have_filled_the_gap(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        await speaker.utterance(2)
        await speaker.say(10)
        await speaker.say(20)
        assert [(await node.job())["utterance_index"] for _ in range(3)] == [0, 1, 2]


# Late ones


async def test_a_skipped_utterance_that_comes_late_is_sent_at_once(store_options):
    """Section 8: below the counter, but never used, so it is no repetition; a second time it is one."""
    async with world(store_options) as house:
        node, speaker = await cast(house)
        await speaker.utterance(5)
        await house.pass_time(REORDER_S, speaker)
        await node.answer(await node.job(utterance_index=5))
        await speaker.expect("translation_result", utterance_index=5)

        await speaker.utterance(3)
        job = await node.job(utterance_index=3)
        await speaker.utterance(3)
        await no_job(house, node, speaker)
        await node.answer(job)
        await speaker.expect("translation_result", utterance_index=3)
        await speaker.say(60)
        assert (await node.job())["utterance_index"] == 6


async def test_a_late_utterance_keeps_its_place_among_results_still_to_come(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        await speaker.utterance(5)
        await house.pass_time(REORDER_S, speaker)
        higher = await node.job(utterance_index=5)
        await speaker.utterance(3)
        lower = await node.job(utterance_index=3)
        await node.answer(higher)
        await house.settled(speaker, node)
        assert speaker.seen("translation_result") == []
        await node.answer(lower)
        await speaker.expect("translation_result", utterance_index=5)
        assert [message["utterance_index"] for message in speaker.inbox if "text_asr" in message] == [3]


async def test_a_late_utterance_that_fails_is_told_as_missing(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        await speaker.utterance(1)
        await house.pass_time(REORDER_S, speaker)
        await node.answer(await node.job(utterance_index=1))
        await speaker.expect("translation_result", utterance_index=1)
        await speaker.utterance(0)
        await node.fail(await node.job(utterance_index=0), "PROCESSING_ERROR")
        await speaker.expect("missing_result", utterance_index=0, reason="job_failed")


async def test_a_late_utterance_towards_another_language_has_a_stream_of_its_own(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        await speaker.utterance(1)
        await house.pass_time(REORDER_S, speaker)
        first = await node.job(utterance_index=1)
        await speaker.utterance(0, tgt_lang="ja")
        await node.answer(await node.job(utterance_index=0, tgt_lang="ja"))
        await speaker.expect("translation_result", utterance_index=0, tgt_lang="ja")
        await node.answer(first)
        await speaker.expect("translation_result", utterance_index=1, tgt_lang="en")


# Bounds


async def test_several_gaps_are_skipped_together(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        for index in (1, 3, 5):
            await speaker.utterance(index)
        await house.pass_time(REORDER_S, speaker)
        assert [(await node.job())["utterance_index"] for _ in range(3)] == [1, 3, 5]


async def test_only_so_many_utterances_wait(store_options):
    async with world(store_options, session={"utterance_reorder_max": 2}) as house:
        node, speaker = await cast(house)
        for index in (2, 4, 6):
            await speaker.utterance(index)
        assert (await node.job())["utterance_index"] == 2
        await no_job(house, node, speaker)


@pytest.mark.parametrize("index", [1_000_001, 2**53, 2**63 - 1])
async def test_an_index_nobody_can_have_reached_is_refused(store_options, index):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        await speaker.utterance(index)
        await speaker.expect("error", code="INVALID_MESSAGE")
        await speaker.utterance(0)
        assert (await node.job())["utterance_index"] == 0


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"audio_format": "wav"}, "UNSUPPORTED_FEATURE"),
        ({"audio_format": "opus", "sample_rate": 11_025}, "UNSUPPORTED_FEATURE"),
        ({"src_lang": "auto"}, "INVALID_MESSAGE"),
        ({"tgt_lang": "auto"}, "INVALID_MESSAGE"),
    ],
    ids=str,
)
async def test_an_utterance_nobody_could_translate_is_refused_and_uses_no_index(store_options, fields, code):
    async with world(store_options) as house:
        node, speaker = await cast(house)
        await speaker.utterance(0, **fields)
        await speaker.expect("error", code=code)
        await speaker.utterance(0)
        assert (await node.job())["utterance_index"] == 0


async def test_the_node_is_chosen_by_the_languages_of_the_utterance(store_options):
    """Languages come from the message: a node that serves only the session's pair is no use for it."""
    async with world(store_options) as house:
        chinese = await house.node("zh", "en")
        japanese = await house.node("ja", "ko")
        speaker = await house.session(src_lang="zh", tgt_lang="en")
        await speaker.utterance(0, src_lang="ja", tgt_lang="ko")
        assert (await japanese.job())["src_lang"] == "ja"
        assert chinese.seen("job_assign") == []


async def test_streaming_recognition_is_the_sessions_unless_the_utterance_says(store_options):
    async with world(store_options) as house:
        node, speaker = await cast(house, enable_streaming_asr=False, partial_update_interval_ms=300)
        await speaker.utterance(0)
        job = await node.job()
        assert (job["enable_streaming_asr"], job["partial_update_interval_ms"]) == (False, 300)
        await speaker.utterance(1, enable_streaming_asr=True, partial_update_interval_ms=700)
        job = await node.job()
        assert (job["enable_streaming_asr"], job["partial_update_interval_ms"]) == (True, 700)


async def test_what_waits_for_a_missing_index_is_still_sent_when_the_session_closes(store_options):
    async with world(store_options) as house:
        node = await house.node()
        speaker = await house.speaker()
        before = in_memory(house)
        await speaker.init()
        await speaker.utterance(3)
        await speaker.send("session_close", session_id=speaker.id, reason="done")
        await node.answer(await node.job(utterance_index=3))
        await speaker.expect("translation_result", utterance_index=3)
        await speaker.expect("session_close_ack")
        await assert_nothing_left(house, before, speaker.id)


async def test_what_waits_for_a_missing_index_goes_with_the_session(store_options):
    async with world(store_options, resume={"window_s": 1}) as house:
        node = await house.node()
        before = in_memory(house)
        speaker = await house.session()
        await speaker.utterance(3)
        await speaker.sync()
        await speaker.hang_up()
        await house.forget(speaker, nodes=(node,))
        await assert_nothing_left(house, before, speaker.id)
        house.clock.advance(10)
        await node.sync()
        assert node.seen("job_assign") == []


async def test_a_whole_utterance_does_not_disturb_what_is_being_said(store_options):
    async with world(store_options, **FAST) as house:
        node, speaker = await cast(house)
        await speaker.chunk(60)
        await speaker.utterance(0)
        assert (await node.job())["utterance_index"] == 0
        await speaker.final()
        job = await node.job()
        assert (job["utterance_index"], len(job["audio"])) == (1, 60)
