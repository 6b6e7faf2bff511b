"""Acceptance cases of segmentation, in virtual time; numbers are those of the specification."""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import pytest

from lingua_scheduler.core.audio import duration_ms, pack, packets
from lingua_scheduler.core.model import AudioFormat, Cut, CutReason, Frame
from lingua_scheduler.core.segmentation import SegmenterOptions
from lingua_scheduler.core.segmenter import Segmenter

MANUAL, SILENCE, GAP = CutReason.MANUAL, CutReason.SILENCE, CutReason.GAP
MAX_DURATION, MAX_LENGTH, CLOSE = CutReason.MAX_DURATION, CutReason.MAX_LENGTH, CutReason.CLOSE

PLAIN = SegmenterOptions(short_merge_ms=0)  # the cases' small frames would otherwise be merged
FAST = SegmenterOptions(short_merge_ms=0, pause_ms=300, max_duration_ms=1000)
PAUSE_S = PLAIN.pause_ms / 1000
BYTES_PER_MS = 32  # pcm16 at 16 kHz


class Talk:
    """A speaker in virtual time; every deadline is met on the way."""

    def __init__(
        self,
        options: SegmenterOptions = PLAIN,
        *,
        fmt: AudioFormat = AudioFormat.OPUS,
        first_index: int = 0,
    ) -> None:
        self.segmenter = Segmenter(options, fmt=fmt, rate=16000, first_index=first_index)
        self.now = 1000.0
        self.cuts: list[Cut] = []
        self.times: list[float] = []  # when each cut was made
        self.said = b""

    def _add(self, cuts: list[Cut]) -> None:
        self.cuts += cuts
        self.times += [self.now] * len(cuts)

    def frame(self, size: int, ms: float | None = None, *, silent: bool = False) -> Frame:
        """Make audio that looks like no other frame's; by default 60 bytes last 20 ms, as in the cases."""
        audio = (len(self.said) % 65521).to_bytes(2, "little") * (size // 2) + b"x" * (size % 2)
        self.said += audio
        return Frame(audio, size / 3 if ms is None else ms, silent, client_ms=round(self.now * 1000))

    def say(self, size: int, ms: float | None = None, *, silent: bool = False) -> None:
        self._add(self.segmenter.feed(self.frame(size, ms, silent=silent), self.now))

    def end(self, size: int = 0, ms: float | None = None, *, silent: bool = False) -> None:
        frame = self.frame(size, ms, silent=silent) if size else None
        self._add(self.segmenter.finish(frame, self.now))

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while (deadline := self.segmenter.deadline) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self._add(self.segmenter.tick(self.now))
        self.now = until

    def play(self) -> None:
        self.segmenter.playback_started(self.now)

    def play_end(self) -> None:
        self.segmenter.playback_ended(self.now)

    def close(self) -> None:
        self._add(self.segmenter.close(self.now))

    @property
    def shape(self) -> list[tuple[CutReason, int]]:
        return [(cut.reason, len(cut.audio)) for cut in self.cuts]


Step = Callable[[Talk], None]


def c(size: int, *, silent: bool = False) -> Step:
    return lambda talk: talk.say(size, silent=silent)


def last(size: int, *, silent: bool = False) -> Step:
    return lambda talk: talk.end(size, silent=silent)


def wait(seconds: float) -> Step:
    return lambda talk: talk.wait(seconds)


F: Step = Talk.end
EMPTY: Step = c(0)
PLAY: Step = Talk.play
PLAY_END: Step = Talk.play_end
END_OF_SESSION: Step = Talk.close


@dataclass
class Case:
    """Steps of a speaker and the cuts they make."""

    steps: list[Step]
    cuts: list[tuple[CutReason, int]]
    options: SegmenterOptions = field(default=PLAIN)


def with_options(base: SegmenterOptions = PLAIN, **changes: int) -> SegmenterOptions:
    return msgspec.structs.replace(base, **changes)


NO_MAX = with_options(max_duration_ms=0)
NO_PAUSE = with_options(pause_ms=0)
NO_WINDOW = with_options(hangover_ms=0)
MERGE = SegmenterOptions()
SHORT, SECOND = 600, 3000  # bytes of 200 ms and of 1 s

CASES = {
    "18 final with audio": Case([last(600)], [(MANUAL, 600)]),
    "19 frames then an empty final": Case([c(100), c(200), c(300), F], [(MANUAL, 600)]),
    "20 an empty final uses no index": Case([F, last(600)], [(MANUAL, 600)]),
    "21 finals at once": Case([last(10), last(20), last(30)], [(MANUAL, 10), (MANUAL, 20), (MANUAL, 30)]),
    "22 silence": Case([c(600), wait(PAUSE_S + 0.15)], [(SILENCE, 600)]),
    "23 no cut before silence": Case([c(60), *[wait(1), c(60)] * 4, wait(1.99)], []),
    "23 then one": Case([c(60), *[wait(1), c(60)] * 4, wait(2.15)], [(SILENCE, 300)]),
    "24 longest utterance": Case([c(60)] * 50, [(MAX_DURATION, 2400)], FAST),
    "24 the tail goes on": Case([*[c(60)] * 51, F], [(MAX_DURATION, 2400), (MANUAL, 660)], FAST),
    "25 a long turn": Case(
        [*[c(60)] * 90, last(60)], [(MAX_DURATION, 2400), (MAX_DURATION, 2400), (MANUAL, 660)], FAST
    ),
    "26 stop exactly at the limit, final": Case(
        [*[c(60)] * 50, F], [(MAX_DURATION, 2400), (MANUAL, 600)], FAST
    ),
    "27 stop exactly at the limit, silence": Case(
        [*[c(60)] * 50, wait(0.45)], [(MAX_DURATION, 2400), (SILENCE, 600)], FAST
    ),
    "28 too large": Case([c(512_001)], [(MAX_LENGTH, 511_401)], NO_MAX),
    "29 too large and final": Case([last(512_002)], [(MANUAL, 512_002)], NO_MAX),
    "30 just as large as allowed": Case([c(512_000)], [], NO_MAX),
    "31 the sentence after a silence cut stays whole": Case(
        [c(60), wait(3 * PAUSE_S), c(60), wait(0.1), c(60), F], [(SILENCE, 60), (MANUAL, 120)]
    ),
    "32 the sentence after a manual cut stays whole": Case(
        [last(60), wait(2 * PAUSE_S), c(60), wait(0.1), last(60)], [(MANUAL, 60), (MANUAL, 120)]
    ),
    "33 pause then final": Case([c(60), wait(1.5 * PAUSE_S), c(60), F], [(SILENCE, 60), (MANUAL, 60)]),
    "36 pause off": Case([c(60), wait(1), c(60), wait(100), c(60), F], [(MANUAL, 180)], NO_PAUSE),
    "37 many frames": Case([*[c(200)] * 1000, F], [(MANUAL, 200_000)], NO_MAX),
    "41 short audio joins the next": Case([c(SHORT), wait(3), c(SECOND), F], [(MANUAL, 3600)], MERGE),
    "42 short audio waits": Case([c(SHORT), wait(4.1)], [], MERGE),
    "42 short audio is never lost": Case([c(SHORT), wait(4.15)], [(SILENCE, SHORT)], MERGE),
    "43 short audio by hand": Case([last(300)], [(MANUAL, 300)], MERGE),
    "45 playing": Case([c(600), PLAY, wait(3 * PAUSE_S)], []),
    "46 played": Case([c(600), PLAY, wait(6), PLAY_END, wait(2.15)], [(SILENCE, 600)]),
    "46 the pause starts anew": Case([c(600), PLAY, wait(6), PLAY_END, wait(1.99)], []),
    "47 no gap while playing": Case([c(60), PLAY, wait(4), c(60), wait(4)], []),
    "49 safety cap": Case([PLAY, c(60), wait(62.15)], [(SILENCE, 60)]),
    "49 not before": Case([PLAY, c(60), wait(62.14)], []),
    "50 final while playing": Case([PLAY, last(60)], [(MANUAL, 60)]),
    "max duration while playing": Case(
        [PLAY, *[c(60)] * 50, wait(5), PLAY_END, wait(0.45)], [(MAX_DURATION, 2400), (SILENCE, 600)], FAST
    ),
    "playback inside the tail window": Case([c(60), wait(2.1), PLAY, wait(30)], []),
    "a second report of playback": Case([c(60), PLAY, wait(50), PLAY, wait(50)], []),
    "the end of nothing played postpones nothing": Case(
        [c(60), wait(1.9), PLAY_END, wait(0.25)], [(SILENCE, 60)]
    ),
    "gap, strictly": Case([c(60), wait(1), EMPTY, wait(1), c(60)], []),
    "gap": Case([c(60), wait(1), EMPTY, wait(1.001), c(60)], [(GAP, 60)]),
    "gap without a pause": Case([c(60), wait(1), EMPTY, wait(1.001), c(60)], [], NO_PAUSE),
    "gap of short audio joins": Case([c(60), wait(1), EMPTY, wait(1.5), c(60), F], [(MANUAL, 120)], MERGE),
    "gap and final: manual wins": Case([c(60), wait(1), EMPTY, wait(1.5), last(60)], [(MANUAL, 120)]),
    "gap and too long: the limit wins": Case(
        [c(60), wait(0.2), EMPTY, wait(0.2), c(3000)], [(MAX_DURATION, 2460)], FAST
    ),
    "long and large: large wins": Case([c(60), c(600_000)], [(MAX_LENGTH, 599_460)]),
    "an empty frame re-arms": Case([c(60), wait(1.9), EMPTY, wait(1.9), EMPTY, wait(2.1)], []),
    "an empty frame alone": Case([EMPTY, wait(10), END_OF_SESSION], []),
    "tail window": Case([c(60), wait(2.1), c(60), wait(0.05)], [(SILENCE, 120)]),
    "tail window does not grow": Case(
        [c(60), wait(2.05), c(60), wait(0.05), EMPTY, wait(0.06)], [(SILENCE, 120)]
    ),
    "final in the tail window": Case([c(60), wait(2.1), F], [(MANUAL, 60)]),
    "limit in the tail window": Case(
        [c(60), wait(0.31), *[c(60)] * 49, wait(0.45)], [(MAX_DURATION, 2400), (SILENCE, 600)], FAST
    ),
    "no tail window": Case([c(60), wait(2)], [(SILENCE, 60)], NO_WINDOW),
    "short twice waits once": Case(
        [c(60), wait(3), c(60), wait(2.15), c(60), F], [(SILENCE, 120), (MANUAL, 60)], MERGE
    ),
    "short again after a cut waits again": Case(
        [c(60), wait(4.15), c(60), wait(4.1), F], [(SILENCE, 60), (MANUAL, 60)], MERGE
    ),
    "a small limit has a small tail": Case(
        [c(60)] * 13, [(MAX_DURATION, 240)] * 3, with_options(max_duration_ms=100)
    ),
    "short by max duration": Case(
        [c(60), wait(1), *[c(60)] * 49, F],
        [(MAX_DURATION, 2400), (MANUAL, 600)],
        with_options(MERGE, max_duration_ms=1000),
    ),
    "short at the end": Case([c(60), wait(3), END_OF_SESSION], [(CLOSE, 60)], MERGE),
    "not short in the tail window": Case(
        [c(SHORT), wait(2.1), c(SHORT), wait(0.05)], [(SILENCE, 1200)], MERGE
    ),
    "the tail of a turn is not short": Case(
        [*[c(60)] * 50, wait(2.15)],
        [(MAX_DURATION, 2400), (SILENCE, 600)],
        with_options(MERGE, max_duration_ms=1000),
    ),
    "the tail of a turn is not quiet": Case(
        [*[c(60, silent=i > 30) for i in range(50)], F], [(MAX_DURATION, 2400), (MANUAL, 600)], FAST
    ),
    "close": Case([c(60), END_OF_SESSION, END_OF_SESSION], [(CLOSE, 60)]),
    "close on nothing": Case([END_OF_SESSION], []),
    "quiet alone": Case([c(60, silent=True), F, c(60, silent=True), wait(9), END_OF_SESSION], []),
    "quiet final alone": Case([last(60, silent=True), last(60)], [(MANUAL, 60)]),
    "quiet storm after a final": Case(
        [c(60), F, *[c(130, silent=True), F] * 6, last(90)], [(MANUAL, 60), (MANUAL, 90)]
    ),
    "quiet lead-in": Case([*[c(300, silent=True)] * 9, c(60), F], [(MANUAL, 960)]),
    "quiet lead-in of a final": Case([c(300, silent=True), last(60)], [(MANUAL, 360)]),
    "quiet frame too long to lead in": Case([c(3000, silent=True), c(60), F], [(MANUAL, 60)]),
    "quiet lead-in grows old": Case([c(300, silent=True), wait(2.1), c(60), F], [(MANUAL, 60)]),
    "quiet inside and after speech": Case([c(60), c(300, silent=True), F], [(MANUAL, 360)]),
    "quiet after a silence cut": Case([c(60), wait(2.2), c(60, silent=True), F], [(SILENCE, 60)]),
    "long silence does not deafen": Case([c(60), wait(7200), last(60)], [(SILENCE, 60), (MANUAL, 60)]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_cuts_of(case: Case) -> None:
    talk = Talk(case.options)
    for step in case.steps:
        step(talk)
    assert talk.shape == case.cuts
    assert [cut.index for cut in talk.cuts] == list(range(len(case.cuts)))
    assert talk.segmenter.next_index == len(case.cuts)


@pytest.mark.parametrize(
    ("steps", "options", "padding_ms"),
    [
        ([last(60)], PLAIN, 280),
        ([c(60), wait(3)], PLAIN, 220),
        ([c(60), wait(1), EMPTY, wait(1.5), c(60)], PLAIN, 220),
        ([c(60)] * 50, FAST, 220),
        ([c(60), c(512_000)], NO_MAX, 0),
        ([c(60), END_OF_SESSION], PLAIN, 220),
    ],
    ids=["manual", "silence", "gap", "max duration", "max length", "close"],
)
def test_padding_follows_the_reason(steps: list[Step], options: SegmenterOptions, padding_ms: int) -> None:
    talk = Talk(options)
    for step in steps:
        step(talk)
    assert [cut.padding_ms for cut in talk.cuts] == [padding_ms]


def test_the_audio_of_a_cut_is_byte_exact_and_in_order() -> None:
    talk = Talk()
    for size in (100, 201, 300):
        talk.say(size)
    talk.end(50)
    assert talk.cuts[0].audio == talk.said
    assert talk.cuts[0].duration_ms == round((100 + 201 + 300 + 50) / 3)


def test_a_silence_cut_comes_when_pause_and_tail_window_are_over() -> None:
    talk = Talk()
    talk.say(60)
    assert talk.segmenter.deadline == 1002.0
    talk.wait(5)
    assert talk.times == [pytest.approx(1002.15)]
    assert talk.segmenter.deadline is None


def test_manual_and_limit_cuts_wait_for_nothing() -> None:
    """The hang-over is a window for late frames, not a delay (B22)."""
    talk = Talk(FAST)
    for _ in range(50):
        talk.say(60)
    talk.end()
    assert talk.times == [1000.0, 1000.0]


def test_all_cuts_of_a_turn_share_its_id_and_the_next_turn_has_another() -> None:
    talk = Talk(FAST)
    for _ in range(90):
        talk.say(60)
    assert talk.segmenter.turn_id == talk.cuts[0].turn_id
    talk.end(60)
    assert talk.segmenter.turn_id is None
    talk.end(60)
    first, second, end, other = (cut.turn_id for cut in talk.cuts)
    assert first == second == end != other


@pytest.mark.parametrize("stop", [F, wait(0.45), END_OF_SESSION], ids=["final", "silence", "close"])
def test_a_speaker_who_stops_at_the_limit_gets_the_end_of_the_turn(stop: Step) -> None:
    """The node hears of it through a cut with audio (B8)."""
    talk = Talk(FAST)
    for _ in range(50):
        talk.say(60)
    stop(talk)
    assert [cut.reason.continues_turn for cut in talk.cuts] == [True, False]
    assert talk.cuts[0].turn_id == talk.cuts[1].turn_id
    assert talk.segmenter.turn_id is None


def test_a_gap_ends_the_open_turn() -> None:
    talk = Talk(FAST)
    for _ in range(50):
        talk.say(60)
    talk.wait(0.2)
    talk.say(0)
    talk.wait(0.2)
    talk.say(60)
    talk.end()
    assert talk.shape == [(MAX_DURATION, 2400), (GAP, 600), (MANUAL, 60)]
    assert talk.cuts[0].turn_id == talk.cuts[1].turn_id != talk.cuts[2].turn_id


def test_pcm_reaches_the_longest_utterance_by_its_true_duration() -> None:
    """Case 38: ten seconds of pcm16 are ten seconds (B18)."""
    talk = Talk(with_options(max_duration_ms=10_000), fmt=AudioFormat.PCM16)
    for _ in range(99):
        talk.say(3200, 100.0)
    assert talk.cuts == []
    talk.say(3200, 100.0)
    assert talk.shape == [(MAX_DURATION, 320_000 - 200 * BYTES_PER_MS)]
    assert talk.cuts[0].duration_ms == 9800
    assert talk.segmenter.buffered_ms == 200


def test_framed_opus_reaches_the_longest_utterance_at_the_exact_packet() -> None:
    """Case 39: 500 packets of 20 ms are ten seconds, the last ten are held back, no packet is torn."""
    segmenter = Segmenter(with_options(max_duration_ms=10_000), fmt=AudioFormat.OPUS, rate=16000)
    packet = bytes([0x48]) + bytes(29)
    frame = Frame(pack([packet]), duration_ms(AudioFormat.OPUS, 16000, pack([packet])))
    assert [segmenter.feed(frame, 0.0) for _ in range(499)] == [[]] * 499
    (cut,) = segmenter.feed(frame, 0.0)
    assert packets(cut.audio) == (packet,) * 490
    (end,) = segmenter.finish(None, 0.0)
    assert packets(end.audio) == (packet,) * 10


def test_one_frame_longer_than_an_utterance_is_divided() -> None:
    talk = Talk(FAST, fmt=AudioFormat.PCM16)
    talk.say(2000 * BYTES_PER_MS, 2000.0)
    assert talk.shape == [(MAX_DURATION, 1800 * BYTES_PER_MS)]
    assert talk.cuts[0].duration_ms == 1800
    talk.end()
    assert talk.shape[1:] == [(MANUAL, 200 * BYTES_PER_MS)]
    assert b"".join(cut.audio for cut in talk.cuts) == talk.said


def test_a_piece_that_cannot_be_divided_waits_for_the_next_frame() -> None:
    """A turn without audio to end it would be worse than one frame too many."""
    talk = Talk(FAST, fmt=AudioFormat.PCM16)
    talk.say(2, 1500.0)
    assert talk.cuts == []
    talk.say(60)
    talk.wait(1)
    assert talk.shape == [(MAX_DURATION, 2), (SILENCE, 60)]


def test_each_utterance_carries_the_client_time_of_its_own_first_frame() -> None:
    """Case 40 (B39)."""
    talk = Talk()
    talk.say(60)
    talk.wait(1)
    talk.say(60)
    talk.end()
    talk.wait(59)
    talk.say(60, silent=True)
    talk.wait(1)
    talk.end(60)
    assert [cut.first_client_ms for cut in talk.cuts] == [1_000_000, 1_060_000]


def test_the_tail_of_a_turn_carries_its_own_client_time() -> None:
    talk = Talk(FAST)
    for _ in range(10):
        talk.say(3200, 100.0)
        talk.wait(0.1)
    talk.end()
    assert [cut.first_client_ms for cut in talk.cuts] == [1_000_000, 1_000_800]


def test_a_frame_that_finds_the_pause_uncut_makes_it_a_gap() -> None:
    """A shell that ticks late gets the same utterances."""
    talk = Talk()
    talk.say(60)
    talk.now += 60
    talk.say(60)
    talk.now += 60
    talk.end(60)
    talk.say(60)
    talk.now += 60
    talk.end()
    assert talk.shape == [(GAP, 60), (GAP, 60), (MANUAL, 60), (SILENCE, 60)]


@pytest.mark.parametrize("options", [PLAIN, NO_WINDOW], ids=["with a tail window", "without"])
def test_a_frame_at_the_very_moment_the_pause_runs_out_goes_on_with_the_utterance(
    options: SegmenterOptions,
) -> None:
    talk = Talk(options)
    talk.say(60)
    talk.now += PAUSE_S
    talk.say(60)
    talk.wait(1.9)
    talk.end()
    assert talk.shape == [(MANUAL, 120)]


def test_one_late_tick_does_everything_that_is_due() -> None:
    talk = Talk(MERGE)
    talk.segmenter.playback_started(talk.now)
    talk.say(60)
    talk.now += 1000
    talk._add(talk.segmenter.tick(talk.now))
    assert talk.shape == [(SILENCE, 60)]
    assert talk.segmenter.deadline is None
    assert not talk.segmenter.playing


def test_playback_that_outlived_its_cap_does_not_count() -> None:
    talk = Talk()
    talk.play()
    talk.say(60)
    talk.now += 61
    talk.play_end()
    assert talk.segmenter.deadline == 1062.0


def test_close_forgets_playback() -> None:
    talk = Talk()
    talk.play()
    talk.close()
    assert not talk.segmenter.playing
    assert talk.segmenter.deadline is None


def test_mere_quiet_asks_for_no_tick() -> None:
    talk = Talk()
    talk.say(60, silent=True)
    assert talk.segmenter.deadline is None
    assert not talk.segmenter.speaking
    assert talk.segmenter.buffered_bytes == 60
    talk.say(60)
    assert talk.segmenter.speaking
    assert talk.segmenter.buffered_bytes == 120
    assert talk.segmenter.buffered_ms == 40


def test_quiet_without_duration_is_bounded_too() -> None:
    talk = Talk()
    for _ in range(100):
        talk.say(6000, 0.0, silent=True)
    assert talk.segmenter.buffered_bytes <= 32_000


def test_a_shortened_pause_runs_through_quiet_frames() -> None:
    talk = Talk()
    talk.say(3200, 1000.0)
    talk.segmenter.shorten_pause(500, talk.now)
    talk.wait(0.3)
    talk.say(60, silent=True)
    talk.say(0)
    talk.segmenter.shorten_pause(500, talk.now)
    talk.wait(2)
    assert talk.times == [pytest.approx(1000.65)]
    assert talk.shape == [(SILENCE, 3260)]


def test_short_audio_after_a_shortened_pause_waits_a_full_pause() -> None:
    talk = Talk(MERGE)
    talk.say(60)
    talk.segmenter.shorten_pause(500, talk.now)
    talk.wait(0.6)
    talk.segmenter.shorten_pause(500, talk.now)
    talk.wait(0.1)
    assert talk.segmenter.deadline == 1002.5
    talk.say(60, silent=True)
    assert talk.segmenter.deadline == talk.now + PAUSE_S


def test_voice_takes_a_shortened_pause_back() -> None:
    talk = Talk()
    talk.say(3200, 1000.0)
    talk.segmenter.shorten_pause(500, talk.now)
    talk.wait(0.3)
    talk.say(60)
    assert talk.segmenter.deadline == 1000.3 + 2


def test_a_pause_is_never_shortened_below_its_bound_nor_made_longer() -> None:
    talk = Talk()
    talk.say(60)
    talk.segmenter.shorten_pause(5000, talk.now)
    assert talk.segmenter.deadline == 1002.0
    talk.segmenter.shorten_pause(0, talk.now)
    assert talk.segmenter.deadline == 1000.3


@pytest.mark.parametrize(
    "before", [[], [c(60), PLAY], [c(60, silent=True)]], ids=["idle", "playing", "quiet"]
)
def test_there_may_be_no_pause_to_shorten(before: list[Step]) -> None:
    talk = Talk()
    for step in before:
        step(talk)
    deadline = talk.segmenter.deadline
    talk.segmenter.shorten_pause(500, talk.now)
    assert talk.segmenter.deadline == deadline


def test_whole_utterances_share_the_counter() -> None:
    talk = Talk(first_index=3)
    assert talk.segmenter.take_index(2) is None
    assert talk.segmenter.take_index(3) == 3
    assert talk.segmenter.take_index(3) is None
    talk.end(60)
    assert talk.cuts[0].index == 4
    assert talk.segmenter.take_index(7) == 7
    assert talk.segmenter.take_index(None) == 8
    assert talk.segmenter.next_index == 9


def test_the_next_number_may_be_raised_but_never_lowered() -> None:
    talk = Talk()
    talk.say(60)
    talk.segmenter.skip_to(5)
    talk.segmenter.skip_to(2)
    talk.end()
    talk.end(60)
    assert [cut.index for cut in talk.cuts] == [5, 6]


def test_a_whole_utterance_does_not_touch_the_open_turn() -> None:
    talk = Talk(FAST)
    for _ in range(50):
        talk.say(60)
    talk.segmenter.take_index(1)
    talk.end()
    assert [cut.index for cut in talk.cuts] == [0, 2]
    assert talk.cuts[0].turn_id == talk.cuts[1].turn_id
