"""Which frames are safe: in a job that is written, with all before it, or quiet that nobody needs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.core.model import AudioFormat, Frame, JobId
from lingua_scheduler.core.receipts import Receipts
from lingua_scheduler.core.segmentation import SegmenterOptions
from lingua_scheduler.core.segmenter import Segmenter

A, B, C = JobId("a"), JobId("b"), JobId("c")


def held(after: int | None) -> Frame:
    """Make the oldest frame that the segmenter holds; it came after the one with this number."""
    return Frame(b"ab", 1.0, after=after)


def cut(receipts: Receipts, job: JobId, *numbers: int, oldest: Frame | None = None) -> None:
    for number in numbers:
        receipts.newest = number
    receipts.leave(oldest, into_job=True)
    receipts.cut(job)


def test_frames_are_safe_once_their_job_is():
    receipts = Receipts()
    cut(receipts, A, 0, 1, 2)
    assert receipts.through is None
    assert receipts.with_job(A) == 2
    assert receipts.settle(A)
    assert receipts.through == 2


def test_what_the_segmenter_still_holds_is_not_safe():
    receipts = Receipts()
    cut(receipts, A, 0, 1, 2, oldest=held(after=1))
    receipts.settle(A)
    assert receipts.through == 1


def test_half_a_frame_in_a_job_is_not_safe():
    options = SegmenterOptions(max_duration_ms=1000, turn_tail_ms=100)
    segmenter, receipts = Segmenter(options, fmt=AudioFormat.PCM16, rate=16000), Receipts()
    receipts.newest = 0
    assert segmenter.feed(Frame(bytes(32 * 500), 500.0), 0.0) == []
    receipts.newest = 1
    (head,) = segmenter.feed(Frame(bytes(32 * 700), 700.0, after=0), 0.1)
    assert len(head.audio) == 32 * 1100
    receipts.leave(segmenter.oldest, into_job=True)
    receipts.cut(A)
    receipts.settle(A)
    assert receipts.through == 0


def test_a_frame_without_audio_is_safe_with_those_before_it():
    segmenter, receipts = Segmenter(SegmenterOptions(), fmt=AudioFormat.PCM16, rate=16000), Receipts()
    for number, audio in enumerate([bytes(3200), b"", bytes(3200)]):
        frame = Frame(audio, 100.0 if audio else 0.0, after=receipts.newest)
        receipts.newest = number
        assert segmenter.feed(frame, 0.0) == []
    receipts.leave(segmenter.oldest)
    assert receipts.through is None
    receipts.newest = 3
    assert segmenter.finish(Frame(b"", 0.0, after=2), 0.0)
    receipts.leave(segmenter.oldest, into_job=True)
    receipts.cut(A)
    assert receipts.with_job(A) == 3


def test_a_job_waits_for_those_before_it():
    receipts = Receipts()
    for at, job in enumerate((A, B, C)):
        cut(receipts, job, at)
    assert not receipts.settle(B)
    assert receipts.through is None
    assert receipts.with_job(A) == 1
    assert receipts.settle(A)
    assert receipts.through == 1
    receipts.settle(C)
    assert receipts.through == 2


def test_dropped_quiet_is_safe_unless_a_job_before_it_is_not():
    receipts = Receipts()
    receipts.newest = 0
    receipts.leave(None)
    assert receipts.through == 0
    cut(receipts, A, 1)
    receipts.newest = 2
    receipts.leave(None)
    assert receipts.through == 0
    assert receipts.with_job(A) == 2
    receipts.settle(A)
    assert receipts.through == 2


def test_a_job_counts_once():
    receipts = Receipts()
    cut(receipts, A, 0)
    assert receipts.settle(A)
    assert not receipts.settle(A)
    assert not receipts.settle(B)


def test_frames_without_a_number_move_nothing():
    receipts = Receipts(through=4)
    receipts.leave(held(after=4))
    receipts.leave(None, into_job=True)
    receipts.cut(A)
    receipts.settle(A)
    assert receipts.through == 4


@given(
    st.lists(
        st.tuples(st.sampled_from(["voice", "quiet", "final", "pause"]), st.integers(1, 400)), max_size=60
    )
)
def test_whatever_is_said_no_voiced_byte_counts_as_safe_before_its_job(script):
    """The numbers given as safe cover exactly audio that has left the segmenter."""
    options = SegmenterOptions(pause_ms=500, max_duration_ms=2000, short_merge_ms=0)
    segmenter = Segmenter(options, fmt=AudioFormat.PCM16, rate=16000)
    receipts, now, fed, delivered, ends = Receipts(), 0.0, 0, 0, {}
    for number, (what, ms) in enumerate(script):
        if what == "pause":
            now += ms / 100
            cuts = segmenter.tick(now)
        else:
            audio = b"" if what == "final" else bytes(2 * ms)
            frame = Frame(audio, float(ms) if audio else 0.0, what == "quiet", after=receipts.newest)
            receipts.newest = number
            cuts = segmenter.finish(frame, now) if what == "final" else segmenter.feed(frame, now)
            fed += len(audio) if what == "voice" else 0
            ends[number] = fed
            now += ms / 1000
        receipts.leave(segmenter.oldest, into_job=bool(cuts))
        for each in cuts:
            delivered += len(each.audio)
            receipts.cut(JobId(str(each.index)))
            receipts.settle(JobId(str(each.index)))
        assert receipts.through is None or ends[receipts.through] <= delivered
