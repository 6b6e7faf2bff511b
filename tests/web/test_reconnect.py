"""The connection breaks and comes back: people are told, and no sentence is lost."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from lingua_scheduler.app import running
from lingua_scheduler.config import Config
from lingua_scheduler.node.job import Translation
from support import wait_until
from web.browser import AWAY
from web.talker import House, house, talker
from world import configured

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATIENT = {"pause_ms": 60_000}  # no sentence ends because a browser is slow to come back


async def test_a_cut_in_the_middle_of_a_sentence_loses_nothing(browser, store_options):
    """Every frame that left the microphone, before the cut, during it and after, is in the one job, once."""
    async with (
        house(store_options, segmentation=PATIENT) as home,
        home.node() as node,
        talker(browser) as person,
    ):
        await (await person.visit(home.url)).start()
        await person.press()
        await person.spoke(6)

        home.cut()

        await person.sees('#state[data-state="waiting"]')
        await person.sees('#state[data-state="open"]')
        await person.reads("#notice", "Nothing was lost")
        await person.spoke(6)
        await person.release()
        job = await node.next_job()
        await wait_until(  # the browser tells late what it has sent
            lambda: job.audio == person.spoken(), description="all that was spoken is in the job, once"
        )
        assert job.utterance_index == 0
        await node.answer(job, Translation(text_asr="all of it", text_translated="tudo"))
        await person.sees('.line[data-state="done"]')
        assert await person.lines() == [["done", "all of it", "tudo"]]
        first, second = person.said("session_init")
        assert "resume_token" not in first
        assert second["resume_token"]


async def test_what_is_said_while_the_connection_is_away_is_sent_when_it_is_back(browser, store_options):
    async with house(store_options) as home, home.node() as node, talker(browser) as person:
        await (await person.visit(home.url)).start()
        home.instance.edge.drain()  # no new connection for now
        home.cut()
        person.watch.excused += AWAY
        await person.sees('#state[data-state="waiting"]')

        await person.press()
        await person.reads(".line .said", "Listening")
        await person.sees(".notice:not([hidden])")
        home.instance.edge.resume()
        await person.sees('#state[data-state="open"]')
        await person.spoke(8)
        await person.release()

        await node.answer(await node.next_job())
        await person.sees('.line[data-state="done"]')


async def test_a_result_of_meanwhile_comes_once(browser, store_options):
    async with house(store_options) as home, home.node() as node, talker(browser) as person:
        await (await person.visit(home.url)).start()
        await person.say()
        job = await node.next_job()
        home.instance.edge.drain()
        home.cut()
        person.watch.excused += AWAY
        await person.sees('#state[data-state="waiting"]')
        await node.answer(job)
        home.instance.edge.resume()

        await person.sees('.line[data-state="done"]')
        await person.say()
        await node.answer(await node.next_job())

        await person.sees('.line[data-state="done"]', count=2)
        assert [said for _, said, _ in await person.lines()] == ["utterance 0", "utterance 1"]
        await wait_until(
            lambda: (
                person.wire.said("result_ack")[-1:]
                and person.wire.said("result_ack")[-1]["utterance_index"] == 1
            ),
            description="both results are acknowledged",
        )


@asynccontextmanager
async def restarted(config: Config, home: House):
    """Run another instance where one was."""
    port = int(home.url.rpartition(":")[2])
    async with running(replace(config, server=replace(config.server, port=port))) as instance:
        yield House(instance)


async def test_another_instance_takes_over_in_the_middle_of_a_sentence(browser, store_options):
    config = configured(store_options, segmentation=PATIENT)
    async with talker(browser) as person:
        person.watch.excused += AWAY
        async with running(config) as instance:
            first = House(instance)
            async with first.node():
                await (await person.visit(first.url)).start()
                await person.press()
                await person.spoke(6)
        await person.sees('#state[data-state="waiting"]')

        async with restarted(config, first) as second, second.node() as node:
            await person.page.evaluate("() => dispatchEvent(new Event('online'))")
            await person.reads("#notice", "Nothing was lost")
            await person.spoke(6)
            await person.release()
            job = await node.next_job()

            await wait_until(  # the browser tells late what it has sent
                lambda: job.audio == person.spoken(), description="all that was spoken is in the job, once"
            )
            await node.answer(job)
            await person.sees('.line[data-state="done"]')


async def test_a_server_that_forgot_the_session_is_talked_to_anew(browser, store_options):
    """The page says that the last words may be missing; what is said afterwards is translated."""
    config = configured(store_options, resume={"window_s": 0})
    async with talker(browser) as person:
        person.watch.excused += AWAY
        async with running(config) as instance:
            first = House(instance)
            async with first.node():
                await (await person.visit(first.url)).start()
        await person.sees('#state[data-state="waiting"]')
        await person.reads("#notice", "connection was lost")

        async with restarted(config, first) as second, second.node() as node:
            await person.page.evaluate("() => dispatchEvent(new Event('online'))")
            await person.reads("#notice", "new talk has begun")
            await person.say()
            await node.answer(await node.next_job())
            await person.sees('.line[data-state="done"]')


async def test_a_code_that_means_give_up_is_said_and_not_tried_again(browser, store_options):
    async with house(store_options) as home, home.node(), talker(browser) as person:
        await (await person.visit(home.url)).start()

        home.close(4529)

        await person.reads("#notice", "4529")
        await person.sees('#state[data-state="ended"]')
        await person.sees("#end:disabled")
        assert len(person.wires) == 1
        await person.page.click("#notice .act")
        await person.sees('#state[data-state="open"]')
