"""How long the parts of an utterance's way took, joined from what speaker, node and listeners saw."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from lingua_scheduler.bench.messages import RESULT
from lingua_scheduler.bench.records import Conversation, Job, Said, Spoken, Worked


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a run that is measured, in seconds of the machine's clock."""

    begun_s: float  # of the run
    from_s: float
    to_s: float

    def holds(self, moment_s: float) -> bool:
        """The moment is inside."""
        return self.from_s <= moment_s < self.to_s


@dataclass(frozen=True, slots=True)
class Times:
    """One result that arrived: a moment in seconds since the run began, durations in milliseconds."""

    due_s: float  # when the last frame of the speech was to be sent
    assign_ms: float  # from there until a node had it
    back_ms: float  # from the node's answer, or from when its turn came, to the client
    whole_ms: float

    @property
    def added_ms(self) -> float:
        """What the scheduler added: all but the node's time and the wait for earlier utterances."""
        return self.assign_ms + self.back_ms


@dataclass(slots=True)
class Joined:
    """Every utterance whose last frame was due in the window."""

    times: list[Times] = field(default_factory=list)  # one for each result and each who heard it
    said: int = 0
    answered: int = 0  # everybody who should have heard a result has
    missing: Counter[str] = field(default_factory=Counter)  # by reason
    held: int = 0  # results that had to wait for an earlier utterance


@dataclass(frozen=True, slots=True)
class _Ear:
    """One who hears a speaker: how each utterance ended there, in order."""

    lang: str
    ends: list[tuple[int, float, str]]  # index, moment, how


def joined(spoken: Spoken, worked: Worked, window: Window) -> Joined:
    """Join the observations of a run."""
    found = Joined()
    jobs = _Jobs(worked.jobs)
    rooms: dict[int | None, list[Conversation]] = defaultdict(list)
    for each in spoken.conversations:
        rooms[each.room].append(each)
    for speaker in spoken.conversations:
        ears = list(_ears(speaker, rooms[speaker.room]))
        good: Counter[int] = Counter()
        for ear in ears:
            _take(speaker, ear, jobs, window, found, good)
        inside = [index for index, said in enumerate(speaker.said) if window.holds(said.due_s)]
        found.said += len(inside)
        found.answered += sum(good[index] == len(ears) for index in inside)
    return found


class _Jobs:
    def __init__(self, jobs: list[Job]) -> None:
        self.first_s: dict[tuple[str, int], float] = {}  # when any node had it
        self.answered_s: dict[tuple[str, int, str], float] = {}
        for job in jobs:
            key = job.session_id, job.index
            self.first_s[key] = min(self.first_s.get(key, job.assigned_s), job.assigned_s)
            if job.answered_s:
                name = (*key, job.lang)
                self.answered_s[name] = min(self.answered_s.get(name, job.answered_s), job.answered_s)


def _ears(speaker: Conversation, room: list[Conversation]) -> Iterator[_Ear]:
    if speaker.room is None:
        yield _Ear(
            speaker.lang, [(i, said.ended_s, said.end) for i, said in enumerate(speaker.said) if said.end]
        )
        return
    for listener in room:
        if listener is not speaker:
            heard = [each for each in listener.heard if each.speaker == speaker.session_id]
            yield _Ear(listener.lang, [(each.index, each.at_s, each.end) for each in heard])


def _take(
    speaker: Conversation, ear: _Ear, jobs: _Jobs, window: Window, found: Joined, good: Counter[int]
) -> None:
    """A result is ready when its node has answered and all before it have ended too."""
    ready_s, told = 0.0, set()
    for index, heard_s, end in ear.ends:
        answered_s = jobs.answered_s.get((speaker.session_id, index, ear.lang), heard_s)
        waits, ready_s = ready_s > answered_s, max(ready_s, answered_s if end == RESULT else heard_s)
        if index >= len(speaker.said) or index in told or not window.holds(speaker.said[index].due_s):
            continue
        told.add(index)
        if end != RESULT:
            found.missing[end] += 1
            continue
        good[index] += 1
        found.held += waits
        assigned_s = jobs.first_s.get((speaker.session_id, index), answered_s)
        found.times.append(_times(speaker.said[index], window, assigned_s, min(ready_s, heard_s), heard_s))


def _times(said: Said, window: Window, assigned_s: float, ready_s: float, heard_s: float) -> Times:
    return Times(
        due_s=said.due_s - window.begun_s,
        assign_ms=(assigned_s - said.due_s) * 1000,
        back_ms=(heard_s - ready_s) * 1000,
        whole_ms=(heard_s - said.due_s) * 1000,
    )
