"""Processes that are told to stop, and nodes that stop reading (AC-85, AC-86)."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from fleet import Fleet, Ground, Member, arrives, fleet, ground
from lingua_scheduler.embedded import EmbeddedRedis
from processes import lingua
from world import Speaker

pytestmark = pytest.mark.timeout(120)

AUDIO = b"\x01\x7f" * 200_000  # 12.5 s


def of_instance(made: Fleet, member: Member) -> list[str]:
    """Name the keys of an instance that nobody needs after it."""
    return made.ground.all_keys(f"*instance:{member.id}}}*")


async def registered(made: Fleet) -> list[bytes]:
    """List the instances that are known."""
    return sorted(await made.redis("HKEYS", made.keys.registry()))


async def test_ac_85_what_is_in_flight_is_delivered_and_nothing_is_left(place: Ground):
    """A job of another instance on a node here, and a job of a session here on a node there."""
    async with fleet(place) as made:
        a, b = await made.run("a", "b")
        far, near = await made.node(a, "de", "fr"), await made.node(b)
        await made.serves(a, "zh")
        await made.serves(b, "de")
        here, there = await made.session(a), await made.session(b, src_lang="de", tgt_lang="fr")
        await here.say()
        await there.say()
        outgoing, incoming = await near.job(), await far.job()
        begun = time.monotonic()
        a.tell(signal.SIGTERM)
        await a.command.says("drain_started")
        assert (await made.get(a, "/ready"))[0] == 503
        await far.answer(incoming)
        await there.expect("translation_result", utterance_index=0)
        await near.answer(outgoing)
        await here.expect("translation_result", utterance_index=0)
        assert await a.command.ended() == 0
        assert time.monotonic() - begun < 30
        assert (await here.closed(), await far.closed()) == (1012, 1012)
        assert of_instance(made, a) == []
        assert not [key for key in place.all_keys() if here.id in key]
        assert await registered(made) == [b"b"]
        await b.command.says("instance_left")
        assert await made.metric(b, "instances_lost_total") == 0
        await there.say()
        spare = await made.node(b, "de", "fr")
        await spare.answer(await spare.job(utterance_index=1))
        await there.expect("translation_result", utterance_index=1)


async def test_ac_85_what_does_not_finish_in_time_goes_to_another_node(place: Ground):
    """The exit code tells that something was cut off; the session elsewhere misses nothing."""
    async with fleet(place) as made:
        a, b = await made.run("a", "b", LINGUA_DRAIN__DEADLINE_S="1")
        mute = await made.node(a)
        await made.serves(b, "zh")
        speaker = await made.session(b)
        await speaker.say()
        await mute.job()
        spare = await made.node(b)
        a.tell(signal.SIGTERM)
        assert await a.command.ended() == 3
        job = await arrives(spare, "job_assign", utterance_index=0)
        assert job["attempt_id"] == 2
        await spare.answer(job)
        await speaker.expect("translation_result", utterance_index=0)
        assert of_instance(made, a) == []
        assert await registered(made) == [b"b"]


async def test_ac_85_a_second_signal_ends_it_at_once(single_place: Ground):
    async with fleet(single_place) as made:
        [a] = await made.run("a")
        node = await made.node(a)
        speaker = await made.session(a)
        await speaker.say()
        await node.job()
        a.tell(signal.SIGTERM)
        await a.command.says("drain_started")
        a.tell(signal.SIGTERM)
        assert await a.command.ended() == 4
        assert (await speaker.closed(), await node.closed()) == (1012, 1012)
        assert of_instance(made, a) == []
        assert await registered(made) == []
        assert not [key for key in single_place.all_keys() if speaker.id in key]


async def talk(made: Fleet, member: Member) -> Speaker:
    """Open a session and say four long things."""
    speaker = await made.session(member, src_lang="en", tgt_lang="pt")
    for index in range(4):
        await speaker.utterance(index, AUDIO, src_lang="en", tgt_lang="pt")
    return speaker


async def test_ac_86_a_node_process_that_stops_reading_disturbs_nobody(single_place: Ground):
    """It loses its connection and its jobs; when it wakes up, it comes back by itself and works again."""
    settings = {"NODES__RESOURCE_THRESHOLD": "100", "NODES__MEMORY_THRESHOLD": "100"}
    settings = {"SERVER__NODES__SEND_QUEUE_BYTES": "1000000", **settings}
    async with fleet(single_place) as made:
        [a] = await made.run("a", **{f"LINGUA_{name}": value for name, value in settings.items()})
        other = await made.node(a, "de", "fr")
        demo = ("node", "--demo", "--url", a.url.replace("http", "ws"), "--languages", "en,pt")
        async with lingua(*demo, "--capacity", "256") as slow:
            await slow.says("registered as")
            await made.serves(a, "en")
            slow.tell(signal.SIGSTOP)
            speakers = await asyncio.gather(*(talk(made, a) for _ in range(12)))
            bystander = await made.session(a, src_lang="de", tgt_lang="fr")
            await bystander.say()
            await other.answer(await other.job())
            await bystander.expect("translation_result", utterance_index=0)
            await made.counts(a, "slow_consumer_closed_total")

            spare = await made.node(a, "en", "pt", max_concurrent_jobs=1)
            for _ in range(48):
                await spare.answer(await spare.job())
            for speaker in speakers:
                for index in range(4):
                    await speaker.expect("translation_result", utterance_index=index)
            await spare.hang_up()
            slow.tell(signal.SIGCONT)
            await slow.says("node_registered", times=2)
            client = await made.session(a, src_lang="en", tgt_lang="pt")
            await client.say()
            await arrives(client, "translation_result", utterance_index=0)
        assert not bystander.socket.closed
        assert not other.socket.closed


async def test_ac_85_an_instance_ends_in_time_although_redis_is_away():
    """Whatever it would still write is given up together, not one after the other."""
    with EmbeddedRedis(port=0) as server, ground([server], url=server.url) as place:
        async with fleet(place) as made:
            members = await made.run("a", "b", LINGUA_DRAIN__DEADLINE_S="1")
            node = await made.node(members[0])
            await made.serves(members[1], "zh")
            for member in members:
                speaker = await made.session(member)
                await speaker.say()
                await node.job()
            os.kill(server.pid, signal.SIGSTOP)
            try:
                begun = time.monotonic()
                for member in members:
                    member.tell(signal.SIGTERM)
                assert [await member.command.ended() for member in members] == [3, 3]
                assert time.monotonic() - begun < 1 + 7
            finally:
                os.kill(server.pid, signal.SIGCONT)
