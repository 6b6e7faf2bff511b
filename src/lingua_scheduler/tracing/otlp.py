"""The only module that knows OpenTelemetry: spans leave by its SDK and its OTLP exporter.

All of it happens in the outbox's thread. Nothing is registered globally, so that several instances, and an
application around a node, can trace side by side.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingua_scheduler import __version__
from lingua_scheduler.errors import ConfigError
from lingua_scheduler.log import printable
from lingua_scheduler.tracing.context import Context
from lingua_scheduler.tracing.options import TracingOptions
from lingua_scheduler.tracing.outbox import Way
from lingua_scheduler.tracing.spans import Fact, Facts, Span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_PREFIX = "lingua."
_NOT_INSTALLED = (
    "tracing.enabled: the OpenTelemetry SDK is not installed: pip install 'lingua-scheduler[tracing]'"
)


@dataclass(frozen=True, slots=True)
class Source:
    """Who makes the spans."""

    service: str
    instance: str


def otlp(options: TracingOptions, source: Source) -> Way:
    """Make the way to a collector; ConfigError when the SDK is missing or the header cannot be read."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 an extra
            OTLPSpanExporter,
        )
    except ImportError:
        raise ConfigError(_NOT_INSTALLED) from None
    # It logs every try of every batch; what is dropped is counted and logged by the outbox.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
    authorization = _authorization(options)
    exporter = OTLPSpanExporter(
        endpoint=str(options.endpoint),
        headers={"authorization": authorization} if authorization else {},
        timeout=options.timeout_ms / 1000,
    )
    return Exported(exporter, source)


def _authorization(options: TracingOptions) -> str:
    if not options.authorization_file:
        return str(options.authorization)
    try:
        return Path(options.authorization_file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        name = printable(options.authorization_file)
        raise ConfigError(f"tracing.authorization_file: {name} cannot be read: {why}") from None


class Exported:
    """Brings spans to an exporter of the SDK, written anew as the SDK's own."""

    def __init__(self, exporter: SpanExporter, source: Source) -> None:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 an extra
        from opentelemetry.sdk.trace import SpanProcessor, TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.id_generator import IdGenerator  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON  # noqa: PLC0415

        class Ids(IdGenerator):
            """Gives the next span the ids it has already."""

            context = Context("", "")

            def generate_trace_id(self) -> int:
                return int(self.context.trace_id, 16)

            def generate_span_id(self) -> int:
                return int(self.context.span_id, 16)

        class Written(SpanProcessor):
            """Keeps the spans of one batch."""

            def __init__(self) -> None:
                self.spans: list[Any] = []

            def on_end(self, span: Any) -> None:
                self.spans.append(span)

        self._exporter = exporter
        self._ids, self._written = Ids(), Written()
        about: dict[str, str | int] = {
            "service.name": source.service,
            "service.version": __version__,
            "service.instance.id": source.instance,
            "process.pid": os.getpid(),
        }
        provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource.create(about),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        provider.add_span_processor(self._written)
        self._tracer = provider.get_tracer("lingua_scheduler", __version__)

    def export(self, spans: list[Span]) -> bool:
        """Deliver; False when the collector did not take it in time."""
        from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415 an extra

        for span in spans:
            self._write(span)
        batch, self._written.spans = self._written.spans, []
        return self._exporter.export(batch) is SpanExportResult.SUCCESS

    def give_up(self) -> None:
        """End what is being tried."""
        self._exporter.shutdown()

    def _write(self, span: Span) -> None:
        from opentelemetry import trace  # noqa: PLC0415 an extra

        def named(context: Context) -> trace.SpanContext:
            flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
            trace_id, span_id = int(context.trace_id, 16), int(context.span_id, 16)
            return trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)

        self._ids.context = span.context
        around = trace.INVALID_SPAN if span.parent is None else trace.NonRecordingSpan(named(span.parent))
        made = self._tracer.start_span(
            span.name,
            context=trace.set_span_in_context(around),
            kind=trace.SpanKind[span.kind.upper()],
            attributes=_attributes(span.facts),
            links=[trace.Link(named(each)) for each in span.links],
            start_time=span.begun_ns,
        )
        for event in span.events:
            made.add_event(event.name, _attributes(event.facts), timestamp=event.at_ns)
        if span.error:
            made.set_status(trace.StatusCode.ERROR, span.error)
        made.end(end_time=span.ended_ns)


def _attributes(facts: Facts) -> dict[str, Fact]:
    return {_PREFIX + name: value for name, value in facts.items()}
