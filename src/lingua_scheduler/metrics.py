"""Every instrument of an instance, declared once: name, unit, help, and the values its labels may take.

A label value outside its declared set is counted as `other`, so nobody outside can make the number of series
grow. Children are made once; what the frame path counts is a plain integer that is exported when asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Protocol

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from lingua_scheduler.log import dropped_lines

PREFIX = "scheduler_"
OTHER = "other"
LATENCY_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
ANSWER_BUCKETS_S = (0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 30.0, 60.0)

CUT_REASONS = ("manual", "silence", "gap", "max_duration", "max_length", "close")
EXCLUSIONS = (
    "no_nodes",
    "offline",
    "status_not_ready",
    "not_in_public_pool",
    "gpu_unavailable",
    "model_not_available",
    "capacity_exceeded",
    "resource_threshold_exceeded",
    "lang_pair_unsupported",
)
MISSING_REASONS = ("unknown", "not_found", "checksum_mismatch", "load_failed", "timeout", "oom")

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


class Values(Protocol):
    """Which values a label may take."""

    def bounded(self, value: str) -> str:
        """Give the value itself, or `other`."""
        ...


class OneOf:
    """A label with a written list of values."""

    def __init__(self, *values: str) -> None:
        self.known = frozenset(values)

    def bounded(self, value: str) -> str:
        """Give the value itself if it is on the list."""
        return value if value in self.known else OTHER


class AtMost:
    """A label whose values nobody has listed: the first `limit` are kept apart, `known` ones among them."""

    def __init__(self, limit: int, *known: str) -> None:
        self._limit = limit
        self._seen = set(known)

    def bounded(self, value: str) -> str:
        """Give the value itself unless the limit has been reached by others."""
        if value in self._seen:
            return value
        if len(self._seen) >= self._limit:
            return OTHER
        self._seen.add(value)
        return value


class CounterBy:
    """A counter with labels: `inc` takes their values in the order of the declaration."""

    def __init__(self, counter: Counter, values: Iterable[Values]) -> None:
        self._counter = counter
        self._values = tuple(values)
        self._children: dict[tuple[str, ...], Counter] = {}
        if all(
            isinstance(known, OneOf) for known in self._values
        ):  # a series must exist before its first event
            for labels in itertools.product(
                *(known.known for known in self._values if isinstance(known, OneOf))
            ):
                self._children[labels] = counter.labels(*labels)

    def inc(self, *labels: str, amount: int = 1) -> None:
        """Count `amount` more under these label values."""
        child = self._children.get(labels)
        if child is None:
            bounded = [values.bounded(label) for values, label in zip(self._values, labels, strict=True)]
            child = self._counter.labels(*bounded)
            if OTHER not in bounded:
                self._children[labels] = child
        child.inc(amount)


class Tally:
    """A count on the path of every frame: a plain integer, exported when the metrics are read."""

    __slots__ = ("help", "name", "value")

    def __init__(self, name: str, help_text: str) -> None:
        self.name = name
        self.help = help_text
        self.value = 0

    def inc(self, amount: int = 1) -> None:
        """Count `amount` more."""
        self.value += amount


class _Tallies(Collector):
    def __init__(self) -> None:
        self.tallies: list[Tally] = []

    def collect(self) -> Iterator[Metric]:
        for tally in self.tallies:
            yield CounterMetricFamily(PREFIX + tally.name, tally.help, value=tally.value)
        dropped = "Log lines that could not be written."
        yield CounterMetricFamily(f"{PREFIX}log_lines_dropped_total", dropped, value=dropped_lines())


class _Declared:
    """Makes instruments in one registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._tallies = _Tallies()
        self.registry.register(self._tallies)

    def counter(self, name: str, help_text: str) -> Counter:
        return Counter(PREFIX + name, help_text, registry=self.registry)

    def counter_by(self, name: str, help_text: str, **labels: Values) -> CounterBy:
        counter = Counter(PREFIX + name, help_text, tuple(labels), registry=self.registry)
        return CounterBy(counter, labels.values())

    def gauge(self, name: str, help_text: str) -> Gauge:
        return Gauge(PREFIX + name, help_text, registry=self.registry)

    def seconds(self, name: str, help_text: str, buckets: tuple[float, ...] = LATENCY_BUCKETS_S) -> Histogram:
        return Histogram(PREFIX + name, help_text, buckets=buckets, unit="seconds", registry=self.registry)

    def tally(self, name: str, help_text: str) -> Tally:
        tally = Tally(name, help_text)
        self._tallies.tallies.append(tally)
        return tally


class Metrics:
    """The instruments of one instance; each attribute is called like its metric, without the prefix."""

    def __init__(self) -> None:
        declared = _Declared()
        self.registry = declared.registry
        self._declare_sessions(declared)
        self._declare_results(declared)
        self._declare_dispatch(declared)
        self._declare_nodes(declared)
        self._declare_company(declared)
        self._declare_store(declared)

    def render(self) -> bytes:
        """Give the Prometheus text format of everything counted so far."""
        return prometheus_client.generate_latest(self.registry)

    def _declare_sessions(self, d: _Declared) -> None:
        self.event_loop_lag_seconds = d.seconds(
            "event_loop_lag_seconds", "How late callbacks of the event loop run, measured twice a second."
        )
        self.sessions_open = d.gauge("sessions_open", "Sessions this instance owns.")
        self.audio_frames_total = d.tally("audio_frames_total", "Audio frames accepted from clients.")
        self.audio_bytes_total = d.tally("audio_bytes_total", "Bytes of audio accepted from clients.")
        self.audio_frames_dropped_total = d.counter_by(
            "audio_frames_dropped_total", "Audio frames that reached no utterance, by cause.", why=AtMost(16)
        )
        self.bad_input_total = d.counter_by(
            "bad_input_total", "Messages refused because of what they contain, by kind.", kind=AtMost(32)
        )
        self.slow_consumer_closed_total = d.counter(
            "slow_consumer_closed_total", "Connections closed because their peer read too slowly."
        )
        self.web_task_finalized_total = d.counter_by(
            "web_task_finalized_total",
            "Utterances that ended, by reason of the cut.",
            reason=OneOf(*CUT_REASONS),
        )
        self.empty_finalize_total = d.counter("empty_finalize_total", "Cuts that found no audio.")
        self.duplicate_finalize_suppressed_total = d.counter(
            "duplicate_finalize_suppressed_total", "Cuts asked for again after the utterance had ended."
        )

    def _declare_results(self, d: _Declared) -> None:
        self.translation_results_total = d.counter(
            "translation_results_total", "Utterances answered with a translation."
        )
        self.missing_results_total = d.counter_by(
            "missing_results_total", "Utterances answered with missing_result, by reason.", reason=AtMost(32)
        )
        self.result_gap_timeout_total = d.counter(
            "result_gap_timeout_total", "Utterances given up because a later one had waited long enough."
        )
        self.results_held_total = d.counter(
            "results_held_total", "Results that had to wait for an earlier utterance."
        )
        self.results_late_total = d.counter(
            "results_late_total", "Results delivered after their utterance had been reported missing."
        )
        self.results_dropped_total = d.counter_by(
            "results_dropped_total", "Results of nodes that were not used, by cause.", why=AtMost(16)
        )
        self.answer_latency_seconds = d.seconds(
            "answer_latency_seconds", "Time from the cut to the answer.", ANSWER_BUCKETS_S
        )

    def _declare_dispatch(self, d: _Declared) -> None:
        self.jobs_open = d.gauge("jobs_open", "Jobs of this instance's sessions that are not terminal.")
        self.duplicate_job_blocked_total = d.counter(
            "duplicate_job_blocked_total", "Jobs not made because the utterance had one for that language."
        )
        self.reserve_attempt_total = d.counter_by(
            "reserve_attempt_total",
            "Questions for a free slot, by answer.",
            result=OneOf("success", "fail", "error"),
        )
        self.no_available_node_total = d.counter_by(
            "no_available_node_total", "Jobs that found no node, by main reason.", reason=OneOf(*EXCLUSIONS)
        )
        self.dispatch_latency_seconds = d.seconds(
            "dispatch_latency_seconds", "Time from the cut to handing job_assign to the node's connection."
        )
        self.ack_timeout_total = d.counter(
            "ack_timeout_total", "Attempts whose node did not acknowledge the job in time."
        )
        self.failover_total = d.counter_by(
            "failover_total", "Attempts given up in favour of another one, by cause.", why=AtMost(16)
        )

    def _declare_nodes(self, d: _Declared) -> None:
        self.nodes_connected = d.gauge("nodes_connected", "Nodes whose connection this instance holds.")
        self.node_registration_total = d.counter_by(
            "node_registration_total",
            "Registrations, by result: accepted or the refusal's code.",
            result=AtMost(16),
        )
        self.node_overload_reject_total = d.counter(
            "node_overload_reject_total", "Attempts that a node refused because it was full."
        )
        self.model_na_received_total = d.counter(
            "model_na_received_total", "Reports of nodes that lack a service."
        )
        self.model_na_rate_limited_total = d.counter(
            "model_na_rate_limited_total", "Such reports beyond what one node may send."
        )
        self.model_na_marked_total = d.counter(
            "model_na_marked_total", "Such reports that took a type of service out of what a node offers."
        )
        self.model_na_by_reason_total = d.counter_by(
            "model_na_by_reason_total",
            "Such reports within the limit, by reason.",
            reason=AtMost(64, *MISSING_REASONS),
        )
        self.model_na_notices_total = d.counter(
            "model_na_notices_total", "Missing services logged, one line for all reports of a short time."
        )

    def _declare_company(self, d: _Declared) -> None:
        kinds = AtMost(16)
        self.instances_alive = d.gauge("instances_alive", "Instances that live, as this one sees it.")
        self.instances_lost_total = d.counter(
            "instances_lost_total", "Other instances that were seen to die."
        )
        self.instances_adopted_total = d.counter(
            "instances_adopted_total", "Dead instances whose letters and nodes this one took charge of."
        )
        self.letters_sent_total = d.counter_by(
            "letters_sent_total",
            "Letters to other instances, by kind and outcome.",
            kind=kinds,
            outcome=OneOf("sent", "gone", "full", "error"),
        )
        self.letters_received_total = d.counter_by(
            "letters_received_total",
            "Letters of other instances, by kind and outcome.",
            kind=kinds,
            outcome=OneOf("done", "later", "stale"),
        )
        self.letter_age_seconds = d.seconds(
            "letter_age_seconds", "Time from sending a letter to having its effect."
        )
        self.phase2_inbox_pending = d.gauge(
            "phase2_inbox_pending", "Letters that were taken and could not be dealt with yet."
        )
        self.phase2_dlq_moved_total = d.counter("phase2_dlq_moved_total", "Letters that became dead letters.")

    def _declare_store(self, d: _Declared) -> None:
        self.store_call_total = d.counter_by(
            "store_call_total", "Calls of Redis, by script.", script=AtMost(64), result=OneOf("ok", "err")
        )
        self.store_call_seconds = d.seconds("store_call_seconds", "Time of one call of Redis.")
        self.store_reconnect_total = d.counter("store_reconnect_total", "Connections to Redis made anew.")
        self.store_corrupt_value_total = d.counter(
            "store_corrupt_value_total", "Stored values of a wrong type or version, treated as absent."
        )
