"""What a session makes of frames and time, whichever way a frame takes through it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lingua_scheduler.aio import Alarms
from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.core.model import Cut
from lingua_scheduler.core.segmentation import SegmenterOptions
from lingua_scheduler.errors import InvalidMessage
from lingua_scheduler.flow.intake import Intake, Progress
from lingua_scheduler.flow.job import Brief
from lingua_scheduler.flow.opening import SessionOptions, agree
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.slowness import ObservabilityOptions
from lingua_scheduler.wire.session import AudioChunk, SessionInit

LOUD, QUIET = b"\x00\x20", b"\x01\x00"


class Speaker:
    """A client in virtual time, and the cuts that come of what it says."""

    def __init__(self, *, weigh_all: bool = False, endpointing: str = "fixed", **options: int) -> None:
        self.clock = VirtualClock()
        self.cuts: list[tuple[float, Cut]] = []
        self.weigh_all = weigh_all  # no frame takes the short way
        self.next_seq = 0
        self.metrics = Metrics(ObservabilityOptions())
        init = SessionInit(
            client_version="1",
            platform="test",
            src_lang="zh",
            tgt_lang="en",
            audio_format="pcm16",
            sample_rate=16000,
            endpointing=endpointing,
        )
        self.intake = Intake(
            agree(init, SessionOptions(), SegmenterOptions(**options)),
            SessionOptions(),
            self._cut,
            home=(self.clock, Alarms(self.clock), self.metrics),
            progress=Progress(),
        )

    def _cut(self, brief: Brief) -> None:
        self.cuts.append((self.clock.now(), brief.cut))

    def say(self, ms: int, sample: bytes = LOUD, *, seq: int | None = None, final: bool = False) -> None:
        seq = self.next_seq if seq is None else seq
        self.next_seq = max(self.next_seq, seq + 1)
        if self.weigh_all:
            self.intake._segmenter.flows_until = -math.inf
        chunk = AudioChunk(session_id="s", seq=seq, is_final=final, payload=sample * 16 * ms)
        self.intake.audio(chunk, self.clock.now())

    @property
    def outcome(self) -> object:
        cuts = [
            (round(at, 6), cut.index, cut.reason, cut.audio, cut.duration_ms, cut.padding_ms)
            for at, cut in self.cuts
        ]
        counted = (self.metrics.audio_frames_total.value, self.metrics.audio_bytes_total.value)
        took = [(each.name, each.labels, round(each.value, 6)) for each in self._cut_seconds()]
        return cuts, counted, took, self.intake.last_seq, self.intake.speaking

    def _cut_seconds(self):
        (family,) = self.metrics.stage_seconds.collect()
        return [sample for sample in family.samples if sample.labels["stage"] == "cut"]


def test_speech_ends_one_pause_after_its_last_frame_however_long_it_went_on():
    speaker = Speaker(pause_ms=500, hangover_ms=150)
    for _ in range(80):
        speaker.say(100)
        speaker.clock.advance(0.1)
    assert speaker.cuts == []
    speaker.clock.advance(10)
    ((at, cut),) = speaker.cuts
    assert at == pytest.approx(1000 + 7.9 + 0.5 + 0.15)
    assert cut.duration_ms == 8000


def test_half_a_sample_is_refused_and_changes_nothing():
    speaker = Speaker()
    speaker.say(100)
    with pytest.raises(InvalidMessage, match="odd number of bytes"):
        speaker.intake.audio(AudioChunk(session_id="s", seq=1, is_final=False, payload=b"abc"), 1000.0)
    speaker.say(100, seq=1, final=True)
    assert [len(cut.audio) for _, cut in speaker.cuts] == [6400]


def test_a_frame_that_came_before_is_not_taken_twice_while_speech_goes_on():
    speaker = Speaker()
    for seq in (0, 1, 2, 1, 3, 3, 4):
        speaker.say(100, seq=seq)
    speaker.say(0, final=True)
    assert [cut.duration_ms for _, cut in speaker.cuts] == [500]
    assert speaker.metrics.audio_frames_dropped_total.read()["repeated",] == 2


steps = st.lists(
    st.tuples(
        st.sampled_from([100, 100, 100, 20, 0, 700]),
        st.sampled_from([LOUD, LOUD, LOUD, QUIET]),
        st.sampled_from([0, 0, 0, 0, 1, 2, -1]),
        st.sampled_from([False] * 15 + [True]),
        st.sampled_from([0.1, 0.1, 0.1, 0.0, 0.3, 0.6, 3.0]),
        st.sampled_from([None] * 20 + [True, False]),
    ),
    max_size=60,
)


@given(steps, st.sampled_from(["fixed", "fixed", "adaptive"]), st.sampled_from([0, 400]))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_frames_lead_to_the_same_cuts_at_the_same_time_on_either_way(script, endpointing, short_merge_ms):
    limits = {"pause_ms": 500, "max_duration_ms": 3000, "short_merge_ms": short_merge_ms}
    usual = Speaker(endpointing=endpointing, **limits)
    weighed = Speaker(weigh_all=True, endpointing=endpointing, **limits)
    for ms, sample, skip, final, wait_s, played in script:
        for speaker in (usual, weighed):
            speaker.say(ms, sample, seq=max(0, speaker.next_seq + skip), final=final)
            if played is not None:
                speaker.intake.playback(ended=played)
            speaker.clock.advance(wait_s)
        assert usual.outcome == weighed.outcome
    for speaker in (usual, weighed):
        speaker.clock.advance(100)
        speaker.intake.finish()
    assert usual.outcome == weighed.outcome
    assert usual.intake.receipts.newest == weighed.intake.receipts.newest
