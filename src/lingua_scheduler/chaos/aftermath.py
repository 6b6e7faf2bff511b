"""The last look of a run, when all is quiet: what is left in Redis, in the metrics and in the logs."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path

import msgspec

from lingua_scheduler.chaos.fleet import PREFIX, Fleet, RedisHouse
from lingua_scheduler.chaos.processes import ChaosError, http_get
from lingua_scheduler.chaos.setting import RESERVATION_S
from lingua_scheduler.chaos.speech import CANARY
from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.errors import StoreError
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.keys import Keys

QUIET_WITHIN_S = RESERVATION_S + 8.0
"""How long after the last word everything may take to be given back."""

_LOOK_S = 0.3
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
_CRASHES = (b"task_crashed", b"Traceback (most recent call last)")


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What is left in Redis."""

    reservations: int = 0
    session_keys: dict[str, int] = {}  # keys of sessions, by kind
    letters: dict[str, int] = {}  # in the inbox of each instance
    unsettled: dict[str, int] = {}  # handed out and not settled
    dead_letters: int = 0
    present: tuple[str, ...] = ()  # instances that say they live

    @property
    def quiet(self) -> bool:
        """Nothing is under way any more."""
        return not (self.reservations or self.session_keys or any(self.letters.values()))


class Aftermath(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be seen at the end."""

    left: Left = Left()
    living: tuple[str, ...] = ()  # instances whose process lives
    metrics: dict[str, dict[str, float]] = {}  # of each of them
    spoke_in_logs: tuple[str, ...] = ()  # logs with speech, secrets or control characters
    crashed_in_logs: tuple[str, ...] = ()  # lines that tell of an unforeseen error
    exit_codes: dict[str, int | None] = {}


_IN_TRANSIT = "voice"  # a result's audio on its way between instances: it goes by itself


async def looked_at(fleet: Fleet) -> Aftermath:
    """Wait until everything is given back, but not for ever, then tell what is left."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + QUIET_WITHIN_S
    left = await left_in(fleet)
    while not left.quiet and loop.time() < give_up_at:
        await asyncio.sleep(_LOOK_S)
        left = await left_in(fleet)
    living = tuple(place.id for place in fleet.places if place.child.pid)
    metrics = {place.id: await scraped(place.port) for place in fleet.places if place.child.pid}
    return Aftermath(left=left, living=living, metrics=metrics)


async def left_in(fleet: Fleet) -> Left:
    """Count what Redis holds of sessions, reservations and letters."""
    keys = Keys(PREFIX)
    found: list[str] = []
    for server in fleet.redis.servers:
        role = await fleet.redis.ask(server, "ROLE")
        if role and role[0] == b"master":
            found += await _scanned(fleet.redis, server)
    whole = fleet.redis.whole()
    kinds = {key: rule.name for key in found if (rule := keys.rule_of(key)) is not None}
    reserved = [key for key, kind in kinds.items() if kind == "reserved"]
    inboxes = [key for key, kind in kinds.items() if kind == "inbox"]
    return Left(
        reservations=sum([await whole.call("ZCARD", key) for key in reserved]),
        session_keys=Counter(
            kinds.get(key, "unknown") for key in found if "{session:" in key and kinds.get(key) != _IN_TRANSIT
        ),
        letters={_instance(key): await whole.call("XLEN", key) for key in inboxes},
        unsettled={_instance(key): await _unsettled(whole, key) for key in inboxes},
        dead_letters=sum([await whole.call("XLEN", key) for key, kind in kinds.items() if kind == "dead"]),
        present=tuple(sorted(_instance(key) for key, kind in kinds.items() if kind == "presence")),
    )


async def _scanned(redis: RedisHouse, server: EmbeddedRedis) -> list[str]:
    found: list[str] = []
    cursor = 0
    while True:
        answer = await redis.ask(server, "SCAN", cursor, "MATCH", f"{PREFIX}:*", "COUNT", 1000)
        if answer is None:
            raise ChaosError("Redis does not answer although everything is healed")
        cursor, some = answer
        found += [key.decode() for key in some]
        if not int(cursor):
            return found


async def _unsettled(connection: Connection, inbox: str) -> int:
    try:
        groups = await connection.call("XINFO", "GROUPS", inbox)
    except StoreError:
        return 0
    fields = [dict(zip(group[::2], group[1::2], strict=True)) for group in groups]
    return sum(field[b"pending"] for field in fields)


def _instance(key: str) -> str:
    return key.partition("{instance:")[2].partition("}")[0]


async def scraped(port: int) -> dict[str, float]:
    """Read the metrics of an instance; the values of a metric's labels are added up."""
    answer = await http_get(port, "/metrics", within_s=5.0)
    values: dict[str, float] = {}
    for line in (answer[1] if answer else "").splitlines():
        if line and not line.startswith("#"):
            name = re.split(r"[{ ]", line, maxsplit=1)[0]
            values[name] = values.get(name, 0.0) + float(line.rpartition(" ")[2])
    return values


def logs_of(directory: Path, secrets: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Look for speech and secrets, and for unforeseen errors, in every log of instances."""
    words = [CANARY.encode(), *(secret.encode() for secret in secrets if secret)]
    spoke, crashed = [], []
    for path in sorted(directory.glob("i*.log")):
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if any(word in line for word in words) or _CONTROL.search(line):
                spoke.append(f"{path.name}:{number}")
            if any(sign in line for sign in _CRASHES):
                crashed.append(f"{path.name}:{number}: {line[:300].decode(errors='replace')}")
    return tuple(spoke), tuple(crashed)
