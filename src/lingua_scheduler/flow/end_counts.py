"""How utterances ended, counted."""

from __future__ import annotations

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.ordering import MissingReason
from lingua_scheduler.flow.answer import Answer
from lingua_scheduler.metrics import Metrics


class EndCounts:
    """Counts the ends that leave for a client or a room."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock

    def answered(self, answer: Answer) -> None:
        """Count a result, and how long it took."""
        self._metrics.translation_results_total.inc()
        self._metrics.answer_latency_seconds.observe(self._clock.now() - answer.job.created_at)

    def missing(self, reason: MissingReason) -> None:
        """Count an utterance without one."""
        self._metrics.missing_results_total.inc(reason.value)
        if reason is MissingReason.GAP_TIMEOUT:
            self._metrics.result_gap_timeout_total.inc()
