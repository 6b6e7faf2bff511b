"""Whatever happens to its connections, a client that follows the protocol loses nothing and hears all once.

Hypothesis decides when the client speaks, when nodes answer, when the connection is cut and to which of two
instances the client comes back; sometimes it dies again before it has heard the answer.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from comeback import RESUMES
from neighbours import shown, two
from support import wait_until
from world import FakeNode, Speaker, World

OPTIONS = {
    "segmentation": {"pause_ms": 300, "max_duration_ms": 400},
    "results": {"gap_timeout_ms": 60_000},
    "server": {"nodes": {"errors_per_10s": 100_000}},
}
FRAME_BYTES = 60
WISH = {"client_version": "1", "platform": "t", "src_lang": "zh", "tgt_lang": "en"}

steps = st.one_of(
    st.tuples(st.sampled_from(["speak", "speak", "speak", "finish"]), st.just(0)),
    st.tuples(st.just("answer"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["cut", "cut", "deaf", "overtake"]), st.integers(0, 1)),
    st.tuples(st.sampled_from(["acknowledge", "wait"]), st.just(0)),
)


def frame(number: int) -> bytes:
    """Make audio that says which frame it is; it does not parse as Opus, so 60 bytes last 20 ms."""
    return b"\xff\xff" + number.to_bytes(4, "big") + b"\xff" * (FRAME_BYTES - 6)


def frames_of(audio: bytes) -> list[int]:
    """Tell which frames a job's audio consists of."""
    assert len(audio) % FRAME_BYTES == 0
    pieces = [audio[at : at + FRAME_BYTES] for at in range(0, len(audio), FRAME_BYTES)]
    return [int.from_bytes(piece[2:6], "big") for piece in pieces]


class Traveller:
    """A client that keeps what is not acknowledged, and says when it returns what it has."""

    def __init__(self, houses: tuple[World, World], nodes: list[FakeNode]) -> None:
        self.houses = houses
        self.nodes = nodes
        self.seq = 0
        self.kept: dict[int, tuple[bytes, bool]] = {}
        self.heard: dict[int, list[int]] = {}  # frames of each utterance, by index, in the order of the ends
        self.tries = self.attempts = 0
        self.speaker: Speaker

    async def begin(self) -> None:
        """Open the session."""
        self.speaker = await self.houses[0].session(**RESUMES)

    # What the script does

    async def speak(self, _: int, *, final: bool = False) -> None:
        """Say one frame."""
        self.kept[self.seq] = (frame(self.seq), final)
        self.seq += 1
        await self._send(self.seq - 1)

    async def finish(self, _: int) -> None:
        """Say one frame that ends the utterance."""
        await self.speak(0, final=True)

    async def answer(self, which: int) -> None:
        """Let a node answer one of the jobs it has."""
        waiting = [(node, job) for node in self.nodes for job in node.seen("job_assign")]
        if waiting:
            node, job = waiting[which % len(waiting)]
            node.inbox.remove(job)
            await reply(node, job)

    async def cut(self, where: int) -> None:
        """Lose the connection and come back."""
        self.speaker.reset()
        await self._return(where)

    async def deaf(self, where: int) -> None:
        """Come back and lose the connection again before the answer is heard."""
        self.speaker.reset()
        dying = await self.houses[1 - where].speaker()
        await dying.send("session_init", **self._wish())
        dying.reset()
        await self._return(where)

    async def overtake(self, where: int) -> None:
        """Come back while the old connection is still open."""
        before = self.speaker
        await self._return(where)
        await before.closed()

    async def acknowledge(self, _: int) -> None:
        """Say which results have arrived."""
        self._listen()
        if self.heard:
            about = {"session_id": self.speaker.id, "utterance_index": max(self.heard)}
            await self.speaker.send("result_ack", **about)

    async def wait(self, _: int) -> None:
        """Say nothing for longer than the pause."""
        await self.speaker.sync()
        for house in self.houses:
            house.clock.advance(0.5)

    # How it follows the protocol

    def _wish(self) -> dict[str, Any]:
        self._listen()
        self.attempts += 1
        token = {
            "resume_token": self.speaker.ack["resume_token"],
            "resume_try": f"t-{self.tries}",
            "resume_attempt": self.attempts,
        }
        return {**WISH, **RESUMES, **token, "received_through": max(self.heard, default=None)}

    async def _return(self, where: int) -> None:
        wish, before = self._wish(), self.speaker
        self.speaker = await (await self.houses[where].speaker()).init(**wish)
        self.tries += 1
        assert self.speaker.ack["resumed"] is True
        assert self.speaker.id == before.id
        last_seq = self.speaker.ack.get("last_seq", -1)
        for number in [number for number in self.kept if number > last_seq]:
            await self._send(number)

    async def _send(self, number: int) -> None:
        audio, final = self.kept[number]
        await self.speaker.chunk(audio, final=final, seq=number)

    def _listen(self) -> None:
        for message in self.speaker.inbox:
            if message["type"] == "translation_result":
                index = message["utterance_index"]
                assert index not in self.heard, f"{index} came twice"
                assert index > max(self.heard, default=-1), f"{index} came after {max(self.heard)}"
                self.heard[index] = [int(number) for number in message["text_asr"].split()]
            elif message["type"] == "audio_ack":
                self.kept = {at: value for at, value in self.kept.items() if at > message["seq"]}
            assert message["type"] not in ("missing_result", "error"), message
        self.speaker.inbox.clear()

    async def conclude(self) -> None:
        """End the utterance, have everything answered, and check what arrived."""
        await self.finish(0)

        async def complete() -> bool:
            await self.answer(0)
            self._listen()
            return sum(map(len, self.heard.values())) >= self.seq

        await wait_until(complete, description=f"{self.seq} frames are answered")
        told = [number for frames in self.heard.values() for number in frames]
        assert told == list(range(self.seq))
        await self.speaker.send("session_close", session_id=self.speaker.id, reason="done")
        await self.speaker.expect("session_close_ack")


async def reply(node: FakeNode, job: dict[str, Any]) -> None:
    """Answer a job with the numbers of its frames."""
    words = " ".join(map(str, frames_of(base64.b64decode(job["audio"]))))
    await node.answer(job, words, words)


async def play(store: Any, script: list[tuple[str, int]]) -> None:
    async with two(store, **OPTIONS) as houses:
        nodes = [await house.node(features=["exact_flags", "any_order"]) for house in houses]
        for house in houses:
            await shown(house, 2)
        traveller = Traveller(houses, nodes)
        await traveller.begin()
        for what, which in script:
            await getattr(traveller, what)(which)
        await traveller.conclude()
        session_id = traveller.speaker.id
        for house in houses:
            await house.settled()
            assert house.instance.sessions.get(session_id) is None

        async def free() -> bool:
            return await houses[0].reserved() == []

        await wait_until(free, description="no slot is taken")


@pytest.fixture
def loop():
    """Give one event loop to all examples."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(script=st.lists(steps, min_size=5, max_size=30))
@pytest.mark.timeout(180)
def test_whatever_happens_to_connections_nothing_is_lost_or_told_twice(script, store_options, loop):
    loop.run(play(store_options, script))
