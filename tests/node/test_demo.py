"""The demo node's rule: it says how long somebody spoke, and that it is only a demo."""

import pytest

from lingua_scheduler.core.audio import duration_ms
from lingua_scheduler.core.model import AudioFormat
from lingua_scheduler.node.demo import demo_tone, demo_translation
from lingua_scheduler.node.job import JobFailed
from lingua_scheduler.wire.common import Pipeline
from lingua_scheduler.wire.opus import encode_opus
from node.jobs import assign


def test_it_tells_duration_and_languages_and_that_it_is_a_demo() -> None:
    said = demo_translation(assign(audio=bytes(48000)))
    assert said.text_asr == "[demo] 1.5 s of speech in en"
    assert said.text_translated == "[demo] 1.5 s of speech in en, not translated to pt"


@pytest.mark.parametrize("audio_format", list(AudioFormat))
def test_it_sounds_in_the_form_the_session_speaks(audio_format) -> None:
    audio = encode_opus(bytes(640)) if audio_format is AudioFormat.OPUS else bytes(640)
    said = demo_translation(assign(audio=audio, audio_format=audio_format.value))
    assert said.tts_format == audio_format.value
    assert said.tts_audio == demo_tone(audio_format)
    assert duration_ms(audio_format, 16000, said.tts_audio) == 300


def test_it_leaves_out_what_nobody_wants() -> None:
    said = demo_translation(assign(pipeline=Pipeline(use_nmt=False, use_tts=False)))
    assert (said.text_translated, said.tts_audio) == ("", b"")
    assert demo_translation(assign(), tone=False).tts_audio == b""


def test_a_form_it_does_not_know_fails_the_job() -> None:
    with pytest.raises(JobFailed, match="format"):
        demo_translation(assign(audio_format="mp3"))


def test_words_that_are_recognised_already_are_kept() -> None:
    said = demo_translation(assign(audio=b"", text="hello", pipeline=Pipeline(use_asr=False)))
    assert said.text_asr == "hello"
    assert said.text_translated == "hello, not translated to pt"
