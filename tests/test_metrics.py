"""Every instrument has a name, a help text, and labels that cannot grow without end."""

import re

import pytest
from prometheus_client import Gauge
from prometheus_client.parser import text_string_to_metric_families

from lingua_scheduler.core.model import CutReason
from lingua_scheduler.core.placement import Exclusion, Refusal
from lingua_scheduler.instruments import (
    AtMost,
    CounterAlias,
    CounterBy,
    CounterOverflow,
    GaugeTable,
    HistogramBy,
    HistogramOf,
    OneOf,
    Tally,
)
from lingua_scheduler.labels import CUT_REASONS, EXCLUSIONS
from lingua_scheduler.metrics import Metrics

INSTRUMENTS = sorted(
    (name, instrument)
    for name, instrument in vars(Metrics()).items()
    if isinstance(
        instrument,
        Tally | Gauge | HistogramOf | CounterBy | HistogramBy | GaugeTable | CounterAlias | CounterOverflow,
    )
)


def exported(metrics: Metrics) -> dict[str, float]:
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        sample.name + "".join(f"[{value}]" for value in sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_every_attribute_is_called_like_its_metric_and_says_what_it_counts() -> None:
    metrics = Metrics()
    families = {family.name: family for family in metrics.registry.collect()}
    assert len(families) == len(INSTRUMENTS) + 1  # and the dropped log lines
    for name, _ in INSTRUMENTS:
        family = families["scheduler_" + name.removesuffix("_total")]
        assert re.fullmatch(r"[A-Z].{10,}\.", family.documentation), name


@pytest.mark.parametrize(("name", "instrument"), INSTRUMENTS)
def test_names_carry_their_unit(name: str, instrument: object) -> None:
    """Counters end in _total, durations in _seconds; a gauge is a noun that counts things, or an age."""
    if isinstance(instrument, Tally | CounterBy | CounterAlias | CounterOverflow):
        assert name.endswith("_total")
    elif isinstance(instrument, HistogramOf | HistogramBy):
        assert name.endswith("_seconds")
    else:
        assert not name.endswith("_total")
        assert not name.endswith("_seconds") or name.endswith("_age_seconds")
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)


def test_two_instances_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.empty_finalize_total.inc()
    assert exported(one)["scheduler_empty_finalize_total"] == 1
    assert exported(other)["scheduler_empty_finalize_total"] == 0


def test_a_label_counts_under_its_value() -> None:
    metrics = Metrics()
    metrics.web_task_finalized_total.inc("manual")
    metrics.web_task_finalized_total.inc("manual", amount=2)
    metrics.store_call_total.inc("job_finish", "ok")
    values = exported(metrics)
    assert values["scheduler_web_task_finalized_total[manual]"] == 3
    assert values["scheduler_store_call_total[ok][job_finish]"] == 1


def test_a_series_with_a_written_list_exists_before_its_first_event() -> None:
    assert exported(Metrics())["scheduler_no_available_node_total[no_nodes]"] == 0


def test_a_value_off_the_list_is_counted_as_other() -> None:
    assert OneOf("a", "b").bounded("a") == "a"
    assert OneOf("a", "b").bounded("c") == "other"


def test_an_open_label_is_bounded_in_number() -> None:
    values = AtMost(2)
    assert [values.bounded(value) for value in "abcab"] == ["a", "b", "other", "a", "b"]


@pytest.mark.parametrize(
    ("name", "instrument"), [pair for pair in INSTRUMENTS if isinstance(pair[1], CounterBy)]
)
def test_no_flood_of_values_makes_more_than_a_page_of_series(name: str, instrument: CounterBy) -> None:
    for number in range(300):
        instrument.inc(*[f"v{number}"] * len(instrument._values))
    assert len(instrument.read()) <= 65
    assert sum(instrument.read().values()) == 300


def test_a_wrong_number_of_labels_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="zip"):
        Metrics().store_call_total.inc("job_finish")


def test_the_frame_path_counts_plain_integers_that_are_exported() -> None:
    metrics = Metrics()
    metrics.audio_frames_total.inc()
    metrics.audio_bytes_total.inc(640)
    values = exported(metrics)
    assert values["scheduler_audio_frames_total"] == 1
    assert values["scheduler_audio_bytes_total"] == 640
    assert "scheduler_log_lines_dropped_total" in values


def test_durations_fall_into_buckets_of_seconds() -> None:
    metrics = Metrics()
    metrics.dispatch_latency_seconds.observe(0.003)
    values = exported(metrics)
    assert values["scheduler_dispatch_latency_seconds_bucket[0.002]"] == 0
    assert values["scheduler_dispatch_latency_seconds_bucket[0.005]"] == 1


def test_written_label_values_are_those_of_the_decisions() -> None:
    """The base may not import the core, so the lists are written twice and compared here."""
    assert set(CUT_REASONS) == set(CutReason)
    assert set(EXCLUSIONS) == {*Exclusion, Refusal().main_reason()}
