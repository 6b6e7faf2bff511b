"""Acceptance cases 140 to 142: a session in which either of two languages may be spoken."""

from __future__ import annotations

import pytest

from world import world

TWO_WAY = {
    "src_lang": "auto",
    "tgt_lang": "en",
    "mode": "two_way_auto",
    "lang_a": "zh",
    "lang_b": "en",
    "auto_langs": ["zh", "en"],
}


async def test_140_a_two_way_job_tells_the_node_both_languages(store_options):
    async with world(store_options) as house:
        node, speaker = await house.node("zh", "en"), await house.session(**TWO_WAY)
        await speaker.say()

        job = await node.job(utterance_index=0)

        assert {name: job[name] for name in TWO_WAY} == TWO_WAY
        await node.answer(job, "hello", "你好", extra={"detected_src_lang": "en"})
        result = await speaker.expect("translation_result")
        assert (result["text_asr"], result["text_translated"]) == ("hello", "你好")
        assert result["extra"] == {"detected_src_lang": "en"}


@pytest.mark.parametrize(
    ("asr", "semantic"),
    [(["zh"], ["en"]), (["en"], ["zh"]), (["zh", "en"], ["en"]), (["zh", "ja"], ["en", "ja"])],
)
async def test_141_a_node_for_one_direction_only_is_not_chosen(store_options, asr, semantic):
    async with world(store_options) as house:
        half = await house.node(
            language_capabilities={
                "asr_languages": asr,
                "tts_languages": semantic,
                "semantic_languages": semantic,
                "semantic_core_ready": True,
            }
        )
        speaker = await house.session(**TWO_WAY)
        await speaker.say()
        await speaker.expect("ui_event", event="ERROR", error_code="NO_AVAILABLE_NODE")
        assert not half.seen("job_assign")

        whole = await house.node("zh", "en", "ja")

        await whole.job(utterance_index=0)


async def test_141_two_way_by_a_list_of_languages_needs_every_one_of_them(store_options):
    async with world(store_options) as house:
        await house.node("zh", "en")
        speaker = await house.session(src_lang="auto", tgt_lang="en", auto_langs=["zh", "ja"])
        await speaker.say()
        await speaker.expect("ui_event", event="ERROR", error_code="NO_AVAILABLE_NODE")

        node = await house.node("zh", "ja", "en")

        job = await node.job(utterance_index=0)
        assert (job["src_lang"], job["auto_langs"]) == ("auto", ["zh", "ja"])


@pytest.mark.parametrize(
    "wish", [{}, {"lang_a": "zh"}, {"mode": "two_way_auto", "lang_b": "en"}, {"auto_langs": []}]
)
async def test_142_automatic_recognition_without_candidates_is_refused(store_options, wish):
    async with world(store_options) as house:
        speaker = await house.speaker()
        await speaker.send(
            "session_init", client_version="1", platform="test", src_lang="auto", tgt_lang="en", **wish
        )

        refused = await speaker.expect("error")

        assert refused["code"] == "INVALID_MESSAGE"
        assert not speaker.inbox
        await speaker.init()
        assert speaker.id
