"""What the generator sends is what a real client would send, only made in advance."""

from __future__ import annotations

import base64

import pytest

from lingua_scheduler.bench import sound
from lingua_scheduler.bench.plan import Form
from lingua_scheduler.core.audio import duration_ms, is_silent
from lingua_scheduler.core.endpointing import lacks_voice
from lingua_scheduler.core.model import AudioFormat
from lingua_scheduler.wire.audio import parse_frame
from lingua_scheduler.wire.codec import decode_client, decode_node
from lingua_scheduler.wire.node import JobResult
from lingua_scheduler.wire.speech import AudioChunk


def unframed(frame: bytes) -> tuple[int, bytes]:
    """Read a masked frame as a server does."""
    size, at = frame[1] & 0x7F, 2
    assert frame[1] & 0x80
    if size >= 126:
        at = 4 if size == 126 else 10
        size = int.from_bytes(frame[2:at], "big")
    key, payload = frame[at : at + 4], frame[at + 4 :]
    assert len(payload) == size
    return frame[0], bytes(byte ^ key[place % 4] for place, byte in enumerate(payload))


@pytest.mark.parametrize("session", ["s", "s-12", "s-0123456789abcdef", "abcde.fg"])
@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize(("seq", "last"), [(0, 0), (9, 1), (123456, 0)])
def test_every_frame_reads_as_what_was_meant(form: Form, session: str, seq: int, last: int) -> None:
    final = bool(last)
    audio = sound.frame(form, 100)
    kind, payload = unframed(sound.frames_of(form, audio).message(session, seq, final=final))
    if form is Form.BINARY:
        assert kind == 0x82
        chunk = parse_frame(payload, now_ms=0)
    else:
        assert kind == 0x81
        message = decode_client(payload)
        assert isinstance(message, AudioChunk)
        chunk = message
    assert (chunk.session_id, chunk.seq, chunk.is_final, chunk.audio) == (session, seq, final, audio)


@pytest.mark.parametrize("form", Form)
def test_frames_have_voice_and_the_length_they_say(form: Form) -> None:
    kind = AudioFormat.OPUS if form is Form.OPUS else AudioFormat.PCM16
    audio = sound.frame(form, 100)
    assert duration_ms(kind, 16_000, audio) == 100
    assert not is_silent(kind, audio)
    assert form is not Form.OPUS or not lacks_voice(audio)


def test_a_result_of_a_node_reads_as_what_was_meant() -> None:
    head = (
        b'{"type":"job_result","job_id":"j","attempt_id":1,"node_id":"n","session_id":"s","trace_id":"t",'
        b'"utterance_index":3,"success":true,'
    )
    _, payload = unframed(sound.Behind("tts_audio", b"voice" * 20_000).message(head))
    result = decode_node(payload)
    assert isinstance(result, JobResult)
    assert (result.utterance_index, result.tts_audio) == (3, b"voice" * 20_000)
    assert base64.b64encode(b"voice" * 20_000) in payload


def test_audio_of_a_size_is_cut_into_pieces() -> None:
    made = sound.pieces(100_001, 48_000)
    assert [len(piece) for piece in made] == [48_000, 48_000, 4_000]
    assert not is_silent(AudioFormat.PCM16, made[-1])
    assert sound.pieces(0, 48_000) == []


def test_control_frames_are_masked_too() -> None:
    assert unframed(sound.pong(b"ping")) == (0x8A, b"ping")
    assert unframed(sound.close(1000)) == (0x88, b"\x03\xe8")
    assert unframed(sound.text_message(b"{}")) == (0x81, b"{}")
