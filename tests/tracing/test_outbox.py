"""Spans leave through a thread of their own; what cannot leave is dropped, counted and harms nobody."""

import threading

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.tracing.context import Context, span_of
from lingua_scheduler.tracing.options import TracingOptions
from lingua_scheduler.tracing.otlp import Exported, Source
from lingua_scheduler.tracing.outbox import Outbox
from lingua_scheduler.tracing.spans import Timeline, Tracer
from lingua_scheduler.tracing.tracing import Tracing

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class Counts:
    """What the outbox tells."""

    def __init__(self):
        self.exported, self.dropped = 0, {}

    def out(self, spans):
        self.exported += spans

    def lost(self, why, spans):
        self.dropped[why] = self.dropped.get(why, 0) + spans


class Gate:
    """A collector that takes a batch when it is let to."""

    def __init__(self):
        self.open, self.asked = threading.Event(), threading.Event()
        self.batches = []
        self.works = True

    def export(self, spans):
        self.asked.set()
        assert self.open.wait(10)
        self.batches.append(list(spans))
        return self.works

    def give_up(self):
        self.open.set()


def made(counts, way, **options):
    outbox = Outbox(way, TracingOptions(**options), exported=counts.out, dropped=counts.lost)
    return outbox, Tracer(outbox.put)


def spans_of(tracer, count):
    parent = Context(TRACE, span_of("parent"))
    for number in range(count):
        tracer.child(parent, f"span {number}", number).end(number + 1)


def test_a_span_reaches_the_exporter_of_the_sdk_as_it_was_made():
    memory = InMemorySpanExporter()
    tracing = Tracing(TracingOptions(), Exported(memory, Source("service", "instance-1")))
    clock = VirtualClock()
    time, own = Timeline(clock), Context(TRACE, span_of("job-1"))
    root = tracing.tracer.root(own, None, "utterance", time.now(), {"attempts": 1})
    clock.advance(0.25)
    child = tracing.tracer.child(own, "node", time.now(), {"node_id": "node-1"}, kind="client")
    child.links = (Context(TRACE, span_of("other")),)
    child.event("accepted", time.now(), {"n": 1})
    clock.advance(0.5)
    child.end(time.now(), {"outcome": "failed"}, error="TTS_TIMEOUT")
    root.end(time.now())
    root.end(time.now(), error="LATE")
    tracing.stop()
    node, utterance = memory.get_finished_spans()
    assert f"{utterance.context.trace_id:032x}" == TRACE
    assert f"{utterance.context.span_id:016x}" == span_of("job-1")
    assert utterance.parent is None
    assert utterance.status.status_code is StatusCode.UNSET
    assert node.parent.span_id == utterance.context.span_id
    assert node.kind is SpanKind.CLIENT
    assert dict(node.attributes) == {"lingua.node_id": "node-1", "lingua.outcome": "failed"}
    assert (node.status.status_code, node.status.description) == (StatusCode.ERROR, "TTS_TIMEOUT")
    assert f"{node.links[0].context.span_id:016x}" == span_of("other")
    assert [(event.name, dict(event.attributes)) for event in node.events] == [("accepted", {"lingua.n": 1})]
    assert node.end_time - node.start_time == 500_000_000
    assert node.start_time - utterance.start_time == 250_000_000
    assert node.resource.attributes["service.name"] == "service"
    assert node.resource.attributes["service.instance.id"] == "instance-1"


def test_the_queue_is_bounded_and_what_does_not_fit_is_counted():
    counts, gate = Counts(), Gate()
    outbox, tracer = made(counts, gate, queued_spans=10, batch_spans=5, flush_ms=10)
    spans_of(tracer, 5)
    assert gate.asked.wait(10)  # the thread holds five and waits for the collector
    spans_of(tracer, 30)
    assert counts.dropped == {"queue_full": 20}
    gate.open.set()
    outbox.stop(10)
    assert counts.exported == 15
    assert [len(batch) for batch in gate.batches] == [5, 5, 5]


def test_a_batch_that_is_not_taken_is_counted_and_the_next_one_is_tried():
    counts, gate = Counts(), Gate()
    gate.open.set()
    gate.works = False
    outbox, tracer = made(counts, gate, batch_spans=5, flush_ms=10)
    spans_of(tracer, 10)
    outbox.stop(10)
    assert counts.dropped == {"export_failed": 10}
    assert counts.exported == 0


def test_an_exporter_that_raises_does_not_end_the_thread():
    counts = Counts()

    class Broken(Gate):
        def export(self, spans):
            if len(self.batches) < 1:
                self.batches.append(spans)
                raise OSError("secret reason")
            return True

    outbox, tracer = made(counts, Broken(), batch_spans=5, flush_ms=10)
    spans_of(tracer, 10)
    outbox.stop(10)
    assert (counts.exported, counts.dropped) == (5, {"export_failed": 5})


def test_stopping_does_not_wait_for_a_collector_that_hangs():
    counts, gate = Counts(), Gate()
    outbox, tracer = made(counts, gate, batch_spans=1)
    spans_of(tracer, 1)
    assert gate.asked.wait(10)
    outbox.stop(0.01)
    spans_of(tracer, 1)
    assert counts.dropped == {"queue_full": 1}


def test_a_long_fact_is_cut_and_very_many_events_are_not_kept():
    kept = []
    span = Tracer(kept.append).child(Context(TRACE, span_of("p")), "s", 0, {"long": "x" * 1000})
    for number in range(100):
        span.event("e", number)
    span.end(1)
    assert kept == [span]
    assert len(span.facts["long"]) == 256
    assert len(span.events) == 32


@pytest.mark.parametrize(("ratio", "share"), [(0.0, 0), (1.0, 1000), (0.25, 250)])
def test_the_share_of_traces_is_decided_by_their_ids(ratio, share):
    tracer = Tracer(lambda _: None, sample_ratio=ratio)
    ids = [span_of(f"a{number}") + span_of(f"b{number}") for number in range(1000)]
    sampled = sum(tracer.samples(each) for each in ids)
    assert abs(sampled - share) < 50
    assert sampled == sum(tracer.samples(each) for each in ids)


def test_a_parent_decides_for_its_children():
    tracer = Tracer(lambda _: None, sample_ratio=0.0)
    assert tracer.samples(TRACE, Context(TRACE, span_of("p"), sampled=True))
    assert not Tracer(lambda _: None).samples(TRACE, Context(TRACE, span_of("p"), sampled=False))
