"""The front of an instance, built: the sockets, who may come in, and the desk where operators ask."""

from __future__ import annotations

import os

from lingua_scheduler.admin.desk import Desk, DeskHome, DeskRules
from lingua_scheduler.admin.guard import Guard
from lingua_scheduler.admin.pages import Pages
from lingua_scheduler.admin.tokens import Tokens
from lingua_scheduler.admin.transcripts import TranscriptFiles
from lingua_scheduler.config import Config
from lingua_scheduler.core.company import Presence
from lingua_scheduler.core.pools import PoolPlan
from lingua_scheduler.edge.auth import Gatekeeper
from lingua_scheduler.edge.server import Edge
from lingua_scheduler.edge.surroundings import Surroundings as EdgeSurroundings
from lingua_scheduler.errors import StoreError
from lingua_scheduler.flow.client import ClientDoor, ClientHome
from lingua_scheduler.flow.credentials import Credentials
from lingua_scheduler.flow.drain import Drain, DrainHome, DrainState
from lingua_scheduler.flow.failover import Failover
from lingua_scheduler.flow.link import NodeDoor
from lingua_scheduler.flow.membership import LinkHome
from lingua_scheduler.flow.model_reports import ModelReports
from lingua_scheduler.flow.node_orders import NodeOrders
from lingua_scheduler.flow.opening import Opening
from lingua_scheduler.flow.pairing import Pairing
from lingua_scheduler.flow.registration import NodeRules
from lingua_scheduler.flow.simulation import Simulation
from lingua_scheduler.flow.snapshot import Need
from lingua_scheduler.flow.surroundings import SessionRules
from lingua_scheduler.hub.subscription import Subscription
from lingua_scheduler.log import get_logger
from lingua_scheduler.store.survey import Survey
from lingua_scheduler.workshop import Workshop

_log = get_logger(__name__)


class Front(Workshop):
    """Everything people and machines talk to, each object made once."""

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

    def complaints(self) -> list[str]:
        """Say what keeps this instance from serving new work."""
        away = [] if self.stores.up else ["redis cannot be reached"]
        return [*away, *self.drain.complaints(), *self.watch.stuck()]

    def _refuge(self) -> bool:
        """Tell whether another instance could take what this one has."""
        living = self.company.living
        others = self.company.reachable - {self.id}
        return any(other in living and not living[other].draining for other in others)

    def _served(self, opening: Opening) -> bool:
        languages = opening.languages
        types = frozenset(kind for kind in ("asr", "nmt", "tts") if getattr(opening.pipeline, f"use_{kind}"))
        need = Need(languages.pairs(languages.tgt), types, opening.paired_with)
        return self.snapshot.open_for(need)

    async def _tell_presence(self) -> None:
        try:
            await self.company.beat()
        except StoreError as error:  # the next regular beat tells it
            _log.info("presence_not_told", reason=str(error))
