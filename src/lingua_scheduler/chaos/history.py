"""What clients, nodes and the driver saw, one line of JSON per event, written at once and never changed.

Times are of the machine's monotonic clock, which all processes of one machine share.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import msgspec


class Op(StrEnum):
    """What happened."""

    # a client
    OPENED = "opened"  # a new session
    RESUMED = (
        "resumed"  # the same session again; `index` is the next one, `seq` the last frame the server has
    )
    SPOKE = "spoke"  # the last frame (`seq`) of an utterance that began with frame `first` was sent
    ACKED = "acked"  # the server has every frame up to `seq`
    RESULT = "result"
    MISSING = "missing"
    LOST = "lost"  # the connection ended; `reason` is the close code
    REFUSED = "refused"  # no session; `reason` says why
    ERROR = "error"  # an `error` message; `reason` is its code
    CLOSED = "closed"  # the session was ended and the server said goodbye
    LEFT = "left"  # the client gave up waiting
    # a node
    REGISTERED = "registered"  # `count` is its capacity
    DISCONNECTED = "disconnected"
    ASSIGNED = "assigned"
    ANSWERED = "answered"
    CANCELLED = "cancelled"
    # the driver
    STARTED = "started"  # a process; `pid`
    ENDED = "ended"  # a process; `count` is its exit code
    FAULT = "fault"  # `reason` names it
    HEALED = "healed"
    PHASE = "phase"  # `reason` names what begins
    MEASURED = "measured"  # an instance's memory and open files but those of `count` connections


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line of a history."""

    t: float
    who: str
    op: Op
    session: str = ""
    index: int = -1
    job: str = ""
    attempt: int = 0
    node: str = ""
    instance: str = ""
    client: int = -1
    first: int = -1
    seq: int = -1
    frames: str = ""  # the frames a node heard, as `speech` words them
    reason: str = ""
    count: int = 0
    pid: int = 0
    rss_kb: int = 0
    fds: int = 0


class Recorder:
    """Appends one process's events to a file of its own."""

    def __init__(self, path: Path, who: str) -> None:
        self._file = path.open("ab", buffering=0)
        self.who = who

    def note(self, op: Op, *, who: str = "", **facts: object) -> None:
        """Write what happened just now, so that it outlives this process."""
        event = {"t": time.monotonic(), "who": who or self.who, "op": op.value, **facts}
        self._file.write(msgspec.json.encode(event) + b"\n")

    def close(self) -> None:
        """Write no more."""
        self._file.close()


def read(directory: Path) -> list[Event]:
    """Give every event of a directory in the order of time; a line cut short by a crash is left out."""
    decoder = msgspec.json.Decoder(Event)
    events = []
    for path in sorted(directory.glob("*.jsonl")):
        whole, _, _cut = path.read_bytes().rpartition(b"\n")
        events += [decoder.decode(line) for line in whole.split(b"\n") if line]
    return in_order(events)


def in_order(events: Iterable[Event]) -> list[Event]:
    """Sort events by their time; those of one instant stay as they were."""
    return sorted(events, key=lambda event: event.t)
