"""Cutting, placing and ordering together, as a session composes them: every utterance ends once, in order.

Whatever the interleaving of frames, silence, placements, answers, duplicates, deaths, time-outs and the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lingua_scheduler.core.affinity import Affinity, AffinityOptions
from lingua_scheduler.core.model import AudioFormat, Cut, CutReason, Frame, NodeId
from lingua_scheduler.core.ordering import (
    Delivered,
    Missing,
    MissingReason,
    OrderingOptions,
    Outcome,
    Release,
    ResultStream,
    Silent,
)
from lingua_scheduler.core.segmentation import SegmenterOptions
from lingua_scheduler.core.segmenter import Segmenter

NODES = [NodeId("x"), NodeId("y"), NodeId("z")]
PENDING_S, ATTEMPT_S, FAILOVERS, LATE_S = 10.0, 30.0, 3, 30.0
LANG = "en"

frames = st.builds(
    Frame,
    audio=st.sampled_from([b"", b"\x01\x02" * 40, b"\x03\x04" * 400]),
    duration_ms=st.sampled_from([20.0, 260.0, 900.0]),
    silent=st.booleans(),
)
outcomes = st.sampled_from(["result", "silent", "blank", "failed", "refused"])
any_number = st.integers(0, 10**6)


@dataclass(eq=False)
class Job:
    """An utterance as its owner follows it from node to node."""

    cut: Cut
    until: float  # when the owner loses patience: with the search for a node, or with the node
    node: NodeId | None = None
    attempts: list[NodeId] = field(default_factory=list)
    done: bool = False
    failed: bool = False


class Conversation(RuleBasedStateMachine):
    """One session in one language, with the owner's rules for attempts around the pure objects."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        options = SegmenterOptions(pause_ms=500, max_duration_ms=2000, max_utterance_bytes=3000)
        self.segmenter = Segmenter(options, fmt=AudioFormat.PCM16, rate=16000)
        self.stream: ResultStream[int] = ResultStream(OrderingOptions(gap_timeout_ms=3000, pending_max=5))
        self.affinity = Affinity(AffinityOptions())
        self.alive = set(NODES)
        self.jobs: list[Job] = []
        self.turns: dict[str, NodeId] = {}
        self.ended: dict[int, Release[int]] = {}
        self.ended_at: dict[int, float] = {}
        self.late: set[int] = set()
        self.closed = False

    # What the session does with what the objects return

    def cut(self, cuts: list[Cut]) -> None:
        for cut in cuts:
            self.stream.open(cut.index, self.now, turn_id=cut.turn_id, continues=cut.reason.continues_turn)
            self.jobs.append(Job(cut, self.now + PENDING_S))

    def send(self, releases: list[Release[int]]) -> None:
        for release in releases:
            if release.late:
                assert isinstance(release.outcome, Delivered)
                assert not isinstance(self.ended[release.index].outcome, Delivered), "a second result"
                assert release.index not in self.late, "a second late result"
                self.late.add(release.index)
            else:
                assert release.index == len(self.ended), "out of order, twice, or with a hole"
                self.ended[release.index] = release
                self.ended_at[release.index] = self.now

    def resolve(self, job: Job, outcome: Outcome[int]) -> None:
        self.send(self.stream.resolve(job.cut.index, outcome, self.now).releases)

    def end(self, job: Job, outcome: Outcome[int]) -> None:
        job.done, job.node = True, None
        job.failed = not isinstance(outcome, Delivered)
        self.resolve(job, outcome)

    def retry(self, job: Job, reason: MissingReason) -> None:
        if len(job.attempts) > FAILOVERS:
            self.end(job, Missing(reason))
        else:
            job.node, job.until = None, self.now + PENDING_S

    def open_jobs(self) -> list[Job]:
        return [job for job in self.jobs if not job.done]

    # What may happen

    @precondition(lambda self: not self.closed)
    @rule(frame=frames)
    def audio_arrives(self, frame: Frame) -> None:
        self.cut(self.segmenter.feed(frame, self.now))

    @precondition(lambda self: not self.closed)
    @rule(frame=st.none() | frames)
    def the_client_ends_a_sentence(self, frame: Frame | None) -> None:
        self.cut(self.segmenter.finish(frame, self.now))

    @precondition(lambda self: not self.closed)
    @rule(ended=st.booleans())
    def playback(self, ended: bool) -> None:  # noqa: FBT001 a rule's argument
        (self.segmenter.playback_ended if ended else self.segmenter.playback_started)(self.now)

    @rule(seconds=st.sampled_from([0.02, 0.3, 0.7, 2.0, 3.0, 11.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        until = self.now + seconds
        while (when := self.next_deadline()) is not None and when <= until:
            self.now = max(self.now, when)
            if not self.closed:
                self.cut(self.segmenter.tick(self.now))
            self.send(self.stream.tick(self.now))
            for job in self.open_jobs():
                if job.until <= self.now:
                    self.patience_is_over(job)
        self.now = until

    def next_deadline(self) -> float | None:
        moments = [self.stream.deadline, *(job.until for job in self.open_jobs())]
        if not self.closed:
            moments.append(self.segmenter.deadline)
        return min((moment for moment in moments if moment is not None), default=None)

    def patience_is_over(self, job: Job) -> None:
        if job.node is None:
            self.end(job, Missing(MissingReason.NO_AVAILABLE_NODE))
        else:
            self.retry(job, MissingReason.JOB_TIMEOUT)

    @rule(number=any_number)
    def a_job_is_placed(self, number: int) -> None:
        waiting = [job for job in self.open_jobs() if job.node is None]
        if not waiting:
            return
        job = waiting[number % len(waiting)] if any(j.attempts for j in waiting) else waiting[0]
        cut = job.cut
        wish = self.affinity.wish(LANG, reason=cut.reason, turn_id=cut.turn_id, now=self.now)
        free = [node for node in NODES if node in self.alive and node not in job.attempts]
        if not free:
            return
        node = wish.node_id if wish and wish.node_id in free else free[number % len(free)]
        self.check_turn(cut, node, free, bound=bool(wish and wish.bound))
        self.affinity.placed(LANG, node, reason=cut.reason, turn_id=cut.turn_id, now=self.now)
        job.node, job.until = node, self.now + ATTEMPT_S
        job.attempts.append(node)

    def check_turn(self, cut: Cut, node: NodeId, free: list[NodeId], *, bound: bool) -> None:
        """A turn's newest node keeps it; a sentence of its own is bound to nobody."""
        if bound and cut.turn_id in self.turns and self.turns[cut.turn_id] in free:
            assert node == self.turns[cut.turn_id]
        if cut.turn_id not in self.turns:
            assert not bound
        if cut.reason.continues_turn:
            self.turns[cut.turn_id] = node
        if cut.reason in (CutReason.MANUAL, CutReason.GAP, CutReason.CLOSE):
            self.turns.pop(cut.turn_id, None)

    @rule(number=any_number, attempt=any_number, outcome=outcomes)
    def a_node_answers(self, number: int, attempt: int, outcome: str) -> None:
        had_it = [job for job in self.jobs if job.attempts]
        if not had_it:
            return
        job = had_it[-1 - number % min(len(had_it), 8)]
        which = attempt % len(job.attempts)
        current = not job.done and job.node is not None and which == len(job.attempts) - 1
        if current:
            self.answered(job, outcome)
        elif outcome == "result" and job.done and job.failed:
            self.resolve(job, Delivered(which))

    def answered(self, job: Job, outcome: str) -> None:
        if outcome == "result":
            self.end(job, Delivered(len(job.attempts)))
        elif outcome == "silent":
            self.end(job, Silent())
        elif outcome == "blank":
            self.end(job, Missing(MissingReason.SILENCE_DETECTED))
        elif outcome == "failed":
            self.end(job, Missing(MissingReason.JOB_FAILED))
        else:
            self.retry(job, MissingReason.JOB_FAILED)

    @rule(node=st.sampled_from(NODES))
    def a_node_dies_or_returns(self, node: NodeId) -> None:
        if node not in self.alive:
            self.alive.add(node)
            return
        self.alive.discard(node)
        for job in self.open_jobs():
            if job.node == node:
                self.retry(job, MissingReason.JOB_FAILED)

    @precondition(lambda self: not self.closed and len(self.jobs) > 3)
    @rule()
    def the_client_closes(self) -> None:
        self.closed = True
        self.cut(self.segmenter.close(self.now))

    # What must hold

    @invariant()
    def what_has_not_ended_is_still_being_worked_on(self) -> None:
        assert self.segmenter.next_index == len(self.jobs)
        open_indexes = {job.cut.index for job in self.open_jobs()}
        for index in range(len(self.ended), len(self.jobs)):
            assert index in open_indexes or self.stream.held

    @invariant()
    def a_result_is_late_only_for_so_long(self) -> None:
        assert all(index in self.ended for index in self.late)

    def teardown(self) -> None:
        """Without another word of anybody, every accepted utterance ends within the longest life of a job."""
        self.time_passes(PENDING_S + (1 + FAILOVERS) * (PENDING_S + ATTEMPT_S))
        if not self.closed:
            self.the_client_closes()
            self.time_passes(PENDING_S)
        assert sorted(self.ended) == list(range(len(self.jobs)))
        assert self.stream.idle
        assert self.stream.deadline is None


def test_every_utterance_of_a_conversation_ends_once_and_in_order():
    run_state_machine_as_test(
        Conversation, settings=settings(max_examples=150, stateful_step_count=60, deadline=None)
    )
