import pytest

from lingua_scheduler.core.audio import pack, packets
from lingua_scheduler.core.model import AudioFormat, Frame
from lingua_scheduler.core.utterance import LeadIn, OpenUtterance, Speech, Tail

PACKET = bytes([0x48]) + bytes(19)  # 20 ms of Opus


def opus(count: int, client_ms: float | str | None = None) -> Frame:
    return Frame(pack([PACKET] * count), 20.0 * count, client_ms=client_ms)


def utterance(*frames: Frame, fmt: AudioFormat = AudioFormat.OPUS, max_bytes: int = 32_000) -> OpenUtterance:
    made = OpenUtterance(fmt, 16000, Tail(200.0, max_bytes))
    for frame in frames:
        made.add(frame)
    return made


def packet_count(speech: Speech | None) -> int:
    assert speech is not None
    return len(packets(speech.audio) or ())


def test_nothing_can_be_taken_out_of_nothing() -> None:
    assert utterance().take() is None
    assert utterance().take_head() is None
    assert not utterance()


def test_everything_is_taken_out_once() -> None:
    made = utterance(opus(13, 5), opus(13, 6), opus(1, 7))
    assert made.take() == Speech(pack([PACKET] * 27), 540, 5)
    assert (bool(made), made.size_bytes, made.duration_ms) == (False, 0, 0.0)
    assert made.take() is None


@pytest.mark.parametrize(
    ("frames", "held"),
    [
        ([opus(1)] * 50, 10),
        ([opus(3)] * 20, 9),
        ([opus(13)] * 5, 13),
        ([opus(20)] * 5, 20),
        ([opus(21)] * 5, 10),
        ([opus(100)], 10),
        ([opus(5)], 4),
    ],
    ids=["20 ms", "60 ms", "260 ms", "400 ms", "420 ms is divided", "one long frame", "one short frame"],
)
def test_the_tail_is_made_of_whole_frames_unless_they_are_long(frames: list[Frame], held: int) -> None:
    made = utterance(*frames)
    total = round(made.duration_ms / 20)
    assert packet_count(made.take_head()) == total - held
    assert made.duration_ms == pytest.approx(20.0 * held)
    assert packet_count(made.take()) == held


def test_the_tail_knows_when_it_was_spoken() -> None:
    made = utterance(*[opus(5, at) for at in range(1, 11)])
    head, tail = made.take_head(), made.take()
    assert head is not None
    assert tail is not None
    assert (head.first_client_ms, tail.first_client_ms) == (1, 9)


@pytest.mark.parametrize(
    ("said", "client_ms"),
    [
        (None, None),
        ("soon", None),
        (0, None),
        (-5, None),
        (2**60, None),
        (12.7, 12),
        (1_700_000_000_000,) * 2,
    ],
)
def test_a_client_whose_clock_cannot_be_believed_told_none(said, client_ms) -> None:
    speech = utterance(opus(1, said)).take()
    assert speech is not None
    assert speech.first_client_ms == client_ms


def test_one_packet_cannot_be_divided() -> None:
    made = utterance(opus(1))
    assert made.take_head() is None
    assert made.size_bytes == 22


def test_frames_without_duration_do_not_make_a_large_tail() -> None:
    made = utterance(*[Frame(bytes(100), 0.0)] * 100, max_bytes=1000)
    head = made.take_head()
    assert head is not None
    assert len(head.audio) == 9000
    assert made.size_bytes == 1000


def test_the_lead_in_is_the_newest_quiet() -> None:
    lead = LeadIn(300, 1000)
    frames = [Frame(bytes([n]) * 10, 100.0) for n in range(5)]
    for frame in frames:
        lead.add(frame)
    assert lead.size_bytes == 30
    assert lead.oldest == frames[2]
    assert lead.take() == frames[2:]
    assert lead.take() == []
    assert lead.size_bytes == 0
    assert lead.oldest is None


def test_quiet_longer_than_the_lead_in_is_forgotten() -> None:
    lead = LeadIn(300, 1000)
    lead.add(Frame(b"q", 301.0))
    assert lead.take() == []
