"""The kinds of instruments: what an instance counts with, and what keeps the number of series small.

A label value outside its declared set is counted as `other`, so nobody outside can make the number of series
grow. What is counted on the way of a frame or an utterance is a plain integer, exported when asked for: one
thread counts and exports, so nothing is locked.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar

import prometheus_client
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from lingua_scheduler.log import dropped_lines, get_logger

_log = get_logger(__name__)

PREFIX = "scheduler_"
OTHER = "other"
LATENCY_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
MOST_ROWS = 64

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


class Tally(Collector):
    """A counter: a plain integer, for one thread writes it and the same one exports it."""

    __slots__ = ("help", "name", "value")

    def __init__(self, name: str, help_text: str) -> None:
        self.name = name
        self.help = help_text
        self.value = 0

    def inc(self, amount: int = 1) -> None:
        """Count `amount` more."""
        self.value += amount

    def collect(self) -> Iterator[Metric]:
        """Give it to Prometheus."""
        yield CounterMetricFamily(PREFIX + self.name, self.help, value=self.value)


class CounterBy(Collector):
    """A counter with labels: `inc` takes their values in the order of the declaration."""

    def __init__(self, name: str, help_text: str, values: Mapping[str, Values]) -> None:
        self.name = name
        self.help = help_text
        self.values = dict(values)
        self._values = tuple(values.values())
        self._counts: dict[tuple[str, ...], int] = {}
        listed = [known.known for known in self._values if isinstance(known, OneOf)]
        if len(listed) == len(self._values):  # a series must exist before its first event
            self._counts = dict.fromkeys(itertools.product(*map(sorted, listed)), 0)

    def inc(self, *labels: str, amount: int = 1) -> None:
        """Count `amount` more under these label values."""
        counts = self._counts
        if labels not in counts:
            labels = tuple(values.bounded(label) for values, label in zip(self._values, labels, strict=True))
            counts.setdefault(labels, 0)
        counts[labels] += amount

    def read(self) -> dict[tuple[str, ...], int]:
        """Give what was counted so far, by the values of the labels."""
        return dict(self._counts)

    def collect(self) -> Iterator[Metric]:
        """Give it to Prometheus."""
        family = CounterMetricFamily(PREFIX + self.name, self.help, labels=tuple(self.values))
        for labels, count in self._counts.items():
            family.add_metric(labels, count)
        yield family


class Durations:
    """How many durations fell under each bound."""

    __slots__ = ("_bounds_s", "_counts", "_sum_s")

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self._bounds_s = bounds_s
        self._counts = [0] * (len(bounds_s) + 1)
        self._sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self._counts[bisect_left(self._bounds_s, seconds)] += 1
        self._sum_s += seconds

    def add_to(self, family: HistogramMetricFamily, labels: tuple[str, ...] = ()) -> None:
        """Show them to Prometheus under these labels."""
        names = [*map(floatToGoString, self._bounds_s), "+Inf"]
        sums = itertools.accumulate(self._counts)
        family.add_metric(labels, buckets=list(zip(names, sums, strict=True)), sum_value=self._sum_s)


class HistogramOf(Durations, Collector):
    """A histogram of seconds."""

    __slots__ = ("help", "name")

    def __init__(self, name: str, help_text: str, bounds_s: tuple[float, ...]) -> None:
        super().__init__(bounds_s)
        self.name = name
        self.help = help_text

    def collect(self) -> Iterator[Metric]:
        """Give it to Prometheus."""
        family = HistogramMetricFamily(PREFIX + self.name, self.help)
        self.add_to(family)
        yield family


class HistogramBy(Collector):
    """A histogram of seconds with one label that has a written list of values."""

    def __init__(
        self, name: str, help_text: str, bounds_s: tuple[float, ...], values: Mapping[str, OneOf]
    ) -> None:
        self.name = name
        self.help = help_text
        self.values = dict(values)
        (known,) = values.values()
        self._children = {value: Durations(bounds_s) for value in sorted(known.known)}

    def observe(self, label: str, seconds: float) -> None:
        """Count one duration; KeyError when nobody has listed the label."""
        self._children[label].observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """Give it to Prometheus."""
        family = HistogramMetricFamily(PREFIX + self.name, self.help, labels=tuple(self.values))
        for label, durations in self._children.items():
            durations.add_to(family, (label,))
        yield family


class GaugeTable(Collector):
    """A gauge whose rows are replaced together; the largest are kept apart, the rest is the row `other`."""

    def __init__(self, name: str, help_text: str, labels: tuple[str, ...]) -> None:
        self.name = name
        self.help = help_text
        self.labels = labels
        self._rows: dict[tuple[str, ...], float] = {}

    def show(self, rows: Mapping[tuple[str, ...], float]) -> None:
        """Show these rows from now on, and no others."""
        ordered = sorted(rows.items(), key=lambda row: (-row[1], row[0]))
        kept = dict(ordered[:MOST_ROWS])
        if len(ordered) > MOST_ROWS:
            kept[(OTHER,) * len(self.labels)] = sum(value for _, value in ordered[MOST_ROWS:])
        self._rows = kept

    def collect(self) -> Iterator[Metric]:
        """Give the rows to Prometheus."""
        family = GaugeMetricFamily(PREFIX + self.name, self.help, labels=self.labels)
        for labels, value in self._rows.items():
            family.add_metric(labels, value)
        yield family


class CounterAlias(Collector):
    """A counter by labels under a second name."""

    def __init__(self, name: str, help_text: str, of: CounterBy, labels: tuple[str, ...]) -> None:
        self.name = name
        self.help = help_text
        self.labels = labels
        self._of = of

    def collect(self) -> Iterator[Metric]:
        """Give what the other one has counted to Prometheus."""
        family = CounterMetricFamily(PREFIX + self.name, self.help, labels=self.labels)
        for labels, value in self._of.read().items():
            family.add_metric(labels, value)
        yield family


class CounterOverflow(Collector):
    """What a counter has counted as `other`, under a name of its own."""

    def __init__(self, name: str, of: CounterBy) -> None:
        self.name = name
        self.help = f"What {of.name} counts as {OTHER}."
        self._of = of

    def collect(self) -> Iterator[Metric]:
        """Give it to Prometheus."""
        value = sum(count for labels, count in self._of.read().items() if OTHER in labels)
        yield CounterMetricFamily(PREFIX + self.name, self.help, value=value)


class _LostLines(Collector):
    def collect(self) -> Iterator[Metric]:
        help_text = "Log lines that could not be written."
        yield CounterMetricFamily(f"{PREFIX}log_lines_dropped_total", help_text, value=dropped_lines())


Made = TypeVar("Made", bound=Collector)


class Declared:
    """Makes instruments in one registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_LostLines())

    def _registered(self, made: Made) -> Made:
        self.registry.register(made)
        return made

    def counter(self, name: str, help_text: str) -> Tally:
        """Declare a counter."""
        return self._registered(Tally(name, help_text))

    def counter_by(self, name: str, help_text: str, **labels: Values) -> CounterBy:
        """Declare a counter with labels."""
        return self._registered(CounterBy(name, help_text, labels))

    def gauge(self, name: str, help_text: str) -> Gauge:
        """Declare a gauge."""
        return Gauge(PREFIX + name, help_text, registry=self.registry)

    def gauge_table(self, name: str, help_text: str, *labels: str) -> GaugeTable:
        """Declare a gauge whose rows are replaced together."""
        return self._registered(GaugeTable(name, help_text, labels))

    def alias(self, name: str, help_text: str, of: CounterBy, *labels: str) -> CounterAlias:
        """Declare a second name of a counter."""
        return self._registered(CounterAlias(name, help_text, of, labels))

    def overflow(self, name: str, of: CounterBy) -> CounterOverflow:
        """Declare a name for what a counter does not keep apart."""
        return self._registered(CounterOverflow(name, of))

    def seconds(
        self, name: str, help_text: str, buckets: tuple[float, ...] = LATENCY_BUCKETS_S
    ) -> HistogramOf:
        """Declare a histogram of durations."""
        return self._registered(HistogramOf(name, help_text, buckets))

    def seconds_by(
        self, name: str, help_text: str, buckets: tuple[float, ...] = LATENCY_BUCKETS_S, **label: OneOf
    ) -> HistogramBy:
        """Declare a histogram of durations with one label."""
        return self._registered(HistogramBy(name, help_text, buckets, label))
