"""People talk: what they say while they hold the button becomes captions and voice."""

from __future__ import annotations

import pytest

from lingua_scheduler.node.demo import demo_translation
from lingua_scheduler.node.job import Translation
from support import wait_until
from web.sound import voice
from web.talker import house, talker

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_press_to_talk_gives_captions_and_voice(browser, store_options):
    async with house(store_options) as home, home.node(rule=demo_translation), talker(browser) as person:
        await (await person.visit(home.url)).start()

        await person.say()

        await person.sees('.line[data-state="done"]')
        [[_, said, meant]] = await person.lines()
        assert said.endswith("s of speech in en")
        assert "not translated to" in meant
        await wait_until(lambda: person.said("tts_play_ended"), description="the voice was heard")
        assert len(person.said("tts_started")) == 1
        [sound] = await person.played()
        assert 0.25 < sound["seconds"] < 0.4
        assert sound["loudness"] > 0.05
        assert person.wire.finals
        await person.sees("#latency:not([hidden])")
        await person.sees("#round-trip:not([hidden])")


async def test_captions_grow_from_listening_over_partials_to_the_translation(browser, store_options):
    async with house(store_options) as home, home.node() as node, talker(browser) as person:
        await (await person.visit(home.url)).start()
        await person.press()
        await person.reads(".line .said", "Listening")
        await person.spoke(8)
        await person.release()
        job = await node.next_job()
        await person.reads(".line .meant", "Translating")

        await node.partial(job, "good")
        await person.reads('.line[data-state="live"] .said', "good")
        await node.partial(job, "good morning")
        await person.reads('.line[data-state="live"] .said', "good morning")
        await node.answer(job, Translation(text_asr="Good morning.", text_translated="Bom dia."))

        await person.sees('.line[data-state="done"]')
        assert await person.lines() == [["done", "Good morning.", "Bom dia."]]
        await person.reads("#announcer", "Bom dia.")


async def test_voices_are_heard_in_the_order_of_the_sentences(browser, store_options):
    """Answers come in reverse; the voices, told apart by their lengths, are heard as it was said."""
    async with house(store_options) as home, home.node() as node, talker(browser) as person:
        await (await person.visit(home.url)).start()
        for _ in range(3):
            await person.say()
        jobs = [await node.next_job() for _ in range(3)]

        for job in reversed(jobs):
            number = job.utterance_index
            sound = voice(0.3 + 0.3 * number)
            await node.answer(
                job,
                Translation(
                    text_asr=f"{number}", text_translated=f"{number}", tts_audio=sound, tts_format="opus"
                ),
            )

        await person.sees('.line[data-state="done"]', count=3)
        assert [said for _, said, _ in await person.lines()] == ["0", "1", "2"]
        await wait_until(lambda: person.said("tts_play_ended"), description="all was heard")
        lengths = [round(sound["seconds"], 1) for sound in await person.played()]
        assert lengths == [0.3, 0.6, 0.9]
        started, ended = person.said("tts_started"), person.said("tts_play_ended")
        assert (len(started), len(ended)) == (1, 1)
        assert ended[0]["trace_id"].endswith("-2")


async def test_voices_that_fall_behind_are_heard_faster_and_can_be_skipped(browser, store_options):
    sound = Translation(text_asr="a", text_translated="b", tts_audio=voice(5), tts_format="opus")
    async with house(store_options) as home, home.node() as node, talker(browser) as person:
        await (await person.visit(home.url)).start()
        for _ in range(4):
            await person.say()
        for _ in range(4):
            await node.answer(await node.next_job(), sound)
        await person.sees('.line[data-state="done"]', count=4)

        for _ in range(3):
            await person.sees("#skip:enabled")
            await person.page.click("#skip")
        await person.page.keyboard.press("Escape")

        await person.sees("#skip:disabled")
        await wait_until(lambda: person.said("tts_play_ended"), description="playback ended")
        hurried = [heard["seconds"] for heard in (await person.played())[1:]]
        assert hurried
        assert all(5 / 1.5 - 0.1 < seconds < 4.9 for seconds in hurried)


async def test_two_languages_on_one_device_stand_in_their_own_columns(browser, store_options):
    async with house(store_options) as home, home.node() as node, talker(browser) as person:
        await person.visit(home.url)
        await person.page.select_option("#mine", "en")
        await person.page.select_option("#other", "pt")
        await person.page.click("#both")
        await person.start()
        await person.say()
        job = await node.next_job()
        assert (job.src_lang, job.lang_a, job.lang_b) == ("auto", "en", "pt")

        translation = Translation(text_asr="Olá", text_translated="Hello", extra={"detected_src_lang": "pt"})
        await node.answer(job, translation)

        await person.sees('.line[data-state="done"]')
        assert await person.lines() == [["done", "Hello", "Olá"]]


async def test_another_language_in_the_middle_of_a_talk_loses_nothing(browser, store_options):
    async with house(store_options) as home, home.node() as node, talker(browser) as person:
        await person.visit(home.url)
        await person.page.select_option("#other", "pt")
        await person.start()
        await person.say()
        first = await node.next_job()

        await person.page.select_option("#other", "zh")
        await wait_until(lambda: len(person.said("session_init")) == 2, description="a second session")
        await person.say()
        second = await node.next_job()
        await node.answer(second)
        await node.answer(first)

        await person.sees('.line[data-state="done"]', count=2)
        assert [first.tgt_lang, second.tgt_lang] == ["pt", "zh"]
        assert [meant for _, _, meant in await person.lines()] == ["utterance 0 in pt", "utterance 0 in zh"]
        await wait_until(lambda: person.said("session_close"), description="the first session is closed")


@pytest.mark.parametrize("missing", ["AudioEncoder", "AudioDecoder"])
async def test_browsers_without_codecs_talk_too(browser, store_options, missing):
    """Without an encoder plain samples are sent; without a decoder the voice is played as a file."""
    sound = Translation(text_asr="a", text_translated="b", tts_audio=voice(0.5), tts_format="opus")
    async with house(store_options) as home, home.node() as node, talker(browser) as person:
        await person.page.add_init_script(f"delete globalThis.{missing};")
        await (await person.visit(home.url)).start()
        await person.say()
        job = await node.next_job()
        await node.answer(job, sound)

        await person.sees('.line[data-state="done"]')
        assert job.audio_format == ("pcm16" if missing == "AudioEncoder" else "opus")
        await wait_until(lambda: person.said("tts_play_ended"), description="the voice was heard")
        [heard] = await person.played()
        assert heard["loudness"] > 0.1
        assert 0.45 < heard["seconds"] < 0.6


async def test_without_voice_none_is_made(browser, store_options):
    async with house(store_options) as home, home.node() as node, talker(browser) as person:
        await person.visit(home.url)
        await person.page.click("#voice")
        await person.start()
        await person.say()
        job = await node.next_job()
        assert job.pipeline.use_tts is False
        await node.answer(
            job, Translation(text_asr="a", text_translated="b", tts_audio=voice(0.5), tts_format="opus")
        )
        await person.sees('.line[data-state="done"]')
        assert await person.played() == []
