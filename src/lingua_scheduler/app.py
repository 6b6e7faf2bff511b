"""The composition root: builds every object once, and knows the order of start and stop."""

from __future__ import annotations

import asyncio
import os
import platform
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
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
from lingua_scheduler.errors import CorruptValue, StoreError
from lingua_scheduler.flow.client import ClientDoor
from lingua_scheduler.flow.delivery import DeliveryOptions
from lingua_scheduler.flow.dispatch import Dispatch
from lingua_scheduler.flow.endings import Endings
from lingua_scheduler.flow.failover import Failover
from lingua_scheduler.flow.link import NodeDoor
from lingua_scheduler.flow.membership import LinkHome
from lingua_scheduler.flow.registration import NodeRules
from lingua_scheduler.flow.results import Results
from lingua_scheduler.flow.roster import Roster
from lingua_scheduler.flow.routing import Routing
from lingua_scheduler.flow.search import Searches
from lingua_scheduler.flow.session import Session, SessionRules, Surroundings
from lingua_scheduler.flow.sessions import Sessions
from lingua_scheduler.flow.simulation import Simulation
from lingua_scheduler.flow.snapshot import Snapshot, keep_fresh, keep_swept
from lingua_scheduler.log import configure, get_logger
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.node.demo import demo_node
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.jobs import JobStore
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.nodes import NodeStore
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.sessions import SessionStore

_log = get_logger(__name__)

_WELCOME = """
Lingua Scheduler is up at {url}
  speak to it:  ./lingua speak FILE.wav --from en --to pt --url {ws}
  stop it:      Ctrl-C
"""


class Stores:
    """The three ledgers on one connection; implements `core.ports.Ledgers`."""

    def __init__(self, config: Config, owner: InstanceId, metrics: Metrics) -> None:
        self._metrics = metrics
        self._was_up = False
        self.connection = Connection(config.redis, on_state=self._state_changed)
        scripts = Scripts(self.connection, meter=self._measure)
        keys = Keys(config.redis.key_prefix)
        self.nodes = NodeStore(self.connection, scripts, keys)
        self.jobs = JobStore(scripts, keys, owner, config.lives)
        self.sessions = SessionStore(self.connection, scripts, keys, config.lives, on_closed=self.jobs.forget)

    @property
    def up(self) -> bool:
        """The last call reached Redis."""
        return self.connection.up

    def _measure(self, script: str, seconds: float, failure: StoreError | None) -> None:
        self._metrics.store_call_total.inc(script, "ok" if failure is None else "err")
        self._metrics.store_call_seconds.observe(seconds)
        if isinstance(failure, CorruptValue):
            self._metrics.store_corrupt_value_total.inc()

    def _state_changed(self, up: bool) -> None:  # noqa: FBT001 the connection's callback
        if up and self._was_up:
            self._metrics.store_reconnect_total.inc()
        self._was_up = self._was_up or up
        (_log.info if up else _log.warning)("redis_reached" if up else "redis_lost")


class Instance:
    """One scheduler: `start` serves until `stop`."""

    def __init__(self, config: Config, *, clock: Clock | None = None) -> None:
        self.config = config
        self.id = InstanceId(config.instance.id or _made_up_id())
        self.clock = clock or SystemClock()
        self.metrics = Metrics()
        self._redis: EmbeddedRedis | None = None
        self._tasks = Tasks()

    async def start(self) -> None:
        """Reach Redis, build the house, listen."""
        config = self.config
        if not config.redis.url:
            self._redis = EmbeddedRedis()
            await asyncio.to_thread(self._redis.start)
            config = msgspec.structs.replace(
                config, redis=msgspec.structs.replace(config.redis, url=self._redis.url)
            )
        self.stores = Stores(config, self.id, self.metrics)
        await self.stores.connection.call("PING")
        self._build(config)
        await self.snapshot.refresh(self.stores.nodes)
        await self.edge.start()
        self.sessions.watch_idle()
        for name, loop in self._loops(config).items():
            self._tasks.start(loop, name=name)
        _log.info("instance_started", instance=self.id, address=self.url)

    def _build(self, config: Config) -> None:
        clock, metrics, stores = self.clock, self.metrics, self.stores
        self.alarms = alarms = Alarms(clock)
        self.routing = Routing(self.id)
        pools = PoolPlan(config.pools)
        self.snapshot = Snapshot(config.placement, pools.known)
        self.roster = Roster(clock, remember_s=config.results.late_window_ms / 1000)
        metrics.jobs_open.set_function(lambda: len(self.roster))
        self.dispatch = Dispatch(
            stores,
            self.routing,
            self.snapshot,
            searches=Searches(self.snapshot, self.routing, config.job_timeout, pools),
            options=config.dispatch,
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
            time=(clock, alarms),
            options=config.job_timeout,
            metrics=metrics,
        )
        self.results = Results(self.roster, self.endings, failover, ledgers=stores, metrics=metrics)
        rules = SessionRules(
            session=config.session,
            segmentation=config.segmentation,
            delivery=DeliveryOptions(config.results, config.groups, config.partials),
            affinity=config.affinity,
            timeouts=config.job_timeout,
        )
        around = Surroundings(
            clock=clock,
            alarms=alarms,
            metrics=metrics,
            rules=rules,
            launch=failover.launch,
            changed=self._session_changed,
        )
        self.sessions = Sessions(
            around, ledgers=stores, endings=self.endings, roster=self.roster, owner=self.id
        )
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
            rules=NodeRules(config.nodes, config.node_health),
            pools=pools,
            tasks=self._tasks,
        )
        self.node_door = NodeDoor(links)
        self.edge = Edge(
            config.server,
            EdgeSurroundings(clock, alarms, metrics, config.wire),
            sessions=ClientDoor(self.sessions, rules, clock),
            nodes=self.node_door,
        )
        self.edge.add_routes(Probes(metrics, self.complaints).routes())
        simulation = Simulation(stores.nodes, self.snapshot, pools, self.routing)
        self.edge.add_routes(Pools(config.pools, pools, self.snapshot, simulation).routes())

    def complaints(self) -> list[str]:
        """Say what keeps this instance from serving new work."""
        return [] if self.stores.up else ["redis cannot be reached"]

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
        await self.edge.stop()
        await self.sessions.stop()
        await self.dispatch.stop()
        await self.results.stop()
        await self.node_door.stop()
        await self.endings.stop()
        await self._tasks.stop()
        await self.stores.connection.close()
        if self._redis is not None:
            await asyncio.to_thread(self._redis.stop)
        _log.info("instance_stopped", instance=self.id)


@asynccontextmanager
async def running(config: Config, *, clock: Clock | None = None) -> AsyncIterator[Instance]:
    """Run an instance for as long as the block lasts."""
    instance = Instance(config, clock=clock)
    try:
        await instance.start()
        yield instance
    finally:
        await instance.stop()


def serve(config: Config) -> int:
    """Run one instance until it is told to stop; return the exit code."""
    return _run(_serve(config))


def up(config: Config) -> int:
    """Run an instance with an in-process demo node until it is told to stop; return the exit code."""
    return _run(_up(config))


def _run(main: Coroutine[Any, Any, int]) -> int:
    import uvloop  # noqa: PLC0415 not there on every platform

    return uvloop.run(main)


async def _serve(config: Config) -> int:
    configure(config.log)
    async with running(config):
        await _told_to_stop()
    return 0


async def _up(config: Config) -> int:
    configure(config.log)
    async with running(_for_one_machine(config)) as instance:
        node = demo_node(instance.url.replace("http", "ws", 1))
        serving = asyncio.create_task(node.run(), name="demo node")
        await node.registered.wait()
        sys.stdout.write(_WELCOME.format(url=instance.url, ws=instance.url.replace("http", "ws", 1)))
        sys.stdout.flush()
        await _told_to_stop()
        await node.drain()
        await serving
    return 0


def _for_one_machine(config: Config) -> Config:
    """Accept a node without a GPU, however busy the machine is that it shares with everything else."""
    replace = msgspec.structs.replace
    return replace(
        config,
        node_health=replace(config.node_health, require_gpu=False),
        nodes=replace(config.nodes, resource_threshold=100, memory_threshold=100),
    )


async def _told_to_stop() -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    await told.wait()


def _made_up_id() -> str:
    return f"{platform.node() or 'instance'}-{os.getpid()}-{secrets.token_hex(4)}"
