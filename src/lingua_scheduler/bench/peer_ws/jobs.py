# ruff: noqa: INP001 a foreign program that is run by its path, in an environment of its own
"""A peer of `lingua bench peers`: jobs that do nothing, from their entry to their result, with arq.

The arguments are host and port of a Redis. Each line on standard input is a number of jobs: they are put into
the queue, worked off and their results fetched; then `done` and the number of results is printed.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvloop
from arq.connections import RedisSettings, create_pool  # type: ignore[import-not-found]
from arq.worker import Worker  # type: ignore[import-not-found]

_AT_ONCE = 50
_JOBS_AT_A_TIME = 100
_POLL_S = 0.01


async def nothing(_ctx: dict[Any, Any]) -> int:
    """Do nothing."""
    return 1


async def _cycle(redis: Any, count: int) -> int:
    jobs = []
    for at in range(0, count, _AT_ONCE):
        entries = (redis.enqueue_job(nothing.__name__) for _ in range(min(_AT_ONCE, count - at)))
        jobs += await asyncio.gather(*entries)
    worker = Worker(
        [nothing],
        redis_pool=redis,
        burst=True,
        handle_signals=False,
        max_jobs=_JOBS_AT_A_TIME,
        poll_delay=_POLL_S,
        log_results=False,
    )
    await worker.main()
    results = 0
    for at in range(0, count, _AT_ONCE):
        found = await asyncio.gather(*(job.result_info() for job in jobs[at : at + _AT_ONCE]))
        results += sum(each.result for each in found)
    return results


async def _serve(host: str, port: int) -> None:
    redis = await create_pool(RedisSettings(host=host, port=port))
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        sys.stdout.write(f"done {await _cycle(redis, int(line))}\n")
        sys.stdout.flush()
    await redis.aclose()


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1], int(sys.argv[2])))
