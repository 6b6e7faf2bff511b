"""The spans of one job on its node, inside the span that the scheduler has for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lingua_scheduler.clock import Clock
from lingua_scheduler.errors import LinguaError
from lingua_scheduler.tracing.context import read_traceparent
from lingua_scheduler.tracing.spans import Facts, Span, Timeline, Tracer
from lingua_scheduler.wire.common import plain_code
from lingua_scheduler.wire.node import JobAssign


class JobTrace:
    """Follows one job; there is none when the scheduler does not trace it."""

    __slots__ = ("_span", "_time", "_tracer")

    def __init__(self, tracer: Tracer, span: Span, time: Timeline) -> None:
        self._tracer = tracer
        self._span = span
        self._time = time

    @classmethod
    def of(
        cls, tracer: Tracer | None, assign: JobAssign, node_id: str | None, clock: Clock
    ) -> JobTrace | None:
        """Begin to follow a job; None when it is not traced, here or there."""
        parent = read_traceparent(assign.traceparent) if tracer is not None else None
        if tracer is None or parent is None or not parent.sampled:
            return None
        time = Timeline(clock)
        facts: Facts = {
            "job_id": assign.job_id,
            "attempt": assign.attempt_id,
            "node_id": node_id or "",
            "trace_id": assign.trace_id,
        }
        return cls(tracer, tracer.child(parent, "job", time.now(), facts, kind="server"), time)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Follow one step of the job for as long as the block lasts."""
        span = self._tracer.child(self._span.context, name, self._time.now())
        try:
            yield
        except BaseException as error:
            span.end(self._time.now(), error=_code(error))
            raise
        span.end(self._time.now())

    def end(self, failure: LinguaError | None = None) -> None:
        """The job is done."""
        self._span.end(self._time.now(), error=_code(failure) if failure is not None else "")


def _code(error: BaseException) -> str:
    """Name what went wrong; its message may quote what was said."""
    return plain_code(error.code) if isinstance(error, LinguaError) else type(error).__name__
