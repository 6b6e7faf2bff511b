"""What must hold in every run: a fast wrong run is void.

Each function gives the sentences that tell where its rule does not hold; none if it does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from lingua_scheduler.bench.messages import RESULT
from lingua_scheduler.bench.records import Conversation, Spoken, Worked
from lingua_scheduler.core.ordering import MissingReason

_GIVEN_UP = MissingReason.GAP_TIMEOUT.value
_CROSSING_S = 1.0  # how much earlier than a node sees it a slot may have been given to another job
_MOST_SENTENCES = 20


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What is there when all is quiet."""

    redis: dict[str, int] = field(default_factory=dict)  # what is left in Redis, by kind
    counted: dict[str, float] = field(default_factory=dict)  # the instances' own counters
    crashes: tuple[str, ...] = ()  # lines of their logs
    exit_codes: tuple[int | None, ...] = ()


def checked(spoken: Spoken, worked: Worked, left: Leftovers) -> list[str]:
    """Ask every rule; give what does not hold, at most some sentences of each."""
    found: list[str] = []
    for rule in (
        _every_end_once(spoken),
        _rooms_hear_everything(spoken),
        _slots_are_kept(worked),
        _attempts_are_single(worked),
        _counters_agree(spoken, left),
        _nothing_is_left(spoken, left),
    ):
        found += [sentence for sentence, _ in zip(rule, range(_MOST_SENTENCES), strict=False)]
    return found


def _every_end_once(spoken: Spoken) -> Iterator[str]:
    """Every utterance ends once, in order, and the answer is that to what was said."""
    for each in spoken.conversations:
        for complaint in each.complaints:
            yield f"client {each.number}: {complaint}"
        if each.room is None:
            for index, said in enumerate(each.said):
                if not said.end:
                    yield f"client {each.number}: index {index} was never answered"


def _rooms_hear_everything(spoken: Spoken) -> Iterator[str]:
    """Everybody in a room hears every utterance of the others once, and in order."""
    rooms: dict[int, list[Conversation]] = defaultdict(list)
    for each in spoken.conversations:
        if each.room is not None:
            rooms[each.room].append(each)
    for members in rooms.values():
        said = {each.session_id: len(each.said) for each in members}
        for listener in members:
            yield from _heard_everything(listener, said)


def _heard_everything(listener: Conversation, said: dict[str, int]) -> Iterator[str]:
    heard: dict[str, list[int]] = defaultdict(list)
    given_up: set[tuple[str, int]] = set()
    for each in listener.heard:
        if each.end == RESULT and (each.speaker, each.index) in given_up:
            continue  # it came late after all
        if each.end == _GIVEN_UP:
            given_up.add((each.speaker, each.index))
        heard[each.speaker].append(each.index)
    for speaker, number in said.items():
        if speaker != listener.session_id and heard[speaker] != list(range(number)):
            yield f"client {listener.number} heard {heard[speaker]} of {speaker}, which said {number}"


def _slots_are_kept(worked: Worked) -> Iterator[str]:
    """No node has more unfinished jobs than slots."""
    next_attempt_s: dict[tuple[str, int], float] = {}
    for job in worked.jobs:
        next_attempt_s[job.job_id, job.attempt - 1] = job.assigned_s - _CROSSING_S
    by_node: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for job in worked.jobs:
        free_s = [each for each in (job.answered_s, job.cancelled_s) if each]
        given_up_s = next_attempt_s.get((job.job_id, job.attempt))
        free_s += [max(given_up_s, job.assigned_s)] if given_up_s is not None else []
        by_node[job.node].append((job.assigned_s, 1))
        by_node[job.node] += [(min(free_s), -1)] if free_s else []
    slots = {each.node: each.slots for each in worked.presences if each.slots}
    gone = {(each.node, each.at_s) for each in worked.presences if not each.slots}
    for node, steps in by_node.items():
        steps += [(at_s, 0) for number, at_s in gone if number == node]
        busy = 0
        for _, step in sorted(steps):
            busy = busy + step if step else 0
            if busy > slots.get(node, 0):
                yield f"node {node} had {busy} jobs on {slots.get(node, 0)} slots"


def _attempts_are_single(worked: Worked) -> Iterator[str]:
    """An attempt is handed out once, and an utterance has one job for each language."""
    for (job, attempt), times in Counter((each.job_id, each.attempt) for each in worked.jobs).items():
        if times > 1:
            yield f"attempt {attempt} of {job} was handed out {times} times"
    owners: dict[tuple[str, int, str], set[str]] = defaultdict(set)
    for each in worked.jobs:
        owners[each.session_id, each.index, each.lang].add(each.job_id)
    for (session, index, lang), jobs in owners.items():
        if len(jobs) > 1:
            yield f"{session} index {index} has {len(jobs)} jobs for {lang}"


def _counters_agree(spoken: Spoken, left: Leftovers) -> Iterator[str]:
    """The instances have counted what the clients said."""
    said = sum(len(each.said) for each in spoken.conversations)
    cut = left.counted.get("scheduler_web_task_finalized_total", 0.0)
    if cut != said:
        yield f"{said} utterances were said and {cut:g} were cut"
    still_open = left.counted.get("scheduler_jobs_open", 0.0)
    if still_open:
        yield f"{still_open:g} jobs are open although everything has ended"


def _nothing_is_left(spoken: Spoken, left: Leftovers) -> Iterator[str]:
    """Sessions end by agreement, Redis holds nothing of them, and nothing crashed."""
    for each in spoken.conversations:
        if not each.closed:
            yield f"client {each.number}: the end of its session was not acknowledged"
    for kind, number in left.redis.items():
        if number:
            yield f"{number} x {kind} are left in Redis"
    yield from left.crashes
    for number, code in enumerate(left.exit_codes):
        if code != 0:
            yield f"instance {number} ended with exit code {code}"
