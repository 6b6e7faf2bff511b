"""The domain stores as one instance has them, and an audit of what the scripts wrote about a pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from lingua_scheduler.core.model import InstanceId, JobId, NodeId, PoolId, SessionId
from lingua_scheduler.core.placement import Ask, NodeFacts, Reservation
from lingua_scheduler.core.stored import JobEnd, NewJob
from lingua_scheduler.store.connection import Connection, StoreOptions
from lingua_scheduler.store.jobs import JobStore, LifeOptions
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.node_record import Line
from lingua_scheduler.store.nodes import NodeStore
from lingua_scheduler.store.notices import NoticeStore
from lingua_scheduler.store.pairing import PairingStore
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.sessions import SessionStore
from support import wait_until

A, B = InstanceId("instance-a"), InstanceId("instance-b")
POOL = PoolId(0)
LEASE_MS = 45_000
CORE = frozenset({"asr", "nmt", "tts"})


class Ledgers:
    """What one instance has of Redis."""

    def __init__(self, options: StoreOptions, owner: InstanceId = A) -> None:
        self.options = options
        self.owner = owner
        self.connection = Connection(options)
        self.keys = Keys(options.key_prefix)
        scripts = Scripts(self.connection)
        lives = LifeOptions()
        self.nodes = NodeStore(self.connection, scripts, self.keys)
        self.jobs = JobStore(self.connection, scripts, self.keys, owner, lives)
        self.sessions = SessionStore(self.connection, scripts, self.keys, lives)
        self.pairing = PairingStore(self.connection, self.keys)
        self.notices = NoticeStore(self.connection, self.keys)

    async def call(self, *args: Any) -> Any:
        """Run one command."""
        return await self.connection.call(*args)

    async def register(self, facts: NodeFacts, *, takeover: bool = True) -> int:
        """Register with the usual lease."""
        return await self.nodes.register(facts, lease_ms=LEASE_MS, takeover=takeover)

    async def beat(self, facts: NodeFacts, epoch: int) -> str:
        """Renew the usual lease."""
        return await self.nodes.beat(facts, epoch=epoch, lease_ms=LEASE_MS)

    async def line(self, node_id: str, pool: int = POOL) -> Line | None:
        """Read the pool's line about a node."""
        return Line.read(await self.call("HGET", self.keys.nodes(pool), node_id))

    async def end_lease(self, node_id: str, pool: int = POOL) -> None:
        """Let a node's lease be over, as time would do."""
        line = await self.line(node_id, pool)
        if line is not None:
            over = " ".join(line._replace(lease_end_ms="1"))
            await self.call("HSET", self.keys.nodes(pool), node_id, over)
            await self.call("ZADD", self.keys.leases(pool), "1", node_id)
        await self.call("DEL", self.keys.node(pool, node_id))

    async def end_reservation(self, reservation: Reservation) -> None:
        """Let a reservation's time be over, as time would do."""
        member = f"{reservation.job_id}#{reservation.attempt} {reservation.epoch} {reservation.node_id}"
        await self.call("ZADD", self.keys.reserved(reservation.pool), "XX", "1", member)

    async def names(self, *commands: str) -> list[bytes]:
        """List the keys under the prefix that live on the server of each of these keys."""
        found: set[bytes] = set()
        for key in commands:
            cursor = b"0"
            while True:
                cursor, some = await self.connection.call(
                    "SCAN", cursor, "MATCH", f"{self.keys.prefix}:*", "COUNT", 1000, route=key
                )
                found.update(some)
                if cursor == b"0":
                    break
        return sorted(found)


@dataclass
class Store:
    """The store under test, single or cluster, and ways to trouble it."""

    options: StoreOptions
    on_every_server: Callable[[str], None]
    opened: list[Ledgers] = field(default_factory=list)

    def ledgers(self, owner: InstanceId = A) -> Ledgers:
        """Connect another instance."""
        made = Ledgers(self.options, owner)
        self.opened.append(made)
        return made


def facts(node_id: str = "n1", **members: Any) -> NodeFacts:
    """Describe an open node that does everything between zh and en; members override."""
    plain: dict[str, Any] = {
        "pool": POOL,
        "owner": A,
        "asr": frozenset({"zh", "en"}),
        "semantic": frozenset({"zh", "en"}),
        "types": CORE,
        "max_jobs": 4,
    }
    return NodeFacts(node_id=NodeId(node_id), **{**plain, **members})


SHELF = facts().shelf


def ask(job: str = "job-1", attempt: int = 1, **members: Any) -> Ask:
    """Ask for any usual node; members override."""
    plain: dict[str, Any] = {
        "pool": POOL,
        "shelves": (SHELF,),
        "reachable": frozenset({A, B}),
        "ttl_ms": 60_000,
    }
    return Ask(job_id=JobId(job), attempt=attempt, **{**plain, **members})


def new_job(job: str = "job-1", session: str = "s-1", **members: Any) -> NewJob:
    """Describe a job of a session's first utterance; members override."""
    plain: dict[str, Any] = {
        "session_epoch": 1,
        "index": 0,
        "tgt_lang": "en",
        "record": b'{"a":1}',
        "audio": b"\x00\xff audio",
        "ttl_ms": 300_000,
    }
    return NewJob(job_id=JobId(job), session_id=SessionId(session), **{**plain, **members})


def job_end(job: str = "job-1", session: str = "s-1", **members: Any) -> JobEnd:
    """Describe the end of a job's first attempt; members override."""
    plain: dict[str, Any] = {"session_epoch": 1, "attempt": 1, "outcome": "completed"}
    return JobEnd(job_id=JobId(job), session_id=SessionId(session), **{**plain, **members})


def slot_on(node_id: str, job: str = "job-1", attempt: int = 1, **members: Any) -> Reservation:
    """Describe a reservation as a reply would."""
    plain: dict[str, Any] = {"pool": POOL, "owner": A, "epoch": 1, "shelf": SHELF}
    return Reservation(node_id=NodeId(node_id), job_id=JobId(job), attempt=attempt, **{**plain, **members})


@dataclass(frozen=True, slots=True)
class Stand:
    """How the scripts left one node."""

    line: Line
    jobs: int
    on_shelf: bool
    held: int  # reservations of its current epoch


async def audit(ledgers: Ledgers, pool: int = POOL) -> dict[str, Stand]:
    """Check that everything written about a pool agrees; return how each node stands."""
    call, keys = ledgers.call, ledgers.keys
    raw = await call("HGETALL", keys.nodes(pool))
    lines = {node_id.decode(): Line.read(line) for node_id, line in zip(raw[::2], raw[1::2], strict=True)}
    held: Counter[tuple[str, str]] = Counter()
    for member in await call("ZRANGE", keys.reserved(pool), 0, -1):
        _, epoch, node_id = member.decode().split(" ")
        held[node_id, epoch] += 1
    aside = await _scores(ledgers, keys.aside(pool))
    shelves = {
        line.shelf: await _scores(ledgers, keys.shelf(pool, line.shelf)) for line in lines.values() if line
    }
    leases = await _scores(ledgers, keys.leases(pool))
    assert leases.keys() == lines.keys()
    assert aside.keys() <= lines.keys()
    assert {node_id for shelf in shelves.values() for node_id in shelf} <= lines.keys()
    stands = {}
    for node_id, line in lines.items():
        assert line is not None
        on = [name for name, shelf in shelves.items() if node_id in shelf]
        assert (on == [line.shelf]) != (node_id in aside), f"{node_id} stands on {on}, aside {aside}"
        jobs = int(shelves[line.shelf][node_id] // 10**12 if on else aside[node_id])
        mine = held[node_id, line.epoch]
        assert jobs == mine + int(line.foreign_jobs), f"{node_id}: {jobs} jobs, {mine} held, {line}"
        assert mine <= int(line.max_jobs), f"{node_id} is oversold"
        if on:
            assert line.door == "open"
            assert jobs < int(line.max_jobs)
        elif int(line.lease_end_ms) > 1:
            assert line.door != "open" or jobs >= int(line.max_jobs), f"{node_id} is hidden"
        stands[node_id] = Stand(line, jobs, bool(on), mine)
    return stands


async def time_passes(ledgers: Ledgers, ms: int = 20) -> None:
    """Wait until the clock of Redis, which versions follow, has moved so far."""

    async def now_ms() -> int:
        seconds, micros = await ledgers.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    until = await now_ms() + ms
    await wait_until(lambda: _reached(now_ms, until), description="time passes in Redis")


async def _reached(now_ms: Callable[[], Awaitable[int]], until: int) -> bool:
    return await now_ms() >= until


async def _scores(ledgers: Ledgers, key: str) -> dict[str, float]:
    raw = await ledgers.call("ZRANGE", key, 0, -1, "WITHSCORES")
    return {name.decode(): float(score) for name, score in zip(raw[::2], raw[1::2], strict=True)}
