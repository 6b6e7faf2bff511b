"""Redis stops answering, dies and comes back empty, or loses everything, under processes that serve.

AC-83, AC-84, decision 10: sockets stay, new work is refused with a reason, and everything resumes by itself.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fleet import RESUMES, Fleet, Ground, Member, arrives, fleet, ground
from lingua_scheduler.embedded import EmbeddedRedis
from support import wait_until
from world import FakeNode, Speaker

pytestmark = pytest.mark.timeout(120)

VOICE = b"\x01\x02" * 4000
ENDS = ("translation_result", "missing_result")


@pytest.fixture
def server():
    """Run a Redis of the test's own, which it may break."""
    with EmbeddedRedis(port=0) as made:
        yield made


@pytest.fixture
def place(server):
    """Give that Redis under a prefix."""
    with ground([server], url=server.url) as made:
        yield made


@asynccontextmanager
async def going_on(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Let something go on for the length of a block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def answer_all(node: FakeNode) -> None:
    """Answer every job at once."""
    while True:
        await wait_until(lambda: node.seen("job_assign"), description="a job", timeout_s=600)
        await node.answer(await node.job())


async def beat(node: FakeNode) -> None:
    """Send heartbeats."""
    while True:
        await node.beat()
        await asyncio.sleep(5)


class Talk:
    """A client that keeps talking; every utterance must end once, in order."""

    def __init__(self, speaker: Speaker, *, pause_s: float = 0.1) -> None:
        self.speaker = speaker
        self.said = 0
        self._pause_s = pause_s
        self._task = asyncio.create_task(self._talk())

    async def _talk(self) -> None:
        while True:
            await self.speaker.say()
            self.said += 1
            await asyncio.sleep(self._pause_s)

    @property
    def ends(self) -> list[dict[str, object]]:
        """The ends of utterances so far."""
        return [message for message in self.speaker.inbox if message["type"] in ENDS]

    @property
    def results(self) -> int:
        """How many of them are results."""
        return sum(message["type"] == ENDS[0] for message in self.ends)

    async def stop(self) -> None:
        """Be quiet; return when everything has ended, and check the order."""
        self._task.cancel()
        await asyncio.wait((self._task,))
        await wait_until(lambda: len(self.ends) >= self.said, description="all has ended", timeout_s=30)
        assert [message["utterance_index"] for message in self.ends] == list(range(self.said))


async def complains_about_redis(made: Fleet, member: Member) -> bool:
    status, text = await made.get(member, "/ready")
    assert (await made.get(member, "/health"))[0] == 200
    return status == 503 and any("redis" in each for each in json.loads(text)["complaints"])


async def ready(made: Fleet, *members: Member) -> None:
    """Wait until instances are ready and known to each other again."""

    async def fine(member: Member) -> bool:
        return (await made.get(member, "/ready"))[0] == 200

    for member in members:
        await wait_until(lambda member=member: fine(member), description="it is ready", timeout_s=5)
        await made.redis_until(bool, "EXISTS", made.keys.presence(member.id))
    await made.acquainted(*members)


async def owned(made: Fleet, speaker: Speaker, member: Member) -> None:
    """Wait until a session's record says who owns it, be the session quiet or not."""
    key = made.keys.session(speaker.id)
    await made.redis_until(lambda owner: owner == member.id.encode(), "HGET", key, "owner", timeout_s=5)


def freeze(server: EmbeddedRedis) -> None:
    os.kill(server.pid, signal.SIGSTOP)


def thaw(server: EmbeddedRedis) -> None:
    os.kill(server.pid, signal.SIGCONT)


WAYS = {"frozen": (freeze, thaw), "killed": (EmbeddedRedis.kill, EmbeddedRedis.start)}


@pytest.mark.parametrize("way", WAYS)
async def test_ac_83_redis_goes_and_comes_back_under_load(place: Ground, server: EmbeddedRedis, way: str):
    away, back = WAYS[way]
    async with fleet(place) as made:
        a, b = await made.run("a", "b")
        node = await made.node(a, max_concurrent_jobs=64)
        slow = await made.node(a, "de", "fr")
        await made.serves(b, "zh")
        await made.serves(b, "de")
        here, there = await made.session(a, **RESUMES), await made.session(b, **RESUMES)
        quiet = await made.session(b, **RESUMES)
        waiting = await made.session(b, src_lang="de", tgt_lang="fr")
        await waiting.say()
        job = await slow.job()
        talks = [Talk(here), Talk(there)]
        async with going_on(answer_all(node)):
            await wait_until(lambda: all(talk.results >= 3 for talk in talks), description="both are served")
            away(server)
            said = [talk.said for talk in talks]
            try:
                await slow.answer(job, tts_audio=base64.b64encode(VOICE).decode(), tts_format="pcm16")
                for talk in talks:
                    await arrives(
                        talk.speaker, "ui_event", event="ERROR", error_code="SCHEDULER_DEPENDENCY_DOWN"
                    )
                for member in (a, b):
                    await wait_until(
                        lambda member=member: complains_about_redis(made, member), description="not ready"
                    )
                await wait_until(
                    lambda: all(talk.said >= count + 10 for talk, count in zip(talks, said, strict=True)),
                    description="much was said meanwhile",
                )
            finally:
                back(server)
            told = [talk.results for talk in talks]
            await wait_until(
                lambda: all(talk.results > count for talk, count in zip(talks, told, strict=True)),
                description="dispatch goes on",
                timeout_s=5,
            )
            await ready(made, a, b)
            await owned(made, here, a)
            await owned(made, there, b)
            await owned(made, quiet, b)
            held = await arrives(waiting, "translation_result", utterance_index=0)
            assert base64.b64decode(held["tts_audio"]) == VOICE
            for talk in talks:
                await talk.stop()
                assert not talk.speaker.socket.closed
        assert not node.socket.closed
        assert not slow.socket.closed
        assert a.command.process.returncode is b.command.process.returncode is None


async def test_ac_84_after_a_flush_all_nodes_are_chosen_and_sessions_go_on(
    place: Ground, server: EmbeddedRedis
):
    async with fleet(place) as made:
        a, b = await made.run("a", "b")
        near, far = await made.node(a), await made.node(b, "de", "fr")
        await made.serves(b, "zh")
        await made.serves(a, "de")
        sessions = [
            (near, await made.session(b, **RESUMES)),
            (far, await made.session(a, src_lang="de", tgt_lang="fr", **RESUMES)),
        ]
        quiet = await made.session(b, **RESUMES)
        for node, speaker in sessions:
            await speaker.say()
            await node.answer(await node.job())
            await speaker.expect("translation_result", utterance_index=0)
        with server.client() as client:
            client.flushall()
        for node, speaker in sessions:
            await speaker.say()
            await node.answer(await arrives(node, "job_assign", timeout_s=20))
            await arrives(speaker, "translation_result", utterance_index=1)
        await ready(made, a, b)
        for (_, speaker), member in zip(sessions, (b, a), strict=True):
            await owned(made, speaker, member)
        await owned(made, quiet, b)
        again = await made.resumed(a, quiet)
        await again.sync()
        assert not any(speaker.seen("missing_result") for _, speaker in sessions)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("way", WAYS)
async def test_ac_83_redis_is_away_for_a_minute(place: Ground, server: EmbeddedRedis, way: str):
    """What could not wait any longer is told as missing, with the reason; the rest is as after a moment."""
    away, back = WAYS[way]
    async with fleet(place) as made:
        a, b = await made.run("a", "b")
        node = await made.node(a, max_concurrent_jobs=64)
        await made.serves(b, "zh")
        talks = [Talk(await made.session(each, **RESUMES), pause_s=0.5) for each in (a, b)]
        async with going_on(answer_all(node)), going_on(beat(node)):
            await wait_until(lambda: all(talk.results >= 3 for talk in talks), description="both are served")
            away(server)
            await asyncio.sleep(60)
            for member in (a, b):
                assert await complains_about_redis(made, member)
            back(server)
            told = [talk.results for talk in talks]
            await wait_until(
                lambda: all(talk.results > count for talk, count in zip(talks, told, strict=True)),
                description="dispatch goes on",
                timeout_s=5,
            )
            await ready(made, a, b)
            for talk, member in zip(talks, (a, b), strict=True):
                await owned(made, talk.speaker, member)
                await talk.stop()
                missing = [end for end in talk.ends if end["type"] == "missing_result"]
                reasons = Counter(end["reason"] for end in missing)
                assert reasons.keys() <= {"scheduler_dependency_down", "no_available_node"}
                assert reasons["no_available_node"] < 10, "only before the node's lapsed lease is renewed"
                assert reasons["scheduler_dependency_down"] > 50
