"""What the processes of a run tell each other and leave behind: settings in, observations out.

Times are of the machine's monotonic clock, which all processes of one machine share.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from lingua_scheduler.bench.profile import Profile

READY, DONE = "ready", "done"
"""What a process prints when it waits for its start, and when its observations are written."""
START, FINISH = "start", "finish"
"""What a process is told: to begin at a moment, to write its observations and end."""

Observations = TypeVar("Observations")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a process of the generator is started with."""

    profile: Profile
    addresses: tuple[tuple[str, int], ...]  # of the instances
    observations: str  # the file it writes


class Said(msgspec.Struct, array_like=True):
    """One utterance as its speaker saw it."""

    due_s: float  # when its last frame was to be sent
    sent_s: float  # when it was
    audio_bytes: int
    ended_s: float = 0.0  # when its end arrived, in a room none does
    end: str = ""  # `result`, or the reason why there is none


class Heard(msgspec.Struct, array_like=True, frozen=True):
    """The end of somebody else's utterance, as a listener in the same room heard it."""

    speaker: str  # session
    index: int
    at_s: float
    end: str


class Conversation(msgspec.Struct, array_like=True):
    """One client's session."""

    number: int
    room: int | None
    lang: str  # in which it hears others, or itself
    session_id: str = ""
    said: list[Said] = []
    heard: list[Heard] = []
    closed: bool = False  # by agreement
    complaints: list[str] = []  # what must not be


class Refusal(msgspec.Struct, array_like=True, frozen=True):
    """A client that was turned away after a time, or came back from a storm."""

    due_s: float
    after_s: float
    why: str


class Spoken(msgspec.Struct, kw_only=True):
    """What the speakers observed."""

    conversations: list[Conversation] = []
    refusals: list[Refusal] = []
    returns: list[Refusal] = []  # of a storm: `why` is `resumed` or `new`
    lateness_s: list[float] = []  # how late frames were sent
    frames: int = 0
    present: int = 0  # sessions that were open when the run began


class Job(msgspec.Struct, array_like=True):
    """One attempt at one job, as its node saw it."""

    session_id: str
    index: int
    lang: str
    job_id: str
    attempt: int
    node: int
    assigned_s: float
    due_s: float = 0.0  # when it was to be answered
    answered_s: float = 0.0  # when it was
    cancelled_s: float = 0.0


class Presence(msgspec.Struct, array_like=True, frozen=True):
    """A node came (with so many slots) or went (with none)."""

    node: int
    at_s: float
    slots: int


class Worked(msgspec.Struct, kw_only=True):
    """What the fleet observed."""

    jobs: list[Job] = []
    presences: list[Presence] = []
    lateness_s: list[float] = []  # how late answers were sent
    complaints: list[str] = []


def write(path: str, observations: msgspec.Struct) -> None:
    """Leave observations behind."""
    Path(path).write_bytes(msgspec.msgpack.encode(observations))


def read(path: Path, kind: type[Observations]) -> Observations:
    """Read observations."""
    return msgspec.msgpack.decode(path.read_bytes(), type=kind)


def settings_of(arguments: list[str]) -> Settings:
    """Read the settings a process was started with."""
    told: Any = Path(arguments[1]).read_bytes()
    return msgspec.json.decode(told, type=Settings)
