"""What an instance writes about one of its nodes: registration, leases and status, fenced by the epoch."""

from __future__ import annotations

from dataclasses import replace

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.lifecycle import NodeHealth, NodeStatus, StatusChange
from lingua_scheduler.core.model import InstanceId, NodeId, PoolId, new_node_id
from lingua_scheduler.core.modules import TEXT_JOBS
from lingua_scheduler.core.placement import NodeFacts
from lingua_scheduler.core.pools import PoolPlan
from lingua_scheduler.core.ports import NodeLedger
from lingua_scheduler.core.stored import Beat
from lingua_scheduler.core.unavailability import Unavailability
from lingua_scheduler.flow.registration import Announcement, NodeRules
from lingua_scheduler.log import get_logger
from lingua_scheduler.wire.node import NodeHeartbeat, NodeRegister

_log = get_logger(__name__)

JOB_ACK = "job_ack"  # the node acknowledges every job at once
ANY_ORDER = "any_order"  # the node takes a session's utterances in any order, with gaps


class Registrar:
    """One registered node: what it said, how it stands, and the record of both in Redis."""

    def __init__(
        self,
        message: NodeRegister,
        ledger: NodeLedger,
        *,
        owner: InstanceId,
        rules: NodeRules,
        pools: PoolPlan,
        clock: Clock,
    ) -> None:
        self.said = Announcement(message, rules)
        self.node_id = NodeId(message.node_id or new_node_id())
        self.unavailability = Unavailability(rules.unavailability)
        self.epochs: list[int] = []  # of this registration, newest last; a restored one has several
        self._ledger = ledger
        self._owner = owner
        self._clock = clock
        self._heard_ms = clock.wall_ms()
        self._takeover = rules.nodes.node_id_conflict_policy == "takeover"
        services = [service.service_id for service in self.said.services]
        self._pool: PoolId = pools.pool_of(self.node_id, services, self.said.asr | self.said.semantic)
        self._lease_s = rules.lease_s(message.heartbeat_interval_seconds)
        self._health = NodeHealth(rules.health, clock.now(), heartbeat_timeout_s=self._lease_s)

    @property
    def epoch(self) -> int:
        """The number that fences older registrations; 0 before it is registered."""
        return self.epochs[-1] if self.epochs else 0

    @property
    def status(self) -> NodeStatus:
        """How the node stands."""
        return self._health.status

    @property
    def deadline(self) -> float | None:
        """When `scan` has something to do unless the node reports first."""
        return self._health.deadline

    @property
    def facts(self) -> NodeFacts:
        """What placement must know of the node now."""
        said = self.said
        return NodeFacts(
            node_id=self.node_id,
            pool=self._pool,
            owner=self._owner,
            asr=said.asr,
            semantic=said.semantic,
            types=self._types(),
            max_jobs=said.max_jobs,
            running_jobs=said.running_jobs,
            closed=said.closed(self.status),
            region=said.register.region or "",
            gpu_tier=said.register.gpu_tier or "",
            private=not said.register.accept_public_jobs,
            sequential=not said.offers(ANY_ORDER),
            acknowledges=said.offers(JOB_ACK),
            about={**said.about(self.status), "heartbeat_ms": self._heard_ms},
        )

    def _types(self) -> frozenset[str]:
        """Name what it offers now; what it can do with words counts like one more type of service."""
        offered = self.said.types - {TEXT_JOBS} - self.unavailability.types(self._clock.now())
        return offered | {TEXT_JOBS} if self.said.offers(TEXT_JOBS) else offered

    def hear(self, message: NodeHeartbeat) -> StatusChange | None:
        """Take a heartbeat into account."""
        self._heard_ms = self._clock.wall_ms()
        self.said.hear(message)
        return self._health.heartbeat(self.said.health(), self._clock.now())

    def scan(self) -> StatusChange | None:
        """Take the time that passed into account."""
        return self._health.scan(self._clock.now())

    def lose(self, reason: str) -> StatusChange | None:
        """The node cannot be reached any more."""
        return self._health.lose(reason)

    def drain(self, reason: str) -> StatusChange | None:
        """Give it no new jobs."""
        return None if self.status is NodeStatus.OFFLINE else self._health.drain(reason)

    def cancel_drain(self, reason: str) -> StatusChange | None:
        """Let it stand as it stood before."""
        return self._health.cancel_drain(reason) if self.status is NodeStatus.DRAINING else None

    async def register(self, *, again: bool = False, holding: int = 0) -> None:
        """Write the node under its next epoch; `again` when this connection held the id before.

        `holding` is how many jobs it was given on this connection and has not answered.
        """
        takeover, facts = self._takeover or again, self._busy(holding)
        self.epochs.append(await self._ledger.register(facts, lease_ms=self._lease_ms, takeover=takeover))

    async def beat(self, *, reported: bool = True, holding: int = 0) -> Beat:
        """Renew the lease; a node whose lease had ended while it was connected is written anew.

        Unless the node itself `reported`, what it said about its load is out of date. It may run jobs of
        an earlier epoch, which no reservation of this one stands for, and not count them.
        """
        outcome = await self._ledger.beat(
            self._busy(holding), epoch=self.epoch, lease_ms=self._lease_ms, reported=reported
        )
        if outcome is Beat.GONE and self.status is not NodeStatus.OFFLINE:
            await self.register(again=True, holding=holding)
            _log.info("node_restored", node=self.node_id, epoch=self.epoch)
            return Beat.RENEWED
        return outcome

    def _busy(self, holding: int) -> NodeFacts:
        facts = self.facts
        return replace(facts, running_jobs=holding) if holding > facts.running_jobs else facts

    async def leave(self) -> bool:
        """Remove the node; False when a newer epoch owns it."""
        return await self._ledger.leave(self.node_id, self._pool, epoch=self.epoch)

    @property
    def _lease_ms(self) -> int:
        return round(self._lease_s * 1000)
