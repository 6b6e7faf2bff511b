"""The room page for everybody: links, keyboard, phones, two languages; and the transcripts of both pages."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from lingua_scheduler.node.demo import demo_translation
from lingua_scheduler.node.job import Translation
from support import wait_until
from web.roommate import gathering, roommate
from web.talker import PATIENCE_S, house, talker

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN = {"name": "Ann", "lang": "en"}
BO = {"name": "Bo", "lang": "pt"}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
SMALLEST = {**PHONE, "viewport": {"width": 320, "height": 568}}
HELLO = Translation(text_asr="Hello.", text_translated="Olá.")


async def test_a_link_leads_into_the_room_and_leaving_out_of_it(browser, store_options):
    clipboard = {"permissions": ["clipboard-read", "clipboard-write", "microphone"]}
    async with (
        house(store_options) as home,
        home.node(),
        roommate(browser, **clipboard) as ann,
        roommate(browser) as bo,
    ):
        await (await ann.visit(f"{home.url}/room")).choose(**ANN)
        code = await ann.create()
        await ann.reads("#welcome", "You are alone here")
        assert await ann.page.inner_text("#room-title") == f"Room {code[:3]} {code[3:]}"
        await ann.page.click("#copy")
        await ann.reads("#notice", "The link was copied")
        link = await ann.page.evaluate("() => navigator.clipboard.readText()")
        assert link == f"{home.url}/room#{code}"

        await bo.visit(link)
        await bo.choose(name="", lang="pt")
        await bo.page.click("#join")
        await bo.inside()
        await ann.meets("Ann (you)", "Guest 1")
        await ann.reads("#lines .event", "Guest 1 has joined.")
        await ann.reads("#announcer", "Guest 1 has joined.")
        await ann.reads("#welcome", "You can talk now.")

        await bo.page.click("#leave")
        await bo.sees("#lobby:not([hidden])")
        await ann.meets("Ann (you)")
        await ann.reads("#lines .event:last-child", "Guest 1 has left.")
        assert await bo.page.input_value("#code") == code

        await bo.page.click("#join")  # and back again
        await bo.inside()
        await ann.sees("#members .member", count=2)
        await bo.page.close(run_before_unload=True)
        await ann.meets("Ann (you)")


async def test_the_talk_page_and_the_room_page_lead_to_each_other(browser, store_options):
    async with house(store_options) as home, home.node(), talker(browser) as person:
        await person.visit(home.url)
        await person.page.click("#to-room")
        await person.sees("#create:enabled")
        assert await person.page.title() == "Lingua Room"
        await person.page.click(".places a")
        await person.sees("#talk:enabled")
        assert await person.page.title() == "Lingua Talk"


async def test_a_whole_visit_by_keyboard_alone(browser, store_options):
    async with (
        house(store_options) as home,
        home.node(rule=demo_translation),
        gathering(browser, home, ANN) as (ann,),
        roommate(browser) as bo,
    ):
        code = ann.page.url.partition("#")[2]
        await bo.visit(f"{home.url}/room")
        keyboard, page = bo.page.keyboard, bo.page

        async def tab_to(wanted: str) -> None:
            for _ in range(30):
                await keyboard.press("Tab")
                if await page.evaluate("(wanted) => document.activeElement.matches(wanted)", wanted):
                    return
            raise AssertionError(f"{wanted} is not reached")

        await tab_to("#name")
        await keyboard.type("Bo")
        await tab_to("#mine")
        await keyboard.type("P")
        await tab_to('[data-take="captions"]')
        await tab_to("#code")
        await keyboard.type(f"{code[:3]} {code[3:]}")
        await keyboard.press("Enter")
        await bo.inside()
        assert await page.evaluate("() => document.activeElement.id") == "room-title"
        await tab_to("#copy")
        await tab_to(".mute")
        await keyboard.press("Enter")
        await bo.sees('.mute[aria-pressed="true"]')
        await tab_to("#talk")
        outline = await page.evaluate("() => getComputedStyle(document.activeElement).outlineWidth")
        assert outline == "3px"
        await keyboard.down("Space")
        await bo.spoke(8)
        await keyboard.up("Space")
        await ann.sees('.heard:not(.own)[data-state="done"]')
        await tab_to("#leave")
        await keyboard.press("Enter")
        await bo.sees("#lobby:not([hidden])")
        assert await page.evaluate("() => document.activeElement.id") == "code"


async def test_everything_has_a_name(browser, store_options):
    async with house(store_options) as home, home.node(), gathering(browser, home, ANN, BO) as (ann, _):
        nameless = await ann.page.evaluate(
            """() => [...document.querySelectorAll('button, select, input, summary, a, [tabindex]')].filter(
              (control) => !(control.getAttribute('aria-label') || control.getAttribute('aria-labelledby')
                || control.textContent.trim() || control.labels?.length)
            ).map((control) => control.outerHTML)"""
        )
        assert nameless == ['<button type="button" class="act" data-part="action" hidden=""></button>']
        levels = await ann.page.evaluate(
            "() => [...document.querySelectorAll('h1, h2, h3')].map(({ tagName }) => tagName)"
        )
        assert levels == ["H1", "H2", "H2", "H2", "H3"]


@pytest.mark.parametrize("screen", [PHONE, SMALLEST], ids=["390", "320"])
async def test_a_phone_shows_all_of_it_and_talks_by_touch(browser, store_options, screen):
    fits = "() => document.documentElement.scrollWidth <= innerWidth"
    async with (
        house(store_options) as home,
        home.node(rule=demo_translation),
        gathering(browser, home, ANN) as (ann,),
        roommate(browser, **screen) as bo,
    ):
        page = bo.page
        await (await bo.visit(f"{home.url}{ann.page.url.removeprefix(home.url)}")).choose(**BO)
        assert await page.evaluate(fits)
        await page.tap("#join")
        await bo.inside()
        assert await page.evaluate(fits)
        await page.tap("#talk")
        await bo.reads("#talk-text", "Listening")
        await bo.spoke(8)
        await page.tap("#talk")
        await ann.sees('.heard:not(.own)[data-state="done"]')
        box = await page.locator("#talk").bounding_box()
        assert box["y"] + box["height"] <= screen["viewport"]["height"]
        captions = await page.locator("#lines").bounding_box()
        assert captions["height"] >= 90
        small = await page.evaluate(
            """() => [...document.querySelectorAll('button, select, summary, a')]
              .filter((control) => control.checkVisibility() && control.getBoundingClientRect().height < 40)
              .map((control) => control.outerHTML)"""
        )
        assert small == []


async def test_the_page_speaks_chinese_and_remembers_what_was_chosen(browser, store_options):
    async with house(store_options) as home, home.node(), roommate(browser, locale="zh-CN") as person:
        await (await person.visit(f"{home.url}/room")).choose(name="陈", lang="zh", take="text")
        await person.page.reload()
        await person.sees("#create:enabled")
        assert await person.page.get_attribute("html", "lang") == "zh-Hans"
        assert await person.page.title() == "Lingua 房间"
        assert await person.page.input_value("#name") == "陈"
        assert await person.page.input_value("#mine") == "zh"
        assert await person.page.get_attribute('#lobby [data-take="text"]', "aria-pressed") == "true"
        await person.create()
        await person.page.click("#ui")
        await person.reads("#members-title", "In the room: 1")
        await person.reads("#members .name", "陈 (you)")


async def saved(person, file_format: str) -> tuple[str, str]:
    """Save the transcript; give the name and the text of the file."""
    await person.page.click("#transcript summary")
    async with person.page.expect_download() as download:
        await person.page.click(f'#transcript [data-format="{file_format}"]')
    file = await download.value
    text = await asyncio.to_thread(Path(await file.path()).read_text, encoding="utf-8")
    return file.suggested_filename, text


async def test_what_was_said_in_a_talk_is_saved_as_a_file(browser, store_options):
    async with (
        house(store_options, transcript={"keep_s": 60}) as home,
        home.node() as node,
        talker(browser) as person,
    ):
        await person.visit(home.url)
        await person.page.select_option("#mine", "en")
        await person.page.select_option("#other", "pt")
        assert not await person.page.locator("#transcript").is_visible()
        await person.start()
        await person.page.click("#transcript summary")
        await person.page.click('#transcript [data-format="txt"]')
        person.watch.excused.append("404")
        await person.reads("#notice", "There is no transcript")

        await person.say()
        await node.answer(await node.next_job(), HELLO)
        await person.sees('.line[data-state="done"]')
        await wait_until(
            lambda: not len(home.instance.transcripts), description="it is written", timeout_s=PATIENCE_S
        )
        for file_format in ("txt", "srt", "vtt"):
            name, text = await saved(person, file_format)
            assert name.endswith(f".{file_format}")
            assert "Hello." in text
            assert "Olá." in text
        _, text = await saved(person, "json")
        assert "Olá." in json.dumps(json.loads(text), ensure_ascii=False)
        await person.page.click("#end")
        assert "Hello." in (await saved(person, "txt"))[1]  # also afterwards


async def test_what_was_said_in_a_room_is_saved_in_the_readers_language(browser, store_options):
    async with (
        house(store_options) as home,
        home.node(capacity=8) as node,
        gathering(browser, home, ANN, BO, {"name": "陈", "lang": "zh"}) as (ann, bo, _),
    ):
        await ann.say()
        for _ in range(2):
            job = await node.next_job()
            await node.answer(job, Translation(text_asr="Hello.", text_translated=f"Hello in {job.tgt_lang}"))
        await bo.reads_line("Ann", "Hello in pt", "Hello.")
        await wait_until(
            lambda: not len(home.instance.transcripts), description="it is written", timeout_s=PATIENCE_S
        )
        _, text = await saved(bo, "txt")
        assert "Ann" in text
        assert "Hello in pt" in text
        assert "Hello in zh" not in text


async def test_without_transcripts_there_is_no_button(browser, store_options):
    async with (
        house(store_options, transcript={"enabled": False}) as home,
        home.node(),
        gathering(browser, home, ANN) as (ann,),
    ):
        assert not await ann.page.locator("#transcript").is_visible()
