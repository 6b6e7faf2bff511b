"""What is traced, and where spans go."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from lingua_scheduler.secret import Secret, SecretUrl

_Count = Annotated[int, msgspec.Meta(ge=1)]


class TracingOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is traced, and where spans go. Needs the extra `tracing`."""

    enabled: bool = False
    """Record spans along every utterance, and send them to a collector."""
    endpoint: SecretUrl = SecretUrl("http://127.0.0.1:4318/v1/traces")
    """Where the collector takes traces: OTLP over HTTP, with its path."""
    authorization: Secret = Secret("")
    """Header `Authorization` for the collector, like `Bearer ...`; empty: none."""
    authorization_file: str = ""
    """File that holds this header's value in its place; read at the start."""
    service_name: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] = "lingua-scheduler"
    """What the service is called in traces."""
    sample_ratio: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    """Share of the sessions that are traced, from 0 to 1; decided by the trace id, on all instances alike."""
    follow_clients: bool = True
    """A client that sends a W3C `traceparent` goes on with its trace, and decides whether it is recorded."""
    queued_spans: _Count = 4096
    """Most spans that wait to be sent; more are dropped and counted."""
    batch_spans: _Count = 512
    """Most spans sent at once."""
    flush_ms: Annotated[int, msgspec.Meta(ge=10)] = 2000
    """Longest time a span waits for others before they are sent."""
    timeout_ms: Annotated[int, msgspec.Meta(ge=100)] = 5000
    """Time for the collector to take a batch, with every try; then it is dropped and counted."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("endpoint must look like http://host:4318/v1/traces")
        if self.authorization and self.authorization_file:
            raise ValueError("set authorization or authorization_file, not both")
