"""What a large room costs: one speaker, many listeners in several languages, on two instances.

Two instances run as processes on one Redis, with one node at the first. Listeners come to both in turn, and
want all languages. Measured is the time from the node's answer to each listener, which includes reading by
the one process that plays all of them; and counted is what was done for it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Self
from urllib.request import urlopen

from lingua_scheduler.bench.machine import places
from lingua_scheduler.bench.probe import cpu_us_of
from lingua_scheduler.bench.process import BenchError, Running, instance
from lingua_scheduler.bench.quantile import quantile
from lingua_scheduler.client.session import SessionClient, wish_for
from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.node.job import Translation
from lingua_scheduler.node.scripted import Script, ScriptedNode
from lingua_scheduler.wire.node import JobAssign
from lingua_scheduler.wire.session import (
    RoomCreate,
    RoomCreateAck,
    RoomJoin,
    RoomMembers,
    TranslationResult,
)

LANGUAGES = ("en", "ja", "de", "fr", "es", "pt")
GOAL_P99_MS = 500.0  # of which the listeners' process needs the most
MOST_ROUNDS = 100
_SPEECH = b"\x00\x7f" * 3000
_VOICE = b"\x00\x01" * 8000
_WARM_UP = 3
_PATIENCE_S = 30.0
_QUIET_S = 1.0
_COUNTED = ("room_results_total", "room_encodings_total", "room_deliveries_total", "room_text_jobs_total")


@dataclass(frozen=True, slots=True)
class Report:
    """How long listeners waited, and what was done for them."""

    listeners: int
    utterances: int
    waited_ms: dict[str, tuple[float, ...]]  # by the instance of the listener
    counts: dict[str, int]
    cpu_us: float = 0.0  # of the instances, less what they use when nobody speaks

    def lines(self) -> list[str]:
        """Word the table for people."""
        rows = [
            f"{name:>16}{len(times):>8}{quantile(times, 0.5):>9.2f}{quantile(times, 0.99):>9.2f}"
            for name, times in self.waited_ms.items()
        ]
        said = f"{self.listeners} listeners, {len(LANGUAGES)} languages, {self.utterances} utterances"
        counted = [f"{count / self.utterances:>9.2f} {name}" for name, count in self.counts.items()]
        head = f"{'listener on':>16}{'heard':>8}{'p50':>9}{'p99':>9}"
        counted.append(f"{self.cpu_us / self.utterances / self.listeners:>9.2f} us of cpu for each listener")
        return [said, "milliseconds from the node's answer", head, *rows, "for each utterance", *counted]

    def missed(self) -> list[str]:
        """Name the goals that were not met."""
        found = []
        worst_ms = max(quantile(times, 0.99) for times in self.waited_ms.values())
        if worst_ms > GOAL_P99_MS:
            found.append(f"a listener waits {worst_ms:.1f} ms at p99, goal {GOAL_P99_MS:.0f}")
        most = {"recognitions": 1, "jobs": len(LANGUAGES), "room_encodings_total": 2 * len(LANGUAGES)}
        for name, limit in most.items():
            if self.counts[name] > limit * self.utterances:
                found.append(f"{self.counts[name] / self.utterances:.2f} {name}, goal {limit}")
        return found


@dataclass(slots=True)
class _Node:
    """What the node was asked for, and when it answered."""

    answered: dict[tuple[int, str], float] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def answer(self, job: JobAssign) -> Translation:
        self.counts["jobs"] += 1
        self.counts["recognitions"] += job.text is None
        self.answered[job.utterance_index, job.tgt_lang] = time.perf_counter()
        voice = _VOICE if job.pipeline.use_tts else b""
        return Translation(text_asr="said", text_translated=f"in {job.tgt_lang}", tts_audio=voice)


async def measure(*, rounds: int, listeners: int) -> Report:
    """Speak so many utterances to so many listeners."""
    redis = EmbeddedRedis()
    await asyncio.to_thread(redis.start)
    try:
        cores = places(frozenset(os.sched_getaffinity(0))).instances
        room = {"LINGUA_ROOMS__CAPACITY": str(listeners + 1), "LINGUA_ROOMS__GUESSES_PER_MINUTE": "1000"}
        async with (
            instance(redis.url, "bench-a", room, cores=cores) as a,
            instance(redis.url, "bench-b", room, cores=cores) as b,
        ):
            return await _measured({"same": a, "other": b}, rounds, listeners)
    finally:
        await asyncio.to_thread(redis.stop)


async def _measured(instances: dict[str, Running], rounds: int, listeners: int) -> Report:
    node = _Node()
    addresses = {place: each.url for place, each in instances.items()}
    pids = tuple(each.pid for each in instances.values())
    script = Script(
        languages=("zh", *LANGUAGES), capacity=64, rule=node.answer, text_jobs=True, node_id="bench-node"
    )
    home = next(iter(addresses.values()))
    async with ScriptedNode(home, script), _Guests() as guests:
        speaker, code = await guests.open(home)
        sides = list(addresses)
        for at in range(listeners):
            place, lang = sides[at % len(sides)], LANGUAGES[at // len(sides) % len(LANGUAGES)]
            await guests.join(addresses[place], place, code, lang)
        await guests.gathered(listeners + 1)
        meter = await _Meter.alone(pids)
        for number in range(_WARM_UP + rounds):
            if number == _WARM_UP:
                node.counts.clear()
                guests.waited.clear()
                before = await _counts(addresses)
                meter.start()
            await speaker.send_audio(_SPEECH, final=True)
            await guests.heard(node)
        cpu_us = meter.own_us()
        counts = {name: value - before[name] for name, value in (await _counts(addresses)).items()}
    waited = {place: tuple(guests.waited[place]) for place in sides}
    return Report(listeners, rounds, waited, {**node.counts, **counts}, cpu_us)


@dataclass(slots=True)
class _Meter:
    """Processor time of the instances."""

    pids: tuple[int, ...]
    idle: float  # microseconds each second while nobody speaks
    begun: tuple[float, float] = (0.0, 0.0)

    @classmethod
    async def alone(cls, pids: tuple[int, ...]) -> _Meter:
        """Look at them while nobody speaks."""
        meter = cls(pids, 0.0)
        meter.start()
        await asyncio.sleep(_QUIET_S)
        meter.idle = meter.own_us() / _QUIET_S
        return meter

    def start(self) -> None:
        """Begin to count."""
        self.begun = time.monotonic(), sum(map(cpu_us_of, self.pids))

    def own_us(self) -> float:
        """Give what was used since the start beyond what is used anyway."""
        at_s, before_us = self.begun
        spent_us = sum(map(cpu_us_of, self.pids)) - before_us
        return max(0.0, spent_us - self.idle * (time.monotonic() - at_s))


class _Guests:
    """Everybody in the room."""

    def __init__(self) -> None:
        self._clients: list[tuple[SessionClient, str]] = []
        self._connections = AsyncExitStack()
        self.waited: dict[str, list[float]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connections.aclose()

    async def _arrive(self, address: str, place: str) -> SessionClient:
        connecting = SessionClient.connect(address, wish_for("zh", "en", audio_format="pcm16"))
        client = await self._connections.enter_async_context(connecting)
        self._clients.append((client, place))
        return client

    async def open(self, address: str) -> tuple[SessionClient, str]:
        speaker = await self._arrive(address, "")
        await speaker.send(RoomCreate(client_ts=0, preferred_lang="zh"))
        return speaker, (await speaker.expect(RoomCreateAck)).room_code

    async def join(self, address: str, place: str, code: str, lang: str) -> None:
        client = await self._arrive(address, place)
        await client.send(RoomJoin(room_code=code, preferred_lang=lang))
        await client.expect(RoomCreateAck, timeout_s=_PATIENCE_S)

    async def gathered(self, members: int) -> None:
        """Return when everybody has seen everybody else."""
        for client, _ in self._clients:
            async with asyncio.timeout(_PATIENCE_S):
                while len((await client.expect(RoomMembers)).members) < members:
                    pass

    async def heard(self, node: _Node) -> None:
        """Return when every listener has heard the utterance."""
        try:
            listeners = [(client, place) for client, place in self._clients if place]
            await asyncio.gather(*(self._hear(client, place, node) for client, place in listeners))
        except TimeoutError:
            raise BenchError("a listener heard nothing") from None

    async def _hear(self, client: SessionClient, place: str, node: _Node) -> None:
        result = await client.expect(TranslationResult, timeout_s=_PATIENCE_S)
        now = time.perf_counter()
        answered = node.answered[result.utterance_index, result.tgt_lang or ""]
        self.waited.setdefault(place, []).append((now - answered) * 1000)
        client.unread()


async def _counts(addresses: dict[str, str]) -> dict[str, int]:
    """Read what the instances have counted."""
    found: Counter[str] = Counter(dict.fromkeys(_COUNTED, 0))
    for address in addresses.values():
        text = await asyncio.to_thread(_read, f"{address.replace('ws://', 'http://')}/metrics")
        for line in text.splitlines():
            name, _, value = line.removeprefix("scheduler_").partition(" ")
            if name in found:
                found[name] += round(float(value))
    return dict(found)


def _read(url: str) -> str:
    with urlopen(url) as answer:  # noqa: S310 it is our own instance
        return str(answer.read().decode())
