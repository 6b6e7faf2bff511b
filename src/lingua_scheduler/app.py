"""The composition root: builds every object once, and knows the order of start and stop."""

from __future__ import annotations

import asyncio
import os
import platform
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import ceil
from typing import Any

import msgspec

from lingua_scheduler.admin.census import Census
from lingua_scheduler.admin.desk import Desk, DeskHome, DeskRules
from lingua_scheduler.admin.guard import Guard
from lingua_scheduler.admin.pages import Pages
from lingua_scheduler.admin.siblings import ALONE, SiblingMetrics, Siblings
from lingua_scheduler.admin.tokens import Tokens
from lingua_scheduler.admin.transcripts import TranscriptFiles
from lingua_scheduler.aio import Alarms, Tasks
from lingua_scheduler.clock import Clock, SystemClock
from lingua_scheduler.config import Config
from lingua_scheduler.core.company import Presence
from lingua_scheduler.core.model import InstanceId
from lingua_scheduler.core.placement import Exclusion, NodeFacts
from lingua_scheduler.core.pools import PoolPlan
from lingua_scheduler.edge.auth import Gatekeeper
from lingua_scheduler.edge.pump import Surroundings as EdgeSurroundings
from lingua_scheduler.edge.server import Edge
from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.errors import StoreError
from lingua_scheduler.flow.adoption import Adoption
from lingua_scheduler.flow.client import ClientDoor, ClientHome
from lingua_scheduler.flow.company import Company
from lingua_scheduler.flow.credentials import Credentials
from lingua_scheduler.flow.delivery import DeliveryOptions
from lingua_scheduler.flow.dispatch import Dispatch
from lingua_scheduler.flow.drain import Drain, DrainHome, DrainState
from lingua_scheduler.flow.endings import Endings
from lingua_scheduler.flow.errands import Errands
from lingua_scheduler.flow.failover import Failover
from lingua_scheduler.flow.fan_out import FanOut
from lingua_scheduler.flow.job import Job
from lingua_scheduler.flow.lanes import Lanes
from lingua_scheduler.flow.letters import Letters
from lingua_scheduler.flow.link import NodeDoor
from lingua_scheduler.flow.losses import Losses
from lingua_scheduler.flow.membership import LinkHome
from lingua_scheduler.flow.model_reports import ModelReports
from lingua_scheduler.flow.node_orders import NodeOrders
from lingua_scheduler.flow.opening import Opening
from lingua_scheduler.flow.pairing import Pairing
from lingua_scheduler.flow.post import Post
from lingua_scheduler.flow.registration import NodeRules
from lingua_scheduler.flow.results import Results
from lingua_scheduler.flow.resume import Resume
from lingua_scheduler.flow.room_courier import RoomCourier
from lingua_scheduler.flow.room_desk import RoomDesk
from lingua_scheduler.flow.room_home import RoomHome
from lingua_scheduler.flow.room_post import RoomPost
from lingua_scheduler.flow.rooms import Rooms
from lingua_scheduler.flow.roster import Roster
from lingua_scheduler.flow.routing import Routing
from lingua_scheduler.flow.search import Searches
from lingua_scheduler.flow.session import Session
from lingua_scheduler.flow.sessions import Sessions
from lingua_scheduler.flow.signalling import Signalling
from lingua_scheduler.flow.simulation import Simulation
from lingua_scheduler.flow.snapshot import Need, Snapshot
from lingua_scheduler.flow.surroundings import SessionRules, Surroundings
from lingua_scheduler.flow.transcripts import Transcripts
from lingua_scheduler.hub.subscription import Subscription
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.store.instances import BEATS_PER_PRESENCE
from lingua_scheduler.store.stores import Stores
from lingua_scheduler.store.survey import Survey
from lingua_scheduler.tracing.tracing import opened
from lingua_scheduler.watch import LagMonitor, Watch

_log = get_logger(__name__)

_RENEWALS_PER_LEASE = 3
_LOOK_AT_CATALOGUE_S = 1.0  # how often it is seen whether the model hub is to be asked
_STOP_S = 3.0  # for all that is still to be written when sockets are closed; what is left expires by itself
_SPANS_S = 1.0  # for the spans of the last utterances
_LAST_WORDS_S = 0.1  # for each part of it when that time is over


class Instance:
    """One scheduler: `start` serves until `stop`."""

    def __init__(self, config: Config, *, clock: Clock | None = None, siblings: Siblings = ALONE) -> None:
        self.config = config
        self.id = InstanceId(config.instance.id or _made_up_id())
        self.clock = clock or SystemClock()
        self.metrics = Metrics(config.observability)
        self.processes = SiblingMetrics(siblings, self.metrics.render)
        self._redis: EmbeddedRedis | None = None
        self._boot = secrets.token_hex(8)
        self._started_ms = self.clock.wall_ms()
        self._url = ""
        self._tasks = Tasks()
        self._stop_until: float | None = None
        self._closers: list[Callable[[], Coroutine[Any, Any, None]]] = []  # the last one is called first

    async def start(self) -> None:
        """Reach Redis, build the house, listen; what was begun is undone when that fails."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        config = _with_lasting_leases(self.config)
        if not config.redis.url:
            self._redis = EmbeddedRedis()
            await asyncio.to_thread(self._redis.start)
            config = msgspec.structs.replace(
                config, redis=msgspec.structs.replace(config.redis, url=self._redis.url)
            )
        self.stores = Stores(
            config.redis,
            config.lives,
            config.company,
            config.rooms,
            owner=self.id,
            metrics=self.metrics,
            transcript=config.transcript,
        )
        self._closers.append(self.stores.connection.close)
        await self.stores.connection.call("PING")
        self._build(config, await self.stores.instances.shared_secret(secrets.token_bytes(32)))
        await self.company.enter()
        await self.snapshot.refresh(self.stores.nodes)
        await self.credentials.refresh()
        await self.edge.start()
        await self.processes.start()
        self._closers.append(self.processes.stop)
        self._url = self.url
        await self.company.beat()  # with the address, which is known now
        self.sessions.watch_idle()
        self._start_loops(config)
        await self.subscription.turn()
        self.lag.start()
        _log.info("instance_started", instance=self.id, address=self.url)

    def _build(self, config: Config, secret: bytes) -> None:
        self.alarms = Alarms(self.clock)
        self.tracing = opened(
            config.tracing,
            self.id,
            exported=self.metrics.spans_exported_total.inc,
            dropped=lambda why, spans: self.metrics.spans_dropped_total.inc(why, amount=spans),
        )
        self.watch = Watch(self.clock, self.alarms, config.watch)
        self.lag = LagMonitor(self.clock, config.watch, self.metrics.event_loop_lag_seconds.observe)
        self._secret = secret
        self.losses = Losses(self.clock, self.metrics)
        pools = PoolPlan(config.pools)
        self._build_company(config)
        failover = self._build_jobs(config, pools)
        rules = self._build_sessions(config, failover)
        self._build_letters(config, failover)
        self._build_doors(config, rules, failover, pools)
        self._build_operations(config, pools)
        writers = [
            self._deliver_spans,
            self.company.leave,
            self.watch.stop,
            self.subscription.stop,
            self.lag.stop,
            self._tasks.stop,
            self.post.stop,
            self.transcripts.stop,
            self.endings.stop,
            self.node_door.stop,
            self.dispatch.stop,
            self.signalling.stop,
            self.room_post.stop,
            self.rooms.settle,
            self.sessions.stop,
            self.resume.stop,
        ]
        self._closers += [*(partial(self._in_time, stop) for stop in writers), self.edge.stop]

    def _build_company(self, config: Config) -> None:
        """Build what knows the other instances and writes to them."""
        self.company = Company(
            self.id,
            self.stores.instances,
            self._presence,
            options=config.peers,
            presence_ttl_s=config.company.presence_ttl_s,
            clock=self.clock,
            metrics=self.metrics,
        )
        self.errands = Errands(keep_s=config.job_timeout.job_life_s())
        self.post = Post(
            self.id,
            self.stores,
            self.company,
            errands=self.errands,
            options=config.peers,
            metrics=self.metrics,
        )
        self.routing = Routing(self.company, self.post)

    def _build_letters(self, config: Config, failover: Failover) -> None:
        """Build what reads the letters of other instances and looks after the dead ones."""
        self.letters = Letters(
            self.stores,
            work=(self.results, failover, self.sessions),
            ways=(self.routing, self.post, self.errands),
            rooms=(self.rooms, self.room_post, self.courier, self.signalling),
            options=config.peers,
            clock=self.clock,
            metrics=self.metrics,
        )
        self.letters.tracer = self.tracing.tracer if self.tracing else None
        self.adoption = Adoption(
            self.id, self.stores, letters=self.letters, snapshot=self.snapshot, metrics=self.metrics
        )
        self._failover = failover
        self.company.lost = self._instance_lost
        self.company.died = self.losses.instance
        self.company.returned = self.sessions.renew

    def _presence(self) -> Presence:
        return Presence(
            instance_id=self.id,
            boot=self._boot,
            url=self._url,
            started_ms=self._started_ms,
            draining=self.drain.state is not DrainState.SERVING,
            about={
                "sessions": len(self.sessions),
                "nodes": len(self.routing.links()),
                "jobs": len(self.roster),
                **self.desk.about(),
                **self.losses.about(),
            },
        )

    def _build_jobs(self, config: Config, pools: PoolPlan) -> Failover:
        """Build what places jobs, watches them and ends them."""
        clock, metrics, stores = self.clock, self.metrics, self.stores
        self.snapshot = Snapshot(config.placement, pools.known)
        self.census = Census(clock, pools, config.autoscale)
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
            post=self.post,
            time=(clock, self.alarms),
            options=config.job_timeout,
            metrics=metrics,
        )
        self.results = Results(self.roster, self.endings, failover, elsewhere=self.post.word, metrics=metrics)
        return failover

    def _build_sessions(self, config: Config, failover: Failover) -> SessionRules:
        """Build what keeps this instance's sessions."""
        self.transcripts = Transcripts(
            self.stores.transcripts, config.transcript, secret=lambda: self.sessions.secret, clock=self.clock
        )
        rules = SessionRules(
            session=config.session,
            segmentation=config.segmentation,
            delivery=DeliveryOptions(
                config.results, config.groups, config.partials, said=self.transcripts.said
            ),
            affinity=config.affinity,
            timeouts=config.job_timeout,
            resume=config.resume,
        )
        fan_out = self._build_rooms(config)
        around = Surroundings(
            clock=self.clock,
            alarms=self.alarms,
            metrics=self.metrics,
            rules=rules,
            launch=self._counted(failover.launch),
            adopt=self._counted(failover.adopt),
            changed=self._session_changed,
            disowned=self._session_disowned,
            taken=self.post.taken,
            elsewhere=self.results.heard,
            fan_out=fan_out,
            tell_room=self.room_post.tell,
            caption=self.room_post.caption,
            move=self.rooms.move,
            hand_on=self.courier.hand_on,
            restore=self._session_lost,
            tracer=self.tracing.tracer if self.tracing else None,
        )
        self.sessions = Sessions(
            around,
            ledgers=self.stores,
            endings=self.endings,
            tables=(self.roster, self.rooms),
            owner=self.id,
        )
        self.sessions.secret = self._secret
        self.resume = Resume(self.sessions, self.stores.sessions, around, owner=self.id)
        return rules

    def _build_rooms(self, config: Config) -> FanOut:
        """Build what keeps the rooms of this instance's sessions."""
        lanes = Lanes("room")
        home = RoomHome(
            instance_id=self.id,
            clock=self.clock,
            alarms=self.alarms,
            metrics=self.metrics,
            lanes=lanes,
            window_s=config.resume.window_s,
            reachable=lambda: self.company.reachable,
            announce=self.post.announce,
        )
        self.rooms = Rooms(self.stores.rooms, home)
        time = (self.clock, config.resume.window_s)
        self.courier = RoomCourier(self.id, self.post, self.stores, time=time, metrics=self.metrics)
        self.room_post = RoomPost(
            self.rooms,
            self.post,
            self.courier,
            holds=lambda session_id: self.sessions.holds(session_id),  # noqa: PLW0108 it is made later
            time=time,
            metrics=self.metrics,
        )
        self.room_desk = RoomDesk(
            self.rooms, lanes, config.rooms, clock=self.clock, owner=self.id, waited=self.metrics.waited
        )
        self.signalling = Signalling(self.rooms, self.post, config.rooms, self.clock)
        return FanOut(self.rooms, self.snapshot, lanes, self.metrics)

    def _build_doors(self, config: Config, rules: SessionRules, failover: Failover, pools: PoolPlan) -> None:
        """Build the sockets and what answers on them."""
        clock, alarms, metrics, stores = self.clock, self.alarms, self.metrics, self.stores
        self.pairing = pairing = Pairing(stores.pairing, config.pairing, clock, self._tasks)
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
            losses=self.losses,
        )
        self.node_door = NodeDoor(links)
        self.credentials = Credentials(
            config.auth,
            stores.auth_keys,
            clock=clock,
            secret=lambda: self.sessions.secret,
            host=config.server.host,
            count=metrics.auth_refused_total.inc,
        )
        self.edge = Edge(
            config.server,
            EdgeSurroundings(clock, alarms, metrics, config.wire),
            sessions=ClientDoor(
                ClientHome(
                    self.sessions,
                    rules,
                    clock,
                    pairing,
                    self.resume,
                    self._tasks,
                    served=self._served,
                    rooms=self.room_desk,
                    signalling=self.signalling,
                    transcript_token=self.transcripts.token,
                )
            ),
            nodes=self.node_door,
            overloaded=lambda: self.lag.overloaded,
            gate=Gatekeeper(self.credentials),
        )
        pages = Pages(self.snapshot)
        self.edge.add_routes(pages.routes())
        self._for_talkers = [
            *Tokens(self.credentials).endpoints(),
            *pages.endpoints(),
            *TranscriptFiles(self.transcripts, clock).endpoints(),
        ]

    def _build_operations(self, config: Config, pools: PoolPlan) -> None:
        """Build what takes this instance or its nodes out of service, and the desk where people ask."""
        self.drain = Drain(
            DrainHome(
                clock=self.clock,
                alarms=self.alarms,
                gate=self.edge,
                sessions=self.sessions,
                nodes=self.node_door,
                roster=self.roster,
                refuge=self._refuge,
                changed=lambda: self._tasks.start(self._tell_presence(), name="presence"),
            ),
            config.drain,
        )
        self.subscription = Subscription(config.model_hub, self.clock, self.metrics)
        self.metrics.ready.set_function(lambda: not self.complaints())
        self.metrics.draining.set_function(lambda: self.drain.state is not DrainState.SERVING)
        orders = NodeOrders(self.node_door, self.snapshot, self.company, self.post)
        self.desk = Desk(
            DeskHome(
                instance_id=self.id,
                pid=os.getpid(),
                clock=self.clock,
                metrics=self.metrics,
                company=self.company,
                presence=self._presence,
                snapshot=self.snapshot,
                plan=pools,
                sessions=self.sessions.every,
                languages=self.sessions.languages,
                roster=self.roster,
                census=self.census,
                survey=Survey(self.stores.connection, config.redis.key_prefix, config.company),
                simulation=Simulation(self.stores.nodes, self.snapshot, pools, self.routing),
                pairing=self.pairing,
                drain=self.drain,
                orders=orders,
                complaints=self.complaints,
                processes=self.processes,
                losses=self.losses,
                services=lambda: self.subscription.standing,
            ),
            DeskRules(
                admin=config.admin,
                autoscale=config.autoscale,
                observability=config.observability,
                pools=config.pools,
                drain=config.drain,
                key_prefix=config.redis.key_prefix,
                pause_ms=config.segmentation.pause_ms,
                heartbeat_timeout_s=config.node_health.heartbeat_timeout_s,
            ),
            Guard(config.admin, self.credentials.is_admin),
            for_talkers=self._for_talkers,
        )
        self.edge.add_routes(self.desk.routes())

    async def _deliver_spans(self) -> None:
        if self.tracing is not None:
            await asyncio.to_thread(self.tracing.stop, _SPANS_S)

    def _instance_lost(self, instance_id: InstanceId) -> None:
        self._failover.instance_lost(instance_id)
        self.rooms.instance_lost(instance_id)

    def _refuge(self) -> bool:
        """Tell whether another instance could take what this one has."""
        living = self.company.living
        others = self.company.reachable - {self.id}
        return any(other in living and not living[other].draining for other in others)

    def complaints(self) -> list[str]:
        """Say what keeps this instance from serving new work."""
        away = [] if self.stores.up else ["redis cannot be reached"]
        return [*away, *self.drain.complaints(), *self.watch.stuck()]

    def _served(self, opening: Opening) -> bool:
        languages = opening.languages
        types = frozenset(kind for kind in ("asr", "nmt", "tts") if getattr(opening.pipeline, f"use_{kind}"))
        need = Need(languages.pairs(languages.tgt), types, opening.paired_with)
        return self.snapshot.open_for(need)

    def _counted(self, begin: Callable[[Job], None]) -> Callable[[Job], None]:
        def counted(job: Job) -> None:
            self.census.launched(job)
            begin(job)

        return counted

    def _session_lost(self, session: Session) -> None:
        self.sessions.records.write_behind(session)

    def _session_changed(self, session: Session) -> None:
        self.census.changed(session)
        self.sessions.changed(session)

    def _session_disowned(self, session: Session) -> None:
        self.sessions.disown(session)

    def _start_loops(self, config: Config) -> None:
        """Start what runs for ever; `watch` says when one of them does not."""
        watch, stores = self.watch, self.stores
        watch.loop("inbox", self.letters.receive, every_s=0)
        watch.loop("retake", self.letters.try_again, every_s=config.peers.retake_ms / 1000)
        watch.loop("presence", self._stay, every_s=config.company.presence_ttl_s / BEATS_PER_PRESENCE)
        watch.loop("company", self._look_around, every_s=config.peers.look_ms / 1000)
        watch.loop("read model", self.desk.refresh, every_s=config.admin.refresh_ms / 1000)
        watch.loop("keys", self.credentials.refresh, every_s=config.auth.refresh_s)
        watch.loop("snapshot", self._refresh, every_s=config.placement.refresh_ms / 1000)
        watch.loop(
            "sweep", lambda: self.snapshot.sweep(stores.nodes), every_s=config.placement.sweep_ms / 1000
        )
        watch.loop("catalogue", self.subscription.turn, every_s=_LOOK_AT_CATALOGUE_S)
        watch.loop("leases", self.sessions.renew, every_s=config.lives.session_lease_s / _RENEWALS_PER_LEASE)

    async def _stay(self) -> None:
        await self.company.beat()
        self.sessions.secret = await self.stores.instances.shared_secret(self.sessions.secret)

    async def _tell_presence(self) -> None:
        try:
            await self.company.beat()
        except StoreError as error:  # the next regular beat tells it
            _log.info("presence_not_told", reason=str(error))

    async def _look_around(self) -> None:
        before = self.company.reachable
        await self.company.look()
        newcomers = self.company.reachable - before
        self._nodes_changed([facts for facts in self.snapshot.nodes() if facts.owner in newcomers])
        self.rooms.look()
        await self.adoption.adopt_missing(self.company.absent)

    async def _refresh(self) -> None:
        self._nodes_changed(await self.snapshot.refresh(self.stores.nodes))

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

    async def _in_time(self, stop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Let something end that may still write; all of it shares one short time, for Redis may be away."""
        now = asyncio.get_running_loop().time()
        if self._stop_until is None:
            self._stop_until = now + _STOP_S
        with suppress(TimeoutError):
            async with asyncio.timeout_at(max(self._stop_until, now + _LAST_WORDS_S)):
                await stop()

    async def stop(self) -> None:
        """Close sockets, end sessions, leave nothing behind in Redis, then let Redis go."""
        while self._closers:
            await self._closers.pop()()
        if self._redis is not None:
            await asyncio.to_thread(self._redis.stop)
        _log.info("instance_stopped", instance=self.id)


@asynccontextmanager
async def running(
    config: Config, *, clock: Clock | None = None, siblings: Siblings = ALONE
) -> AsyncIterator[Instance]:
    """Run an instance for as long as the block lasts."""
    instance = Instance(config, clock=clock, siblings=siblings)
    await instance.start()
    try:
        yield instance
    finally:
        await instance.stop()


def _with_lasting_leases(config: Config) -> Config:
    """Let a session's record outlive its owner by the time in which its client may return."""
    window_s = config.resume.window_s * _RENEWALS_PER_LEASE / (_RENEWALS_PER_LEASE - 1)
    lease_s = max(config.lives.session_lease_s, ceil(window_s))
    return msgspec.structs.replace(
        config, lives=msgspec.structs.replace(config.lives, session_lease_s=lease_s)
    )


def _made_up_id() -> str:
    return f"{platform.node() or 'instance'}-{os.getpid()}-{secrets.token_hex(4)}"
