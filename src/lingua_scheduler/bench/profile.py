"""What a load run does: a TOML file, read into records that say what each number means.

A profile is named after what it shows; those that are shipped lie beside this module. Everything that is
random in a run follows from its `seed`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from lingua_scheduler.errors import ConfigError
from lingua_scheduler.log import printable

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Some = Annotated[int, msgspec.Meta(ge=1)]
_Rate = Annotated[float, msgspec.Meta(ge=0)]
_Positive = Annotated[float, msgspec.Meta(gt=0)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]

Where = Literal["all", "first", "last", "even", "odd"]
"""Which of the instances, the first of which is even."""

_SUFFIX = ".toml"
_MAX_FILE_BYTES = 1 << 20


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every table of a profile."""


class Sessions(Table, frozen=True, kw_only=True):
    """How many clients there are, and when they come and go."""

    count: _Count = 100
    """Clients that speak and are there from the beginning."""
    idle: _Count = 0
    """Clients that are there from the beginning and say nothing."""
    arrivals_per_s: _Rate = 0.0
    """Clients that come later, on average each second, independently of each other (Poisson)."""
    stay_s: _Rate = 0.0
    """How long a speaking client stays, on average (exponential); 0: to the end."""
    connects_per_s: _Positive = 400.0
    """How fast those who are there from the beginning connect."""
    heartbeat_s: _Positive = 25.0
    """Time between two heartbeats of a client."""


class Speech(Table, frozen=True, kw_only=True):
    """How a client speaks: speech and pauses in turn, in frames at the pace of speech."""

    mean_s: _Positive = 3.5
    """Length of an utterance, on average (lognormal)."""
    sigma: _Rate = 0.6
    """Its spread; 0: all are equally long."""
    shortest_s: _Positive = 0.5
    """Shortest utterance."""
    longest_s: _Positive = 14.0
    """Longest utterance; 16 s of samples are cut by the server's default."""
    pause_s: _Rate = 3.2
    """Pause between two utterances, on average (exponential)."""
    frame_ms: _Some = 100
    """Length of a frame of audio."""
    jitter_ms: _Rate = 10.0
    """A frame is at most so much too early or too late."""
    begin_within_s: _Rate = 6.7
    """Clients say their first word within this time."""


class Formats(Table, frozen=True, kw_only=True):
    """How audio is sent: the parts of each form among the clients."""

    opus: _Rate = 0.4
    """Opus in JSON."""
    pcm: _Rate = 0.3
    """Samples in JSON."""
    binary: _Rate = 0.3
    """Samples in binary frames."""

    def __post_init__(self) -> None:
        if not self.opus + self.pcm + self.binary:
            raise ValueError("some form of audio must have a part")


class Company(Table, frozen=True, kw_only=True):
    """Who the clients are: the n-th language pair or tenant is 1/n^zipf times as frequent as the first."""

    pairs: Annotated[int, msgspec.Meta(ge=1, le=600)] = 12
    """Language pairs."""
    tenants: _Some = 50
    """Tenants."""
    zipf: _Rate = 1.0
    """How uneven both are; 0: all are equally frequent."""
    apart: bool = False
    """Each of at most 12 instances has a pair of its own instead, which only its own nodes serve."""


class Rooms(Table, frozen=True, kw_only=True):
    """Clients that talk to each other; everybody wants another language."""

    share: _Share = 0.0
    """Part of the clients who are there from the beginning that is in rooms."""
    fewest: Annotated[int, msgspec.Meta(ge=2)] = 2
    """Fewest members of a room."""
    most: Annotated[int, msgspec.Meta(ge=2)] = 6
    """Most members of a room."""

    def __post_init__(self) -> None:
        if self.most < self.fewest:
            raise ValueError("most must not be smaller than fewest")


class Fleet(Table, frozen=True, kw_only=True):
    """The nodes, which keep time instead of translating."""

    nodes: _Count = 20
    """How many nodes there are."""
    standing: _Count = 0
    """Nodes more that stand in Redis only, with all slots taken: instances see them, none chooses them."""
    fewest_slots: _Some = 2
    """Jobs at a time of the smallest node."""
    most_slots: _Some = 8
    """Jobs at a time of the largest node."""
    service_s: _Rate = 1.2
    """Time of a job, on average (lognormal)."""
    sigma: _Rate = 0.6
    """Its spread."""
    straggler_share: _Share = 0.02
    """Part of the jobs that take longer."""
    straggler_factor: _Positive = 6.0
    """How many times longer these take."""
    slow_share: _Share = 0.02
    """Part of the nodes that are slow."""
    slow_factor: _Positive = 3.0
    """How many times longer every job takes there."""
    crashes_per_min: _Rate = 0.0
    """Nodes that vanish each minute, on average."""
    return_s: _Positive = 2.0
    """Time after which such a node is back."""
    result_bytes: _Count = 80_000
    """Size of a result with its voice, as it is sent."""
    heartbeat_s: _Positive = 15.0
    """Time between two heartbeats of a node."""
    connects_per_s: _Positive = 200.0
    """How fast nodes connect."""
    at: Where = "all"
    """Which instances nodes connect to."""

    def __post_init__(self) -> None:
        if self.most_slots < self.fewest_slots:
            raise ValueError("most_slots must not be smaller than fewest_slots")


class Cycles(Table, frozen=True, kw_only=True):
    """A closed loop instead: every client says its next utterance when the last one is answered."""

    audio_bytes: _Count = 0
    """Size of each utterance; 0: clients speak at their own pace."""


class Storm(Table, frozen=True, kw_only=True):
    """All silent clients lose their connection at once and come back with their tokens."""

    at_s: _Rate = 0.0
    """When, counted from the end of the warm-up; 0: never."""
    retry_s: _Positive = 1.0
    """A client that is turned away tries again within this time."""


class System(Table, frozen=True, kw_only=True):
    """What is measured, and where it runs."""

    instances: _Some = 1
    """Instances, each a process."""
    clients_at: Where = "all"
    """Which instances clients connect to."""
    redis_url: str = ""
    """Redis to use, which must be empty; without it, an embedded one."""
    redis_delay_ms: _Rate = 0.0
    """How much farther away Redis is for the instances: added to each round trip."""
    background_s: _Positive = 2.0
    """How long instances are watched alone, with their nodes, before the clients come."""
    pin: bool = True
    """Give the instances processors that nothing else of the run uses, if there are two or more."""


class Profile(Table, frozen=True, kw_only=True):
    """One run from its seed to its end."""

    about: str = ""
    """What the profile shows, in one line."""
    seed: _Count = 1
    """Everything random follows from it."""
    warmup_s: _Rate = 5.0
    """Time before the window in which is measured."""
    duration_s: _Positive = 30.0
    """Length of that window."""
    overload: _Positive = 1.0
    """Factor on the number of clients and their arrivals."""
    sessions: Sessions = Sessions()
    speech: Speech = Speech()
    formats: Formats = Formats()
    company: Company = Company()
    rooms: Rooms = Rooms()
    fleet: Fleet = Fleet()
    cycles: Cycles = Cycles()
    storm: Storm = Storm()
    system: System = System()
    settings: dict[str, Any] = {}
    """Options of the instances, by their dotted names."""

    @property
    def end_s(self) -> float:
        """When the window ends, counted from the beginning."""
        return self.warmup_s + self.duration_s

    def environment(self) -> dict[str, str]:
        """Word the settings as the environment of an instance."""
        return {
            f"LINGUA_{name.upper().replace('.', '__')}": value
            if isinstance(value, str)
            else msgspec.json.encode(value).decode()
            for name, value in self.settings.items()
        }


def shipped() -> tuple[str, ...]:
    """Name the profiles that come with the program."""
    entries = resources.files(__package__).joinpath("profiles").iterdir()
    return tuple(sorted(each.name.removesuffix(_SUFFIX) for each in entries if each.name.endswith(_SUFFIX)))


def load(name: str, changes: Sequence[str] = ()) -> Profile:
    """Read a profile by name or path, with changes like `fleet.nodes=100`; ConfigError when it is wrong."""
    table = _read(name)
    for change in changes:
        _set(table, change)
    try:
        return msgspec.convert(table, Profile)
    except msgspec.ValidationError as error:
        said = str(error).replace("`", "").replace(" - at $.", " at ")
        raise ConfigError(f"{printable(name)}: {printable(said)}") from None


def _read(name: str) -> dict[str, Any]:
    path = Path(name)
    source: Any = path
    if path.suffix != _SUFFIX and len(path.parts) == 1:
        if name not in shipped():
            raise ConfigError(
                f"--profile: expected a file or one of {', '.join(shipped())}, not {printable(name)}"
            )
        source = resources.files(__package__).joinpath("profiles", f"{name}{_SUFFIX}")
    try:
        text = source.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{printable(name)}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{printable(name)}: not UTF-8") from None
    if len(text) > _MAX_FILE_BYTES:
        raise ConfigError(f"{printable(name)}: larger than {_MAX_FILE_BYTES} bytes")
    return _parsed(text, name)


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{printable(name)}: not TOML: {printable(str(error))}") from None


def _set(table: dict[str, Any], change: str) -> None:
    """Put one value into a table; text needs no quotes."""
    dotted, separator, text = change.partition("=")
    *above, last = dotted.strip().split(".")
    if not separator or not last:
        raise ConfigError(f"--set: write key=value, not {printable(change)}")
    if above[:1] == ["settings"]:  # its keys have dots of their own
        above, last = ["settings"], ".".join([*above[1:], last])
    for part in above:
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"--set: {printable(dotted)} is no key")
        table = inner
    try:
        table[last] = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        table[last] = text.strip()
