"""Everything that runs in a chaos run, as real processes: Redis, instances, nodes, speakers, the network."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from lingua_scheduler.chaos.habits import NodeSettings
from lingua_scheduler.chaos.history import Recorder
from lingua_scheduler.chaos.node_process import READY
from lingua_scheduler.chaos.plan import Plan
from lingua_scheduler.chaos.processes import ChaosError, Child, until_answers
from lingua_scheduler.chaos.proxy import LOCALHOST, Address, Proxy
from lingua_scheduler.chaos.setting import LATE_S, environment
from lingua_scheduler.chaos.speaker import SpeakerSettings
from lingua_scheduler.crash import VARIABLE as CRASH_VARIABLE
from lingua_scheduler.embedded import EmbeddedRedis, free_port
from lingua_scheduler.embedded_cluster import EmbeddedCluster
from lingua_scheduler.store.connection import Connection, StoreOptions

PREFIX = "lingua"
"""The prefix of all keys, the configured default."""

_STOP_S = 15.0
_START_TRIES, _START_AGAIN_S = 20, 0.5
_PATIENT_S = 15.0  # our own commands wait until a pause is over
_NODES_PER_PROCESS = 2


@dataclass(frozen=True, slots=True)
class Load:
    """How much is said."""

    speakers: int = 10
    period_s: float = 1.0
    work_ms: int = 150


class RedisHouse:
    """The Redis of a run, single or cluster, and a way to talk to each of its servers past the proxies."""

    def __init__(self, *, cluster: bool) -> None:
        self.cluster = EmbeddedCluster(masters=3, replicas=3) if cluster else None
        self.single = None if cluster else EmbeddedRedis(port=0)
        self._connection: Connection | None = None

    def start(self) -> None:
        """Start every server; blocks."""
        if self.cluster is not None:
            self.cluster.start()
        elif self.single is not None:
            self.single.start()

    @property
    def servers(self) -> list[EmbeddedRedis]:
        """Every server there is."""
        if self.cluster is not None:
            return list(self.cluster.nodes)
        return [self.single] if self.single is not None else []

    async def ask(self, server: EmbeddedRedis, *command: str | int | bytes) -> Any:
        """Say one command to one server, past every proxy; None when it cannot answer."""

        def say() -> Any:
            with server.client(socket_timeout=_PATIENT_S) as client:
                return client.execute_command(*command)

        try:
            return await asyncio.to_thread(say)
        except Exception:  # noqa: BLE001 it is down, or no server for this command; whatever it says
            return None

    def whole(self) -> Connection:
        """Give a connection to all of them together, past every proxy."""
        if self._connection is None:
            options = StoreOptions(url=self.servers[0].url, command_timeout_s=_PATIENT_S)
            if self.cluster is not None:
                options = msgspec.structs.replace(options, url=self.cluster.url, mode="cluster")
            self._connection = Connection(options)
        return self._connection

    async def frozen(self, server: EmbeddedRedis, lasts_s: float) -> None:
        """Stop a server for a while without its knowing; what it had not passed on may be lost by that."""
        os.kill(server.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(lasts_s)
        finally:
            os.kill(server.pid, signal.SIGCONT)

    async def stop(self) -> None:
        """End everything at once."""
        if self._connection is not None:
            await self._connection.close()
        for server in self.servers:
            await asyncio.to_thread(server.kill)


class InstancePlace:
    """One place of an instance: a port that keeps, and one process after the other on it."""

    def __init__(self, number: int, fleet: Fleet) -> None:
        self.number = number
        self.port = free_port()
        self._fleet = fleet
        self._lives = count(1)
        self.draining = False
        self.id = ""
        self.child: Child
        self.redis_proxy: Proxy | None = None  # none in front of a cluster: it names its own addresses

    async def start(self) -> None:
        """Start a process under a new id and wait until it serves; one that ends is started anew."""
        for _ in range(_START_TRIES):
            await self.launch()
            answers = asyncio.ensure_future(until_answers(self.port, "/health"))
            ends = asyncio.ensure_future(self.child.ended())
            await asyncio.wait((answers, ends), return_when=asyncio.FIRST_COMPLETED)
            ends.cancel()
            if answers.done():
                return answers.result()
            answers.cancel()
            await asyncio.sleep(_START_AGAIN_S)
        raise ChaosError(f"{self.id} ends again and again; see its log")

    async def launch(self, **extra: str) -> None:
        """Start a process under a new id."""
        self.id = f"i{self.number}-{next(self._lives)}"
        self.child = await self.process(self.id, self.port, **extra)
        self.draining = False

    async def process(self, instance_id: str, port: int, **extra: str) -> Child:
        """Start any process on the Redis of this place."""
        fleet = self._fleet
        arguments = ["-m", "lingua_scheduler.cli", "serve", "--host", LOCALHOST, "--port", str(port)]
        arguments += ["--instance-id", instance_id, "--redis-url", self.redis_url]
        log = fleet.directory / f"{instance_id}.log"
        child = fleet.child(instance_id, tuple(arguments), log)
        mode = {"redis__mode": "cluster"} if fleet.redis.cluster is not None else {}
        await child.start({**environment(**mode), **extra})
        return child

    @property
    def redis_url(self) -> str:
        """Where a process of this place finds Redis."""
        redis = self._fleet.redis
        if redis.cluster is not None:
            return redis.cluster.url
        assert self.redis_proxy is not None  # noqa: S101 made before the first process
        return f"redis://{LOCALHOST}:{self.redis_proxy.port}"

    @property
    def in_service(self) -> bool:
        """New connections may be sent here."""
        return bool(self.child.pid) and not self.draining


class Fleet:
    """All processes and proxies of one run."""

    def __init__(self, directory: Path, plan: Plan, *, recorder: Recorder, load: Load | None = None) -> None:
        shape, seed = plan.shape, plan.seed
        self.directory = directory
        self.shape = shape
        self._armed = plan.armed
        self.recorder = recorder
        self.load = load or Load()
        self._seed = seed
        self._chance = random.Random(f"{seed}/routes")  # noqa: S311 part of a plan
        self.redis = RedisHouse(cluster=shape.cluster)
        self.places = [InstancePlace(number, self) for number in range(shape.instances)]
        self.client_door = Proxy(self._route, seed=f"{seed}/clients")
        total = shape.nodes + shape.odd_nodes
        self.node_doors = [Proxy(self._route, seed=f"{seed}/node/{number}") for number in range(total)]
        self.nodes: list[Child] = []
        self.clients: Child
        self.started: list[Child] = []  # every process there ever was

    async def start(self) -> None:
        """Start everything and wait until the speakers have their sessions."""
        await asyncio.to_thread(self.redis.start)
        for place in self.places:
            if self.redis.single is not None:
                place.redis_proxy = await Proxy(self._redis_address, seed=place.number).start()
            arm = {CRASH_VARIABLE: self._armed} if self._armed and place.number == 0 else {}
            await place.launch(**arm)
        for door in (self.client_door, *self.node_doors):
            await door.start()
        for place in self.places:
            await until_answers(place.port, "/health")
        self.nodes = [self._node(number) for number in range(len(self.node_doors))]
        for node in self.nodes:
            await node.start()
        for node in self.nodes:
            await node.said(READY)
        self.clients = self._speakers()
        await self.clients.start()
        await self.clients.said(READY)

    async def stop(self) -> dict[str, int | None]:
        """End everything in order; give the exit codes of the instances."""
        await asyncio.gather(*(node.stop(_STOP_S) for node in self.nodes))
        codes = await asyncio.gather(*(place.child.stop(_STOP_S) for place in self.places))
        await self.abandon()
        return dict(zip((place.id for place in self.places), codes, strict=True))

    async def abandon(self) -> None:
        """End at once whatever still runs."""
        for child in self.started:
            if child.pid:
                child.thaw()
                await child.kill()
        for proxy in self._proxies():
            await proxy.stop()
        await self.redis.stop()

    async def restart_node(self, number: int) -> None:
        """Start a process of nodes again after its end."""
        self.nodes[number] = self._node(number)
        await self.nodes[number].start()
        await self.nodes[number].said(READY)

    def _proxies(self) -> Iterator[Proxy]:
        yield from (self.client_door, *self.node_doors)
        yield from (place.redis_proxy for place in self.places if place.redis_proxy is not None)

    def _route(self) -> Address | None:
        """Send a new connection to any instance in service."""
        ports = [place.port for place in self.places if place.in_service]
        return (LOCALHOST, self._chance.choice(ports)) if ports else None

    def _redis_address(self) -> Address | None:
        single = self.redis.single
        return (LOCALHOST, single.port) if single is not None and single.port else None

    def _node(self, number: int) -> Child:
        odd = number >= self.shape.nodes
        settings = NodeSettings(
            url=f"ws://{LOCALHOST}:{self.node_doors[number].port}",
            ids=tuple(f"n{number}-{part}" for part in range(_NODES_PER_PROCESS)),
            history=str(self.directory / f"node-{number}.jsonl"),
            odd=odd,
            work_ms=self.load.work_ms,
            late_s=LATE_S,
        )
        return self._module("node_process", f"node-{number}", settings)

    def _speakers(self) -> Child:
        settings = SpeakerSettings(
            url=f"ws://{LOCALHOST}:{self.client_door.port}",
            history=str(self.directory / "clients.jsonl"),
            seed=self._seed,
            speakers=self.load.speakers,
            period_s=self.load.period_s,
        )
        return self._module("client_process", "clients", settings)

    def _module(self, module: str, name: str, settings: msgspec.Struct) -> Child:
        arguments = ("-m", f"lingua_scheduler.chaos.{module}", msgspec.json.encode(settings).decode())
        return self.child(name, arguments, self.directory / f"{name}.err")

    def child(self, name: str, arguments: tuple[str, ...], log: Path) -> Child:
        """Make a process that does not outlive the run."""
        made = Child(name, arguments, log=log, recorder=self.recorder)
        self.started.append(made)
        return made
