"""What must hold for any speaker: nothing lost, nothing doubled, nothing kept for ever."""

import math
from dataclasses import dataclass
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lingua_scheduler.core.model import AudioFormat, Cut, CutReason, Frame
from lingua_scheduler.core.segmentation import SegmenterOptions
from lingua_scheduler.core.segmenter import Segmenter

OPTIONS = st.builds(
    SegmenterOptions,
    pause_ms=st.sampled_from([2000, 300, 0]),
    max_duration_ms=st.sampled_from([1000, 100, 0]),
    max_utterance_bytes=st.sampled_from([512_000, 3000, 50]),
    hangover_ms=st.sampled_from([150, 0]),
    short_merge_ms=st.sampled_from([400, 0]),
    playback_cap_ms=st.sampled_from([60_000, 1000]),
)
SAMPLES = st.integers(0, 800)
WAITS_MS = st.sampled_from([0, 10, 100, 150, 290, 300, 310, 450, 1000, 2000, 2150, 4150, 70_000])


@dataclass(frozen=True)
class Act:
    """One input, some milliseconds after the one before."""

    verb: str
    after_ms: int = 0
    samples: int = 0
    silent: bool = False


ACTS = st.lists(
    st.builds(
        Act,
        st.sampled_from(["feed"] * 6 + ["finish", "tick", "play", "play_end", "shorten", "close"]),
        WAITS_MS,
        SAMPLES,
        st.booleans(),
    ),
    max_size=40,
)


class Run:
    """A segmenter with its whole history; time is counted in whole milliseconds."""

    def __init__(self, options: SegmenterOptions, *, punctual: bool = True) -> None:
        self.options = options
        self.segmenter = Segmenter(options, fmt=AudioFormat.PCM16, rate=16000)
        self.punctual = punctual  # every deadline is met; otherwise nobody calls tick
        self.now_ms = 1_000_000
        self.frames: list[Frame] = []
        self.cuts: list[Cut] = []

    @property
    def now(self) -> float:
        return self.now_ms / 1000

    def frame(self, act: Act) -> Frame:
        audio = (len(self.frames) + 1).to_bytes(2, "little") * act.samples
        frame = Frame(audio, act.samples / 16, act.silent)
        self.frames.append(frame)
        return frame

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        while self.punctual and (deadline := self.segmenter.deadline) is not None and deadline < self.now:
            self.cuts += self.segmenter.tick(deadline)

    def do(self, act: Act) -> None:
        self.wait(act.after_ms)
        match act.verb:
            case "feed":
                self.cuts += self.segmenter.feed(self.frame(act), self.now)
            case "finish":
                self.cuts += self.segmenter.finish(self.frame(act), self.now)
            case "close":
                self.cuts += self.segmenter.close(self.now)
            case "tick":
                self.cuts += self.segmenter.tick(self.now)
            case "play":
                self.segmenter.playback_started(self.now)
            case "play_end":
                self.segmenter.playback_ended(self.now)
            case "shorten":
                self.segmenter.shorten_pause(act.samples, self.now)

    def check_cuts(self) -> None:
        assert all(cut.audio for cut in self.cuts)
        assert [cut.index for cut in self.cuts] == list(range(len(self.cuts)))
        turns = [list(cuts) for _, cuts in groupby(self.cuts, key=lambda cut: cut.turn_id)]
        assert len({turn[0].turn_id for turn in turns}) == len(turns)
        assert all(cut.reason.continues_turn for turn in turns for cut in turn[:-1])
        open_turn = self.segmenter.turn_id
        assert all(not turn[-1].reason.continues_turn for turn in turns if turn[0].turn_id != open_turn)

    def check_audio(self) -> None:
        """Everything left, in order, except quiet that belonged to no utterance."""
        heard = b"".join(cut.audio for cut in self.cuts)
        at = 0
        for frame in self.frames:
            if heard.startswith(frame.audio, at):
                at += len(frame.audio)
            else:
                assert frame.silent
        assert at == len(heard)

    def check_bounds(self) -> None:
        largest = max((frame.audio for frame in self.frames), key=len, default=b"")
        assert self.segmenter.buffered_bytes <= max(self.options.max_utterance_bytes, len(largest))
        if self.options.max_duration_ms:
            longest_ms = max((frame.duration_ms for frame in self.frames), default=0)
            assert self.segmenter.buffered_ms <= max(self.options.max_duration_ms, longest_ms)

    def check_waiting(self) -> None:
        segmenter = self.segmenter
        if segmenter.turn_id is not None:
            assert segmenter.speaking, "a turn must have audio to end with"
        waits = segmenter.playing or (segmenter.speaking and self.options.pause_ms > 0)
        assert (segmenter.deadline is not None) == waits


@given(options=OPTIONS, acts=ACTS, punctual=st.booleans())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_speech_leaves_whole_in_order_and_numbered(
    *, options: SegmenterOptions, acts: list[Act], punctual: bool
) -> None:
    run = Run(options, punctual=punctual)
    for act in acts:
        run.do(act)
        run.check_bounds()
        run.check_waiting()
        run.check_cuts()
    run.do(Act("close"))
    run.check_cuts()
    run.check_audio()
    assert run.segmenter.turn_id is None
    assert run.segmenter.buffered_bytes == 0
    assert run.segmenter.deadline is None


@given(OPTIONS, ACTS)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_utterances_do_not_depend_on_who_ticks(options: SegmenterOptions, acts: list[Act]) -> None:
    """Only the reason may differ: silence if the clock noticed, gap if a frame did."""
    punctual, late = Run(options), Run(options, punctual=False)
    for act in [*acts, Act("close", 100_000)]:
        late.punctual = act.verb == "play"  # playback holds back whatever is not yet cut
        punctual.do(act)
        late.do(act)

    def shape(run: Run) -> list[tuple[bytes, bool, int]]:
        turns = {cut.turn_id: n for n, cut in reversed(list(enumerate(run.cuts)))}
        return [(cut.audio, cut.reason.continues_turn, turns[cut.turn_id]) for cut in run.cuts]

    assert shape(punctual) == shape(late)


def state(segmenter: Segmenter) -> tuple[object, ...]:
    parts = (segmenter.deadline, segmenter.buffered_bytes, segmenter.buffered_ms, segmenter.next_index)
    return (*parts, segmenter.turn_id, segmenter.playing)


@given(OPTIONS, ACTS)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_early_and_repeated_ticks_change_nothing(options: SegmenterOptions, acts: list[Act]) -> None:
    run = Run(options)
    for act in acts:
        run.do(act)
        run.cuts += run.segmenter.tick(run.now)
        before = state(run.segmenter)
        assert run.segmenter.tick(run.now) == []
        deadline = run.segmenter.deadline
        if deadline is not None:
            assert run.segmenter.tick(math.nextafter(deadline, 0.0)) == []
        assert state(run.segmenter) == before


@given(OPTIONS, ACTS)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_frames_of_speech_that_goes_on_are_cut_as_if_each_were_weighed(
    options: SegmenterOptions, acts: list[Act]
) -> None:
    """The short way of a frame leads where the long way leads."""
    short, long = Run(options), Run(options)
    for act in [*acts, Act("close", 100_000)]:
        short.do(act)
        long.segmenter.flows_until = -math.inf
        long.do(act)
        assert state(short.segmenter)[:4] == state(long.segmenter)[:4]

    def shape(run: Run) -> list[tuple[bytes, CutReason, int, int]]:
        return [(cut.audio, cut.reason, cut.duration_ms, cut.index) for cut in run.cuts]

    assert shape(short) == shape(long)


class Conversation(RuleBasedStateMachine):
    """A speaker and a punctual clock; audio never waits longer than the promised silence."""

    @initialize(options=OPTIONS)
    def begin(self, options: SegmenterOptions) -> None:
        self.run = Run(options)
        self.quiet_since_ms = self.run.now_ms

    def act(self, act: Act) -> None:
        made, played = len(self.run.cuts), self.run.segmenter.playing
        self.run.do(act)
        self.run.cuts += self.run.segmenter.tick(self.run.now)
        if played and self.run.segmenter.playing:
            for cut in self.run.cuts[made:]:
                assert cut.reason not in (CutReason.SILENCE, CutReason.GAP)

    @rule(samples=SAMPLES, silent=st.booleans())
    def feed(self, *, samples: int, silent: bool) -> None:
        self.act(Act("feed", 0, samples, silent))
        self.quiet_since_ms = self.run.now_ms

    @rule(samples=SAMPLES, silent=st.booleans())
    def finish(self, *, samples: int, silent: bool) -> None:
        self.act(Act("finish", 0, samples, silent))
        assert not self.run.segmenter.speaking

    @rule(ms=WAITS_MS)
    def wait(self, ms: int) -> None:
        played = self.run.segmenter.deadline if self.run.segmenter.playing else None
        self.act(Act("tick", ms))
        if played is not None and not self.run.segmenter.playing:
            self.quiet_since_ms = round(played * 1000)

    @rule()
    def playback_starts(self) -> None:
        self.act(Act("play"))
        assert self.run.segmenter.playing

    @precondition(lambda self: self.run.segmenter.playing)
    @rule()
    def playback_ends(self) -> None:
        self.act(Act("play_end"))
        self.quiet_since_ms = self.run.now_ms

    @rule(pause_ms=st.integers(0, 3000))
    def falls_quiet(self, pause_ms: int) -> None:
        self.run.segmenter.shorten_pause(pause_ms, self.run.now)

    @rule()
    def close(self) -> None:
        self.act(Act("close"))
        self.run.check_audio()
        assert self.run.segmenter.buffered_bytes == 0

    @invariant()
    def holds(self) -> None:
        self.run.check_bounds()
        self.run.check_waiting()
        self.run.check_cuts()

    @invariant()
    def nothing_waits_for_ever(self) -> None:
        options, segmenter = self.run.options, self.run.segmenter
        if options.pause_ms and segmenter.speaking and not segmenter.playing:
            patience_ms = options.hangover_ms + 2 * options.pause_ms
            assert self.run.now_ms - self.quiet_since_ms <= patience_ms


TestConversation = Conversation.TestCase
TestConversation.settings = settings(max_examples=60, stateful_step_count=30, deadline=None, derandomize=True)


@pytest.mark.parametrize("count", [2_000, 20_000])
def test_many_small_frames_cost_linear_time(count: int) -> None:
    """Each byte is copied once, out with the cut."""
    segmenter = Segmenter(SegmenterOptions(max_duration_ms=0), fmt=AudioFormat.PCM16, rate=16000)
    frame = Frame(b"ab" * 10, 20 / 32)
    for _ in range(count):
        assert segmenter.feed(frame, 0.0) == []
    (cut,) = segmenter.finish(None, 0.0)
    assert cut.audio == frame.audio * count
    assert cut.reason is CutReason.MANUAL
