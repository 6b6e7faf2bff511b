"""Results in any order in, utterance order out: one stream per speaker and target language.

Every index that was opened leaves exactly once, as a result, as missing or silently. A result behind an open
index is held, and being held starts the clock of every gap below it. What was missing may still come late,
once and out of order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Generic, Literal, TypeAlias, TypeVar

import msgspec

from lingua_scheduler.core.model import TurnId
from lingua_scheduler.errors import IllegalTransition

T = TypeVar("T")

_REMEMBERED_JUMPS = 256
_REMEMBERED_MISSES = 256  # kept beyond their late window, only to tell a late result from a repeated one


class OrderingOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long order is worth waiting for."""

    mode: Literal["ordered", "fcfs"] = "ordered"
    """`ordered` keeps utterance order; `fcfs` hands out each result as it comes."""
    gap_timeout_ms: Annotated[int, msgspec.Meta(ge=1)] = 5000
    """How long a held result waits for the indexes below it."""
    late_window_ms: Annotated[int, msgspec.Meta(ge=0)] = 30_000
    """How long after an index was given up its result is still delivered, out of order."""
    pending_max: Annotated[int, msgspec.Meta(ge=1)] = 200
    """How many resolved indexes may be held behind a gap before the lowest gap is given up."""
    report_no_text: bool = False
    """Tell the client about utterances in which nothing was said."""


class MissingReason(StrEnum):
    """Why an utterance has no result, as `missing_result` says it."""

    GAP_TIMEOUT = "gap_timeout"
    PENDING_OVERFLOW_EVICT = "pending_overflow_evict"
    JOB_FAILED = "job_failed"
    JOB_TIMEOUT = "job_timeout"
    NO_AVAILABLE_NODE = "no_available_node"
    NO_TEXT = "no_text"
    SILENCE_DETECTED = "silence_detected"
    DEPENDENCY_DOWN = "scheduler_dependency_down"
    SESSION_CLOSED = "session_closed"


@dataclass(frozen=True, slots=True)
class Delivered(Generic[T]):
    """The index has a result."""

    payload: T


@dataclass(frozen=True, slots=True)
class Missing:
    """The index has no result, and the client is told why."""

    reason: MissingReason


@dataclass(frozen=True, slots=True)
class Silent:
    """Nothing was said at this index; the client gets no message."""


Outcome: TypeAlias = Delivered[T] | Missing | Silent


@dataclass(frozen=True, slots=True)
class Release(Generic[T]):
    """One index leaves the stream; `late` ones had left before as missing or silent."""

    index: int
    outcome: Outcome[T]
    late: bool = False


class Verdict(StrEnum):
    """What became of an outcome handed in."""

    ACCEPTED = "accepted"  # it settles its index
    LATE = "late"  # its index had left without a result; this one follows out of order
    DUPLICATE = "duplicate"  # dropped: its index is settled
    EXPIRED = "expired"  # dropped: its index was given up longer ago than the late window
    UNKNOWN = "unknown"  # dropped: its index was never opened


@dataclass(frozen=True, slots=True)
class Resolution(Generic[T]):
    """The verdict on one outcome, and everything that leaves the stream because of it."""

    verdict: Verdict
    releases: list[Release[T]] = field(default_factory=list)


@dataclass(slots=True)
class _Slot(Generic[T]):
    turn_id: TurnId | None
    patient: bool  # a piece whose node may keep silent until the turn's last piece is answered
    outcome: Outcome[T] | None = None
    resolved_at: float = 0.0
    deadline: float | None = None


class ResultStream(Generic[T]):
    """The results of one speaker in one language; cost follows what is open, never the session's age."""

    def __init__(self, options: OrderingOptions, *, first_index: int = 0) -> None:
        self._options = options
        self._gap_s = options.gap_timeout_ms / 1000
        self._late_s = options.late_window_ms / 1000
        self._last_opened = first_index - 1  # whatever is not above it and not known below is settled
        self._passed: list[range] = []  # indexes passed over by `open`, newest last
        self._slots: dict[int, _Slot[T]] = {}  # opened and not yet released, ascending
        self._missed: dict[int, float] = {}  # released without a result -> end of the late window
        self._turn_id: TurnId | None = None  # the turn whose last piece is still to come
        self._turn_piece = -1  # the newest piece of that turn

    @property
    def idle(self) -> bool:
        """Nothing is open and nothing is held."""
        return not self._slots

    @property
    def held(self) -> int:
        """How many resolved indexes wait behind a gap."""
        return sum(slot.outcome is not None for slot in self._slots.values())

    @property
    def deadline(self) -> float | None:
        """When `tick` has something to do, as far as is known now."""
        return min(
            (slot.deadline for slot in self._slots.values() if slot.deadline is not None), default=None
        )

    def awaits(self, index: int) -> bool:
        """Tell whether nothing is known yet of how this index ends."""
        slot = self._slots.get(index)
        return slot is not None and slot.outcome is None

    def unfilled(self, index: int, now: float) -> bool:
        """Tell whether a result for this index would still reach the client."""
        slot = self._slots.get(index)
        if slot is not None:
            return not isinstance(slot.outcome, Delivered)
        return now <= self._missed.get(index, float("-inf"))

    def open(self, index: int, now: float, *, turn_id: TurnId | None = None, continues: bool = False) -> None:
        """Expect an outcome for `index`; `continues` says that speech of the same turn goes on after it."""
        if index in self._slots:
            return
        if index <= self._last_opened:
            self._open_passed(index, now)
            return
        if index > self._last_opened + 1:
            self._passed.append(range(self._last_opened + 1, index))
            del self._passed[:-_REMEMBERED_JUMPS]
        if turn_id != self._turn_id:
            self.end_turn(now)
        patient = continues and turn_id is not None
        self._slots[index] = _Slot(turn_id=turn_id, patient=patient)
        self._last_opened = index
        self._turn_id = turn_id if patient else None
        self._turn_piece = index

    def _open_passed(self, index: int, now: float) -> None:
        """Give an index that was passed over its place in the order; it holds back what is above it."""
        for at, passed in enumerate(self._passed):
            if index in passed:
                self._passed[at : at + 1] = [range(passed.start, index), range(index + 1, passed.stop)]
                break
        else:
            raise IllegalTransition(
                "result stream", expected=f"an index above {self._last_opened}", received=str(index)
            )
        self._slots = dict(sorted({**self._slots, index: _Slot(turn_id=None, patient=False)}.items()))
        self._start_clocks(now)

    def end_turn(self, now: float) -> None:
        """End the current turn, if one goes on: its newest piece becomes its last."""
        turn_id, self._turn_id = self._turn_id, None
        if turn_id is None:
            return
        last = self._slots.get(self._turn_piece)
        if last is not None and last.outcome is None:
            last.patient = False
        else:
            self._end_patience(turn_id)
        self._start_clocks(now)

    def resolve(self, index: int, outcome: Outcome[T], now: float) -> Resolution[T]:
        """Settle an index; the first outcome counts, and a result may still replace the lack of one."""
        slot = self._slots.get(index)
        if slot is None:
            return self._resolve_again(index, outcome, now)
        if slot.outcome is not None and not _replaces(outcome, slot.outcome):
            return Resolution(Verdict.DUPLICATE, self._flow(now))
        self._settle(slot, outcome, now)
        return Resolution(Verdict.ACCEPTED, self._flow(now))

    def tick(self, now: float) -> list[Release[T]]:
        """Give up the gaps whose time is over."""
        return self._flow(now)

    def abandon(self, now: float, reason: MissingReason = MissingReason.SESSION_CLOSED) -> list[Release[T]]:
        """Settle everything that is open as missing, and let all of it leave in order."""
        for slot in self._slots.values():
            if slot.outcome is None:
                self._settle(slot, Missing(reason), now)
        self._turn_id = None
        return self._flow(now)

    def _resolve_again(self, index: int, outcome: Outcome[T], now: float) -> Resolution[T]:
        releases = self._flow(now)
        if index > self._last_opened:
            return Resolution(Verdict.UNKNOWN, releases)
        if index not in self._missed or not isinstance(outcome, Delivered):
            return Resolution(Verdict.DUPLICATE, releases)
        if now > self._missed.pop(index):
            return Resolution(Verdict.EXPIRED, releases)
        return Resolution(Verdict.LATE, [*releases, Release(index, outcome, late=True)])

    def _settle(self, slot: _Slot[T], outcome: Outcome[T], now: float) -> None:
        slot.outcome, slot.resolved_at, slot.deadline = outcome, now, None
        if slot.turn_id is not None and not slot.patient:
            self._end_patience(slot.turn_id)

    def _end_patience(self, turn_id: TurnId) -> None:
        for slot in self._slots.values():
            if slot.turn_id == turn_id:
                slot.patient = False

    def _flow(self, now: float) -> list[Release[T]]:
        for slot in self._slots.values():
            if slot.deadline is not None and slot.deadline <= now:
                self._settle(slot, Missing(MissingReason.GAP_TIMEOUT), now)
        releases = self._drain(now)
        while self.held > self._options.pending_max:
            lowest_gap = next(iter(self._slots.values()))
            self._settle(lowest_gap, Missing(MissingReason.PENDING_OVERFLOW_EVICT), now)
            releases += self._drain(now)
        self._start_clocks(now)
        return releases

    def _drain(self, now: float) -> list[Release[T]]:
        releases: list[Release[T]] = []
        for index, slot in self._slots.items():
            if slot.outcome is not None:
                releases.append(Release(index, self._as_told(slot.outcome)))
                if not isinstance(slot.outcome, Delivered):
                    self._missed[index] = slot.resolved_at + self._late_s
            elif self._options.mode == "ordered":
                break
        for release in releases:
            del self._slots[release.index]
        self._forget_misses(now)
        return releases

    def _as_told(self, outcome: Outcome[T]) -> Outcome[T]:
        if isinstance(outcome, Silent) and self._options.report_no_text:
            return Missing(MissingReason.NO_TEXT)
        return outcome

    def _start_clocks(self, now: float) -> None:
        waited_for: list[_Slot[T]] = []
        for slot in self._slots.values():
            if slot.outcome is None:
                if slot.deadline is None and not slot.patient:
                    waited_for.append(slot)
            elif isinstance(slot.outcome, Delivered):
                for gap in waited_for:
                    gap.deadline = now + self._gap_s
                waited_for.clear()

    def _forget_misses(self, now: float) -> None:
        while len(self._missed) > _REMEMBERED_MISSES:
            oldest = next(iter(self._missed))
            if now <= self._missed[oldest]:
                return
            del self._missed[oldest]


def _replaces(arriving: Outcome[T], settled: Outcome[T]) -> bool:
    return isinstance(arriving, Delivered) and not isinstance(settled, Delivered)
