"""What this instance has counted, as JSON: `/api/v1/metrics`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from lingua_scheduler.admin.census import percentile
from lingua_scheduler.admin.nodes import exclusion
from lingua_scheduler.admin.read_model import Picture
from lingua_scheduler.aio import unhurried
from lingua_scheduler.core.catalogue import Standing
from lingua_scheduler.instruments import OTHER, CounterBy
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.slowness import ObservabilityOptions

_TOP = 20
_SAMPLE = 5


class Count(msgspec.Struct, frozen=True):
    """One thing and how often it happened."""

    key: str
    count: int


class StatsCounters(msgspec.Struct, frozen=True):
    """Requests for what people watch."""

    requests_total: int
    stale_total: int
    snapshot_updated_at_ms: int


class CatalogueCounters(msgspec.Struct, frozen=True):
    """How the catalogue of services became known; times are 0 before there is anything."""

    fetched_at_ms: int
    last_success_at_ms: int
    fail_count: int
    last_error: str
    source: str  # none, hub or local
    services: int
    skipped: int  # entries of no use


class ModelNotAvailableCounters(msgspec.Struct, frozen=True):
    """Reports of nodes that lack a service; what has no row of its own is in the numbers of others."""

    received_total: int
    rate_limited_total: int
    marked_total: int
    by_service_top: list[Count]
    by_reason_top: list[Count]
    rate_limited_by_node_top: list[Count]
    marked_by_node_top: list[Count]
    other_service_total: int
    other_reason_total: int
    other_rate_limited_node_total: int
    other_marked_node_total: int


class ExcludedNodes(msgspec.Struct, frozen=True):
    """Jobs that found no node for one main reason, and nodes that are out for it now."""

    reason: str
    total: int
    sample_node_ids: list[str]


class DispatchExclude(msgspec.Struct, frozen=True):
    """Why no node was chosen."""

    by_reason: list[ExcludedNodes]


class SegmentationCounters(msgspec.Struct, frozen=True):
    """How utterances ended."""

    finalized_total: int
    finalized_by_send_total: int
    finalized_by_pause_total: int
    pause_ms: int
    empty_finalize_total: int
    index_gap_total: int


class ObservabilityCounters(msgspec.Struct, frozen=True):
    """Sections that were slow, and waits for what somebody else had."""

    slow_lock_wait_total: int
    slow_path_total: int
    lock_wait_warn_ms: int
    path_warn_ms: int
    slow_lock_wait_by_lock: list[Count]
    slow_path_by_path: list[Count]


class LatencyCounters(msgspec.Struct, frozen=True):
    """Time from the cut to the end of the last answered jobs."""

    p50_ms: int
    p95_ms: int
    p99_ms: int
    count: int


class AsrCounters(msgspec.Struct, frozen=True):
    """How fast answers came."""

    e2e_latency: LatencyCounters


class Counters(msgspec.Struct, frozen=True):
    """What `/api/v1/metrics` says."""

    stats: StatsCounters
    service_catalog: CatalogueCounters
    model_not_available: ModelNotAvailableCounters
    dispatch_exclude: DispatchExclude
    web_task_segmentation: SegmentationCounters
    observability: ObservabilityCounters
    asr: AsrCounters


class CounterViews:
    """Reads the instruments."""

    def __init__(
        self, metrics: Metrics, latencies_ms: Iterable[float], *, pause_ms: int, rules: ObservabilityOptions
    ) -> None:
        self._metrics = metrics
        self._latencies_ms = latencies_ms
        self._pause_ms = pause_ms
        self._rules = rules
        metrics.web_task_pause_ms.set(pause_ms)

    async def counters(self, picture: Picture) -> Counters:
        """Show what was counted since the start."""
        metrics = self._metrics
        return Counters(
            stats=StatsCounters(
                requests_total=metrics.stats_requests_total.value,
                stale_total=metrics.stats_stale_total.value,
                snapshot_updated_at_ms=picture.at_ms,
            ),
            service_catalog=_catalogue(picture.services),
            model_not_available=self._model_not_available(),
            dispatch_exclude=DispatchExclude(await self._excluded(picture)),
            web_task_segmentation=self._segmentation(),
            observability=self._slowness(),
            asr=AsrCounters(self._latency()),
        )

    def _model_not_available(self) -> ModelNotAvailableCounters:
        metrics = self._metrics
        by_service, by_reason = metrics.model_na_by_service_total, metrics.model_na_by_reason_total
        limited, marked = metrics.model_na_rate_limited_by_node_total, metrics.model_na_marked_by_node_total
        return ModelNotAvailableCounters(
            received_total=metrics.model_na_received_total.value,
            rate_limited_total=metrics.model_na_rate_limited_total.value,
            marked_total=metrics.model_na_marked_total.value,
            by_service_top=_top(by_service.read()),
            by_reason_top=_top(by_reason.read()),
            rate_limited_by_node_top=_top(limited.read()),
            marked_by_node_top=_top(marked.read()),
            other_service_total=_others(by_service),
            other_reason_total=_others(by_reason),
            other_rate_limited_node_total=_others(limited),
            other_marked_node_total=_others(marked),
        )

    def _slowness(self) -> ObservabilityCounters:
        slow, waits = self._metrics.slow_path_total.read(), self._metrics.slow_lock_wait_total.read()
        return ObservabilityCounters(
            slow_lock_wait_total=sum(waits.values()),
            slow_path_total=sum(slow.values()),
            lock_wait_warn_ms=self._rules.lock_wait_warn_ms,
            path_warn_ms=self._rules.path_warn_ms,
            slow_lock_wait_by_lock=_top(waits),
            slow_path_by_path=_top(slow),
        )

    async def _excluded(self, picture: Picture) -> list[ExcludedNodes]:
        sample: dict[str, list[str]] = {}
        async for facts in unhurried(picture.nodes):
            reason = exclusion(picture, facts)
            named = sample.setdefault(reason.value, []) if reason is not None else None
            if named is not None and len(named) < _SAMPLE:
                named.append(facts.node_id)
        counted = self._metrics.no_available_node_total.read()
        return [
            ExcludedNodes(reason, total, sample.get(reason, []))
            for (reason,), total in sorted(counted.items())
        ]

    def _segmentation(self) -> SegmentationCounters:
        metrics = self._metrics
        cuts = {reason: count for (reason,), count in metrics.web_task_finalized_total.read().items()}
        return SegmentationCounters(
            finalized_total=sum(cuts.values()),
            finalized_by_send_total=cuts.get("manual", 0),
            finalized_by_pause_total=cuts.get("silence", 0) + cuts.get("gap", 0),
            pause_ms=self._pause_ms,
            empty_finalize_total=metrics.empty_finalize_total.value,
            index_gap_total=metrics.result_gap_timeout_total.value,
        )

    def _latency(self) -> LatencyCounters:
        known = list(self._latencies_ms)
        p50, p95, p99 = (round(percentile(known, part)) for part in (0.5, 0.95, 0.99))
        return LatencyCounters(p50, p95, p99, len(known))


def _catalogue(standing: Standing) -> CatalogueCounters:
    return CatalogueCounters(
        fetched_at_ms=standing.fetched_at_ms,
        last_success_at_ms=standing.last_success_at_ms,
        fail_count=standing.fail_count,
        last_error=standing.last_error,
        source=standing.source,
        services=len(standing.catalogue.services),
        skipped=standing.catalogue.skipped,
    )


def _top(counted: Mapping[tuple[str, ...], int]) -> list[Count]:
    known = [Count(labels[0], count) for labels, count in counted.items() if count and labels[0] != OTHER]
    return sorted(known, key=lambda each: (-each.count, each.key))[:_TOP]


def _others(by: CounterBy) -> int:
    return by.read().get((OTHER,), 0)
