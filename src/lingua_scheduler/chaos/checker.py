"""What must hold whatever was broken: one function per invariant, each over the evidence of a whole run.

Each gives the sentences that tell where its invariant does not hold; none if it does.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lingua_scheduler.chaos.aftercheck import (
    accounting_adds_up,
    inboxes_are_empty,
    logs_are_quiet,
    memory_is_bounded,
    nothing_crashed,
    ownership_is_single,
)
from lingua_scheduler.chaos.evidence import QUIET, RECOVERY, Conversation, Evidence
from lingua_scheduler.chaos.history import Event, Op
from lingua_scheduler.chaos.setting import T_END_S
from lingua_scheduler.chaos.speech import read_frames

AFTER_THE_END_S = 1.0
"""How long after a client has a result a node may still be handed its job: messages cross each other."""

CROSSING_S = 1.0
"""How much earlier than a node sees it a slot may have been given to another job."""

RECOVERED_SHARE = 0.95
RECOVERED_WITHIN_S = 3.0


_Attempt = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where an invariant does not hold."""

    invariant: str
    what: str

    def line(self) -> str:
        """Word it for people."""
        return f"{self.invariant}: {self.what}"


def one_end_per_utterance(evidence: Evidence) -> Iterator[str]:
    """I1: every accepted utterance ends in exactly one result or one missing result."""
    for conversation in evidence.conversations.values():
        counted = Counter(end.index for end in conversation.ends)
        for index, times in counted.items():
            if times > 1:
                kinds = [end.op.value for end in conversation.ends if end.index == index]
                yield f"{_name(conversation)} index {index} ended {times} times: {', '.join(kinds)}"
        for said in conversation.unanswered():
            yield f"{_name(conversation)} frames {said.first}-{said.seq} were accepted and never answered"
    if evidence.lossless:
        for event in evidence.of_kind(Op.MISSING):
            yield f"{event.who} {event.session} index {event.index} is missing ({event.reason})"


def ends_in_order(evidence: Evidence) -> Iterator[str]:
    """I2: a session's ends arrive in strictly increasing index without holes."""
    for conversation in evidence.conversations.values():
        expected = 0
        for end in conversation.ends:
            if end.index != expected:
                yield f"{_name(conversation)} index {end.index} came when {expected} was due"
            expected = end.index + 1


def right_address(evidence: Evidence) -> Iterator[str]:
    """I3: a result answers what its own session said, once, and comes from a job of that session."""
    for conversation in evidence.conversations.values():
        heard_to = -1
        for end in conversation.ends:
            if end.op is not Op.RESULT:
                continue
            where = f"{_name(conversation)} index {end.index}"
            frames = read_frames(end.frames) if end.frames else ()
            if end.client != conversation.client or not frames:
                yield f"{where} answers speaker {end.client} instead of {conversation.client}"
                continue
            if list(frames) != list(range(frames[0], frames[-1] + 1)):
                yield f"{where} answers torn speech: frames {end.frames}"
            if frames[0] <= heard_to:
                yield f"{where} answers frames {end.frames} although {heard_to} was answered before"
            heard_to = max(heard_to, frames[-1])
            if not _within_one(conversation, frames):
                yield f"{where} mixes several utterances: frames {end.frames}"
            handed = [event for event in evidence.jobs.get(end.job, ()) if event.attempt == end.attempt]
            if not any(event.session == end.session and event.node == end.node for event in handed):
                yield f"{where} comes from attempt {end.attempt} of {end.job}, which {end.node} never had"


def _within_one(conversation: Conversation, frames: tuple[int, ...]) -> bool:
    """The frames belong to one utterance; what was not said to its end is not known."""
    touched = [said for said in conversation.spoken if said.first <= frames[-1] and frames[0] <= said.seq]
    return len(touched) <= 1


def capacity_is_kept(evidence: Evidence) -> Iterator[str]:
    """I4: no node has more unfinished jobs than slots, and in the end no slot is reserved."""
    holding: dict[str, set[_Attempt]] = defaultdict(set)
    capacity: dict[str, int] = {}
    given_up = _given_up(evidence)
    for event in evidence.events:
        key = event.job, event.attempt
        if event.op is Op.REGISTERED:
            capacity[event.node] = event.count
            holding[event.node].clear()
        elif event.op is Op.DISCONNECTED:
            holding[event.node].clear()
        elif event.op is Op.ASSIGNED:
            holding[event.node].add(key)
            most = capacity.get(event.node)
            busy = sum(event.t < given_up.get(held, event.t + 1) for held in holding[event.node])
            if most is not None and busy > most:
                yield f"{event.node} had {busy} jobs on {most} slots with {event.job}"
        elif event.op in (Op.ANSWERED, Op.CANCELLED):
            holding[event.node].discard(key)
    if evidence.aftermath.left.reservations:
        yield f"{evidence.aftermath.left.reservations} slots are still reserved"


def _given_up(evidence: Evidence) -> dict[_Attempt, float]:
    """When the slot of an attempt was free at the latest: shortly before the next one was handed out.

    The node hears of it by a message of its own, which may take longer than the next job.
    """
    free: dict[_Attempt, float] = {}
    for job, handed in evidence.jobs.items():
        for before, after in itertools.pairwise(handed):
            free[job, before.attempt] = after.t - CROSSING_S
    return free


def attempts_are_fenced(evidence: Evidence) -> Iterator[str]:
    """I5: one node per attempt, attempts in order, one job per utterance, nothing after the end."""
    results = {end.job: end for end in evidence.of_kind(Op.RESULT)}
    for job, handed in evidence.jobs.items():
        for attempt, times in Counter(event.attempt for event in handed).items():
            if times > 1:
                nodes = [event.node for event in handed if event.attempt == attempt]
                yield f"attempt {attempt} of {job} was handed out {times} times: {', '.join(nodes)}"
        numbers = [event.attempt for event in handed if not evidence.held_up(event)]
        if numbers != sorted(numbers):
            yield f"attempts of {job} were handed out in the order {numbers}"
        end = results.get(job)
        for event in handed:
            if end is not None and event.t > end.t + AFTER_THE_END_S and not evidence.held_up(event):
                yield f"{event.node} was handed {job} {event.t - end.t:.1f} s after its result was delivered"
    owners: dict[tuple[str, int], set[str]] = defaultdict(set)
    for event in evidence.of_kind(Op.ASSIGNED):
        owners[event.session, event.index].add(event.job)
    for (session, index), jobs in owners.items():
        if len(jobs) > 1:
            yield f"{session} index {index} has {len(jobs)} jobs: {', '.join(sorted(jobs))}"


def everything_ends_in_time(evidence: Evidence) -> Iterator[str]:
    """I6: sessions outlive every fault; once all is healed everything ends in time and is as before."""
    for conversation in evidence.conversations.values():
        if conversation.left:
            yield f"{_name(conversation)} waited in vain for the end of what was said"
        if conversation.replaced:
            yield f"{_name(conversation)} was gone when its client came back"
    healed = max((event.t for event in evidence.of_kind(Op.HEALED)), default=0.0)
    late = [
        (said, waited_s)
        for conversation in evidence.conversations.values()
        for said, end in _answered(conversation)
        if (waited_s := end.t - max(said.t, healed)) > T_END_S
    ]
    for said, waited_s in late:
        yield f"{said.session} frames {said.first}-{said.seq} ended only after {waited_s:.1f} s"
    yield from _recovers(evidence)


def _recovers(evidence: Evidence) -> Iterator[str]:
    begins, ends = evidence.phase(RECOVERY), evidence.phase(QUIET)
    if begins is None or ends is None:
        return
    said_then, good = 0, 0
    for conversation in evidence.conversations.values():
        answers = {said.seq: end for said, end in _answered(conversation)}
        for said in conversation.spoken:
            if begins <= said.t < ends:
                said_then += 1
                end = answers.get(said.seq)
                good += end is not None and end.t - said.t <= RECOVERED_WITHIN_S
    if not said_then:
        yield "nobody could speak after everything was healed"
    elif good < RECOVERED_SHARE * said_then:
        yield f"only {good} of {said_then} utterances were translated in time after everything was healed"


def _answered(conversation: Conversation) -> Iterator[tuple[Event, Event]]:
    """Pair utterances with the results that prove to answer their last frame."""
    by_last = {read_frames(end.frames)[-1]: end for end in conversation.ends if end.frames}
    for said in conversation.spoken:
        if said.seq in by_last:
            yield said, by_last[said.seq]


def _name(conversation: Conversation) -> str:
    return f"{conversation.who} {conversation.session}"


INVARIANTS: dict[str, Callable[[Evidence], Iterator[str]]] = {
    "I1": one_end_per_utterance,
    "I2": ends_in_order,
    "I3": right_address,
    "I4": capacity_is_kept,
    "I5": attempts_are_fenced,
    "I6": everything_ends_in_time,
    "I7": memory_is_bounded,
    "I8": inboxes_are_empty,
    "I9": ownership_is_single,
    "I10": accounting_adds_up,
    "I12": logs_are_quiet,
    "errors": nothing_crashed,
}


def checked(evidence: Evidence) -> list[Violation]:
    """Ask every invariant; give every place where one does not hold."""
    return [Violation(name, what) for name, holds in INVARIANTS.items() for what in holds(evidence)]
