"""What `lingua doctor` looks at in Redis: version, memory, latency, safety of writes and its clock."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import Any

from lingua_scheduler.errors import StoreError
from lingua_scheduler.store.connection import Connection, StoreOptions

OK, NOTE, BAD = "ok", "note", "bad"

_PINGS = 20
_SLOW_MS, _TOO_SLOW_MS = 5.0, 50.0
_SKEW_MS, _TOO_SKEWED_MS = 250.0, 2000.0
_OLDEST_REDIS, _OLDEST_VALKEY = (7, 0), (7, 2)


@dataclass(frozen=True, slots=True)
class Check:
    """What was found about Redis."""

    about: str
    grade: str
    found: str
    advice: str = ""


async def redis_findings(options: StoreOptions) -> list[Check]:
    """Look at the Redis that instances would use; of a cluster, at one of its servers."""
    connection = Connection(options)
    try:
        info = _read(await connection.call("INFO", route=options.key_prefix))
        return [
            version(info),
            memory(info),
            await _latency(connection),
            safety(info, options),
            await _clock(connection, options),
        ]
    except StoreError as error:
        advice = "check redis.url, the password and the network; instances wait for it and serve nobody"
        return [Check("redis", BAD, f"cannot be asked: {error}", advice)]
    finally:
        await connection.close()


def version(info: dict[str, str]) -> Check:
    """Judge what it is."""
    name, oldest = "Valkey", _OLDEST_VALKEY
    said = info.get("valkey_version", "")
    if not said:
        name, oldest, said = "Redis", _OLDEST_REDIS, info.get("redis_version", "0")
    numbers = tuple(int(part) for part in said.split(".")[:2] if part.isdecimal())
    if numbers >= oldest:
        return Check("redis version", OK, f"{name} {said}")
    advice = "Redis 7.0 or Valkey 7.2 is the oldest that has what the scripts use"
    return Check("redis version", BAD, f"{name} {said} is too old", advice)


def memory(info: dict[str, str]) -> Check:
    """Judge what happens when its memory is full."""
    policy, most = info.get("maxmemory_policy", ""), _number(info, "maxmemory")
    if policy != "noeviction":
        found = f"maxmemory-policy is {policy or 'unknown'}: keys that somebody relies on may vanish"
        return Check("redis memory", BAD, found, "CONFIG SET maxmemory-policy noeviction, and in its file")
    if not most:
        advice = "set maxmemory below what the machine has, so that Redis refuses before the system kills it"
        return Check("redis memory", NOTE, "noeviction, without a limit", advice)
    used = _number(info, "used_memory") / most
    if used > 0.8:  # noqa: PLR2004 four fifths
        return Check("redis memory", BAD, f"{used:.0%} of maxmemory is used", "raise maxmemory")
    return Check("redis memory", OK, f"noeviction, {used:.0%} of maxmemory is used")


def safety(info: dict[str, str], options: StoreOptions) -> Check:
    """Judge what a crash of Redis would lose."""
    replicas, log = int(_number(info, "connected_slaves")), info.get("aof_enabled") == "1"
    kept = f"{replicas} replicas, append-only file {'on' if log else 'off'}"
    if options.durability == "wait" and not replicas:
        found = f"{kept}: redis.durability is wait, and nobody can confirm a write"
        return Check("redis safety", BAD, found, "connect a replica, or set redis.durability to none")
    if not replicas and not log:
        advice = "switch appendonly on, or connect a replica: without them a crash ends every session"
        return Check("redis safety", NOTE, kept, advice)
    return Check("redis safety", OK, f"{kept}, durability {options.durability}")


def latency(median_ms: float) -> Check:
    """Judge how long a call takes."""
    found = f"a call takes {median_ms:.2f} ms"
    if median_ms > _SLOW_MS:
        advice = "every job needs three calls one after the other: put Redis near the instances"
        return Check("redis latency", BAD if median_ms > _TOO_SLOW_MS else NOTE, found, advice)
    return Check("redis latency", OK, found)


def clock(skew_ms: float) -> Check:
    """Judge how far the clocks are apart."""
    found = f"this machine's clock is {abs(skew_ms):.0f} ms {'ahead of' if skew_ms > 0 else 'behind'} Redis'"
    if abs(skew_ms) > _SKEW_MS:
        advice = "let both machines follow NTP: times that people see, and deadlines after a move, are off"
        return Check("clock", BAD if abs(skew_ms) > _TOO_SKEWED_MS else NOTE, found, advice)
    return Check("clock", OK, found)


async def _latency(connection: Connection) -> Check:
    times = []
    for _ in range(_PINGS):
        began = time.perf_counter()
        await connection.call("PING", route="doctor")
        times.append((time.perf_counter() - began) * 1000)
    return latency(median(times))


async def _clock(connection: Connection, options: StoreOptions) -> Check:
    before_ms = time.time() * 1000
    seconds, micros = await connection.call("TIME", route=options.key_prefix)
    after_ms = time.time() * 1000
    return clock((before_ms + after_ms) / 2 - (int(seconds) * 1000 + int(micros) / 1000))


def _read(raw: Any) -> dict[str, str]:
    lines = raw.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))


def _number(info: dict[str, str], name: str) -> float:
    said = info.get(name, "0")
    return float(said) if said.isdecimal() else 0.0
