"""What a client keeps until the server has it safe, and what it has got already."""

from lingua_scheduler.client.ends import Ends
from lingua_scheduler.client.kept import Kept
from lingua_scheduler.wire.session import AudioChunk, MissingResult, TranslationResult, Utterance


def chunk(seq: int, size: int = 100) -> AudioChunk:
    return AudioChunk(session_id="s-1", seq=seq, is_final=False, payload=bytes(size))


def whole(index: int) -> Utterance:
    return Utterance(
        session_id="s-1",
        utterance_index=index,
        manual_cut=True,
        src_lang="en",
        tgt_lang="pt",
        audio=b"ab",
        audio_format="pcm16",
        sample_rate=16000,
    )


def end(kind, index: int, **members):
    common = {"session_id": "s-1", "utterance_index": index, "trace_id": "t", **members}
    if kind is MissingResult:
        return MissingResult(reason="gap_timeout", created_at_ms=1, **common)
    words = {"job_id": "j", "text_asr": "", "text_translated": "", "tts_audio": b"", "tts_format": "pcm16"}
    return TranslationResult(**words, **common)


def numbers(kept: Kept, after: int = -1) -> list[int]:
    found = []
    while (frame := kept.next_after(after)) is not None:
        found.append(after := frame.seq)
    return found


def test_frames_stay_until_they_are_confirmed():
    kept = Kept(10_000)
    for seq in range(4):
        kept.frame(chunk(seq))
    kept.confirmed(1)
    assert numbers(kept) == [2, 3]
    assert numbers(kept, after=2) == [3]


def test_too_many_bytes_push_the_oldest_out():
    kept = Kept(1000)
    for seq in range(8):
        kept.frame(chunk(seq))
    assert numbers(kept) == [3, 4, 5, 6, 7]
    assert (kept.lost, kept.full) == (3, True)
    kept.confirmed(7)
    assert not kept.full


def test_utterances_stay_until_one_of_them_or_a_later_one_has_its_end():
    kept = Kept(1000)
    for index in range(4):
        kept.utterance(whole(index))
    kept.ended(1)
    assert [message.utterance_index for message in kept.utterances_from(0)] == [2, 3]
    assert [message.utterance_index for message in kept.utterances_from(3)] == [3]


def test_ends_are_fresh_once():
    ends = Ends()
    ends.begin("s-1")
    assert ends.fresh(end(MissingResult, 0))
    assert not ends.fresh(end(MissingResult, 0))
    assert ends.fresh(end(TranslationResult, 0))
    assert not ends.fresh(end(TranslationResult, 0))
    assert not ends.fresh(end(MissingResult, 0))


def test_the_own_speech_is_counted_and_that_of_others_is_not():
    ends = Ends()
    ends.begin("s-1")
    assert ends.through is None
    ends.fresh(end(TranslationResult, 3))
    ends.fresh(end(TranslationResult, 2))
    ends.fresh(end(TranslationResult, 9, speaker_session_id="s-2"))
    assert (ends.through, ends.unacknowledged) == (3, 2)
    assert ends.fresh(end(TranslationResult, 3, speaker_session_id="s-2"))


def test_a_new_session_begins_with_nothing():
    ends = Ends()
    ends.begin("s-1")
    ends.fresh(end(TranslationResult, 3))
    ends.begin("s-1")
    assert ends.through == 3
    ends.begin("s-2")
    assert (ends.through, ends.unacknowledged) == (None, 0)


def test_only_the_newest_ends_are_remembered():
    ends = Ends()
    ends.begin("s-1")
    for index in range(1500):
        ends.fresh(end(TranslationResult, index))
    assert len(ends._got) == 1000
    assert not ends.fresh(end(TranslationResult, 1499))
