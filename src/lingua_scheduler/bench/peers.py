"""Peers in the same run: what others need for a part of what an instance does, as ratios.

An instance and its peers take turns on the same processors, in the order A B B A, so that what the machine
does meanwhile falls on all of them. Redis is one and the same for everything that uses it.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from lingua_scheduler.bench import driver, peer_kit
from lingua_scheduler.bench.figures import reported
from lingua_scheduler.bench.machine import Machine, Places, places
from lingua_scheduler.bench.peer_frames import frame_cost
from lingua_scheduler.bench.peer_jobs import job_cost
from lingua_scheduler.bench.peer_kit import Kit
from lingua_scheduler.bench.probe import Probe, version_of
from lingua_scheduler.bench.process import pin
from lingua_scheduler.bench.profile import Formats, Profile, load
from lingua_scheduler.bench.report import Better, Figure, Report
from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.store.connection import Connection, StoreOptions

OURS = "ours"
BARE, PARSED, NODE_WS, ARQ = "bare echo", "bare echo + msgspec", "Node ws", "arq"

_NEVER_S = 1e6  # heartbeats would be counted as frames
_NOPS = 5000
_FORMS = {"json frame": Formats(opus=0, pcm=1, binary=0), "binary frame": Formats(opus=0, pcm=0, binary=1)}
_CPU, _REDIS, _SCRIPTS = "cpu", "redis cpu", "utterance: redis scripts"
_NOP = "nop script"
_NOPS_AT_ONCE = {"one at a time": 1, "100 at once": 100}  # how calls arrive decides what the least costs

Say = Callable[[str], None]
Turn = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class PeersRequest:
    """How much is measured."""

    frames: Profile = field(default_factory=lambda: load("ingest"))
    cycles: Profile = field(default_factory=lambda: load("cycles"))
    jobs: int = 5000
    passes: int = 2  # every other one backwards: two are A B B A
    forms: tuple[str, ...] = ("json frame", "binary frame")
    foreign: bool = True  # also programs that have to be installed first


@dataclass(slots=True)
class _Found:
    """What all turns showed."""

    series: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    void: dict[str, None] = field(default_factory=dict)
    doubts: dict[str, None] = field(default_factory=dict)

    def put(self, name: str, value: float) -> None:
        self.series[name].append(value)

    def counted(self, who: str, sent: int, counted: float) -> None:
        if sent != counted:
            self.void[f"{who}: {sent} were sent and {counted:g} counted"] = None

    def interrupted(self) -> None:
        """Scripts are timed by the clock: more than the processor time of Redis means that it had to wait."""
        if self.series[_SCRIPTS][-1] > self.series[f"{_REDIS}: {OURS}"][-1]:
            self.doubts["utterance, ours: Redis was interrupted inside scripts; their time is too long"] = (
                None
            )

    def ours(self, report: Report, turn: str) -> None:
        self.void.update(dict.fromkeys(f"{turn}: {sentence}" for sentence in report.void))
        self.doubts.update(dict.fromkeys(f"{turn}, {OURS}: {doubt}" for doubt in report.doubts))


async def measure(request: PeersRequest, *, say: Say = lambda _: None) -> Report:
    """Measure everything that can be had here; BenchError when something does not work."""
    cores = places(frozenset(os.sched_getaffinity(0))) if request.frames.system.pin else Places()
    with tempfile.TemporaryDirectory(prefix="lingua-peers-") as made:
        kit = Kit()
        if request.foreign:
            say("foreign programs are installed into a temporary directory")
            kit = await peer_kit.unpacked(Path(made))
        async with _redis(cores) as (url, redis):
            machine = Machine.here(await version_of(redis))
            turns = _Turns(request, cores, Path(made), kit, url, redis, say)
            await turns.through()
    return _report(request, machine, kit, turns.found)


@asynccontextmanager
async def _redis(cores: Places) -> AsyncIterator[tuple[str, Connection]]:
    async with AsyncExitStack() as stack:
        server = EmbeddedRedis(port=0)
        await asyncio.to_thread(server.start)
        stack.push_async_callback(asyncio.to_thread, server.stop)
        pin(server.pid, cores.redis)
        redis = Connection(StoreOptions(url=server.url))
        stack.push_async_callback(redis.close)
        yield server.url, redis


@dataclass(slots=True)
class _Turns:
    request: PeersRequest
    cores: Places
    directory: Path
    kit: Kit
    url: str
    redis: Connection
    say: Say
    found: _Found = field(default_factory=_Found)

    async def through(self) -> None:
        for what in self.request.forms:
            profile = msgspec.structs.replace(self.request.frames, formats=_FORMS[what])
            await self._there_and_back(self._frame_turns(what, self._shared(profile)))
        await self._there_and_back(self._cycle_turns())

    def _shared(self, profile: Profile) -> Profile:
        """Use the one Redis, and send nothing but audio."""
        replace = msgspec.structs.replace
        return replace(
            profile,
            sessions=replace(profile.sessions, heartbeat_s=_NEVER_S),
            system=replace(profile.system, redis_url=self.url),
        )

    async def _there_and_back(self, turns: dict[str, Turn]) -> None:
        order = list(turns.items())
        for number in range(self.request.passes):
            for name, turn in order if number % 2 == 0 else reversed(order):
                self.say(name)
                await self.redis.call("FLUSHALL")
                await turn()

    def _frame_turns(self, what: str, profile: Profile) -> dict[str, Turn]:
        echo = (sys.executable, peer_kit.program("echo.py"))
        peers = {BARE: echo, PARSED: (*echo, "parse"), NODE_WS: self.kit.node_ws}

        async def ours() -> None:
            outcome = await driver.run(profile)
            report = reported(what, outcome)
            self.found.ours(report, what)
            self.found.put(f"{what}: {OURS}", report.figures["cpu for a frame"].value)
            taken = outcome.whole.metrics["scheduler_audio_frames_total"]
            self.found.counted(f"{what}, {OURS}", outcome.spoken.frames, taken)

        def peer(name: str, command: Sequence[str]) -> Turn:
            async def turn() -> None:
                cost = await frame_cost(command, profile, self.cores, self.directory)
                self.found.put(f"{what}: {name}", cost.us)
                self.found.counted(f"{what}, {name}", cost.sent, cost.counted)
                doubts = (f"{what}, {name}: {doubt}" for doubt in cost.doubts)
                self.found.doubts.update(dict.fromkeys(doubts))

            return turn

        turns: dict[str, Turn] = {f"{what}: {OURS}": ours}
        turns |= {f"{what}: {name}": peer(name, command) for name, command in peers.items() if command}
        return turns

    def _cycle_turns(self) -> dict[str, Turn]:
        async def nop() -> None:
            for words, at_once in _NOPS_AT_ONCE.items():
                self.found.put(f"{_NOP}, {words}", await _nop_us(self.redis, at_once))

        async def ours() -> None:
            report = reported("utterance", await driver.run(self._shared(self.request.cycles)))
            self.found.ours(report, "utterance")
            figures = {name: figure.value for name, figure in report.figures.items()}
            self.found.put(f"{_CPU}: {OURS}", figures["cpu for an utterance with its frames"])
            self.found.put(f"{_REDIS}: {OURS}", figures["redis cpu for an utterance"])
            self.found.put(_SCRIPTS, figures["redis scripts' time for an utterance"])
            self.found.interrupted()

        async def arq() -> None:
            cost = await job_cost(
                self.kit.jobs, self.url, self.redis, self.request.jobs, self.cores.instances
            )
            self.found.put(f"{_CPU}: {ARQ}", cost.us)
            self.found.put(f"{_REDIS}: {ARQ}", cost.redis_us)
            self.found.counted(ARQ, cost.asked, cost.answered)

        turns: dict[str, Turn] = {"nop script": nop, "utterance: ours": ours}
        return turns | ({"job: arq": arq} if self.kit.jobs else {})


async def _nop_us(redis: Connection, at_once: int) -> float:
    """Measure the least a script can cost inside Redis when so many calls arrive together."""
    digest = await redis.call("SCRIPT", "LOAD", "return 0")
    probe = Probe(redis, {"instances": ()}, ())
    before = await probe.reading()
    for _ in range(_NOPS // at_once):
        await asyncio.gather(*(redis.call("EVALSHA", digest, 0) for _ in range(at_once)))
    spent = (await probe.reading()).since(before)
    return spent.redis_script_us / spent.redis_scripts


# From what was found to figures


def _report(request: PeersRequest, machine: Machine, kit: Kit, found: _Found) -> Report:
    series = found.series
    figures: dict[str, Figure] = {}
    for what in (*request.forms, _CPU, _REDIS):
        ours = series[f"{what}: {OURS}"]
        names = [name for name in series if name.startswith(f"{what}: ")]
        figures |= {_worded(name): _figure(series[name], "us", "less") for name in names}
        for name in names[1:]:
            peer = name.removeprefix(f"{what}: ")
            figures[_worded(f"{what}: {OURS} / {peer}")] = _ratio(ours, series[name], "x")
    for who in (OURS, ARQ):
        if costs := series.get(f"{_CPU}: {who}"):
            rates = [1e6 / cost_us for cost_us in costs]
            figures[f"cycles per cpu second: {who}"] = _figure(rates, "/s", "more")
    figures[_SCRIPTS] = _figure(series[_SCRIPTS], "us", "less")
    for words in _NOPS_AT_ONCE:
        nops = series[f"{_NOP}, {words}"]
        figures[f"{_NOP}, {words}"] = _figure(nops, "us", "")
        figures[f"{_SCRIPTS} in nops, {words}"] = _ratio(series[_SCRIPTS], nops, "nops")
    versions = ", ".join(f"{name} {version}" for name, version in kit.versions.items())
    about = "an instance beside its peers" + (f" ({versions})" if versions else "")
    return Report(
        name="peers",
        profile=msgspec.structs.replace(request.frames, about=about),
        machine=machine,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        runs=request.passes,
        figures=figures,
        void=tuple(found.void),
        doubts=(*(f"{name} is left out: {why}" for name, why in kit.missing.items()), *found.doubts),
    )


def _worded(name: str) -> str:
    """Say of what a cost is."""
    return f"cycle, {name}" if name.startswith((_CPU, _REDIS)) else name


def _figure(values: Sequence[float], unit: str, better: Better) -> Figure:
    return Figure(
        value=statistics.median(values), unit=unit, better=better, low=min(values), high=max(values)
    )


def _ratio(ours: Sequence[float], peer: Sequence[float], unit: str) -> Figure:
    """Divide the medians; the range is that of the most unlike turns."""
    return Figure(
        value=statistics.median(ours) / statistics.median(peer),
        unit=unit,
        better="less",
        low=min(ours) / max(peer),
        high=max(ours) / min(peer),
    )
