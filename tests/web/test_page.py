"""The page for everybody: two languages, the keyboard alone, screen readers, phones, dark and light."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lingua_scheduler
from lingua_scheduler.node.demo import demo_translation
from lingua_scheduler.node.job import Translation
from support import wait_until
from web.talker import house, talker

pytestmark = pytest.mark.asyncio(loop_scope="module")

STYLE = (Path(lingua_scheduler.__file__).parent / "web" / "style.css").read_text()
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
SMALLEST = {**PHONE, "viewport": {"width": 320, "height": 568}}


async def test_the_page_speaks_the_browsers_language_and_remembers_another(browser, store_options):
    async with house(store_options) as home, home.node(), talker(browser, locale="zh-CN") as person:
        await person.visit(home.url)
        assert await person.page.get_attribute("html", "lang") == "zh-Hans"
        assert await person.page.inner_text("#talk-text") == "开始"

        await person.page.click("#ui")
        assert await person.page.get_attribute("html", "lang") == "en"
        assert await person.page.inner_text("#talk-text") == "Start"
        assert await person.page.title() == "Lingua Talk"

        await person.page.reload()
        assert await person.page.inner_text("#talk-text") == "Start"


async def test_choices_are_remembered_and_a_pair_can_be_swapped(browser, store_options):
    async with house(store_options) as home, home.node(), talker(browser) as person:
        await person.visit(home.url)
        await person.page.select_option("#mine", "pt")
        await person.page.select_option("#other", "zh")
        await person.page.click("#swap")
        await person.page.click("#larger")
        await person.page.reload()
        await person.sees("#talk:enabled")
        assert [await person.page.input_value(box) for box in ("#mine", "#other")] == ["zh", "pt"]
        assert await person.page.get_attribute("html", "data-size") == "2"


async def test_a_whole_talk_by_keyboard_alone(browser, store_options):
    async with house(store_options) as home, home.node(rule=demo_translation), talker(browser) as person:
        await person.visit(home.url)
        keyboard, page = person.page.keyboard, person.page

        async def focused() -> str:
            return await page.evaluate("() => document.activeElement.id")

        order = []
        while (await focused()) != "talk":
            await keyboard.press("Tab")
            order.append(await focused() or await page.evaluate("() => document.activeElement.textContent"))
            assert len(order) < 30, order
        assert order == [
            *("Talk", "to-room", "smaller", "larger", "ui", "mine", "swap", "other", "lines"),
            *("mode-press", "mode-free", "voice", "both", "headphones", "talk"),
        ]
        outline = await page.evaluate("() => getComputedStyle(document.activeElement).outlineWidth")
        assert outline == "3px"

        await keyboard.press("Enter")
        await person.sees('#state[data-state="open"]')
        await keyboard.down("Space")
        assert await page.get_attribute("#talk", "aria-pressed") == "true"
        await person.spoke(8)
        await keyboard.up("Space")
        await person.sees('.line[data-state="done"]')

        await keyboard.press("Enter")  # a tap: stays on
        await person.spoke(8)
        await keyboard.press("Enter")
        await person.sees('.line[data-state="done"]', count=2)

        await page.focus("#lines")  # the space bar works from anywhere but from other controls
        await keyboard.down("Space")
        await person.reads("#talk-text", "Listening")
        await person.spoke(8)
        await keyboard.up("Space")
        await person.sees('.line[data-state="done"]', count=3)

        await page.focus("#end")
        await keyboard.press("Space")
        await person.reads("#talk-text", "Start")
        assert await focused() == "talk"
        await wait_until(lambda: person.said("session_close"), description="the session is closed")


async def test_assistive_technologies_switch_talking_on_and_off(browser, store_options):
    """Their click has no press and no release."""
    async with house(store_options) as home, home.node(rule=demo_translation), talker(browser) as person:
        await (await person.visit(home.url)).start()
        await person.page.evaluate("() => document.getElementById('talk').click()")
        await person.reads("#talk-text", "Listening")
        await person.spoke(8)
        await person.page.evaluate("() => document.getElementById('talk').click()")
        await person.sees('.line[data-state="done"]')


async def test_everything_has_a_name_and_captions_are_announced_in_their_language(browser, store_options):
    async with house(store_options) as home, home.node() as node, talker(browser) as person:
        await (await person.visit(home.url)).start()
        nameless = await person.page.evaluate(
            """() => [...document.querySelectorAll('button, select, [tabindex]')].filter((control) =>
              !(control.getAttribute('aria-label') || control.textContent.trim() || control.labels?.length)
            ).map((control) => control.outerHTML)"""
        )
        assert nameless == ['<button type="button" class="act" data-part="action" hidden=""></button>']
        await person.say()
        job = await node.next_job()
        await node.answer(job)
        await person.sees("#announcer p")
        announced = await person.page.evaluate(
            "() => { const p = document.querySelector('#announcer p'); return [p.lang, p.textContent]; }"
        )
        assert announced == [job.tgt_lang, f"utterance 0 in {job.tgt_lang}"]
        live = await person.page.evaluate(
            "() => document.getElementById('announcer').getAttribute('aria-live')"
        )
        assert live == "polite"


@pytest.mark.parametrize("screen", [PHONE, SMALLEST], ids=["390", "320"])
async def test_a_phone_shows_all_of_it_and_talks_by_touch(browser, store_options, screen):
    async with (
        house(store_options) as home,
        home.node(rule=demo_translation),
        talker(browser, **screen) as person,
    ):
        page = person.page
        await person.visit(home.url)
        assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        await page.tap("#talk")
        await person.sees('#state[data-state="open"]')

        await page.tap("#talk")
        await person.reads("#talk-text", "Listening")
        await person.spoke(8)
        await page.tap("#talk")

        await person.sees('.line[data-state="done"]')
        assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        box = await page.locator("#talk").bounding_box()
        assert box["y"] + box["height"] <= screen["viewport"]["height"]
        assert box["height"] >= 44
        small = await page.evaluate(
            """() => [...document.querySelectorAll('button, select')]
              .filter((control) => control.offsetParent && control.getBoundingClientRect().height < 40)
              .map((control) => control.id)"""
        )
        assert small == []


async def test_the_newest_caption_stays_in_sight_unless_somebody_reads_back(browser, store_options):
    async with house(store_options) as home, home.node() as node, talker(browser, **SMALLEST) as person:
        page = person.page
        await (await person.visit(home.url)).start()
        await person.say()
        job = await node.next_job()
        at_end = "() => { const l = document.getElementById('lines');"
        at_end += " return l.scrollHeight - l.scrollTop - l.clientHeight < 2; }"

        await node.answer(job, Translation(text_asr="long " * 60, text_translated="lang " * 60))
        await person.sees('.line[data-state="done"]')
        home.close(4503)  # a notice makes the box smaller
        await person.sees("#notice:not([hidden])")
        await wait_until(lambda: page.evaluate(at_end), description="the end is in sight")

        await page.evaluate("() => { document.getElementById('lines').scrollTop = 0; }")
        await page.click("#notice .close")
        await person.sees("#notice[hidden]")
        assert not await page.evaluate(at_end)


async def test_nothing_moves_for_people_who_asked_for_that(browser, store_options):
    async with house(store_options) as home, home.node(), talker(browser, reduced_motion="reduce") as person:
        await (await person.visit(home.url)).start()
        await person.press()
        await person.reads(".line .said", "Listening")
        animation = "() => getComputedStyle(document.querySelector('.line .said')).animationName"
        assert await person.page.evaluate(animation) == "none"
        await person.release()


def _colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_texts_stand_out_from_their_ground(scheme):
    light, dark = STYLE.split("@media (prefers-color-scheme: dark)", 1)
    colours = _colours(light) if scheme == "light" else _colours(dark)
    pairs = [
        *((text, ground) for text in ("text", "soft") for ground in ("ground", "surface", "tint")),
        *(("text", ground) for ground in ("warn-ground", "bad-ground")),
        *((text, "surface") for text in ("accent", "live", "warn")),
        ("on-accent", "accent"),
        ("on-live", "live"),
    ]
    weak = {pair: round(_contrast(*(colours[name] for name in pair)), 2) for pair in pairs}
    assert {pair: ratio for pair, ratio in weak.items() if ratio < 4.5} == {}
