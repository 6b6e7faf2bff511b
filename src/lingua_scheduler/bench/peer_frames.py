"""What a frame of audio costs a peer that only receives: same clients, same pace, same processor."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import msgspec

from lingua_scheduler.bench.figures import FOREIGN_LOAD, LATE_MS
from lingua_scheduler.bench.machine import Places
from lingua_scheduler.bench.probe import busy_us, cpu_us_of
from lingua_scheduler.bench.process import BenchError, Loader, pin
from lingua_scheduler.bench.profile import Profile
from lingua_scheduler.bench.quantile import quantile
from lingua_scheduler.bench.records import DONE, READY, START, Settings, Spoken, read

_LISTENING = b"listening "
_START_S = 30.0
_OPENING_S = 60.0
_SETTLES_S = 0.5
_HEAD_START_S = 0.3
_ARRIVES_S = 5.0
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class FrameCost:
    """What one run showed."""

    us: float  # processor time of the peer for a frame
    sent: int
    counted: int  # by the peer
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Reading:
    at_s: float
    frames: int
    peer_us: float
    others_us: float  # of what does not belong to the run


class _Count(msgspec.Struct):
    frames: int


@dataclass(frozen=True, slots=True)
class Receiver:
    """A peer that runs."""

    pid: int
    port: int

    def counted(self) -> int:
        """Ask it how many frames it has received."""
        with urlopen(f"http://127.0.0.1:{self.port}/count", timeout=_START_S) as answer:
            return msgspec.json.decode(answer.read(), type=_Count).frames


@asynccontextmanager
async def receiving(command: Sequence[str], cores: frozenset[int] | None) -> AsyncIterator[Receiver]:
    """Run a peer for the length of a block, on these processors if any are named."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        port = await _port(process)
        pin(process.pid, cores)  # by now it has all its threads
        yield Receiver(process.pid, port)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _port(process: asyncio.subprocess.Process) -> int:
    if process.stdout is None:
        raise BenchError("the peer's output cannot be read")
    try:
        async with asyncio.timeout(_START_S):
            line = await process.stdout.readline()
    except TimeoutError:
        line = b""
    if not line.startswith(_LISTENING):
        raise BenchError("a peer did not start")
    return int(line.removeprefix(_LISTENING))


async def frame_cost(command: Sequence[str], profile: Profile, cores: Places, directory: Path) -> FrameCost:
    """Let the clients of a profile speak to a peer; BenchError when that does not work."""
    async with receiving(command, cores.instances) as peer:
        observed = directory / "peer_crowd.observed"
        settings = Settings(
            profile=profile, addresses=(("127.0.0.1", peer.port),), observations=str(observed)
        )
        path = directory / "peer_crowd.json"
        path.write_bytes(msgspec.json.encode(settings))
        async with Loader.started("peer_crowd", path, cores=cores.clients) as crowd:
            await crowd.said(READY, within_s=_OPENING_S)
            await asyncio.sleep(_SETTLES_S)
            begun_s = time.monotonic() + _HEAD_START_S
            crowd.tell(f"{START} {begun_s!r}")
            await _until(begun_s + profile.warmup_s)
            before = await _opening(peer, crowd)
            await _until(begun_s + profile.end_s)
            after = await _closing(peer, crowd)
            await crowd.said(DONE)
        spoken = read(observed, Spoken)
        counted = await _all_counted(peer, spoken.frames)
    frames = max(1, after.frames - before.frames)
    cost_us = (after.peer_us - before.peer_us) / frames
    return FrameCost(cost_us, spoken.frames, counted, tuple(_doubts(before, after, spoken)))


async def _opening(peer: Receiver, crowd: Loader) -> _Reading:
    """Read the counters at the beginning of the window: what asking costs falls before it."""
    frames = await asyncio.to_thread(peer.counted)
    return _Reading(time.monotonic(), frames, cpu_us_of(peer.pid), _others_us(peer, crowd))


async def _closing(peer: Receiver, crowd: Loader) -> _Reading:
    """Read them at its end: what asking costs falls behind it."""
    at_s, peer_us, others_us = time.monotonic(), cpu_us_of(peer.pid), _others_us(peer, crowd)
    return _Reading(at_s, await asyncio.to_thread(peer.counted), peer_us, others_us)


def _others_us(peer: Receiver, crowd: Loader) -> float:
    return busy_us() - sum(map(cpu_us_of, (peer.pid, crowd.pid, os.getpid())))


def _doubts(before: _Reading, after: _Reading, spoken: Spoken) -> list[str]:
    doubts = []
    late_ms = quantile(spoken.lateness_s, 0.99) * 1000 if spoken.lateness_s else 0.0
    if late_ms > LATE_MS:
        doubts.append(f"clients were {late_ms:.0f} ms late at p99")
    cores = os.cpu_count() or 1
    others = (after.others_us - before.others_us) / (after.at_s - before.at_s) / 1e6
    if others > FOREIGN_LOAD * cores:
        doubts.append(f"other programs used {others:.1f} of {cores} cores meanwhile")
    return doubts


async def _all_counted(peer: Receiver, sent: int) -> int:
    """Wait until everything sent has arrived, but not for ever."""
    gives_up_s = time.monotonic() + _ARRIVES_S
    while True:
        counted = await asyncio.to_thread(peer.counted)
        if counted >= sent or time.monotonic() > gives_up_s:
            return counted
        await asyncio.sleep(_LOOK_S)


async def _until(moment_s: float) -> None:
    await asyncio.sleep(max(0.0, moment_s - time.monotonic()))
