"""The instances that live, as one of them sees it, and whether this one may still act for what it owns.

An instance that was frozen longer than its presence lasts may have lost everything to others meanwhile. It
notices by its own clock before it places anything, and asks Redis what it still owns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.company import InstanceLedger, Presence, Renewal
from lingua_scheduler.core.model import InstanceId
from lingua_scheduler.errors import DependencyDown, StoreError
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics

_log = get_logger(__name__)

_Ms = Annotated[int, msgspec.Meta(ge=100)]
_HOPELESS_S = 0.1  # all that wait to be placed try together, not one after another


class PeerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How instances watch each other and how long they try to hand a letter over."""

    look_ms: _Ms = 1000
    """How often an instance looks who else lives."""
    settle_ms: _Ms = 3500
    """How long another instance must have been absent before its work is taken over."""
    retake_ms: _Ms = 5000
    """How often letters that could not be dealt with are tried again."""
    dlq_max_deliveries: Annotated[int, msgspec.Meta(ge=1)] = 10
    """A letter tried so often becomes a dead letter."""
    dlq_max_age_ms: _Ms = 60_000
    """So does one that is older."""
    undelivered_max: Annotated[int, msgspec.Meta(ge=1)] = 1000
    """Most results kept for sessions whose owner has died, until their clients come back."""


class Company:
    """Who lives now; tells who does not live any more."""

    def __init__(
        self,
        instance_id: InstanceId,
        ledger: InstanceLedger,
        present: Callable[[], Presence],
        *,
        options: PeerOptions,
        presence_ttl_s: float,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._ledger = ledger
        self._present = present
        self._settle_s = options.settle_ms / 1000
        self._ttl_s = presence_ttl_s
        self._clock = clock
        self._metrics = metrics
        self.instance_id = instance_id
        self._sure_until = float("-inf")
        self._doubtful = False  # perhaps Redis does not have any more what we own
        self._asking = asyncio.Lock()
        self._absent: dict[InstanceId, float] = {}  # since when, by our clock
        self._left: set[InstanceId] = set()  # those of them that said goodbye
        self.living: dict[InstanceId, Presence] = {}
        self.reachable = frozenset({self.instance_id})
        self.replaced = asyncio.Event()  # another process has our id
        self._failed_at = float("-inf")
        self.returned: Callable[[], Awaitable[None]]  # called before we act again after an uncertain time
        self.lost: Callable[[InstanceId], None]  # called once when an instance has left or died
        self.died: Callable[[InstanceId], None]  # called before that when it did not say goodbye

    async def enter(self) -> None:
        """Become known; InstanceIdTaken while another process lives under our id."""
        begun = self._clock.now()
        await self._ledger.enter(self._present())
        self._assure(begun)
        await self.look()

    async def leave(self) -> None:
        """Stop being known."""
        self._sure_until = float("-inf")
        try:
            await self._ledger.leave(self._present())
        except StoreError as error:
            _log.info("presence_not_removed", reason=str(error))

    async def beat(self) -> None:
        """Stay known; what we own is checked first when our presence has lapsed, or perhaps has.

        DependencyDown also when another process has our id: nothing may be written any more.
        """
        begun = self._clock.now()
        try:
            renewal = await self._ledger.renew(self._present())
        except StoreError:
            self._doubtful = True  # it may come back without what was written
            raise
        if renewal is Renewal.TAKEN:
            self._sure_until = float("-inf")
            self.replaced.set()
            raise DependencyDown(f"the instance id {self.instance_id} belongs to another process now")
        self._doubtful |= renewal is Renewal.LOST or not self.sure
        if self._doubtful:
            await self.returned()
            self._doubtful = False
        self._assure(begun)

    @property
    def sure(self) -> bool:
        """Others still see us as alive, and respect what we own."""
        return self._clock.now() < self._sure_until

    @property
    def absent(self) -> frozenset[InstanceId]:
        """Those that are not seen now and may still return."""
        return frozenset(self._absent)

    async def assured(self) -> None:
        """Return when we are sure; placement asks before it writes anything. DependencyDown as of Redis."""
        if self.sure:
            return
        asked_at = self._clock.now()
        async with self._asking:
            self._metrics.waited("presence", self._clock.now() - asked_at)
            now = self._clock.now()
            if now < self._sure_until:  # somebody before us has seen to it
                return
            if now < self._failed_at + _HOPELESS_S:
                raise DependencyDown("what is ours could not be made sure just now")
            try:
                await self.beat()
            except StoreError:
                self._failed_at = self._clock.now()
                raise

    def doubt(self, instance_id: InstanceId) -> None:
        """A letter found nobody there: do not count on this one until it is seen again."""
        self.reachable -= {instance_id} - {self.instance_id}

    async def look(self) -> None:
        """See who lives; report those that have been absent long enough, or live anew."""
        try:
            living = await self._ledger.company()
            if vanished := self.living.keys() - living.keys() - self._absent.keys():
                self._left |= vanished.difference(await self._ledger.missing())
        except StoreError:
            self._absent.clear()  # nobody can be told from the dead now
            raise
        now = self._clock.now()
        for instance_id, before in self.living.items():
            after = living.get(instance_id)
            if after is None:
                self._absent.setdefault(instance_id, now)
            elif after.boot != before.boot and instance_id != self.instance_id:
                self._report(instance_id)
        for instance_id in list(self._absent):
            if instance_id in living:
                del self._absent[instance_id]
                self._left.discard(instance_id)
            elif now - self._absent[instance_id] >= self._settle_s:
                del self._absent[instance_id]
                self.living.pop(instance_id, None)
                self._report(instance_id)
        self.living = {**{each: self.living[each] for each in self._absent if each in self.living}, **living}
        self.reachable = frozenset({self.instance_id, *living})
        self._metrics.instances_alive.set(len(self.reachable))

    def _report(self, instance_id: InstanceId) -> None:
        if instance_id == self.instance_id:
            return
        if instance_id in self._left:
            self._left.discard(instance_id)
            _log.info("instance_left", instance=instance_id)
        else:
            self._metrics.instances_lost_total.inc()
            _log.warning("instance_lost", instance=instance_id)
            self.died(instance_id)
        self.lost(instance_id)

    def _assure(self, begun: float) -> None:
        self._sure_until = begun + self._ttl_s
