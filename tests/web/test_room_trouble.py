"""Rooms when something is wrong: wrong codes, lost connections, old clients, strange names, no microphone."""

from __future__ import annotations

import base64
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.edge.server import SESSION_PATH
from lingua_scheduler.node.job import JobFailed, Translation
from lingua_scheduler.wire.opus import decode_opus
from support import wait_until
from web.browser import AWAY, chromium
from web.roommate import gathering, roommate
from web.sound import voice
from web.talker import PATIENCE_S, house

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN = {"name": "Ann", "lang": "en"}
BO = {"name": "Bo", "lang": "pt"}
MARKUP = "<img src=x onerror=alert(1)><b>Eve"


class OldClient:
    """A client of the first generation: a plain WebSocket that knows nothing of resuming, modes or acks."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self.session_id = ""

    async def send(self, message_type: str, **members: Any) -> None:
        """Send one message."""
        await self._socket.send_json({"type": message_type, **members})

    async def expect(self, message_type: str) -> dict[str, Any]:
        """Read until a message of this type comes."""
        while True:
            message = await self._socket.receive_json(timeout=PATIENCE_S)
            if message["type"] == message_type:
                return message


@asynccontextmanager
async def old_client(url: str, src: str, tgt: str):
    """Connect and open a session as the first web client did."""
    async with aiohttp.ClientSession() as http, http.ws_connect(url + SESSION_PATH) as socket:
        client = OldClient(socket)
        await client.send(
            "session_init", client_version="1.0.0", platform="web", src_lang=src, tgt_lang=tgt, mode="one_way"
        )
        client.session_id = (await client.expect("session_init_ack"))["session_id"]
        yield client


async def test_a_client_of_the_first_generation_shares_the_room(browser, store_options):
    """It says no language of its own in a room, hears plain samples, and is heard."""
    sound = Translation(text_asr="Hello.", text_translated="Olá.", tts_audio=voice(0.3), tts_format="opus")
    async with house(store_options) as home, home.node() as node, roommate(browser) as ann:
        await (await ann.visit(f"{home.url}/room")).choose(**ANN)
        code = await ann.create()
        async with old_client(home.url, "pt", "en") as old:
            await old.send("room_join", room_code=code, display_name="Bea", preferred_lang="pt")
            assert (await old.expect("room_create_ack"))["room_code"] == code
            assert len((await old.expect("room_members"))["members"]) == 2
            await ann.meets("Ann (you)", "Bea")

            await ann.say()
            await node.answer(await node.next_job(), sound)
            result = await old.expect("translation_result")
            assert result["text_translated"] == "Olá."
            assert result["tts_format"] == "pcm16"
            assert len(base64.b64decode(result["tts_audio"])) == len(decode_opus(voice(0.3)))

            chunk = {"session_id": old.session_id, "seq": 0, "payload": base64.b64encode(voice(1.0)).decode()}
            await old.send("audio_chunk", is_final=True, **chunk)
            job = await node.next_job()
            assert (job.src_lang, job.tgt_lang) == ("pt", "en")
            await node.answer(job, Translation(text_asr="Bom dia.", text_translated="Good morning."))
            await ann.reads_line("Bea", "Good morning.", "Bom dia.")
        await ann.meets("Ann (you)")
        await ann.reads("#lines .event:last-child", "Bea has left.")


async def test_a_cut_in_the_middle_of_a_sentence_keeps_the_room_and_loses_nothing(browser, store_options):
    async with (
        house(store_options, segmentation={"pause_ms": 60_000}) as home,
        home.node() as node,
        gathering(browser, home, ANN, BO) as (ann, bo),
    ):
        await ann.connected(1)
        await ann.press()
        await ann.spoke(6)

        home.cut()

        for person in (ann, bo):
            await person.reads("#notice", "Nothing was lost")
        await ann.spoke(6)
        await ann.release()
        job = await node.next_job()
        await wait_until(  # the browser tells late what it has sent
            lambda: job.audio == ann.spoken(), description="all that was spoken is in the job, once"
        )
        await node.answer(job, Translation(text_asr="all of it", text_translated="tudo"))
        await bo.reads_line("Ann", "tudo", "all of it")
        assert await bo.members() == ["Ann", "Bo (you)"]
        assert len(ann.said("room_create")) == len(bo.said("room_join")) == 1
        await ann.connected(1)
        await bo.connected(1)


async def test_what_was_said_while_somebody_was_away_comes_once(browser, store_options):
    async with (
        house(store_options) as home,
        home.node() as node,
        gathering(browser, home, ANN, BO) as (ann, bo),
    ):
        for person in (ann, bo):
            person.watch.excused += AWAY
        await ann.say()
        job = await node.next_job()
        home.instance.edge.drain()
        home.cut()
        await bo.sees('#state[data-state="waiting"]')
        await node.answer(job, Translation(text_asr="Hello.", text_translated="Olá."))
        home.instance.edge.resume()

        await bo.reads_line("Ann", "Olá.", "Hello.")
        await ann.sees('#state[data-state="open"]')
        await ann.say()
        await node.answer(await node.next_job(), Translation(text_asr="Yes.", text_translated="Sim."))
        await bo.reads_line("Ann", "Sim.", "Yes.")
        assert len(await bo.heard()) == 2


async def test_names_are_never_read_as_markup(browser, store_options):
    eve = {"name": MARKUP, "lang": "pt"}
    async with (
        house(store_options) as home,
        home.node() as node,
        gathering(browser, home, ANN, eve) as (ann, bo),
    ):
        await ann.meets("Ann (you)", MARKUP)
        await bo.say()
        await node.answer(await node.next_job(), Translation(text_asr="<b>x</b>", text_translated="<i>y</i>"))
        await ann.reads_line(MARKUP, "<i>y</i>", "<b>x</b>")
        assert await ann.page.locator("main img, main b, main i").count() == 0
        assert await ann.page.locator(".mute:visible").get_attribute("title") == (
            f"Do not hear {MARKUP}'s own voice"
        )


@pytest.mark.parametrize(
    ("locale", "words"), [("en-US", "There is no room 111111"), ("zh-CN", "没有房间 111111")]
)
async def test_a_code_that_leads_nowhere_is_explained(browser, store_options, locale, words):
    async with house(store_options) as home, home.node(), roommate(browser, locale=locale) as person:
        await person.visit(f"{home.url}/room/111111")
        await person.page.click("#join")
        await person.reads("#notice", words)
        await person.sees("#lobby:not([hidden])")
        assert await person.page.input_value("#code") == "111111"
        await wait_until(lambda: person.said("session_close"), description="the session is closed")


async def test_after_several_wrong_codes_people_are_told_to_wait(browser, store_options):
    async with house(store_options) as home, home.node(), roommate(browser) as person:
        await person.visit(f"{home.url}/room/111111")
        for _ in range(4):
            await person.sees("#join:enabled")
            await person.sees("#lobby:not([inert])")
            await person.page.click("#join")
            await person.sees("#notice:not([hidden])")
        await person.reads("#notice", "please wait")


async def test_a_room_that_is_full_or_has_ended_says_so(browser, store_options):
    async with (
        house(store_options, rooms={"capacity": 2, "expiry_s": 5}) as home,
        home.node(),
        gathering(browser, home, ANN, BO) as (ann, bo),
        roommate(browser) as third,
    ):
        code = ann.page.url.partition("#")[2]
        await third.visit(f"{home.url}/room/{code}")
        await third.page.click("#join")
        await third.reads("#notice", f"Room {code} is full")
        for person in (ann, bo):
            await person.reads("#notice", "nobody spoke")
            await person.sees("#lobby:not([hidden])")


async def test_a_server_that_forgot_the_session_is_entered_again_by_the_code(browser, store_options):
    async with (
        house(store_options, resume={"window_s": 0}) as home,
        home.node() as node,
        gathering(browser, home, ANN, BO) as (ann, bo),
        roommate(browser) as third,
    ):
        code = ann.page.url.partition("#")[2]
        await (await third.visit(f"{home.url}/room/{code}")).choose(name="Chen", lang="zh")
        await third.join(code)
        await bo.sees("#members .member", count=3)
        home.session_pumps()[0].cut()
        await wait_until(
            lambda: ann.said("room_join") or bo.said("room_join")[1:] or third.said("room_join")[1:],
            description="somebody goes back",
        )
        for person in (ann, bo, third):
            await person.sees("#members .member", count=3)
        await third.say()
        for _ in range(2):
            job = await node.next_job()
            await node.answer(job, Translation(text_asr="你好", text_translated=f"hello in {job.tgt_lang}"))
        await ann.reads_line("Chen", "hello in en", "你好")
        await bo.reads_line("Chen", "hello in pt", "你好")


async def test_without_a_microphone_people_read_and_hear(store_options, microphone):
    async with (
        house(store_options) as home,
        home.node() as node,
        chromium(microphone, flags=()) as browser,
        roommate(browser) as listener,
        roommate(browser, permissions=["microphone"]) as ann,
    ):
        await (await ann.visit(f"{home.url}/room")).choose(**ANN)
        code = await ann.create()
        await (await listener.visit(f"{home.url}/room/{code}")).choose(**BO)
        await listener.page.click("#join")
        await listener.reads("#notice", "microphone is not allowed")
        await listener.reads("#talk-text", "Use microphone")
        await ann.meets("Ann (you)", "Bo")
        await ann.say()
        await node.answer(
            await node.next_job(),
            Translation(text_asr="Hello.", text_translated="Olá.", tts_audio=voice(0.3), tts_format="opus"),
        )
        await listener.reads_line("Ann", "Olá.", "Hello.")
        await wait_until(listener.played, description="the voice is heard")

        await listener.page.context.grant_permissions(["microphone"])
        await listener.page.click("#talk")
        await listener.inside()
        await listener.say()
        assert (await node.next_job()).tgt_lang == "en"


async def test_what_could_not_be_translated_is_said_to_those_who_wait_for_it(browser, store_options):
    async with (
        house(store_options) as home,
        home.node() as node,
        gathering(browser, home, ANN, BO) as (ann, bo),
    ):
        await ann.say()
        await node.answer(await node.next_job(), JobFailed("PROCESSING_ERROR", "no"))
        await bo.sees('.heard[data-state="missing"]', count=1)
