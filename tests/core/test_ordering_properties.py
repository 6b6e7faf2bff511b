"""Whatever happens, each opened index leaves once, in order and in time, and no result is lost."""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lingua_scheduler.core.model import TurnId
from lingua_scheduler.core.ordering import (
    Delivered,
    Missing,
    MissingReason,
    OrderingOptions,
    Release,
    ResultStream,
    Silent,
    Verdict,
)

GAP_S, LATE_S, PENDING_MAX = 5.0, 30.0, 6
EMPTY = st.sampled_from(
    [Silent(), Missing(MissingReason.JOB_FAILED), Missing(MissingReason.SILENCE_DETECTED)]
)
moments = st.sampled_from([0.5, 2.5, 4.5, 5.0, 7.5, 31.0])


class Streams(RuleBasedStateMachine):
    """Drive a stream and keep books about what a client would have seen."""

    mode = "ordered"

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.stream: ResultStream[int] = ResultStream(
            OrderingOptions(mode=self.mode, pending_max=PENDING_MAX)  # type: ignore[arg-type]
        )
        self.payloads = itertools.count()
        self.opened: list[int] = []
        self.left: dict[int, tuple[Release[int], float]] = {}
        self.late: dict[int, Release[int]] = {}
        self.taken: dict[int, tuple[int, float]] = {}  # index -> accepted payload, when

    def watch(self, releases: list[Release[int]]) -> None:
        for release in releases:
            index = release.index
            if release.late:
                assert index not in self.late
                assert not isinstance(self.left[index][0].outcome, Delivered)
                assert isinstance(release.outcome, Delivered)
                self.late[index] = release
            else:
                assert index in self.opened
                assert index not in self.left
                if self.mode == "ordered":
                    assert index > max(self.left, default=-1)
                self.left[index] = (release, self.now)
                self.check_reason(release)

    def check_reason(self, release: Release[int]) -> None:
        if release.outcome == Missing(MissingReason.GAP_TIMEOUT):
            held_since = min(when for index, (_, when) in self.taken.items() if index > release.index)
            assert self.now >= held_since + GAP_S
        if isinstance(release.outcome, Delivered):
            assert release.outcome.payload == self.taken[release.index][0]

    def next_index(self, step: int) -> int:
        return (self.opened[-1] if self.opened else -1) + step

    def waiting(self) -> list[int]:
        return sorted(set(self.opened) - set(self.left) - set(self.taken))

    @rule(steps=st.lists(st.integers(1, 3), min_size=1, max_size=4))
    def open_some(self, steps):
        for step in steps:
            index = self.next_index(step)
            self.stream.open(index, self.now)
            self.opened.append(index)

    @precondition(lambda self: self.waiting())
    @rule(data=st.data())
    def result_arrives(self, data):
        self.result(data.draw(st.sampled_from(self.waiting())))

    @precondition(lambda self: self.waiting())
    @rule()
    def newest_result_arrives(self):
        self.result(self.waiting()[-1])

    @precondition(lambda self: self.opened)
    @rule(data=st.data())
    def result_of_any_age_arrives(self, data):
        self.result(data.draw(st.sampled_from(self.opened)))

    def result(self, index: int) -> None:
        payload = next(self.payloads)
        was_unfilled = self.stream.unfilled(index, self.now)
        resolution = self.stream.resolve(index, Delivered(payload), self.now)
        assert was_unfilled == (resolution.verdict in (Verdict.ACCEPTED, Verdict.LATE))
        if resolution.verdict is Verdict.ACCEPTED:
            assert index not in self.taken
            self.taken[index] = (payload, self.now)
        self.watch(resolution.releases)
        if resolution.verdict is Verdict.LATE:
            assert self.late[index].outcome == Delivered(payload)

    @precondition(lambda self: self.opened)
    @rule(data=st.data(), outcome=EMPTY)
    def nothing_arrives(self, data, outcome):
        index = data.draw(st.sampled_from(self.opened))
        self.watch(self.stream.resolve(index, outcome, self.now).releases)

    @rule(beyond=st.integers(1, 5))
    def stranger_arrives(self, beyond):
        resolution = self.stream.resolve(self.next_index(beyond), Delivered(-1), self.now)
        assert resolution.verdict is Verdict.UNKNOWN
        self.watch(resolution.releases)

    @rule(elapsed_s=moments)
    def time_passes(self, elapsed_s):
        due = self.stream.deadline
        self.now += elapsed_s
        releases = self.stream.tick(self.now)
        if due is None or self.now < due:
            assert releases == []
        assert self.stream.deadline is None or self.stream.deadline > self.now
        self.watch(releases)

    @invariant()
    def only_what_is_open_or_held_is_remembered(self):
        assert set(self.stream._slots) == set(self.opened) - set(self.left)
        assert self.stream.held <= PENDING_MAX
        assert self.stream.idle == (len(self.left) == len(self.opened))

    def teardown(self):
        self.watch(self.stream.abandon(self.now))
        assert self.stream.idle
        assert sorted(self.left) == self.opened
        for index, (payload, _) in self.taken.items():
            assert self.left[index][0].outcome == Delivered(payload)


class OrderedStreams(Streams):
    """Without turns, no result is ever held longer than the gap deadline."""

    @invariant()
    def no_result_is_held_beyond_its_deadline(self):
        overdue = [
            index
            for index, (_, when) in self.taken.items()
            if index not in self.left and self.now >= when + GAP_S
        ]
        assert overdue == []


class TurningStreams(Streams):
    """With turns, the pieces wait for the end of their turn, and for nothing once it is answered."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = itertools.count()
        self.turn: TurnId | None = None
        self.piece_of: dict[int, TurnId] = {}
        self.last_of: dict[TurnId, int] = {}

    @rule(pieces=st.integers(1, 3), ends=st.booleans(), fresh=st.booleans())
    def open_pieces(self, pieces, ends, fresh):
        if self.turn is None or fresh:
            self.turn = TurnId(f"turn-{next(self.turns)}")
        for _ in range(pieces):
            self.open_piece(self.turn, continues=True)
        if ends:
            self.open_piece(self.turn, continues=False)
            self.turn = None

    def open_piece(self, turn_id: TurnId, *, continues: bool) -> None:
        index = self.next_index(1)
        self.stream.open(index, self.now, turn_id=turn_id, continues=continues)
        self.opened.append(index)
        self.last_of[turn_id] = index
        if continues:
            self.piece_of[index] = turn_id

    @rule()
    def turn_ends(self):
        self.stream.end_turn(self.now)
        self.turn = None

    @rule(steps=st.lists(st.integers(1, 3), min_size=1, max_size=2))
    def open_some(self, steps):
        super().open_some(steps)
        self.turn = None

    def check_reason(self, release: Release[int]) -> None:
        super().check_reason(release)
        turn_id = self.piece_of.get(release.index)
        if turn_id is not None and release.outcome == Missing(MissingReason.GAP_TIMEOUT):
            assert turn_id != self.turn
            last = self.stream._slots.get(self.last_of[turn_id])
            assert last is None or last.outcome is not None or self.last_of[turn_id] == release.index

    def teardown(self):
        """Once the last piece of every turn is settled, one deadline is enough for every result to leave."""
        self.turn_ends()
        for index in set(self.last_of.values()) & set(self.waiting()):
            self.watch(self.stream.resolve(index, Missing(MissingReason.JOB_TIMEOUT), self.now).releases)
        self.now += GAP_S
        self.watch(self.stream.tick(self.now))
        assert set(self.taken) <= set(self.left)
        super().teardown()


class UnorderedStreams(Streams):
    """First come, first served holds nothing."""

    mode = "fcfs"

    @invariant()
    def nothing_is_held(self):
        assert self.stream.held == 0
        assert self.stream.deadline is None


def run(machine: type[Streams]) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
    )


def test_in_order():
    run(OrderedStreams)


def test_in_order_with_turns():
    run(TurningStreams)


def test_first_come_first_served():
    run(UnorderedStreams)
