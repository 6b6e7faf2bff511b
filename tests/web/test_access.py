"""A server that asks for keys: pages show what they were given, and say why it does not count."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from keyed import KEYS_ONLY, an_hour_passes, revoke, tenant_key, token
from lingua_scheduler.node.demo import demo_translation
from web.roommate import roommate
from web.talker import House, Talker, house, talker

pytestmark = pytest.mark.asyncio(loop_scope="module")

HANDSHAKE = "HTTP Authentication failed"  # Chromium complains of every socket that is refused


@asynccontextmanager
async def guarded(store: Any) -> AsyncIterator[tuple[House, str]]:
    """Run an instance that lets in nobody without a key; give it and a tenant key."""
    async with house(store, **KEYS_ONLY) as home, home.node(rule=demo_translation):
        yield home, await tenant_key(home.instance)


async def addresses(person: Talker) -> str:
    """Give the page's address, what it has asked for, and what it keeps for longer than the tab."""
    return await person.page.evaluate(
        "() => [location.href, ...performance.getEntriesByType('resource').map(({ name }) => name),"
        " JSON.stringify(localStorage), document.cookie].join(' ')"
    )


async def test_a_token_behind_the_address_opens_the_talk_and_leaves_the_address_at_once(
    browser, store_options
):
    async with guarded(store_options) as (home, key), talker(browser) as person:
        made = token(home.instance, key)
        await (await person.visit(f"{home.url}/#token={made}")).start()
        assert person.page.url == f"{home.url}/"
        assert made not in await addresses(person)
        [session] = home.instance.sessions.every()
        assert session.opening.tenant_id == "acme"
        await person.say()
        await person.sees('.line[data-state="done"]')

        await person.page.reload()  # this tab still has it
        await person.sees("#talk:enabled")
        await person.start()
        assert await person.page.is_hidden("#access")


@pytest.mark.parametrize(("locale", "words"), [("en-US", "people who have a key"), ("zh-CN", "密钥或令牌")])
async def test_without_a_token_the_page_asks_for_one(browser, store_options, locale, words):
    async with guarded(store_options) as (home, key), talker(browser, locale=locale) as person:
        await person.page.goto(home.url)
        await person.reads("#access", words)
        await person.sees("#mine:enabled")  # it knows what is served, and does not let anybody start
        assert await person.page.is_disabled("#talk")
        assert await person.page.evaluate("() => document.activeElement.id") == "credential"

        await person.page.fill("#credential", f"  {token(home.instance, key)} ")
        await person.page.keyboard.press("Enter")
        await person.sees("#access[hidden]")
        await person.sees("#talk:enabled")
        await person.start()
        assert await person.page.input_value("#credential") == ""
        assert home.instance.metrics.registry.get_sample_value(
            "scheduler_auth_refused_total", {"kind": "session", "why": "missing"}
        ) in (None, 0.0)


@pytest.mark.parametrize(
    ("pasted", "words"),
    [("nonsense here", "neither a key nor a token"), ("lt1.nonsense.x", "not accepted")],
)
async def test_what_does_not_count_is_said_and_can_be_pasted_again(browser, store_options, pasted, words):
    async with guarded(store_options) as (home, key), talker(browser) as person:
        await person.page.goto(home.url)
        await person.reads("#access", "A key is needed")
        await person.page.fill("#credential", pasted)
        await person.page.click("#access .act")
        await person.reads("#access", words)
        assert not person.wires
        await person.page.fill("#credential", key)
        await person.page.click("#access .act")
        await person.sees("#talk:enabled")


async def test_an_expired_token_is_called_that(browser, store_options):
    async with guarded(store_options) as (home, key), talker(browser) as person:
        made = token(home.instance, key)
        await an_hour_passes(home.instance)
        await person.page.goto(f"{home.url}/#token={made}")
        await person.reads("#access", "The token has expired")
        assert not person.wires
        await person.page.goto(
            f"{home.url}/#token={token(home.instance, key)}"
        )  # the page stays: only the hash is new
        await person.sees("#talk:enabled")
        await person.start()


async def test_a_token_that_expires_during_the_talk_ends_it_at_the_next_reconnect(browser, store_options):
    async with guarded(store_options) as (home, key), talker(browser) as person:
        person.watch.excused.append(HANDSHAKE)
        await (await person.visit(f"{home.url}/#token={token(home.instance, key)}")).start()
        await an_hour_passes(home.instance)
        assert await person.page.get_attribute("#state", "data-state") == "open"
        home.cut()
        await person.reads("#access", "The token has expired")
        assert await person.page.get_attribute("#state", "data-state") == "ended"
        assert await person.page.is_disabled("#talk")


async def test_a_revoked_key_ends_the_talk_for_good(browser, store_options):
    async with guarded(store_options) as (home, key), talker(browser) as person:
        await (await person.visit(f"{home.url}/#token={token(home.instance, key)}")).start()
        await revoke(home.instance, key)
        await person.reads("#access", "The key was withdrawn")
        assert len(person.wires) == 1  # it did not come back
        await person.page.click("#access .act")  # with nothing pasted it asks once more
        await person.reads("#access", "not accepted")


async def test_a_token_for_other_languages_is_explained(browser, store_options):
    async with guarded(store_options) as (home, key), talker(browser) as person:
        made = token(home.instance, key, languages=("xx", "yy"))
        await person.visit(f"{home.url}/#token={made}")
        await person.page.click("#talk")
        await person.reads("#notice", "does not allow this")
        assert len(person.wires) == 1


async def test_a_room_is_entered_with_a_token_and_its_link_has_none(browser, store_options):
    async with guarded(store_options) as (home, key), roommate(browser) as person:
        made = token(home.instance, key)
        await person.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await person.visit(f"{home.url}/room#token={made}")
        code = await (await person.choose()).create()
        assert person.page.url == f"{home.url}/room#{code}"
        await person.page.click("#copy")
        await person.reads("#notice", "copied")
        assert await person.page.evaluate("() => navigator.clipboard.readText()") == person.page.url
        assert made not in await addresses(person)

        async with roommate(browser) as friend:  # the link alone does not let anybody in
            await friend.page.goto(person.page.url)
            await friend.reads("#access", "A key is needed")
            assert await friend.page.is_hidden("#lobby")
            await friend.page.goto(f"{home.url}/room#{code}&token={token(home.instance, key, room=code)}")
            await friend.sees("#join:enabled")
            assert friend.page.url == f"{home.url}/room#{code}"
            await friend.page.click("#join")
            await friend.inside()

        await revoke(home.instance, key)
        await person.reads("#access", "The key was withdrawn")


async def test_where_nobody_needs_a_key_nobody_is_asked(browser, store_options):
    async with house(store_options) as home, home.node(), talker(browser) as person:
        await (await person.visit(home.url)).start()
        assert await person.page.is_hidden("#access")
