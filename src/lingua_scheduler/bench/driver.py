"""Runs a profile: starts every process, lets the load begin at one moment, and reads the counters.

Redis, the instances, the clients and the fleet are processes of their own. This one only looks on.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import msgspec

from lingua_scheduler.bench import plan
from lingua_scheduler.bench.delay import Listening
from lingua_scheduler.bench.machine import Machine, Places, places
from lingua_scheduler.bench.probe import Probe, Reading, nop_us, version_of
from lingua_scheduler.bench.process import BenchError, Loader, Running, instance, pin
from lingua_scheduler.bench.profile import Profile
from lingua_scheduler.bench.records import DONE, FINISH, READY, START, Settings, Spoken, Worked, read
from lingua_scheduler.bench.standing import key_prefix, standing
from lingua_scheduler.bench.verdict import Leftovers
from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.store.connection import Connection, StoreOptions
from lingua_scheduler.store.keys import Keys

_SETTLES_S = 0.5
_HEAD_START_S = 0.3
_SAMPLE_S = 1.0
_QUIET_WITHIN_S = 15.0
_LOOK_S = 0.2
_OPENING_S = 60.0
_DRAIN_S = 120.0
_PINGS = 20
_LASTING = ("session", "audio", "room", "members")


@dataclass(frozen=True, slots=True)
class Sample:
    """What the run had cost at a moment of the window."""

    at_s: float  # since the beginning
    cpu_us: dict[str, float]
    rss_kb: float


@dataclass(slots=True)
class Outcome:
    """Everything that was seen of one run."""

    profile: Profile
    machine: Machine
    begun_s: float = 0.0
    spoken: Spoken = field(default_factory=Spoken)
    worked: Worked = field(default_factory=Worked)
    left: Leftovers = field(default_factory=Leftovers)
    samples: list[Sample] = field(default_factory=list)
    nop_us: float = 0.0
    round_trip_ms: float = 0.0  # of the instances to Redis and back, one command at a time
    background: Reading = field(default_factory=lambda: Reading(at_s=0.0))  # nodes only, no client
    opening: Reading = field(default_factory=lambda: Reading(at_s=0.0))  # while clients connect
    window: Reading = field(default_factory=lambda: Reading(at_s=0.0))
    whole: Reading = field(default_factory=lambda: Reading(at_s=0.0))  # from the first word to the last


async def run(profile: Profile, *, say: Callable[[str], None] = lambda _: None) -> Outcome:
    """Run a profile once; BenchError when it cannot be run."""
    cores = places(frozenset(os.sched_getaffinity(0))) if profile.system.pin else Places()
    with tempfile.TemporaryDirectory(prefix="lingua-bench-") as made:
        async with AsyncExitStack() as stack:
            url = await _redis(profile, cores, stack)
            return await _Run(profile, cores, Path(made), say).through(url, stack)


async def _redis(profile: Profile, cores: Places, stack: AsyncExitStack) -> str:
    if profile.system.redis_url:
        return profile.system.redis_url
    server = EmbeddedRedis(port=0)
    await asyncio.to_thread(server.start)
    stack.push_async_callback(asyncio.to_thread, server.stop)
    pin(server.pid, cores.redis)
    return server.url


class _Run:
    def __init__(self, profile: Profile, cores: Places, directory: Path, say: Callable[[str], None]) -> None:
        self._profile = profile
        self._cores = cores
        self._directory = directory
        self._say = say

    async def through(self, url: str, stack: AsyncExitStack) -> Outcome:
        redis = Connection(StoreOptions(url=url))
        stack.push_async_callback(redis.close)
        if await redis.call("DBSIZE"):
            raise BenchError("this Redis is not empty: a run needs one of its own")
        outcome = Outcome(self._profile, Machine.here(await version_of(redis)))
        url = await self._far(url, stack)
        outcome.round_trip_ms = await _round_trip_ms(url)
        async with AsyncExitStack() as instances:
            running = await asyncio.gather(
                *(instances.enter_async_context(self._instance(url, number)) for number in self._numbers)
            )
            await self._measured(redis, running, outcome)
        outcome.left = Leftovers(
            redis=outcome.left.redis,
            counted=outcome.left.counted,
            crashes=tuple(line for each in running for line in each.crashes),
            exit_codes=tuple(each.exit_code for each in running),
        )
        return outcome

    async def _far(self, url: str, stack: AsyncExitStack) -> str:
        """Give the address of Redis for instances, which may be farther away than the real one."""
        if not self._profile.system.redis_delay_ms:
            return url
        parts = urlsplit(url)
        address = (parts.hostname or "127.0.0.1", parts.port or 6379)
        path = self._settings("delay", (address,))
        delay = await stack.enter_async_context(Loader.started("delay", path, cores=self._cores.redis))
        await delay.said(READY)
        port = read(self._directory / "delay.observed", Listening).port
        whom, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{whom}{at}127.0.0.1:{port}"))

    @property
    def _numbers(self) -> range:
        return range(self._profile.system.instances)

    def _instance(self, url: str, number: int) -> AbstractAsyncContextManager[Running]:
        environment, cores = self._profile.environment(), self._cores.instances
        return instance(url, f"bench-{number}", environment, cores=cores)

    async def _measured(self, redis: Connection, running: list[Running], outcome: Outcome) -> None:
        pids, ports = tuple(each.pid for each in running), tuple(each.port for each in running)
        async with AsyncExitStack() as stack, self._loader("fleet", ports, self._cores.fleet) as fleet:
            self._say(f"{self._profile.fleet.nodes} nodes register")
            await fleet.said(READY, within_s=_OPENING_S + self._profile.fleet.nodes / 50)
            await stack.enter_async_context(standing(redis, self._profile))
            alone = Probe(redis, {"instances": pids}, ports)
            before = await alone.reading(opening=True)
            await asyncio.sleep(self._profile.system.background_s)
            quiet = await alone.reading()
            outcome.background = quiet.since(before)
            async with self._loader("crowd", ports, self._cores.clients) as crowd:
                await self._opened(crowd)
                roles = {"clients": (crowd.pid,), "fleet": (fleet.pid,), "driver": (os.getpid(),)}
                probe = Probe(redis, {"instances": pids, **roles}, ports)
                opened = await probe.reading(opening=True)
                outcome.opening = opened.since(quiet)
                await self._window((crowd, fleet), probe, outcome)
                self._say("the last answers are awaited")
                await crowd.said(DONE, within_s=_DRAIN_S)
                outcome.left = Leftovers(redis=await _quiet(redis, self._profile))
                last = await probe.reading()
                outcome.whole = last.since(opened)
                outcome.left = Leftovers(redis=outcome.left.redis, counted=last.metrics)
                outcome.spoken = read(self._directory / "crowd.observed", Spoken)
                crowd.tell(FINISH)
            fleet.tell(FINISH)
            await fleet.said(DONE)
            outcome.worked = read(self._directory / "fleet.observed", Worked)
            outcome.nop_us = await nop_us(redis)

    def _loader(
        self, module: str, ports: tuple[int, ...], cores: frozenset[int] | None
    ) -> AbstractAsyncContextManager[Loader]:
        path = self._settings(module, tuple(("127.0.0.1", port) for port in ports))
        return Loader.started(module, path, cores=cores)

    def _settings(self, module: str, addresses: tuple[tuple[str, int], ...]) -> Path:
        settings = Settings(
            profile=self._profile,
            addresses=addresses,
            observations=str(self._directory / f"{module}.observed"),
        )
        path = self._directory / f"{module}.json"
        path.write_bytes(msgspec.json.encode(settings))
        return path

    async def _opened(self, crowd: Loader) -> None:
        present = sum(client.arrives_s is None for client in plan.clients(self._profile))
        self._say(f"{present} clients connect")
        await crowd.said(READY, within_s=_OPENING_S + 2 * present / self._profile.sessions.connects_per_s)
        await asyncio.sleep(_SETTLES_S)

    async def _window(self, loaders: tuple[Loader, ...], probe: Probe, outcome: Outcome) -> None:
        profile = self._profile
        outcome.begun_s = begun_s = time.monotonic() + _HEAD_START_S
        for loader in loaders:
            loader.tell(f"{START} {begun_s!r}")
        self._say(f"warm-up of {profile.warmup_s:g} s, then {profile.duration_s:g} s are measured")
        await _until(begun_s + profile.warmup_s)
        before = await probe.reading(opening=True)
        ends_s = begun_s + profile.end_s
        at_s = begun_s + profile.warmup_s
        while (at_s := at_s + _SAMPLE_S) < ends_s - _SAMPLE_S / 2:
            outcome.samples.append(self._sample(probe, begun_s))
            await _until(at_s)
        outcome.samples.append(self._sample(probe, begun_s))
        await _until(ends_s)
        outcome.window = (await probe.reading()).since(before)

    def _sample(self, probe: Probe, begun_s: float) -> Sample:
        at_s, cpu_us, rss_kb = probe.cost()
        return Sample(at_s - begun_s, cpu_us, rss_kb)


async def _round_trip_ms(url: str) -> float:
    redis, took_s = Connection(StoreOptions(url=url)), []
    try:
        for _ in range(_PINGS):
            begun_s = time.monotonic()
            await redis.call("PING")
            took_s.append(time.monotonic() - begun_s)
    finally:
        await redis.close()
    return statistics.median(took_s) * 1000


async def _until(moment_s: float) -> None:
    await asyncio.sleep(max(0.0, moment_s - time.monotonic()))


async def _quiet(redis: Connection, profile: Profile) -> dict[str, int]:
    """Wait until Redis holds nothing of sessions any more, but not for ever; tell what is left."""
    prefix = key_prefix(profile)
    gives_up_s = time.monotonic() + _QUIET_WITHIN_S
    while True:
        left = await _left(redis, prefix)
        if not any(left.values()) or time.monotonic() > gives_up_s:
            return left
        await asyncio.sleep(_LOOK_S)


async def _left(redis: Connection, prefix: str) -> dict[str, int]:
    keys, cursor = Keys(prefix), 0
    left: Counter[str] = Counter()
    while True:
        cursor, found = await redis.call("SCAN", cursor, "MATCH", f"{prefix}:*", "COUNT", 1000)
        for key in found:
            rule = keys.rule_of(key.decode())
            if rule is not None and rule.name in _LASTING:
                left[rule.name] += 1
            elif rule is not None and rule.name == "reserved":
                left["reservation"] += await redis.call("ZCARD", key)
            elif rule is not None and rule.name == "inbox":
                left["letter"] += await redis.call("XLEN", key)
        if not int(cursor):
            return dict(left)
