"""The promises against a real instance: whatever clients and nodes do, each utterance ends once, in order.

Hypothesis writes the script; the sockets and Redis are real, time is moved by the script.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lingua_scheduler.store.keys import Keys
from support import leaks, wait_until
from world import FakeNode, Speaker, World, world

CAPACITY = 2
PIECE = 3000  # bytes of noise that last the longest duration
OPTIONS = {
    "server": {"nodes": {"errors_per_10s": 100_000}},  # nodes say nonsense to learn that they were heard
    "segmentation": {"pause_ms": 300, "max_duration_ms": 1000},
    "results": {"gap_timeout_ms": 2000, "late_window_ms": 6000},
    "resume": {"window_s": 0},
    "job_timeout": {"base_s": 3, "min_s": 3, "pending_s": 4, "failover_max_attempts": 2},
}
LONGEST_S = 4 * 3 + 4 * 4 + 2  # of one job: searches and attempts

number = st.integers(0, 5)
steps = st.one_of(
    st.tuples(st.sampled_from(["say", "pause", "speak_long", "final", "join"]), st.just(0)),
    st.tuples(st.sampled_from(["answer", "answer", "answer", "empty", "blank"]), number),
    st.tuples(st.sampled_from(["fail", "refuse", "repeat", "partial", "acknowledge", "die"]), number),
    st.tuples(st.just("wait"), st.sampled_from([0, 1, 2, 5])),
)


class Scene:
    """One speaker and a changing crowd of nodes that do what the script says."""

    def __init__(self, house: World, speaker: Speaker) -> None:
        self.house = house
        self.speaker = speaker
        self.nodes: list[FakeNode] = []
        self.open: list[tuple[FakeNode, dict[str, Any]]] = []  # assigned, not yet answered or cancelled
        self.answered: list[tuple[FakeNode, dict[str, Any]]] = []
        self.hushed: set[int] = set()  # indexes for which a node said that nothing was said

    # What the speaker does

    async def say(self, _: int) -> None:
        await self.speaker.say(120)

    async def pause(self, _: int) -> None:
        await self.speaker.chunk(120)
        await self.house.pass_time(0.5, self.speaker)

    async def speak_long(self, _: int) -> None:
        await self.speaker.chunk(PIECE)

    async def final(self, _: int) -> None:
        await self.speaker.final()

    async def wait(self, seconds: int) -> None:
        self.house.clock.advance(seconds + 0.5)
        for node in self.nodes:
            await node.beat()

    # What nodes do

    async def join(self, _: int) -> None:
        if len(self.nodes) < 4:
            self.nodes.append(await self.house.node(max_concurrent_jobs=CAPACITY))

    async def die(self, which: int) -> None:
        if self.nodes:
            node = self.nodes.pop(which % len(self.nodes))
            self.open = [entry for entry in self.open if entry[0] is not node]
            self.answered = [entry for entry in self.answered if entry[0] is not node]
            node.reset()
            node_gone = self.house.instance.routing.link
            await wait_until(lambda: node_gone(node.id) is None, description="the loss is noticed")

    def take(self, which: int) -> tuple[FakeNode, dict[str, Any]] | None:
        if not self.open:
            return None
        entry = self.open.pop(which % len(self.open))
        self.answered.append(entry)
        return entry

    async def answer(self, which: int) -> None:
        if entry := self.take(which):
            await entry[0].answer(entry[1])

    async def empty(self, which: int) -> None:
        if entry := self.take(which):
            self.hushed.add(entry[1]["utterance_index"])
            await entry[0].answer(entry[1], "", "", extra={"reason": "ASR_EMPTY"})

    async def blank(self, which: int) -> None:
        if entry := self.take(which):
            await entry[0].answer(entry[1], " ", "")

    async def fail(self, which: int) -> None:
        if entry := self.take(which):
            await entry[0].fail(entry[1], "PROCESSING_ERROR")

    async def refuse(self, which: int) -> None:
        if entry := self.take(which):
            await entry[0].fail(entry[1], "NODE_OVERLOADED")

    async def repeat(self, which: int) -> None:
        """Answer again, or for the first time after a cancel or another kind of answer."""
        if self.answered:
            node, job = self.answered[which % len(self.answered)]
            await node.answer(job, "又", "again")

    async def partial(self, which: int) -> None:
        for node, job in self.open[which:]:
            names = {name: job[name] for name in ("job_id", "session_id", "trace_id", "utterance_index")}
            await node.send("asr_partial", node_id=node.id, text="你", is_final=False, **names)

    async def acknowledge(self, which: int) -> None:
        for node, job in self.open[which:]:
            names = {name: job[name] for name in ("job_id", "session_id", "trace_id", "attempt_id")}
            await node.send("job_ack", node_id=node.id, **names)

    # What must hold after each step

    async def look(self) -> None:
        await self.house.settled(*self.nodes, self.speaker)
        for node in self.nodes:
            while node.seen("job_assign"):
                self.open.append((node, await node.job()))
            while node.seen("job_cancel"):
                cancel = await node.expect("job_cancel")
                attempt = (cancel["job_id"], cancel["attempt_id"])
                for entry in [e for e in self.open if (e[1]["job_id"], e[1]["attempt_id"]) == attempt]:
                    self.open.remove(entry)
                    self.answered.append(entry)
        working = Counter(node.id for node, _ in self.open)
        held = Counter(member.rsplit(" ", 1)[-1] for member in await self.house.reserved())
        assert max([0, *working.values(), *held.values()]) <= CAPACITY
        assert len({(node.id, job["job_id"]) for node, job in self.open + self.answered}) == len(
            self.open + self.answered
        ), "no node gets a job twice"

    def check(self, *, all_ended: bool) -> None:
        """Utterances end once, in order; a late result may follow once what had none."""
        kinds = {"translation_result", "missing_result"}
        ends = [(m["utterance_index"], m["type"]) for m in self.speaker.inbox if m["type"] in kinds]
        known = {m["utterance_index"] for m in self.speaker.seen("ui_event")}
        assert all(count == 1 for count in Counter(ends).values()), "nothing twice"
        late = [
            index
            for index, kind in ends
            if kind == "translation_result" and (index, "missing_result") in ends
        ]
        for index in late:
            assert ends.index((index, "missing_result")) < ends.index((index, "translation_result"))
        firsts = list(dict.fromkeys(index for index, _ in ends))
        in_order = [index for index in firsts if index not in self.hushed]
        assert in_order == sorted(in_order)
        assert set(firsts) <= known
        if all_ended:
            assert known - set(firsts) <= self.hushed, "each has an end, or a node said that nothing was said"
        assert not self.speaker.seen("error")


async def wait_for_the_end(scene: Scene) -> None:
    """Nobody says anything any more: time alone ends every job."""
    await scene.speaker.final()
    for _ in range(LONGEST_S):
        await scene.wait(1)
        await scene.house.settled(*scene.nodes, scene.speaker)
    scene.check(all_ended=True)


async def close(scene: Scene) -> None:
    """The client says goodbye; the acknowledgement is the last it hears."""
    session = scene.house.instance.sessions.get(scene.speaker.id)
    await scene.speaker.send("session_close", session_id=scene.speaker.id, reason="done")
    await wait_until(lambda: session.closing, description="the session closes")
    await scene.house.settled(*scene.nodes)
    scene.house.clock.advance(3)
    await wait_until(lambda: scene.speaker.seen("session_close_ack"), description="the close is acknowledged")
    await scene.house.settled(*scene.nodes)
    assert scene.speaker.inbox[-1]["type"] == "session_close_ack"
    scene.check(all_ended=False)


async def vanish(scene: Scene) -> None:
    """The client is gone without a word."""
    scene.speaker.reset()
    await wait_until(lambda: not len(scene.house.instance.sessions), description="the session is gone")
    await scene.house.settled(*scene.nodes)


async def play(store: Any, script: list[tuple[str, int]], ending: Callable[[Scene], Awaitable[None]]) -> None:
    async with world(store, **OPTIONS) as house:
        scene = Scene(house, await house.session())
        for what, which in [("join", 0), ("join", 0), *script]:
            await getattr(scene, what)(which)
            await scene.look()
        await ending(scene)
        assert not len(house.instance.roster)
        assert await house.reserved() == []


@pytest.fixture
def loop():
    """Give one event loop to all examples."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    script=st.lists(steps, min_size=5, max_size=25), ending=st.sampled_from([wait_for_the_end, close, vanish])
)
@pytest.mark.timeout(120)
def test_whatever_nodes_do_every_utterance_ends_once_and_in_order(
    script, ending, store_options, redis_server, loop
):
    loop.run(play(store_options, script, ending))

    with redis_server.client() as client:
        assert leaks(client, Keys(store_options.key_prefix)) == []
        assert not [key for key in client.scan_iter() if b"{session:" in key]
