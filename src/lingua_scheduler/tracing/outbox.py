"""Spans on their way out: a bounded queue and a thread of its own.

The event loop appends and goes on, whatever the other end does. What does not fit, or cannot be delivered, is
dropped and counted.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from lingua_scheduler.log import get_logger
from lingua_scheduler.tracing.options import TracingOptions
from lingua_scheduler.tracing.spans import Span

_log = get_logger(__name__)

FULL, FAILED = "queue_full", "export_failed"
"""Why spans were dropped."""


class Way(Protocol):
    """What brings spans to where they are kept."""

    def export(self, spans: list[Span]) -> bool:
        """Deliver, for as long as that may take; False when it did not work."""
        ...

    def give_up(self) -> None:
        """End what `export` is trying."""


class Outbox:
    """Delivers spans in batches; `dropped` and `exported` are told from the thread."""

    def __init__(
        self,
        way: Way,
        options: TracingOptions,
        *,
        exported: Callable[[int], None],
        dropped: Callable[[str, int], None],
    ) -> None:
        self._way = way
        self._options = options
        self._exported, self._dropped = exported, dropped
        self._spans: deque[Span] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._failures = 0
        self._thread: threading.Thread | None = None

    def put(self, span: Span) -> None:
        """Queue a span that has ended; returns at once."""
        with self._changed:
            if self._stopping or len(self._spans) >= self._options.queued_spans:
                self._dropped(FULL, 1)
                return
            self._spans.append(span)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="spans", daemon=True)
                self._thread.start()
            if len(self._spans) >= self._options.batch_spans:
                self._changed.notify()

    def stop(self, within_s: float) -> None:
        """Deliver what is queued within this time, then end; called from any thread but the loop's."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(within_s)
        self._way.give_up()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._due, self._options.flush_ms / 1000)
                count = min(len(self._spans), self._options.batch_spans)
                batch = [self._spans.popleft() for _ in range(count)]
                over = self._stopping and not batch
            if over:
                return
            if batch:
                self._deliver(batch)

    def _due(self) -> bool:
        return self._stopping or len(self._spans) >= self._options.batch_spans

    def _deliver(self, batch: list[Span]) -> None:
        try:
            delivered, error = self._way.export(batch), ""
        except Exception as failure:  # noqa: BLE001 whatever a collector does, the service goes on
            delivered, error = False, type(failure).__name__
        if delivered:
            self._exported(len(batch))
            self._failures = 0
            return
        self._dropped(FAILED, len(batch))
        self._failures += 1
        if self._failures & (self._failures - 1) == 0:  # powers of two: no line for every batch
            _log.warning("spans_not_exported", spans=len(batch), times=self._failures, error=error)
