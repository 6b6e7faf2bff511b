"""The work of an instance, built: what knows the others, places and ends jobs, keeps sessions and rooms."""

from __future__ import annotations

import os
import platform
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from math import ceil
from typing import Any

import msgspec

from lingua_scheduler.admin.census import Census
from lingua_scheduler.admin.siblings import ALONE, SiblingMetrics, Siblings
from lingua_scheduler.aio import Alarms, Tasks
from lingua_scheduler.clock import Clock, SystemClock
from lingua_scheduler.config import Config
from lingua_scheduler.core.company import Presence
from lingua_scheduler.core.model import InstanceId
from lingua_scheduler.core.pools import PoolPlan
from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.flow.adoption import Adoption
from lingua_scheduler.flow.company import Company
from lingua_scheduler.flow.delivery import DeliveryOptions
from lingua_scheduler.flow.dispatch import Dispatch
from lingua_scheduler.flow.endings import Endings
from lingua_scheduler.flow.errands import Errands
from lingua_scheduler.flow.failover import Failover
from lingua_scheduler.flow.fan_out import FanOut
from lingua_scheduler.flow.job import Job
from lingua_scheduler.flow.lanes import Lanes
from lingua_scheduler.flow.letters import Letters
from lingua_scheduler.flow.losses import Losses
from lingua_scheduler.flow.post import Post
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
from lingua_scheduler.flow.snapshot import Snapshot
from lingua_scheduler.flow.surroundings import SessionRules, Surroundings
from lingua_scheduler.flow.transcripts import Transcripts
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.store.stores import Stores
from lingua_scheduler.tracing.tracing import opened
from lingua_scheduler.watch import LagMonitor, Watch


class Workshop(ABC):
    """Everything between the sockets and Redis, each object made once."""

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
        self._secret = b""  # shared by all instances, known when Redis has answered
        self._tasks = Tasks()
        self._stop_until: float | None = None
        self._closers: list[Callable[[], Coroutine[Any, Any, None]]] = []  # the last one is called first

    @abstractmethod
    def _presence(self) -> Presence:
        """Tell what the others are to know of this instance."""

    def _open_stores(self, config: Config) -> None:
        """Make the way to Redis; nothing is asked of it yet."""
        self.stores = Stores(
            config.redis,
            config.lives,
            config.company,
            config.rooms,
            owner=self.id,
            metrics=self.metrics,
            transcript=config.transcript,
        )

    def _lay_ground(self, config: Config) -> None:
        """Build what everything else stands on."""
        self.alarms = Alarms(self.clock)
        self.tracing = opened(
            config.tracing,
            self.id,
            exported=self.metrics.spans_exported_total.inc,
            dropped=lambda why, spans: self.metrics.spans_dropped_total.inc(why, amount=spans),
        )
        self.watch = Watch(self.clock, self.alarms, config.watch)
        self.lag = LagMonitor(self.clock, config.watch, self.metrics.event_loop_lag_seconds.observe)
        self.losses = Losses(self.clock, self.metrics)

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

    def _instance_lost(self, instance_id: InstanceId) -> None:
        self._failover.instance_lost(instance_id)
        self.rooms.instance_lost(instance_id)

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


def _made_up_id() -> str:
    return f"{platform.node() or 'instance'}-{os.getpid()}-{secrets.token_hex(4)}"
