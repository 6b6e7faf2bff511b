"""The pages for operators when things are not as they should be: no server, no token, nobody looking."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from lingua_scheduler.app import running
from lingua_scheduler.secret import Secret
from support import wait_until
from web.onlooker import PATIENCE_S, operator
from world import configured

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOKEN = "secret-token"
GONE = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "ERR_SOCKET_NOT_CONNECTED")
OPACITY = "() => getComputedStyle(document.querySelector('main')).opacity"


async def test_numbers_stay_while_the_server_is_gone_and_live_again_when_it_is_back(browser, store_options):
    async with AsyncExitStack() as stack, operator(browser) as person:
        person.watch.excused += GONE
        async with running(configured(store_options, instance={"id": "first"})) as instance:
            url, port = instance.url, instance.edge.address[1]
            await person.visit(f"{url}/cluster")
            await person.reads("first", "main")
        await person.reads("The server does not answer. What you see is from", ".banner")
        assert await person.page.evaluate(OPACITY) == "0.55"
        assert await person.tile("instances") == "1"
        config = configured(store_options, instance={"id": "second"}, server={"port": port})
        await stack.enter_async_context(running(config))
        await wait_until(
            lambda: person.page.evaluate("() => document.body.dataset.state === 'fresh'"),
            description="the page has noticed",
            timeout_s=PATIENCE_S,
        )
        await person.reads("second", "main")
        assert await person.page.inner_text(".banner") == ""
        assert await person.page.evaluate(OPACITY) == "1"


async def test_a_page_without_an_answer_at_all_says_so(browser, store_options):
    async with running(configured(store_options)) as instance, operator(browser) as person:
        person.watch.excused += ("500",)
        failing = {"on": True}

        async def api(route) -> None:
            await (route.fulfill(status=500, body="") if failing["on"] else route.continue_())

        await person.page.route("**/api/**", api)
        await person.page.goto(f"{instance.url}/models")
        await person.reads("The server answers with an error (500)", ".banner")
        await person.reads("Loading", "main")
        failing["on"] = False
        await person.page.click(".banner button")
        await person.reads("Service packages", "main")


async def test_a_token_is_asked_for_kept_in_the_tab_and_forgotten(browser, store_options):
    tables = {"admin": {"token": Secret(TOKEN)}}
    async with running(configured(store_options, **tables)) as instance, operator(browser) as person:
        person.watch.excused += ("401",)
        page = person.page
        await page.goto(f"{instance.url}/dashboard")
        await page.fill("#token", "wrong")
        await page.keyboard.press("Enter")
        await person.reads("This token was not accepted", ".banner")
        await page.fill("#token", TOKEN)
        await page.click("form button")
        await person.reads("What is wrong right now", "main")
        assert await page.locator("#token").count() == 0

        await page.click('nav a[href="/models"]')
        await person.reads("Service packages", "main")
        kept = "() => [Object.values(sessionStorage).includes('secret-token'),"
        kept += " JSON.stringify(localStorage).includes('secret-token'), document.cookie]"
        assert await page.evaluate(kept) == [True, False, ""]
        asked = len(person.answers)
        await page.get_by_text("Forget the token").click()
        await page.wait_for_selector("#token")
        assert await page.evaluate("() => sessionStorage.length") == 0
        assert "Service packages" not in await page.inner_text("main")
        assert {status for _, status in person.answers[asked:]} == {401}


async def test_a_token_in_the_address_is_used_and_removed_at_once(browser, store_options):
    tables = {"admin": {"token": Secret(TOKEN)}}
    async with running(configured(store_options, **tables)) as instance, operator(browser) as person:
        await person.visit(f"{instance.url}/cluster?find=x#token={TOKEN}")
        assert person.page.url == f"{instance.url}/cluster?find=x"
        await person.reads("Instances", "main")
        assert {status for _, status in person.answers} == {200}
        await person.page.go_back()
        assert TOKEN not in person.page.url


async def test_nothing_is_sent_again_that_is_known_and_nobody_asks_for_a_hidden_page(browser, store_options):
    quiet = {"admin": {"refresh_ms": 10_000}}
    async with running(configured(store_options, **quiet)) as instance, operator(browser) as person:
        await person.page.clock.install()
        await person.visit(f"{instance.url}/languages")
        first = len(person.answers)
        await person.page.clock.run_for(4000)  # longer than between two looks
        await wait_until(lambda: len(person.answers) > first, description="it has asked again")
        assert {status for _, status in person.answers[first:]} == {304}

        hide = (
            "(hidden) => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
        )
        hide += " document.dispatchEvent(new Event('visibilitychange')); }"
        await person.page.evaluate(hide, True)
        await wait_until(lambda: not person.waits, description="what it asked before is answered")
        before = len(person.answers)
        await person.page.clock.run_for(20_000)
        assert len(person.answers) == before
        await person.page.evaluate(hide, False)
        await wait_until(lambda: len(person.answers) > before, description="it looks again at once")


async def test_somebody_from_elsewhere_without_a_token_is_told_what_to_do(browser, store_options):
    async with running(configured(store_options)) as instance, operator(browser) as person:
        person.watch.excused += ("403",)
        await person.page.set_extra_http_headers({"X-Forwarded-For": "192.0.2.1"})
        await person.page.goto(f"{instance.url}/dashboard")
        await person.reads("set admin.token or send an admin key", ".banner")
