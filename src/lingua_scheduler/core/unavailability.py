"""Services a node turned out to lack: what is marked for how long, and how many reports are believed.

A node that reports a missing service is offered no job that needs a service of that type until the mark ends.
All of it is per node, and lives as long as the node's registration.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Protocol

import msgspec

SERVICE_TYPES = frozenset({"asr", "nmt", "tts", "tone", "semantic", "phonetic", "punctuation"})
"""Types of service that the protocol names."""

_LONGEST_WORD = 128
_LONGEST_REASON = 1024
_LONGEST_LABEL = 64
_SUBJECTS_KEPT = 1024
_WORD = re.compile(r"[a-z0-9]+")
_REASONS = (
    ("not_found", ("not found", "no such file")),
    ("checksum_mismatch", ("checksum", "sha", "hash")),
    ("load_failed", ("load", "init")),
    ("timeout", ("timeout",)),
    ("oom", ("oom", "out of memory")),
)


class UnavailabilityOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What follows when a node reports a missing service."""

    unavailable_ttl_s: Annotated[float, msgspec.Meta(ge=1, le=3600)] = 60
    """How long the node gets no job that needs a service of that type."""
    debounce_window_s: Annotated[float, msgspec.Meta(ge=1, le=60)] = 5
    """Reports of one service within this time, whichever nodes make them, are worth one log line."""
    node_ratelimit_window_s: Annotated[float, msgspec.Meta(ge=1, le=300)] = 10
    """Time over which a node's reports are counted."""
    node_ratelimit_max: Annotated[int, msgspec.Meta(ge=1)] = 30
    """Reports of one node within that time; more are counted and change nothing."""


@dataclass(frozen=True, slots=True)
class ModelReport:
    """A node's word that it lacks a service."""

    service_id: str
    version: str = ""
    reason: str = ""

    @classmethod
    def of(cls, details: object) -> ModelReport | None:
        """Read the details of a failure; None when they name no service."""
        if not isinstance(details, Mapping):
            return None
        service_id = _said(details, "service_id") or _said(details, "model_id")
        if not service_id:
            return None
        version = _said(details, "service_version") or _said(details, "version")
        return cls(service_id, version, _said(details, "reason", _LONGEST_REASON))

    @property
    def subject(self) -> str:
        """Name the service and its version: what is worth one log line at a time."""
        return f"{self.service_id} {self.version or 'any'}"


def _said(details: Mapping[object, object], name: str, longest: int = _LONGEST_WORD) -> str:
    value = details.get(name)
    return value.strip()[:longest] if isinstance(value, str) else ""


class Installed(Protocol):
    """A service as a node lists it."""

    @property
    def service_id(self) -> str:
        """Its name."""
        ...

    @property
    def model_id(self) -> str | None:
        """The model it runs."""
        ...

    @property
    def type(self) -> str:
        """What it does."""
        ...


def type_of(report: ModelReport, installed: Iterable[Installed]) -> str | None:
    """Find the type of the missing service: as the node lists it, else by the first word of its name."""
    services = tuple(installed)
    for service in services:
        if service.service_id == report.service_id:
            return service.type
    for service in services:
        if service.model_id == report.service_id:
            return service.type
    word = _WORD.match(report.service_id.lower())
    return word[0] if word and word[0] in SERVICE_TYPES else None


def normal_reason(text: str) -> str:
    """Give a short word for what a node says went wrong, fit to be a label."""
    said = text.strip().lower()
    if not said:
        return "unknown"
    for word, signs in _REASONS:
        if any(sign in said for sign in signs):
            return word
    plain = "".join(mark if mark.isprintable() else "?" for mark in text.strip())
    return f"raw:{plain}"[:_LONGEST_LABEL]


class Unavailability:
    """What one node lacks now, and how often it may say so."""

    def __init__(self, options: UnavailabilityOptions) -> None:
        self._options = options
        self._marks: dict[str, float] = {}  # type -> end of its mark
        self._window_end = float("-inf")
        self._reports = 0  # in the current window

    def admit(self, now: float) -> bool:
        """Count a report; False when the node has made too many."""
        if now >= self._window_end:
            self._window_end = now + self._options.node_ratelimit_window_s
            self._reports = 0
        self._reports += 1
        return self._reports <= self._options.node_ratelimit_max

    def mark(self, kind: str, now: float) -> bool:
        """Do without a type from now on; False when that was so before, and only lasts longer now."""
        fresh = self._marks.get(kind, now) <= now
        self._marks[kind] = now + self._options.unavailable_ttl_s
        return fresh

    def types(self, now: float) -> frozenset[str]:
        """Name the types that are marked."""
        return frozenset(kind for kind, end in self._marks.items() if end > now)

    def deadline(self, now: float) -> float | None:
        """Tell when the next mark ends; those that have ended are forgotten."""
        self._marks = {kind: end for kind, end in self._marks.items() if end > now}
        return min(self._marks.values(), default=None)


class Debounce:
    """Lets the first of several equal subjects through, once in each window of time."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._ends: OrderedDict[str, float] = OrderedDict()  # subject -> end of its window, oldest first

    def __len__(self) -> int:
        """Count the subjects that are remembered."""
        return len(self._ends)

    def first(self, subject: str, now: float) -> bool:
        """Tell whether this subject is new in its window, and begin one if so."""
        while self._ends and (len(self._ends) >= _SUBJECTS_KEPT or next(iter(self._ends.values())) <= now):
            self._ends.popitem(last=False)
        if subject in self._ends:
            return False
        self._ends[subject] = now + self._window_s
        return True
