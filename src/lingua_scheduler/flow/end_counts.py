"""How utterances ended, counted."""

from __future__ import annotations

from typing import TypeVar

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.ordering import Delivered, MissingReason, Outcome, Resolution, Verdict
from lingua_scheduler.flow.answer import Answer
from lingua_scheduler.metrics import Metrics

T = TypeVar("T")


class EndCounts:
    """Counts the ends that leave for a client or a room."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock

    def worded(self, end: Answer | MissingReason) -> None:
        """An end is encoded for the speaker."""
        if isinstance(end, Answer):
            self._metrics.result_encodings_total.inc()

    def answered(self, answer: Answer) -> None:
        """Count a result, and how long it took."""
        self._metrics.translation_results_total.inc()
        self._metrics.answer_latency_seconds.observe(self._clock.now() - answer.job.created_at)
        received_ms, sent_ms = answer.received_wall_ms, answer.job.dispatched_wall_ms
        held_ms = self._clock.wall_ms() - received_ms
        self._metrics.stage_seconds.observe("delivery", max(0, held_ms) / 1000)
        if sent_ms is not None:
            self._metrics.stage_seconds.observe("node", max(0, received_ms - sent_ms) / 1000)

    def resolved(self, index: int, end: Outcome[T], resolution: Resolution[T]) -> None:
        """Count an end that came late, in vain or too early."""
        metrics, verdict = self._metrics, resolution.verdict
        if verdict is Verdict.LATE:
            metrics.results_late_total.inc()
        elif not isinstance(end, Delivered):
            return
        elif verdict is not Verdict.ACCEPTED:
            metrics.results_dropped_total.inc(verdict.value)
        elif not any(release.index == index for release in resolution.releases):
            metrics.results_held_total.inc()

    def missing(self, reason: MissingReason) -> None:
        """Count an utterance without one."""
        self._metrics.missing_results_total.inc(reason.value)
        if reason is MissingReason.GAP_TIMEOUT:
            self._metrics.result_gap_timeout_total.inc()
