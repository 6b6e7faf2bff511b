"""The story of one utterance: a person speaks, a node translates, the person reads and hears it."""

from __future__ import annotations

from world import world


async def test_an_utterance_goes_in_and_a_translation_comes_out(store_options):
    async with world(store_options) as house:
        node = await house.node("zh", "en")
        speaker = await house.session(src_lang="zh", tgt_lang="en")

        await speaker.say(600)

        job = await node.job(utterance_index=0)
        assert job["audio"] == b"\xff" * 600
        await node.answer(job, "你好", "hello", tts_audio="AAA=", tts_format="pcm16")
        result = await speaker.expect("translation_result", utterance_index=0)
        assert (result["text_asr"], result["text_translated"], result["tts_audio"]) == (
            "你好",
            "hello",
            "AAA=",
        )
