"""Tracing of one process: a tracer for those who make spans, and the way out for what they made."""

from __future__ import annotations

from collections.abc import Callable

from lingua_scheduler.tracing.options import TracingOptions
from lingua_scheduler.tracing.otlp import Source, otlp
from lingua_scheduler.tracing.outbox import Outbox, Way
from lingua_scheduler.tracing.spans import Tracer


def _uncounted(*_: object) -> None:
    pass


class Tracing:
    """A tracer whose spans are delivered until `stop`."""

    def __init__(
        self,
        options: TracingOptions,
        way: Way,
        *,
        exported: Callable[[int], None] = _uncounted,
        dropped: Callable[[str, int], None] = _uncounted,
    ) -> None:
        self._outbox = Outbox(way, options, exported=exported, dropped=dropped)
        self.tracer = Tracer(
            self._outbox.put, sample_ratio=options.sample_ratio, follow_clients=options.follow_clients
        )

    def stop(self, within_s: float = 1.0) -> None:
        """Deliver what is left within this time; not to be called on the event loop."""
        self._outbox.stop(within_s)


def opened(
    options: TracingOptions,
    instance: str,
    *,
    exported: Callable[[int], None] = _uncounted,
    dropped: Callable[[str, int], None] = _uncounted,
) -> Tracing | None:
    """Switch tracing on as the options say; None when it is off, ConfigError when it cannot be on."""
    if not options.enabled:
        return None
    way = otlp(options, Source(options.service_name, instance))
    return Tracing(options, way, exported=exported, dropped=dropped)
