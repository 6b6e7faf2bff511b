"""A collector under test: a real HTTP server that takes OTLP in protobuf, as any collector does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support import wait_until


@dataclass(frozen=True, slots=True)
class Got:
    """One span as the collector got it."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    facts: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    links: list[str]
    error: str  # the description of an error status; empty when there is none
    began_ns: int
    ended_ns: int
    source: dict[str, Any]

    @property
    def took_ms(self) -> float:
        """How long it lasted."""
        return (self.ended_ns - self.began_ns) / 1_000_000


@dataclass
class Collector:
    """What has arrived."""

    url: str = ""
    spans: list[Got] = field(default_factory=list)
    requests: list[dict[str, str]] = field(default_factory=list)  # their headers
    bodies: list[bytes] = field(default_factory=list)
    status: int = 200  # what it answers

    async def take(self, request: web.Request) -> web.Response:
        """Take one batch."""
        self.requests.append({name.lower(): value for name, value in request.headers.items()})
        body = await request.read()
        if self.status == 200:
            self.bodies.append(body)
            self.spans += _read(body)
        return web.Response(status=self.status, body=b"", content_type="application/x-protobuf")

    def named(self, name: str, **facts: Any) -> list[Got]:
        """Give the spans of a name, in the order in which they began."""
        found = [
            span
            for span in self.spans
            if span.name == name and all(span.facts.get(key) == value for key, value in facts.items())
        ]
        return sorted(found, key=lambda span: span.began_ns)

    async def one(self, name: str, **facts: Any) -> Got:
        """Wait for the only span of a name."""
        await wait_until(lambda: self.named(name, **facts), description=f"a span {name} {facts}")
        (span,) = self.named(name, **facts)
        return span


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """Run a collector for as long as the block lasts."""
    collector = Collector()
    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/v1/traces", collector.take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    collector.url = f"http://127.0.0.1:{port}/v1/traces"
    try:
        yield collector
    finally:
        await runner.cleanup()


def _read(body: bytes) -> list[Got]:
    request = ExportTraceServiceRequest()
    request.ParseFromString(body)
    return [
        Got(
            name=span.name,
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            kind=span.kind,
            facts=_facts(span.attributes),
            events=[(event.name, _facts(event.attributes)) for event in span.events],
            links=[link.span_id.hex() for link in span.links],
            error=span.status.message if span.status.code == 2 else "",
            began_ns=span.start_time_unix_nano,
            ended_ns=span.end_time_unix_nano,
            source=_facts(resource.resource.attributes),
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _facts(attributes: Any) -> dict[str, Any]:
    return {
        each.key.removeprefix("lingua."): getattr(each.value, each.value.WhichOneof("value"))
        for each in attributes
    }
