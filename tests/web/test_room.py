"""People in a room: all read and hear the others in their own language, and their own voices below it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lingua_scheduler.node.job import Translation
from support import wait_until
from web.roommate import gathering
from web.sound import voice
from web.talker import PATIENCE_S, house

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN = {"name": "Ann", "lang": "en"}
BO = {"name": "Bo", "lang": "pt"}
CHEN = {"name": "陈", "lang": "zh"}


def said(text: str, translated: str, seconds: float = 0.5) -> Translation:
    return Translation(text_asr=text, text_translated=translated, tts_audio=voice(seconds), tts_format="opus")


async def test_two_people_understand_each_other(browser, store_options):
    async with (
        house(store_options) as home,
        home.node() as node,
        gathering(browser, home, ANN, BO) as (ann, bo),
    ):
        assert await ann.members() == ["Ann (you)", "Bo"]
        assert await bo.members() == ["Ann", "Bo (you)"]
        await ann.say()
        job = await node.next_job()
        assert (job.src_lang, job.tgt_lang, job.pipeline.use_tts) == ("en", "pt", True)
        await node.partial(job, "good")
        await ann.reads_line("You", "good", "")
        await node.answer(job, said("Good morning.", "Bom dia."))

        await bo.reads_line("Ann", "Bom dia.", "Good morning.")
        await bo.reads("#announcer", "Ann: Bom dia.")
        await wait_until(bo.played, description="the voice is heard")
        await ann.sees('.own[data-state="done"]')

        await bo.say()
        job = await node.next_job()
        assert (job.src_lang, job.tgt_lang) == ("pt", "en")
        await node.answer(job, said("Olá.", "Hello."))
        await ann.reads_line("Bo", "Hello.", "Olá.")
        await wait_until(ann.played, description="the voice is heard")


async def test_three_languages_are_translated_once_each_and_read_by_those_who_speak_them(
    browser, store_options
):
    async with (
        house(store_options) as home,
        home.node(capacity=8) as node,
        gathering(browser, home, ANN, BO, CHEN) as (ann, bo, chen),
    ):
        for person in (ann, bo, chen):
            await person.connected(2)
        await ann.say()
        for _ in range(2):
            job = await node.next_job()
            await node.answer(job, said("Hello.", f"Hello in {job.tgt_lang}"))

        await bo.reads_line("Ann", "Hello in pt", "Hello.")
        await chen.reads_line("Ann", "Hello in zh", "Hello.")
        for person in (bo, chen):
            await wait_until(person.played, description="the voice is heard")
            assert len(await person.played()) == 1
        assert await ann.played() == []


async def test_own_voices_flow_only_while_somebody_talks(browser, store_options):
    async with house(store_options) as home, home.node(), gathering(browser, home, ANN, BO) as (ann, bo):
        await ann.connected(1)
        await bo.connected(1)

        await wait_until(bo.voices, description="packets come")
        assert await bo.peak() < 0.001  # nobody has pressed anything
        await ann.press()
        await bo.sees('.member[data-now="speaking"]')

        async def loud() -> bool:
            return await bo.peak() > 0.02

        await wait_until(loud, description="Ann's own voice is heard", timeout_s=PATIENCE_S)
        await ann.release()
        await bo.sees('.member[data-now=""]', count=2)


async def test_a_translation_is_louder_than_the_voice_below_it(browser, store_options):
    async with (
        house(store_options) as home,
        home.node() as node,
        gathering(browser, home, ANN, BO) as (ann, bo),
    ):
        await bo.connected(1)

        async def loudness(wanted: float) -> None:
            async def found() -> bool:
                return await bo.loudness() == [wanted]

            await wait_until(found, description=f"loudness {wanted}", timeout_s=PATIENCE_S)

        await loudness(1.0)
        await ann.say()
        await node.answer(await node.next_job(), said("Hello.", "Olá.", 3.0))
        await bo.sees('.member[data-now="played"]')
        await loudness(0.15)
        await bo.page.click("#skip")
        await loudness(1.0)

        await bo.page.click(".member:not(.me) .mute")
        await bo.sees('.mute[aria-pressed="true"]')
        await loudness(0.0)
        await bo.page.click(".member:not(.me) .mute")
        await loudness(1.0)


async def test_a_voice_that_was_muted_from_the_beginning_can_be_heard_later(browser, store_options):
    """Nothing passes between the two while one is muted; after that they find each other."""
    async with house(store_options) as home, home.node(), gathering(browser, home, ANN, BO) as (ann, bo):
        await ann.connected(1)
        await ann.page.click(".member:not(.me) .mute")
        await ann.sees('.mute[aria-pressed="true"]')
        await ann.page.evaluate("() => calls[0].restartIce()")
        await bo.page.evaluate("() => calls[0].restartIce()")
        await ann.page.click(".member:not(.me) .mute")
        await ann.sees('.mute[aria-pressed="false"]')

        stable = "() => calls[0].signalingState === 'stable' && calls[0].connectionState === 'connected'"
        for person in (ann, bo):
            await wait_until(
                lambda person=person: person.page.evaluate(stable),
                description="agreed",
                timeout_s=PATIENCE_S,
            )


async def test_captions_only_means_that_no_voice_is_made_and_nothing_is_played(browser, store_options):
    readers = [{**BO, "take": "captions"}, {**CHEN, "take": "text"}]
    async with (
        house(store_options) as home,
        home.node(capacity=8) as node,
        gathering(browser, home, ANN, *readers) as (ann, bo, chen),
    ):
        await ann.connected(2)
        await ann.say()
        jobs = [await node.next_job() for _ in range(2)]
        assert [job.pipeline.use_tts for job in jobs] == [False, False]
        await node.partial(jobs[0], "good")
        await bo.reads_line("Ann", "Translating …", "good")
        for job in jobs:
            await node.answer(job, said("Good day.", f"Good day in {job.tgt_lang}"))
        for reader, lang in ((bo, "pt"), (chen, "zh")):
            await reader.reads_line("Ann", f"Good day in {lang}", "Good day.")
            assert await reader.played() == []
            assert await reader.voices() == []
            assert await reader.page.locator(".mute:visible").count() == 0
        assert await ann.page.locator("#members .lang").nth(1).inner_text() == "Portuguese · reads only"

        await bo.page.click('#dock [data-take="voice"]')
        await ann.reads("#members .member:nth-child(2) .lang", "Portuguese")
        await ann.say()
        jobs = {job.tgt_lang: job for job in [await node.next_job() for _ in range(2)]}
        assert {lang: job.pipeline.use_tts for lang, job in jobs.items()} == {"pt": True, "zh": False}
        await node.answer(jobs["pt"], said("Again.", "De novo."))
        await wait_until(bo.played, description="the voice is heard")
        await wait_until(bo.voices, description="own voices are heard, too", timeout_s=PATIENCE_S)


async def test_voices_of_several_people_are_heard_one_after_the_other(browser, store_options):
    """Three speak at once; the listener hears one translation at a time, each speaker in order."""
    async with (
        house(store_options) as home,
        home.node(capacity=8) as node,
        gathering(browser, home, {**ANN, "lang": "pt"}, BO, {**CHEN, "lang": "en"}) as (ann, bo, listener),
    ):
        for person in (ann, bo, ann):
            await person.say()
        jobs = [await node.next_job() for _ in range(3)]
        for length_s, job in zip((0.6, 0.9, 1.2), jobs, strict=True):
            await node.answer(job, said("x", f"{length_s}", length_s))

        async def all_heard() -> bool:
            return len(await listener.played()) == 3

        await wait_until(all_heard, description="three voices", timeout_s=PATIENCE_S)
        await listener.sees("#skip:disabled")
        starts = await listener.page.evaluate(
            "() => played.map(({ beganMs, seconds }) => [beganMs, seconds])"
        )
        for (began, seconds), (after, _) in pairwise(starts):
            assert after - began >= seconds * 1000 - 50
        assert [round(seconds, 1) for _, seconds in starts] == [0.6, 0.9, 1.2]
