"""The composition root: builds every object once, and knows the order of start and stop."""

from __future__ import annotations

import asyncio
import os
import platform
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from math import ceil
from typing import Any

import msgspec

from lingua_scheduler.admin.pools import Pools
from lingua_scheduler.admin.probes import Probes
from lingua_scheduler.aio import Alarms, Tasks
from lingua_scheduler.clock import Clock, SystemClock
from lingua_scheduler.config import Config
from lingua_scheduler.core.model import InstanceId
from lingua_scheduler.core.placement import Exclusion, NodeFacts
from lingua_scheduler.core.pools import PoolPlan
from lingua_scheduler.edge.pump import Surroundings as EdgeSurroundings
from lingua_scheduler.edge.server import Edge
from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.flow.client import ClientDoor, ClientHome
from lingua_scheduler.flow.delivery import DeliveryOptions
from lingua_scheduler.flow.dispatch import Dispatch
from lingua_scheduler.flow.endings import Endings
from lingua_scheduler.flow.failover import Failover
from lingua_scheduler.flow.link import NodeDoor
from lingua_scheduler.flow.membership import LinkHome
from lingua_scheduler.flow.model_reports import ModelReports
from lingua_scheduler.flow.opening import Opening
from lingua_scheduler.flow.pairing import Pairing
from lingua_scheduler.flow.registration import NodeRules
from lingua_scheduler.flow.results import Results
from lingua_scheduler.flow.roster import Roster
from lingua_scheduler.flow.routing import Routing
from lingua_scheduler.flow.search import Searches
from lingua_scheduler.flow.session import Session, SessionRules, Surroundings
from lingua_scheduler.flow.sessions import Sessions
from lingua_scheduler.flow.simulation import Simulation
from lingua_scheduler.flow.snapshot import Need, Snapshot, keep_fresh, keep_swept
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.store.stores import Stores

_log = get_logger(__name__)


class Instance:
    """One scheduler: `start` serves until `stop`."""

    def __init__(self, config: Config, *, clock: Clock | None = None) -> None:
        self.config = config
        self.id = InstanceId(config.instance.id or _made_up_id())
        self.clock = clock or SystemClock()
        self.metrics = Metrics()
        self._redis: EmbeddedRedis | None = None
        self._tasks = Tasks()
        self._closers: list[Callable[[], Coroutine[Any, Any, None]]] = []  # the last one is called first

    async def start(self) -> None:
        """Reach Redis, build the house, listen; what was begun is undone when that fails."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        config = self.config
        if not config.redis.url:
            self._redis = EmbeddedRedis()
            await asyncio.to_thread(self._redis.start)
            config = msgspec.structs.replace(
                config, redis=msgspec.structs.replace(config.redis, url=self._redis.url)
            )
        self.stores = Stores(config.redis, config.lives, owner=self.id, metrics=self.metrics)
        self._closers.append(self.stores.connection.close)
        await self.stores.connection.call("PING")
        self._build(config)
        await self.snapshot.refresh(self.stores.nodes)
        await self.edge.start()
        self.sessions.watch_idle()
        for name, loop in self._loops(config).items():
            self._tasks.start(loop, name=name)
        _log.info("instance_started", instance=self.id, address=self.url)

    def _build(self, config: Config) -> None:
        self.alarms = Alarms(self.clock)
        pools = PoolPlan(config.pools)
        failover = self._build_jobs(config, pools)
        rules = self._build_sessions(config, failover)
        self._build_doors(config, rules, failover, pools)
        self._closers += [
            self._tasks.stop,
            self.endings.stop,
            self.node_door.stop,
            self.results.stop,
            self.dispatch.stop,
            self.sessions.stop,
            self.edge.stop,
        ]

    def _build_jobs(self, config: Config, pools: PoolPlan) -> Failover:
        """Build what places jobs, watches them and ends them."""
        clock, metrics, stores = self.clock, self.metrics, self.stores
        self.routing = Routing(self.id)
        self.snapshot = Snapshot(config.placement, pools.known)
        self.roster = Roster(clock, remember_s=config.results.late_window_ms / 1000)
        metrics.jobs_open.set_function(lambda: len(self.roster))
        self.dispatch = Dispatch(
            stores,
            self.routing,
            self.snapshot,
            searches=Searches(self.snapshot, self.routing, config.job_timeout, pools),
            options=msgspec.structs.replace(
                config.dispatch,
                job_keep_s=max(config.dispatch.job_keep_s, ceil(config.job_timeout.job_life_s())),
            ),
            clock=clock,
            metrics=metrics,
        )
        self.endings = Endings(
            stores,
            capacity=(self.dispatch.waiting, self.snapshot),
            routing=self.routing,
            roster=self.roster,
            metrics=metrics,
        )
        failover = Failover(
            self.dispatch,
            self.endings,
            tables=(self.roster, self.routing, self.snapshot),
            time=(clock, self.alarms),
            options=config.job_timeout,
            metrics=metrics,
        )
        self.results = Results(self.roster, self.endings, failover, ledgers=stores, metrics=metrics)
        return failover

    def _build_sessions(self, config: Config, failover: Failover) -> SessionRules:
        """Build what keeps this instance's sessions."""
        rules = SessionRules(
            session=config.session,
            segmentation=config.segmentation,
            delivery=DeliveryOptions(config.results, config.groups, config.partials),
            affinity=config.affinity,
            timeouts=config.job_timeout,
        )
        around = Surroundings(
            clock=self.clock,
            alarms=self.alarms,
            metrics=self.metrics,
            rules=rules,
            launch=failover.launch,
            changed=self._session_changed,
        )
        self.sessions = Sessions(
            around, ledgers=self.stores, endings=self.endings, roster=self.roster, owner=self.id
        )
        return rules

    def _build_doors(self, config: Config, rules: SessionRules, failover: Failover, pools: PoolPlan) -> None:
        """Build the sockets and what answers on them."""
        clock, alarms, metrics, stores = self.clock, self.alarms, self.metrics, self.stores
        pairing = Pairing(stores.pairing, config.pairing, clock, self._tasks)
        missing = config.model_not_available
        links = LinkHome(
            clock=clock,
            alarms=alarms,
            metrics=metrics,
            ledger=stores.nodes,
            routing=self.routing,
            snapshot=self.snapshot,
            waiting=self.dispatch.waiting,
            results=self.results,
            failover=failover,
            pairing=pairing,
            reports=ModelReports(stores.notices, missing, clock=clock, metrics=metrics, tasks=self._tasks),
            rules=NodeRules(config.nodes, config.node_health, missing),
            pools=pools,
            tasks=self._tasks,
        )
        self.node_door = NodeDoor(links)
        self.edge = Edge(
            config.server,
            EdgeSurroundings(clock, alarms, metrics, config.wire),
            sessions=ClientDoor(
                ClientHome(self.sessions, rules, clock, pairing, self._tasks, served=self._served)
            ),
            nodes=self.node_door,
        )
        self.edge.add_routes(Probes(metrics, self.complaints).routes())
        simulation = Simulation(stores.nodes, self.snapshot, pools, self.routing)
        self.edge.add_routes(Pools(config.pools, pools, self.snapshot, simulation).routes())

    def complaints(self) -> list[str]:
        """Say what keeps this instance from serving new work."""
        return [] if self.stores.up else ["redis cannot be reached"]

    def _served(self, opening: Opening) -> bool:
        languages = opening.languages
        types = frozenset(kind for kind in ("asr", "nmt", "tts") if getattr(opening.pipeline, f"use_{kind}"))
        need = Need(languages.pairs(languages.tgt), types, opening.paired_with)
        return self.snapshot.open_for(need)

    def _session_changed(self, session: Session) -> None:
        self.sessions.changed(session)

    def _loops(self, config: Config) -> dict[str, Coroutine[Any, Any, None]]:
        nodes = self.stores.nodes
        return {
            "snapshot": keep_fresh(self.snapshot, nodes, config.placement, self._nodes_changed),
            "sweep": keep_swept(self.snapshot, nodes, config.placement),
            "leases": self.sessions.keep_alive(config.lives.session_lease_s),
        }

    def _nodes_changed(self, changed: list[NodeFacts]) -> None:
        for facts in changed:
            self.dispatch.waiting.capacity(facts, facts.free)
            link = self.routing.link(facts.node_id) if facts.closed is Exclusion.OFFLINE else None
            if link is not None:
                link.restore()

    @property
    def url(self) -> str:
        """Where clients and browsers find this instance."""
        host, port = self.edge.address
        return f"http://{host}:{port}"

    async def stop(self) -> None:
        """Close sockets, end sessions, leave nothing behind in Redis, then let Redis go."""
        while self._closers:
            await self._closers.pop()()
        if self._redis is not None:
            await asyncio.to_thread(self._redis.stop)
        _log.info("instance_stopped", instance=self.id)


@asynccontextmanager
async def running(config: Config, *, clock: Clock | None = None) -> AsyncIterator[Instance]:
    """Run an instance for as long as the block lasts."""
    instance = Instance(config, clock=clock)
    await instance.start()
    try:
        yield instance
    finally:
        await instance.stop()


def _made_up_id() -> str:
    return f"{platform.node() or 'instance'}-{os.getpid()}-{secrets.token_hex(4)}"
