"""Peers beside an instance, in small: everything sent is counted by everybody, and ratios come out.

No time is checked here. What has to be installed first is left out, with one line for each.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec
import pytest

from lingua_scheduler.bench import peer_kit, peers
from lingua_scheduler.bench.machine import Places
from lingua_scheduler.bench.peer_frames import frame_cost
from lingua_scheduler.bench.peer_jobs import job_cost
from lingua_scheduler.bench.peers import PeersRequest
from lingua_scheduler.bench.profile import Formats, Profile, load
from lingua_scheduler.bench.report import Report
from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.store.connection import Connection, StoreOptions

FRAMES = (
    *("sessions.count=4", "speech.mean_s=1.2", "speech.shortest_s=1.2", "warmup_s=0.2", "duration_s=0.6"),
    *("fleet.nodes=2", "fleet.service_s=0.0", "system.background_s=0.1"),
)
CYCLES = ("sessions.count=2", "fleet.nodes=2", "warmup_s=0.1", "duration_s=0.5", "system.background_s=0.1")
JSON, BINARY = Formats(opus=0, pcm=1, binary=0), Formats(opus=0, pcm=0, binary=1)
ECHO = (sys.executable, peer_kit.program("echo.py"))


def small(formats: Formats) -> Profile:
    """Give a second of audio, without heartbeats."""
    return msgspec.structs.replace(load("ingest", (*FRAMES, "sessions.heartbeat_s=1e6")), formats=formats)


@pytest.mark.timeout(180)
async def test_an_instance_and_the_bare_echo_count_what_was_sent(tmp_path: Path) -> None:
    """Whatever is sent is counted by everybody, or the report is void; every cost has its ratio."""
    request = PeersRequest(
        frames=load("ingest", FRAMES),
        cycles=load("cycles", CYCLES),
        passes=1,
        forms=("json frame",),
        foreign=False,
    )
    report = await peers.measure(request)
    assert report.void == ()
    figures = {name: figure.value for name, figure in report.figures.items()}
    for peer in (peers.BARE, peers.PARSED):
        assert figures[f"json frame: {peer}"] > 0
        assert f"json frame: ours / {peer}" in figures
    for calls in ("one at a time", "100 at once"):
        in_nops = figures["utterance: redis scripts"] / figures[f"nop script, {calls}"]
        assert figures[f"utterance: redis scripts in nops, {calls}"] == pytest.approx(in_nops)
    report.write(tmp_path / "peers.json")
    assert Report.read(tmp_path / "peers.json") == report


@pytest.mark.parametrize("reads", [(), ("parse",)], ids=["counted", "parsed"])
async def test_the_bare_echo_takes_binary_frames(tmp_path: Path, reads: tuple[str, ...]) -> None:
    cost = await frame_cost((*ECHO, *reads), small(BINARY), Places(), tmp_path)
    assert cost.sent == cost.counted > 0


async def test_without_the_lock_foreign_programs_are_left_out_with_a_reason(tmp_path: Path) -> None:
    kit = await peer_kit.unpacked(tmp_path, lock=tmp_path / "none.txt")
    assert (kit.jobs, kit.node_ws) == ((), ())
    assert set(kit.missing) == {peers.ARQ, peers.NODE_WS}


@pytest.mark.slow
async def test_foreign_programs_do_what_they_are_measured_for(tmp_path: Path) -> None:
    kit = await peer_kit.unpacked(tmp_path)
    if kit.missing:
        pytest.skip("; ".join(f"{name}: {why}" for name, why in kit.missing.items()))
    for formats in (JSON, BINARY):
        cost = await frame_cost(kit.node_ws, small(formats), Places(), tmp_path)
        assert cost.sent == cost.counted > 0
    server = EmbeddedRedis(port=0)
    await asyncio.to_thread(server.start)
    redis = Connection(StoreOptions(url=server.url))
    try:
        done = await job_cost(kit.jobs, server.url, redis, 20, None)
    finally:
        await redis.close()
        await asyncio.to_thread(server.stop)
    assert done.answered == done.asked == 20
    assert done.redis_calls > 1
