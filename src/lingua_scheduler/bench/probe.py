"""What a run costs, read from outside: processor time and memory of processes, Redis' own counters, metrics.

Counters are read at the edges of the window; what happened between two readings is their difference.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import defaultdict
from pathlib import Path
from urllib.request import urlopen

import msgspec

from lingua_scheduler.bench.process import BenchError
from lingua_scheduler.store.connection import Connection

_NS = 1e9
_PROC = Path("/proc")
_LABELLED = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
_SCRIPT = re.compile(r'script="(\w+)"')
_BUCKET = re.compile(r'le="([^"]+)"')
_LAG = "scheduler_event_loop_lag_seconds_bucket"
_CALLS = "scheduler_store_call_total"
_TIMEOUT_S = 60.0  # an instance that is flooded answers late


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is counted, at one moment."""

    at_s: float
    cpu_us: dict[str, float] = {}  # by role: instances together, clients, fleet, driver
    rss_kb: float = 0.0  # of the instances together
    redis_cpu_us: float = 0.0
    redis_calls: float = 0.0  # commands from outside; what scripts do inside counts as one
    redis_script_us: float = 0.0  # inside scripts
    redis_scripts: float = 0.0
    metrics: dict[str, float] = {}  # of all instances, labels added up
    scripts: dict[str, float] = {}  # calls by the script's name
    lag: dict[str, float] = {}  # lateness of event loops: count up to each bound
    machine_us: float = 0.0  # processor time of everything on the machine, and what its host took away

    def since(self, before: Reading) -> Reading:
        """Give what happened between two readings; memory is its growth."""
        return Reading(
            at_s=self.at_s - before.at_s,
            cpu_us=_less(self.cpu_us, before.cpu_us),
            rss_kb=self.rss_kb - before.rss_kb,
            redis_cpu_us=self.redis_cpu_us - before.redis_cpu_us,
            redis_calls=self.redis_calls - before.redis_calls,
            redis_script_us=self.redis_script_us - before.redis_script_us,
            redis_scripts=self.redis_scripts - before.redis_scripts,
            metrics=_less(self.metrics, before.metrics),
            scripts=_less(self.scripts, before.scripts),
            lag=_less(self.lag, before.lag),
            machine_us=self.machine_us - before.machine_us,
        )


class _Counted:
    """The metrics of all instances together."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = defaultdict(float)
        self.scripts: dict[str, float] = defaultdict(float)
        self.lag: dict[str, float] = defaultdict(float)

    def add(self, page: str) -> None:
        for line in page.splitlines():
            found = _LABELLED.match(line)
            if found is None:
                continue
            name, labels, number = found[1], found[2] or "", float(found[3])
            if name == _CALLS:
                self.scripts[_word(_SCRIPT, labels)] += number
            if name == _LAG:
                self.lag[_word(_BUCKET, labels)] += number
            self.metrics[name] += number


class Probe:
    """Reads the counters of one run."""

    def __init__(
        self, redis: Connection, processes: dict[str, tuple[int, ...]], ports: tuple[int, ...]
    ) -> None:
        self._redis = redis
        self._processes = processes
        self._ports = ports

    async def reading(self, *, opening: bool = False) -> Reading:
        """Read everything; what that costs the instances falls outside of the window it opens or ends."""
        counts = _Counted()
        info = {} if not opening else await self._looked(counts)
        cpu_us = {role: sum(map(cpu_us_of, pids)) for role, pids in self._processes.items()}
        at_s, machine_us = time.monotonic(), busy_us()
        rss_kb = sum(map(rss_kb_of, self._processes["instances"]))
        info = info or await self._looked(counts)
        stats = {name: _stats(value) for name, value in info.items() if name.startswith("cmdstat_")}
        scripts = [stats.get(f"cmdstat_{name}", {}) for name in ("evalsha", "eval")]
        return Reading(
            at_s=at_s,
            cpu_us=cpu_us,
            rss_kb=rss_kb,
            redis_cpu_us=(float(info["used_cpu_user"]) + float(info["used_cpu_sys"])) * 1e6,
            redis_calls=float(info["total_commands_processed"]),
            redis_script_us=sum(each.get("usec", 0.0) for each in scripts),
            redis_scripts=sum(each.get("calls", 0.0) for each in scripts),
            metrics=dict(counts.metrics),
            scripts=dict(counts.scripts),
            lag=dict(counts.lag),
            machine_us=machine_us,
        )

    async def _looked(self, counts: _Counted) -> dict[str, str]:
        for port in self._ports:
            counts.add(await asyncio.to_thread(_page, port))
        return await _info(self._redis, "all")

    def cost(self) -> tuple[float, dict[str, float], float]:
        """Read only what costs nothing to read: the moment, processor time and memory."""
        cpu_us = {role: sum(map(cpu_us_of, pids)) for role, pids in self._processes.items()}
        return time.monotonic(), cpu_us, sum(map(rss_kb_of, self._processes["instances"]))


async def nop_us(redis: Connection, rounds: int = 1000) -> float:
    """Measure what a script that does nothing costs inside Redis: the yardstick of all others."""
    before = _stats((await _info(redis, "commandstats")).get("cmdstat_eval", ""))
    for _ in range(rounds):
        await redis.call("EVAL", "return 0", 0)
    after = _stats((await _info(redis, "commandstats"))["cmdstat_eval"])
    return (after["usec"] - before.get("usec", 0.0)) / (after["calls"] - before.get("calls", 0.0))


async def version_of(redis: Connection) -> str:
    """Name the server and its version."""
    info = await _info(redis, "server")
    return f"{info.get('server_name', 'redis')} {info.get('valkey_version') or info.get('redis_version', '')}"


def cpu_us_of(pid: int) -> float:
    """Give the processor time of a process's threads so far, to the nanosecond; 0 when it is gone."""
    total_ns = 0
    try:
        for task in (_PROC / str(pid) / "task").iterdir():
            total_ns += int((task / "schedstat").read_text().split()[0])
    except (OSError, IndexError):
        return total_ns / _NS * 1e6
    return total_ns / _NS * 1e6


def busy_us() -> float:
    """Give the time that all processors were busy, or taken away from this machine by its host."""
    try:
        first = (_PROC / "stat").read_text().partition("\n")[0].split()[1:9]
    except OSError:
        return 0.0
    user, nice, system, _idle, _waiting, *interrupts_and_stolen = map(float, first)
    return (user + nice + system + sum(interrupts_and_stolen)) / os.sysconf("SC_CLK_TCK") * 1e6


def rss_kb_of(pid: int) -> float:
    """Give the resident memory of a process in KiB; 0 when it is gone."""
    try:
        status = (_PROC / str(pid) / "status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"^VmRSS:\s+(\d+)", status, re.MULTILINE)
    return float(found[1]) if found else 0.0


def lag_quantile_s(lag: dict[str, float], share: float) -> float:
    """Give the bound of the bucket in which this share of all lateness lies; the last bucket has none."""
    bounds = sorted((float(bound.replace("+Inf", "inf")), number) for bound, number in lag.items())
    total = bounds[-1][1] if bounds else 0.0
    return next((bound for bound, number in bounds if total and number >= share * total), 0.0)


def _less(after: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    return {name: value - before.get(name, 0.0) for name, value in after.items()}


async def _info(redis: Connection, section: str) -> dict[str, str]:
    text = (await redis.call("INFO", section)).decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def _stats(text: str) -> dict[str, float]:
    return {
        name: float(value) for name, _, value in (part.partition("=") for part in text.split(",")) if value
    }


def _page(port: int) -> str:
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=_TIMEOUT_S) as answer:
            return str(answer.read().decode())
    except OSError as error:
        raise BenchError(f"an instance does not tell its metrics: {error}") from None


def _word(pattern: re.Pattern[str], labels: str) -> str:
    found = pattern.search(labels)
    return found[1] if found else ""
