"""Acceptance cases 63 to 66, 73, 76 to 80, 82 and 87: what a node answers, and what the client sees."""

from __future__ import annotations

import pytest

from dialogue import one_of_each, said
from world import world


async def test_63_a_result_is_told_step_by_step_and_then_delivered(store_options):
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        (job,) = await said(node, speaker)
        await speaker.expect("ui_event", event="DISPATCHED")
        await node.answer(job, "你好", "hello", tts_audio="AAA=")

        result = await speaker.expect("translation_result")

        assert [message["event"] for message in speaker.inbox] == ["ASR_FINAL", "NMT_DONE"]
        assert (result["text_asr"], result["text_translated"], result["tts_audio"]) == (
            "你好",
            "hello",
            "AAA=",
        )
        assert (result["session_id"], result["utterance_index"]) == (speaker.id, 0)
        assert (result["job_id"], result["trace_id"]) == (job["job_id"], job["trace_id"])
        assert (result["speaker_session_id"], result["tgt_lang"]) == (speaker.id, "en")
        assert result["group_id"].startswith(f"group_{speaker.id}_")
        assert result["part_index"] == 0
        assert result["scheduler_sent_at_ms"] == house.clock.wall_ms()


async def test_64_a_result_without_voice_says_so_in_the_format_old_clients_expect(store_options):
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        (job,) = await said(node, speaker)
        await node.answer(job)

        result = await speaker.expect("translation_result")

        assert (result["tts_audio"], result["tts_format"]) == ("", "pcm16")


async def test_65_the_processing_time_alone_is_the_total_of_the_service_timings(store_options):
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        (job,) = await said(node, speaker)
        await node.answer(job, processing_time_ms=7)

        assert (await speaker.expect("translation_result"))["service_timings"] == {"total_ms": 7}


async def test_65_the_timings_of_the_steps_count_more_than_the_processing_time(store_options):
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        (job,) = await said(node, speaker)
        steps = {"asr_ms": 1, "nmt_ms": 2, "tts_ms": 3, "total_ms": 6}
        await node.answer(job, processing_time_ms=7, extra={"service_timings": steps})

        assert (await speaker.expect("translation_result"))["service_timings"] == steps


async def test_66_quality_and_whatever_else_the_node_adds_is_passed_on(store_options):
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        await speaker.chunk(300, client_timestamp_ms=house.clock.wall_ms() - 40)
        await speaker.sync()
        house.clock.advance(0.01)
        await speaker.chunk(300, final=True)
        job = await node.job()
        house.clock.advance(0.2)
        quality = {
            "asr_quality_level": "suspect",
            "reason_codes": ["LOW_SNR"],
            "quality_score": 0.5,
            "rerun_count": 2,
            "segments_meta": {"count": 1, "max_gap": 0.1},
        }
        extra = {"emotion": "calm", "language_probabilities": {"zh": 0.9}, "brand_new": [1, {"deep": True}]}
        await node.answer(job, extra=extra, node_completed_at_ms=house.clock.wall_ms() - 30, **quality)

        result = await speaker.expect("translation_result")

        assert {name: result[name] for name in quality} == quality
        assert result["extra"] == extra
        assert result["network_timings"] == {"web_to_scheduler_ms": 50, "node_to_scheduler_ms": 30}


@pytest.mark.parametrize("text", ["", " \n\t", None])
async def test_73_a_success_without_anything_in_it_was_silence(store_options, text):
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        (job,) = await said(node, speaker)
        await node.answer(job, text, text)

        missing = await speaker.expect("missing_result")

        assert (missing["utterance_index"], missing["reason"]) == (0, "silence_detected")
        await house.settled(node, speaker)
        assert not speaker.seen("translation_result")
        assert not speaker.seen("ui_event", event="ASR_FINAL")


@pytest.mark.parametrize("reason", ["NO_TEXT_ASSIGNED", "ASR_EMPTY"])
@pytest.mark.parametrize("success", [True, False])
async def test_76_and_77_an_empty_acknowledgement_is_not_told_and_nobody_waits_for_it(
    store_options, reason, success
):
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        first, second = await said(node, speaker, 2)
        for index in (0, 1):
            await speaker.expect("ui_event", event="DISPATCHED", utterance_index=index)
        await node.answer(first, "", "", success=success, extra={"reason": reason})
        await node.answer(second)

        result = await speaker.expect("translation_result", utterance_index=1)

        assert result["part_index"] == 0
        assert all(message["utterance_index"] == 1 for message in speaker.inbox)


async def test_76_empty_acknowledgements_are_told_to_those_who_want_to_know(store_options):
    async with world(store_options, results={"report_no_text": True}) as house:
        node, speaker = await one_of_each(house)
        (job,) = await said(node, speaker)
        await node.answer(job, "", "", extra={"reason": "NO_TEXT_ASSIGNED"})

        assert (await speaker.expect("missing_result"))["reason"] == "no_text"


async def test_78_text_without_voice_is_delivered_as_it_is(store_options):
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        (job,) = await said(node, speaker)
        await node.answer(job, " 你好 ", "hello\n", tts_audio="", tts_format="opus")

        result = await speaker.expect("translation_result")

        assert (result["text_asr"], result["text_translated"]) == (" 你好 ", "hello\n")
        assert (result["tts_audio"], result["tts_format"]) == ("", "opus")


async def test_79_a_missing_model_is_told_and_the_job_moves_to_another_node(store_options):
    """Decided otherwise than in the table: no `error` frame, and the job is tried elsewhere first."""
    async with world(store_options) as house:
        nodes = [await house.node(), await house.node()]
        speaker = await house.session()
        await speaker.say()
        first, job = await house.taken(*nodes)
        (second,) = [node for node in nodes if node is not first]
        await first.fail(job, "MODEL_NOT_AVAILABLE", service_id="nmt-m2m100")

        told = await speaker.expect("ui_event", event="ERROR")
        assert (told["error_code"], told["status"]) == ("MODEL_NOT_AVAILABLE", "error")
        assert told["hint"]
        again = await second.job(job_id=job["job_id"])
        assert again["attempt_id"] == 2
        await second.answer(again)
        await speaker.expect("translation_result")
        assert not speaker.seen("error")
        assert not speaker.seen("missing_result")


async def test_80_an_unknown_failure_has_neither_code_nor_hint(store_options):
    """Decided otherwise than in the table: no `error` frame, `missing_result` follows the event."""
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        (job,) = await said(node, speaker)
        await node.fail(job, "FOO", "secret internals")

        missing = await speaker.expect("missing_result", utterance_index=0)

        assert missing["reason"] == "job_failed"
        (told,) = speaker.seen("ui_event", event="ERROR")
        assert told["status"] == "error"
        assert "error_code" not in told
        assert "hint" not in told
        assert not speaker.seen("error")


async def test_82_a_failure_without_an_error_object_is_told_by_the_event_alone(store_options):
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        (job,) = await said(node, speaker)
        await node.answer(job, success=False, text_asr=None, text_translated=None)

        assert (await speaker.expect("missing_result"))["reason"] == "job_failed"
        assert speaker.seen("ui_event", event="ERROR", status="error")
        assert not speaker.seen("error")


async def test_87_a_long_answer_in_wide_characters_leaves_the_nodes_connection_alone(store_options):
    async with world(store_options) as house:
        node, speaker = await one_of_each(house)
        (job,) = await said(node, speaker)
        await node.answer(job, "a" * 300, "你" * 162)
        assert (await speaker.expect("translation_result"))["text_translated"] == "你" * 162

        (next_job,) = await said(node, speaker)

        assert len(next_job["context_text"]) <= 800
        await node.answer(next_job)
        await speaker.expect("translation_result", utterance_index=1)
