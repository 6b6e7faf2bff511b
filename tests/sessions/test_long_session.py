"""A session of two hours, in which everything happens that can happen, leaves no growth anywhere."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Mapping
from functools import reduce
from operator import and_
from typing import Any

import pytest

from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.flow.snapshot import Snapshot
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.store.connection import BlockingConnection, Connection
from lingua_scheduler.store.jobs import CLAIMS_KEPT
from support import wait_until
from world import FakeNode, Speaker, World, world

# What these hold depends on the moment, not on the past.
BREATHING = (VirtualClock, Metrics, Connection, BlockingConnection, Snapshot)
ROUND_S = 30
STEPS = 4
ROUNDS_PER_HOUR = 3600 // ROUND_S
PIECE = 3000  # bytes of noise that last the longest duration
OPTIONS = {
    "autoscale": {"window_s": 20, "scale_down_after_s": 20},  # looked back at for less than a rest
    "segmentation": {"pause_ms": 500, "max_duration_ms": 1000},
    "results": {"gap_timeout_ms": 1000},
    "job_timeout": {"base_s": 4, "min_s": 4},
    "lives": {"ended_job_s": 1},
    "transcript": {"max_entries": 200},
}


def containers(root: Any) -> Counter[str]:
    """Measure every container that our own objects reach, by the path that leads to it."""
    sizes: Counter[str] = Counter()
    seen: set[int] = set()
    todo: list[tuple[str, Any]] = [("", root)]
    while todo:
        path, thing = todo.pop()
        if id(thing) in seen or isinstance(thing, (type, *BREATHING)):
            continue
        seen.add(id(thing))
        if isinstance(thing, (bytes, bytearray)):
            sizes[f"{path} bytes"] += len(thing)
        elif isinstance(thing, Mapping):
            sizes[path] += len(thing)
            todo += [(f"{path}[]", value) for value in thing.values()]
            todo += [(f"{path}[key]", key) for key in thing if not isinstance(key, str)]
        elif isinstance(thing, (list, tuple, set, frozenset, deque)):
            sizes[path] += len(thing)
            todo += [(f"{path}[]", value) for value in thing]
        elif type(thing).__module__.startswith("lingua_scheduler"):
            slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
            names = [*getattr(thing, "__dict__", {}), *slots]
            todo += [(f"{path}.{name}", getattr(thing, name, None)) for name in names]
    return sizes


async def resting(house: World) -> Counter[str]:
    """Measure a few times and keep the smallest: what is under way for a moment does not count."""
    await house.instance.desk.refresh()
    await house.instance.company.beat()  # tells the others what was just looked at
    await house.instance.company.look()
    samples = []
    for _ in range(10):
        samples.append(containers(house.instance))
        await asyncio.sleep(0.005)
    return reduce(and_, samples)


async def in_redis(house: World) -> Counter[str]:
    """Measure every key, by its kind, once the records of ended jobs have gone."""
    redis, prefix = house.instance.stores.connection, house.instance.config.redis.key_prefix

    async def names() -> list[bytes]:
        return await redis.call("KEYS", f"{prefix}:*")

    async def forgotten() -> bool:
        return not any(b":ended:" in name for name in await names())

    await wait_until(forgotten, description="no record of an ended job is left")
    size_of = {b"hash": "HLEN", b"zset": "ZCARD", b"stream": "XLEN", b"set": "SCARD", b"list": "LLEN"}
    sizes: Counter[str] = Counter()
    for name in await names():
        command = size_of.get(await redis.call("TYPE", name))
        sizes[name.decode()] = await redis.call(command, name) if command else 1
        if name.endswith(b":session"):
            claims = [field for field in await redis.call("HKEYS", name) if field.startswith(b"claim:")]
            assert len(claims) <= 2 * CLAIMS_KEPT  # they are tidied up every so many indexes
            sizes[name.decode()] -= len(claims)
    return sizes


class Worker:
    """A node that answers by itself: most of its jobs well, some in each way that can go wrong."""

    def __init__(self, node: FakeNode) -> None:
        self.node = node
        self.seen: Counter[str] = Counter()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            async with self.node._arrived:
                await self.node._arrived.wait_for(lambda: bool(self.node.seen("job_assign")))
            job = await self.node.job()
            await self.answer(job, job["utterance_index"] % 12)

    async def answer(self, job: dict[str, Any], habit: int) -> None:
        """Answer one job as its index commands."""
        node, first = self.node, job["attempt_id"] == 1
        names = {name: job[name] for name in ("job_id", "session_id", "trace_id")}
        if habit == 1:
            return  # no answer at all
        if habit == 2:
            await node.answer(job, "", "", extra={"reason": "ASR_EMPTY"})
        elif habit == 3:
            await node.fail(job, "PROCESSING_ERROR")
        elif habit == 4 and first:
            await node.fail(job, "NODE_OVERLOADED")
        elif habit == 5:
            await node.answer(job, "", "")
        else:
            await node.send("job_ack", node_id=node.id, attempt_id=job["attempt_id"], **names)
            for text in ("你", "你好"):
                partial = {"utterance_index": job["utterance_index"], "text": text, "is_final": False}
                await node.send("asr_partial", node_id=node.id, **names, **partial)
            for _ in range(2 if habit == 6 else 1):
                await node.answer(job, "你好" * 50, "hello" * 50, tts_audio="AAAA" * 100)


async def one_round(house: World, speaker: Speaker) -> None:
    """Half a minute of speech: sentences, a pause, a long speech, playback, silence."""
    for _ in range(8):
        await speaker.say(120)
    await speaker.chunk(120)
    await house.pass_time(0.7, speaker)
    await speaker.chunk(PIECE)
    await speaker.chunk(120, final=True)
    await speaker.chunk(bytes(2) * 20)
    await speaker.sync()
    for result in speaker.seen("translation_result")[-1:]:
        ids = {name: result[name] for name in ("session_id", "trace_id", "group_id")}
        await speaker.send("tts_started", **ids, ts_start_ms=1)
        await speaker.send("tts_play_ended", **ids, ts_end_ms=2)
    await speaker.sync()


async def rest(house: World, nodes: list[FakeNode], speaker: Speaker) -> None:
    """Let the half minute pass in steps, so that every deadline falls due on its way."""
    for _ in range(STEPS):
        await house.settled(*nodes, speaker)
        house.clock.advance(ROUND_S / STEPS - 0.2)
        for node in nodes:
            await node.beat()
    await house.settled(*nodes, speaker)


def check(speaker: Speaker, opened: int) -> None:
    """Every utterance ended once, in order; late results follow out of order."""
    ends = [
        m["utterance_index"] for m in speaker.inbox if m["type"] in ("translation_result", "missing_result")
    ]
    missed = {m["utterance_index"] for m in speaker.seen("missing_result")}
    firsts = list(dict.fromkeys(ends))
    assert firsts == sorted(firsts)
    assert len(speaker.seen("translation_result")) + len(missed) == len(ends)
    silent = set(range(opened, max(ends) + 1)) - set(ends)
    assert all(index % 12 == 2 for index in silent), silent


def _passes(path: str) -> bool:
    """Tell what is made anew with each look, and may be found by another path, or tells of 15 minutes."""
    return path.endswith(".reachable") or path.startswith((".desk._trends._kept", ".desk.model.picture"))


@pytest.mark.timeout(120)
async def test_two_hours_of_everything_leave_no_growth(store_options):
    async with world(store_options, **OPTIONS) as house:
        nodes = [await house.node() for _ in range(3)]
        speaker = await house.session()
        workers = [asyncio.create_task(Worker(node).run()) for node in nodes]
        sizes, keys = [], []
        opened = 0
        for _ in range(2):
            for _ in range(ROUNDS_PER_HOUR):
                await one_round(house, speaker)
                await rest(house, nodes, speaker)
                check(speaker, opened)
                opened = 1 + max(m["utterance_index"] for m in speaker.inbox if "utterance_index" in m)
                speaker.inbox.clear()
            for _ in range(2):
                await rest(house, nodes, speaker)
            assert not len(house.instance.roster)
            sizes.append(await resting(house))
            keys.append(await in_redis(house))
        for worker in workers:
            worker.cancel()

        assert opened > 2500
        first, second = (
            {path: size for path, size in measured.items() if not _passes(path)} for measured in sizes
        )
        assert first == second
        assert keys[0] == keys[1]
        assert house.instance.alarms.size < 200
        assert await house.reserved() == []
