"""What a dead instance left behind: one survivor removes its nodes and takes its letters."""

from __future__ import annotations

from lingua_scheduler.core.model import InstanceId
from lingua_scheduler.core.ports import Ledgers
from lingua_scheduler.crash import CrashPoint, crash_point
from lingua_scheduler.flow.letters import Letters
from lingua_scheduler.flow.snapshot import Snapshot
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics

_log = get_logger(__name__)


class Adoption:
    """Takes charge of dead instances; exactly one survivor does it for each."""

    def __init__(
        self,
        instance_id: InstanceId,
        ledgers: Ledgers,
        letters: Letters,
        snapshot: Snapshot,
        metrics: Metrics,
    ) -> None:
        self._id = instance_id
        self._ledgers = ledgers
        self._letters = letters
        self._snapshot = snapshot
        self._metrics = metrics

    async def adopt_missing(self, absent: frozenset[InstanceId]) -> None:
        """Look after every dead instance that nobody has adopted; `absent` ones may still return."""
        for instance_id in await self._ledgers.instances.missing():
            if instance_id != self._id and instance_id not in absent:
                await self._adopt(instance_id)

    async def _adopt(self, instance_id: InstanceId) -> None:
        """Adopt one; if we die in the middle, another survivor begins again."""
        instances = self._ledgers.instances
        if not await instances.adopt(instance_id, by=self._id):
            return
        crash_point(CrashPoint.AFTER_ADOPT)
        evicted = 0
        for facts in self._snapshot.nodes():
            if facts.owner == instance_id:
                evicted += await self._ledgers.nodes.evict(facts.node_id, facts.pool, owner=instance_id)
        moved = await self._letters.inherit(instance_id)
        await instances.forget(instance_id)
        self._metrics.instances_adopted_total.inc()
        _log.warning("instance_adopted", instance=instance_id, letters=moved, nodes=evicted)
