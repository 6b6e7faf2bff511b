"""What a placement and a heartbeat cost inside Redis, and how that grows with nodes and languages.

The figures are Redis' own (`INFO commandstats`), so the client's speed does not matter; a script that does
nothing is measured in the same run as the yardstick.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from lingua_scheduler.bench.slopes import log_slope
from lingua_scheduler.core.model import InstanceId, JobId, NodeId, Pair, PoolId
from lingua_scheduler.core.placement import Ask, NodeFacts, Reservation
from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.flow.snapshot import Need, PlacementOptions, Snapshot
from lingua_scheduler.store.connection import Connection, StoreOptions
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.nodes import NodeStore
from lingua_scheduler.store.scripts import Scripts

GOAL_US = 20.0
GOAL_NOPS = 20.0
GOAL_SLOPE = 0.1
GOAL_WORST_US = 1000.0

_NODES = (10, 100, 1_000, 10_000)
_LANGUAGES = (2, 4, 10)
_LANGUAGE_CURVE_NODES = 1_000
_OWNER = InstanceId("bench")
_TYPES = frozenset({"asr", "nmt", "tts"})
_POOL = PoolId(0)
_LEASE_MS = 3_600_000
_NOP = "return 0"
_REPEATS = 5


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: microseconds inside Redis per call."""

    nodes: int
    languages: int
    hit_us: float
    miss_us: float
    unknown_us: float  # a pair that no node serves
    affinity_us: float
    heartbeat_us: float
    nop_us: float
    worst_us: float  # the slowest single command

    @property
    def placement_us(self) -> float:
        """The dearest kind of placement."""
        return max(self.hit_us, self.miss_us, self.unknown_us, self.affinity_us)


@dataclass(frozen=True, slots=True)
class Report:
    """Every row, and whether the goals are met."""

    rows: tuple[Row, ...]
    slope: float  # exponent of the cost of a hit over the number of nodes

    def lines(self) -> list[str]:
        """Word the table for people."""
        head = (
            "nodes",
            "langs",
            "hit",
            "miss",
            "no pair",
            "affinity",
            "heartbeat",
            "nop",
            "hit/nop",
            "worst",
        )
        body = [
            (
                str(row.nodes),
                str(row.languages),
                *(f"{cost:.1f}" for cost in (row.hit_us, row.miss_us, row.unknown_us, row.affinity_us)),
                f"{row.heartbeat_us:.1f}",
                f"{row.nop_us:.2f}",
                f"{row.hit_us / row.nop_us:.1f} x",
                f"{row.worst_us:.0f}",
            )
            for row in self.rows
        ]
        table = ["".join(f"{cell:>11}" for cell in line) for line in (head, *body)]
        slope = f"slope of a hit over nodes: {self.slope:.3f} (goal at most {GOAL_SLOPE})"
        return ["microseconds inside Redis per call", *table, slope]

    def missed(self) -> list[str]:
        """Name the goals that were not met."""
        faults = []
        for row in self.rows:
            where = f"{row.nodes} nodes, {row.languages} languages"
            if row.placement_us > GOAL_US:
                faults.append(f"{where}: {row.placement_us:.1f} us per placement, goal {GOAL_US:.0f}")
            if row.placement_us > GOAL_NOPS * row.nop_us:
                faults.append(f"{where}: {row.placement_us / row.nop_us:.1f} x a nop, goal {GOAL_NOPS:.0f} x")
            if row.unknown_us > row.hit_us:
                faults.append(f"{where}: a pair without nodes costs more than a hit")
            if row.worst_us > GOAL_WORST_US:
                faults.append(f"{where}: one command took {row.worst_us:.0f} us, goal {GOAL_WORST_US:.0f}")
        if self.slope > GOAL_SLOPE:
            faults.append(f"slope {self.slope:.3f}, goal {GOAL_SLOPE}")
        return faults


async def measure(*, rounds: int, most_nodes: int) -> Report:
    """Measure every point of both curves on an embedded Redis of its own."""
    points = [(nodes, 2) for nodes in _NODES if nodes <= most_nodes]
    points += [(min(most_nodes, _LANGUAGE_CURVE_NODES), languages) for languages in _LANGUAGES[1:]]
    rows = [await measured_row(nodes, languages, rounds) for nodes, languages in points]
    curve = [(row.nodes, row.hit_us) for row in rows if row.languages == _LANGUAGES[0]]
    return Report(tuple(rows), log_slope(curve) or 0.0)


async def measured_row(nodes: int, languages: int, rounds: int) -> Row:
    """Measure one point on an embedded Redis of its own."""
    with EmbeddedRedis() as server:
        connection = Connection(StoreOptions(url=server.url))
        try:
            return await _Bench(connection, rounds).row(nodes, languages)
        finally:
            await connection.close()


class _Bench:
    def __init__(self, connection: Connection, rounds: int) -> None:
        self._connection = connection
        self._rounds = rounds
        self._store = NodeStore(connection, Scripts(connection), Keys("bench"))
        self._snapshot = Snapshot(PlacementOptions())
        self._jobs = 0
        self._worst_us = 0.0

    async def row(self, nodes: int, languages: int) -> Row:
        spoken = frozenset(f"l{number}" for number in range(languages))
        facts = [self._facts(number, spoken) for number in range(nodes)]
        epochs = await self._all([self._register(node) for node in facts])
        await self._snapshot.refresh(self._store)
        await self._connection.call("CONFIG", "SET", "slowlog-log-slower-than", round(GOAL_WORST_US))
        pair, nowhere = Need((Pair("l0", "l1"),), _TYPES), Need((Pair("l0", "xx"),), _TYPES)
        prefer = facts[0].node_id
        return Row(
            nodes=nodes,
            languages=languages,
            hit_us=await self._placements(pair),
            miss_us=await self._placements(pair, shelf="empty"),
            unknown_us=await self._placements(nowhere),
            affinity_us=await self._placements(pair, prefer=prefer),
            heartbeat_us=await self._per_call(
                lambda number: self._store.beat(
                    facts[number % nodes], epoch=epochs[number % nodes], lease_ms=_LEASE_MS
                )
            ),
            nop_us=await self._per_call(lambda _: self._connection.call("EVAL", _NOP, 0), command="eval"),
            worst_us=self._worst_us,
        )

    def _facts(self, number: int, spoken: frozenset[str]) -> NodeFacts:
        return NodeFacts(
            node_id=NodeId(f"node-{number}"),
            pool=_POOL,
            owner=_OWNER,
            asr=spoken,
            semantic=spoken,
            types=_TYPES,
            max_jobs=1_000_000,
            about={"number": number},
        )

    async def _register(self, facts: NodeFacts) -> int:
        return await self._store.register(facts, lease_ms=_LEASE_MS, takeover=True)

    async def _placements(
        self, need: Need, *, shelf: str | None = None, prefer: NodeId | None = None
    ) -> float:
        taken: list[Reservation] = []
        shelves = (shelf,) if shelf is not None else self._snapshot.shelves(_POOL, need)

        async def place(_: int) -> None:
            self._jobs += 1
            reservation = await self._store.reserve(
                Ask(
                    job_id=JobId(f"job-{self._jobs}"),
                    attempt=1,
                    pool=_POOL,
                    shelves=shelves,
                    reachable=frozenset({_OWNER}),
                    ttl_ms=_LEASE_MS,
                    prefer=prefer,
                )
            )
            if reservation is not None:
                taken.append(reservation)

        cost = await self._per_call(place)
        await self._all([self._store.release(reservation) for reservation in taken])
        return cost

    async def _per_call(self, call: Callable[[int], Awaitable[Any]], *, command: str = "evalsha") -> float:
        """Give the best of a few runs: what disturbs one of them is not the script's cost."""
        await call(0)  # a script that Redis does not know yet costs nothing, and is not what is measured
        costs, worst = [], []
        for _ in range(_REPEATS):
            await self._connection.call("CONFIG", "RESETSTAT")
            await self._connection.call("SLOWLOG", "RESET")
            await self._all([call(number) for number in range(self._rounds // _REPEATS)])
            costs.append(await self._usec_per_call(command))
            worst.append(await self._slowest_us())
        self._worst_us = max(self._worst_us, min(worst))
        return min(costs)

    async def _usec_per_call(self, command: str) -> float:
        info = (await self._connection.call("INFO", "commandstats")).decode()
        for line in info.splitlines():
            if line.startswith(f"cmdstat_{command}:"):
                stats = dict(part.split("=") for part in line.partition(":")[2].split(","))
                return float(stats["usec_per_call"])
        return 0.0

    async def _slowest_us(self) -> float:
        slow = await self._connection.call("SLOWLOG", "GET", 100)
        scripts = [entry for entry in slow if entry[3][0].upper() == b"EVALSHA"]
        return float(max((entry[2] for entry in scripts), default=0))

    async def _all(self, calls: list[Awaitable[Any]]) -> list[Any]:
        done = []
        for start in range(0, len(calls), 200):
            done += await asyncio.gather(*calls[start : start + 200])
        return done
