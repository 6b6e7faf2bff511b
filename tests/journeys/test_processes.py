"""The story as a newcomer sees it: real processes, a real WAV file, one command each."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
import wave
from array import array
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from lingua_scheduler.embedded import process_exists
from support import wait_until

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")

START_S = 30.0
LINGUA = (sys.executable, "-m", "lingua_scheduler.cli")


@asynccontextmanager
async def lingua(*arguments: str, **environment: str):
    """Run a command of ours as a process of its own; it must not outlive the block."""
    process = await asyncio.create_subprocess_exec(
        *LINGUA,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "LINGUA_NODE_HEALTH__REQUIRE_GPU": "false", **environment},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def said(process: asyncio.subprocess.Process, words: str) -> str:
    """Read what a process prints until a line has these words."""
    seen = []
    try:
        async with asyncio.timeout(START_S):
            while line := (await process.stdout.readline()).decode():
                seen.append(line)
                if words in line:
                    return line
    except TimeoutError:
        pass
    raise AssertionError(f"no {words!r} in:\n{''.join(seen)}")


async def address(process: asyncio.subprocess.Process) -> str:
    """Wait until an instance listens; give its WebSocket address."""
    line = await said(process, "instance_started")
    return line.split("http://")[1].split('"')[0].split()[0]


def children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found.append(int(stat.parent.name))
    return found


@pytest.fixture
def recording(tmp_path):
    """Make a WAV file of three seconds in two loud stretches."""
    loud = lambda at: 0.0 if 1.2 < at < 1.6 else 8000.0  # noqa: E731
    samples = array("h", (round(loud(n / 16000) * math.sin(n / 12)) for n in range(48000)))
    path = tmp_path / "speech.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(samples.tobytes())
    return path


async def test_two_processes_and_a_client_turn_a_recording_into_a_result(recording, tmp_path):
    out = tmp_path / "voice.wav"
    async with lingua("serve", "--port", "0", LINGUA_NODES__RESOURCE_THRESHOLD="100") as serve:
        at = await address(serve)
        async with lingua("node", "--demo", "--url", f"ws://{at}", "--languages", "en,pt") as node:
            await said(node, "registered as")
            arguments = ("--from", "en", "--to", "pt", "--url", f"ws://{at}", "--fast", "--out", str(out))
            async with lingua("speak", str(recording), *arguments) as speak:
                printed, _ = await asyncio.wait_for(speak.communicate(), START_S)
                assert speak.returncode == 0, printed.decode()
            assert "not translated to pt" in printed.decode()
            assert out.stat().st_size > 44
            node.send_signal(signal.SIGINT)
            assert await asyncio.wait_for(node.wait(), START_S) == 0
        serve.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(serve.wait(), START_S) == 0


async def test_up_runs_everything_and_stops_cleanly_on_ctrl_c(recording):
    async with lingua("up", "--demo", "--port", "0") as up:
        url = (await said(up, "is up at")).split("http://")[1].strip()
        async with lingua(
            "speak", str(recording), "--from", "en", "--to", "pt", "--url", f"ws://{url}", "--fast"
        ) as speak:
            printed, _ = await asyncio.wait_for(speak.communicate(), START_S)
            assert speak.returncode == 0, printed.decode()
        up.send_signal(signal.SIGINT)
        rest, _ = await asyncio.wait_for(up.communicate(), START_S)
        assert up.returncode == 0
        assert "Traceback" not in rest.decode()


async def test_a_killed_instance_leaves_no_redis_process_behind():
    async with lingua("serve", "--port", "0") as serve:
        at = await address(serve)
        async with aiohttp.ClientSession() as http, http.get(f"http://{at}/health") as answer:
            assert answer.status == 200
        family = children(serve.pid)
        family += [pid for child in family for pid in children(child)]
        assert family, "the embedded Redis is a process of its own"
        serve.send_signal(signal.SIGKILL)
        await serve.wait()
        await wait_until(
            lambda: not any(process_exists(pid) for pid in family), description="Redis died with its owner"
        )


async def test_a_second_start_on_a_taken_port_is_refused_in_one_line():
    async with lingua("serve", "--port", "0") as first:
        port = (await address(first)).rpartition(":")[2]
        async with lingua("serve", "--port", port) as second:
            printed, _ = await asyncio.wait_for(second.communicate(), START_S)
        assert second.returncode == 2
        lines = [line for line in printed.decode().splitlines() if line.startswith("lingua: ")]
        assert len(lines) == 1
        assert "server.port" in lines[0]


async def test_a_redis_that_cannot_be_reached_is_named_in_one_line():
    async with lingua("serve", "--port", "0", "--redis-url", "redis://127.0.0.1:1/0") as serve:
        printed, _ = await asyncio.wait_for(serve.communicate(), START_S)
    assert serve.returncode == 1
    assert "Traceback" not in printed.decode()
    assert "lingua: Redis is not reachable" in printed.decode()
