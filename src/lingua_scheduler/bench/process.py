"""An instance as a process of its own, for measurements: nothing shares its event loop."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from lingua_scheduler.errors import LinguaError

_START_S = 30.0
_STOP_S = 35.0
_CALM = {
    "LINGUA_NODE_HEALTH__REQUIRE_GPU": "false",
    "LINGUA_NODES__RESOURCE_THRESHOLD": "100",
    "LINGUA_NODES__MEMORY_THRESHOLD": "100",
    "LINGUA_LOG__FORMAT": "json",
}


class BenchError(LinguaError):
    """The measurement could not be made."""


@asynccontextmanager
async def instance(redis_url: str, instance_id: str, **environment: str) -> AsyncIterator[str]:
    """Run an instance for the length of a block; give its WebSocket address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "lingua_scheduler.cli", "serve", "--port", "0"),
        *("--redis-url", redis_url, "--instance-id", instance_id),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **_CALM, **environment},
    )
    reading: asyncio.Task[None] | None = None
    try:
        address = await _address(process)
        reading = asyncio.create_task(_read_away(process))
        yield address
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()
        if reading is not None:
            await reading


async def _address(process: asyncio.subprocess.Process) -> str:
    if process.stderr is None:
        raise BenchError("the instance's output cannot be read")
    seen = b""
    try:
        async with asyncio.timeout(_START_S):
            while line := await process.stderr.readline():
                seen += line
                if b"edge_listening" in line:
                    return f"ws://127.0.0.1:{msgspec.json.decode(line)['port']}"
    except TimeoutError:
        pass
    raise BenchError(f"an instance did not start: {seen[-500:].decode(errors='replace')}")


async def _read_away(process: asyncio.subprocess.Process) -> None:
    while process.stderr is not None and await process.stderr.readline():
        pass
