"""Spans while they last: plain records that cost the event loop next to nothing.

A span is handed on when it ends; whatever becomes of it then happens in another thread. Its facts are ids,
numbers and words of the protocol: never what was said, and nothing secret.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lingua_scheduler.clock import Clock
from lingua_scheduler.tracing.context import Context

Fact = str | int | float | bool
Facts = Mapping[str, Fact]
Kind = Literal["internal", "client", "server"]

_SPAN_BITS = 64
_LONGEST_FACT = 256
_MOST_EVENTS = 32
_NS_PER_MS, _NS_PER_S = 1_000_000, 1_000_000_000
_NONE: Facts = {}
_ids = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened during a span."""

    name: str
    at_ns: int
    facts: Facts


@dataclass(slots=True, eq=False)
class Span:
    """Something that takes time, from `begun_ns` until `end` is called."""

    name: str
    context: Context
    parent: Context | None
    begun_ns: int  # Unix time
    kind: Kind
    facts: dict[str, Fact]
    links: tuple[Context, ...]
    on_end: Callable[[Span], None]
    error: str = ""  # the code of what went wrong
    ended_ns: int | None = None
    events: list[Event] = field(default_factory=list)

    def event(self, name: str, at_ns: int, facts: Facts = _NONE) -> None:
        """Note that something happened; of very many, only the first."""
        if len(self.events) < _MOST_EVENTS:
            self.events.append(Event(name, at_ns, clipped(facts)))

    def end(self, at_ns: int, facts: Facts = _NONE, *, error: str = "") -> None:
        """Say how it ended, and hand it on; only the first time."""
        if self.ended_ns is None:
            self.ended_ns = max(at_ns, self.begun_ns)
            self.error = error
            self.facts.update(clipped(facts))
            self.on_end(self)


class Tracer:
    """Makes the spans of one process."""

    def __init__(
        self, on_end: Callable[[Span], None], *, sample_ratio: float = 1.0, follow_clients: bool = True
    ) -> None:
        self._on_end = on_end
        self._below = round(sample_ratio * (1 << _SPAN_BITS))
        self.follow_clients = follow_clients

    def samples(self, trace_id: str, parent: Context | None = None) -> bool:
        """Tell whether a trace is recorded: as its parent says, else by its id, everywhere alike."""
        if parent is not None:
            return parent.sampled
        return int(trace_id[-16:], 16) < self._below

    def root(self, own: Context, parent: Context | None, name: str, at_ns: int, facts: Facts) -> Span:
        """Begin a span under an id that others can find; its parent, if any, is a client's."""
        return Span(name, own, parent, at_ns, "server", clipped(facts), (), self._on_end)

    def child(
        self, of: Context, name: str, at_ns: int, facts: Facts = _NONE, *, kind: Kind = "internal"
    ) -> Span:
        """Begin a span inside another one, which may be of another process."""
        made = Context(of.trace_id, f"{_ids.getrandbits(_SPAN_BITS) or 1:016x}")
        return Span(name, made, of, at_ns, kind, clipped(facts), (), self._on_end)


class Timeline:
    """The time of spans, told by a monotonic clock from one moment on: they never end before they begin."""

    __slots__ = ("_clock", "_zero_ns")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._zero_ns = clock.wall_ms() * _NS_PER_MS - round(clock.now() * _NS_PER_S)

    def now(self) -> int:
        """Give the moment that is now."""
        return self.at(self._clock.now())

    def at(self, moment_s: float) -> int:
        """Give a moment of the clock."""
        return self._zero_ns + round(moment_s * _NS_PER_S)


def clipped(facts: Facts) -> dict[str, Fact]:
    """Shorten what is longer than any id."""
    return {name: value[:_LONGEST_FACT] if isinstance(value, str) else value for name, value in facts.items()}
