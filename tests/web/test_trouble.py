"""When something is wrong, people read what it is and what they can do."""

from __future__ import annotations

import pytest

from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.node.job import JobFailed
from lingua_scheduler.store.connection import StoreOptions
from support import wait_until
from web.browser import chromium
from web.talker import house, talker

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_refused_microphone_is_explained_and_can_be_tried_again(store_options, microphone):
    async with (
        house(store_options) as home,
        home.node(),
        chromium(microphone, flags=()) as browser,
        talker(browser) as person,
    ):
        await person.visit(home.url)
        await person.page.click("#talk")
        await person.reads("#notice", "microphone is not allowed")
        assert await person.page.get_attribute("#notice", "role") == "alert"
        assert not person.wires

        await person.page.context.grant_permissions(["microphone"])
        await person.page.click("#notice .act")

        await person.sees('#state[data-state="open"]')
        await person.sees("#notice[hidden]")


async def test_a_page_over_plain_http_says_what_the_microphone_needs(store_options, microphone):
    """Browsers give a microphone only to https, and to pages of the same machine."""
    elsewhere = "--host-resolver-rules=MAP talk.example 127.0.0.1"
    async with (
        house(store_options) as home,
        home.node(),
        chromium(microphone, flags=(elsewhere,)) as browser,
        talker(browser) as person,
    ):
        person.watch.excused.append("Cross-Origin-Opener-Policy header has been ignored")
        await person.visit(home.url.replace("127.0.0.1", "talk.example"))
        await person.page.click("#talk")
        await person.reads("#notice", "secure connection")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("NotFoundError", "No microphone was found"),
        ("NotReadableError", "in use by another program"),
        ("TypeError", "could not be started"),
    ],
)
async def test_a_microphone_that_cannot_be_used_is_explained(browser, store_options, error, words):
    async with house(store_options) as home, home.node(), talker(browser) as person:
        await person.page.add_init_script(
            "navigator.mediaDevices.getUserMedia = () =>"
            f" Promise.reject(Object.assign(new Error(), {{ name: '{error}' }}));"
        )
        await person.visit(home.url)
        await person.page.click("#talk")
        await person.reads("#notice", words)
        await person.reads("#talk-text", "Start")


async def test_a_microphone_that_is_pulled_out_ends_the_talk(browser, store_options):
    async with house(store_options) as home, home.node(), talker(browser) as person:
        await person.page.add_init_script(
            "const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);"
            "navigator.mediaDevices.getUserMedia = async (wish) => (globalThis.stream = await ask(wish));"
        )
        await (await person.visit(home.url)).start()
        await person.page.evaluate("() => stream.getAudioTracks()[0].dispatchEvent(new Event('ended'))")
        await person.reads("#notice", "disconnected")
        await person.reads("#talk-text", "Start")


async def test_a_house_without_nodes_says_so_until_one_comes(browser, store_options):
    async with house(store_options) as home, talker(browser) as person:
        await person.page.goto(home.url)
        await person.reads("#notice", "No translator is ready")
        assert await person.page.is_disabled("#talk")
        async with home.node():
            await person.sees("#talk:enabled")
            await person.sees("#notice[hidden]")


async def test_a_pair_that_nobody_serves_any_more_is_named(browser, store_options):
    async with house(store_options) as home, talker(browser) as person:
        async with home.node():
            await person.visit(home.url)
            await person.page.select_option("#mine", "en")
            await person.page.select_option("#other", "zh")
        await wait_until(
            lambda: all(facts.closed for facts in home.instance.snapshot.nodes()),
            description="the instance knows that the node has left",
        )
        await person.page.click("#talk")
        await person.reads("#notice", "English to Chinese")
        await person.say()
        await person.reads(".line .meant", "Translating")

        async with home.node() as node:
            await node.answer(await node.next_job())
            await person.sees('.line[data-state="done"]')


async def test_a_sentence_that_cannot_be_translated_says_so_in_its_line(browser, store_options):
    async with house(store_options) as home, home.node() as node, talker(browser) as person:
        await (await person.visit(home.url)).start()
        await person.say()
        await node.answer(await node.next_job(), JobFailed("PROCESSING_ERROR", "no"))
        await person.reads('.line[data-state="missing"] .meant', "Please say it again")


async def test_redis_away_is_a_short_interruption(browser):
    with EmbeddedRedis(port=0) as redis:
        async with (
            house(StoreOptions(url=redis.url)) as home,
            home.node(),
            talker(browser) as person,
        ):
            await (await person.visit(home.url)).start()
            redis.kill()
            await person.say()
            await person.reads("#notice", "short interruption")


async def test_a_server_that_is_gone_when_the_page_looks_for_languages(browser, store_options):
    async with house(store_options) as home, home.node(), talker(browser) as person:
        await person.page.route("**/api/v1/languages", lambda route: route.abort())
        person.watch.excused.append("ERR_FAILED")
        await person.page.goto(home.url)
        await person.reads("#notice", "cannot be reached")
