"""Reports of missing services: they mark the node they come from, and an operator hears of each service once.

The path of results is never held up by them: marking is a matter of memory, the node's record is written in
its turn, and Redis is asked in the background.
"""

from __future__ import annotations

import msgspec

from lingua_scheduler.aio import Tasks
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.model import NodeId
from lingua_scheduler.core.ports import NoticeLedger
from lingua_scheduler.core.unavailability import (
    Debounce,
    ModelReport,
    UnavailabilityOptions,
    normal_reason,
    type_of,
)
from lingua_scheduler.errors import StoreError
from lingua_scheduler.flow.registrar import Registrar
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.common import plain_id
from lingua_scheduler.wire.node import JobResult, ModelNotAvailable

_log = get_logger(__name__)

MODEL_NOT_AVAILABLE = "MODEL_NOT_AVAILABLE"


def missing_service(message: JobResult | ModelNotAvailable) -> ModelReport | None:
    """Find the service that a node says it lacks; None when the message is about something else."""
    if isinstance(message, ModelNotAvailable):
        return ModelReport.of(msgspec.structs.asdict(message))
    error = message.error
    if message.success or error is None or error.code != MODEL_NOT_AVAILABLE:
        return None
    return ModelReport.of(error.details)


class ModelReports:
    """Takes the reports of this instance's nodes."""

    def __init__(
        self,
        ledger: NoticeLedger,
        options: UnavailabilityOptions,
        *,
        clock: Clock,
        metrics: Metrics,
        tasks: Tasks,
    ) -> None:
        self._ledger = ledger
        self._window_s = options.debounce_window_s
        self._debounce = Debounce(options.debounce_window_s)
        self._clock = clock
        self._metrics = metrics
        self._tasks = tasks

    def take(self, node: Registrar, report: ModelReport) -> bool:
        """Mark what the node lacks; True when it offers less than before, and its record must say so."""
        now = self._clock.now()
        self._metrics.model_na_received_total.inc()
        if not node.unavailability.admit(now):
            self._metrics.model_na_rate_limited_total.inc()
            self._metrics.model_na_rate_limited_by_node_total.inc(node.node_id)
            return False
        self._metrics.model_na_by_reason_total.inc(normal_reason(report.reason))
        self._metrics.model_na_by_service_total.inc(report.service_id or "unknown")
        if self._debounce.first(report.subject, now):
            self._tasks.start(self._notice(node.node_id, report), name=f"notice {node.node_id}")
        kind = type_of(report, node.said.services)
        if kind is None:
            return False
        self._metrics.model_na_marked_total.inc()
        self._metrics.model_na_marked_by_node_total.inc(node.node_id)
        return node.unavailability.mark(kind, now)

    async def _notice(self, node_id: NodeId, report: ModelReport) -> None:
        try:
            first = await self._ledger.first(report.subject, window_ms=round(self._window_s * 1000))
        except StoreError:
            first = True  # said twice is better than not at all
        if first:
            self._metrics.model_na_notices_total.inc()
            service, version = plain_id(report.service_id), plain_id(report.version)
            _log.warning("model_not_available", node=node_id, service=service, version=version)
