"""What another instance adds to an utterance: the same speech with its node here and with its node there.

Two instances run as processes on one Redis; one node is connected to the first, one client to each. Both
clients speak in turn, so whatever disturbs the machine disturbs both paths.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from lingua_scheduler.bench.process import BenchError, instance
from lingua_scheduler.bench.quantile import quantile
from lingua_scheduler.client.session import SessionClient, wish_for
from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.node.job import Translation
from lingua_scheduler.node.scripted import Script, ScriptedNode
from lingua_scheduler.wire.node import JobAssign
from lingua_scheduler.wire.session import TranslationResult

GOAL_P99_MS = 5.0
_AUDIO = b"\x00\x7f" * 3000  # 6000 bytes, about what a short sentence is in Opus
_WARM_UP = 20
_VOICE = b"\x00\x01" * 4000

_FAST = {  # the client asks again at once, which nobody who speaks could do
    "LINGUA_SERVER__CLIENTS__MESSAGES_PER_S": "100000",
    "LINGUA_SERVER__CLIENTS__MESSAGE_BURST": "100000",
    "LINGUA_SERVER__CLIENTS__BYTES_PER_S": "1e9",
}


@dataclass(frozen=True, slots=True)
class Path:
    """One way of an utterance, in milliseconds."""

    name: str
    there_ms: tuple[float, ...]  # from the client's last byte to the node
    back_ms: tuple[float, ...]  # from the node's answer to the client

    def quantile(self, share: float) -> tuple[float, float]:
        """The time there and the time back that this share does not exceed."""
        return quantile(self.there_ms, share), quantile(self.back_ms, share)


@dataclass(frozen=True, slots=True)
class Report:
    """Both ways side by side."""

    local: Path
    far: Path

    def added_ms(self, share: float) -> float:
        """What the hop adds there and back together."""
        return sum(self.far.quantile(share)) - sum(self.local.quantile(share))

    def lines(self) -> list[str]:
        """Word the table for people."""
        head = f"{'':>16}{'there p50':>11}{'p99':>8}{'back p50':>11}{'p99':>8}"
        rows = [
            f"{path.name:>16}{path.quantile(0.5)[0]:>11.2f}{path.quantile(0.99)[0]:>8.2f}"
            f"{path.quantile(0.5)[1]:>11.2f}{path.quantile(0.99)[1]:>8.2f}"
            for path in (self.local, self.far)
        ]
        added = f"added there and back: p50 {self.added_ms(0.5):.2f}, p99 {self.added_ms(0.99):.2f}"
        return ["milliseconds", head, *rows, added]

    def missed(self) -> list[str]:
        """Name the goals that were not met; the goal is for one hop."""
        added = self.added_ms(0.99) / 2
        return [f"a hop adds {added:.2f} ms at p99, goal {GOAL_P99_MS}"] if added > GOAL_P99_MS else []


async def measure(*, rounds: int) -> Report:
    """Speak `rounds` utterances on each way."""
    redis = EmbeddedRedis()
    await asyncio.to_thread(redis.start)
    try:
        async with instance(redis.url, "bench-a", _FAST) as a, instance(redis.url, "bench-b", _FAST) as b:
            return await _measured(a.url, b.url, rounds)
    finally:
        await asyncio.to_thread(redis.stop)


async def _measured(a: str, b: str, rounds: int) -> Report:
    arrived: dict[int, float] = {}
    answered: dict[int, float] = {}
    spoken = 0

    def answer(_: JobAssign) -> Translation:
        arrived[spoken] = answered[spoken] = time.perf_counter()
        return Translation(text_asr="said", text_translated="dito", tts_audio=_VOICE)

    script = Script(capacity=8, rule=answer)
    wish = wish_for("en", "pt", audio_format="pcm16")
    async with (
        ScriptedNode(a, script),
        SessionClient.connect(a, wish) as here,
        SessionClient.connect(b, wish) as there,
    ):
        paths: dict[SessionClient, tuple[list[float], list[float]]] = {here: ([], []), there: ([], [])}
        for number in range(_WARM_UP + rounds):
            for client, (out, back) in paths.items():
                spoken += 1
                begun = time.perf_counter()
                await client.send_audio(_AUDIO, final=True)
                await _result(client)
                heard = time.perf_counter()
                if number >= _WARM_UP:
                    out.append((arrived[spoken] - begun) * 1000)
                    back.append((heard - answered[spoken]) * 1000)
        (near_out, near_back), (far_out, far_back) = paths.values()
    return Report(
        Path("same instance", tuple(near_out), tuple(near_back)),
        Path("other instance", tuple(far_out), tuple(far_back)),
    )


async def _result(client: SessionClient) -> TranslationResult:
    try:
        result = await client.expect(TranslationResult)
    except TimeoutError:
        raise BenchError("an utterance was not answered") from None
    client.unread()
    return result
