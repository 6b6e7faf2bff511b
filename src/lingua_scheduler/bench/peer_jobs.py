"""What a job costs a job queue that does nothing else: its processor time, and that of the same Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from lingua_scheduler.bench.probe import Probe
from lingua_scheduler.bench.process import BenchError, pin
from lingua_scheduler.store.connection import Connection

_WARMUP_JOBS = 200
_DONE = b"done "
_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class JobCost:
    """What one run showed, for a job from its entry to its fetched result."""

    us: float  # processor time of whoever enters, works and fetches
    redis_us: float
    redis_calls: float
    asked: int
    answered: int


async def job_cost(
    command: Sequence[str], redis_url: str, redis: Connection, jobs: int, cores: frozenset[int] | None
) -> JobCost:
    """Let the queue work off jobs; BenchError when that does not work."""
    address = urlsplit(redis_url)
    process = await asyncio.create_subprocess_exec(
        *(*command, str(address.hostname), str(address.port)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        pin(process.pid, cores)
        await _worked_off(process, _WARMUP_JOBS)
        pin(process.pid, cores)  # by now it has all its threads
        probe = Probe(redis, {"instances": (process.pid,)}, ())
        before = await probe.reading(opening=True)
        answered = await _worked_off(process, jobs)
        spent = (await probe.reading()).since(before)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    return JobCost(
        us=spent.cpu_us["instances"] / jobs,
        redis_us=spent.redis_cpu_us / jobs,
        redis_calls=spent.redis_calls / jobs,
        asked=jobs,
        answered=answered,
    )


async def _worked_off(process: asyncio.subprocess.Process, jobs: int) -> int:
    if process.stdin is None or process.stdout is None:
        raise BenchError("the job queue cannot be talked to")
    process.stdin.write(f"{jobs}\n".encode())
    try:
        async with asyncio.timeout(_WITHIN_S):
            line = await process.stdout.readline()
    except TimeoutError:
        line = b""
    if not line.startswith(_DONE):
        raise BenchError("the job queue did not do its jobs")
    return int(line.removeprefix(_DONE))
