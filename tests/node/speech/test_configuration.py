"""The node's file: strict, and every mistake is one line that names file and key."""

from pathlib import Path

import pytest

from lingua_scheduler.errors import ConfigError
from lingua_scheduler.node.speech import EngineChoice, SpeechOptions, load_speech_options, registry
from lingua_scheduler.node.speech.engine import SERVICES
from node.speech import tiny

EARS = f"{tiny.__name__}:Ears"


def load(tmp_path: Path, text: str) -> SpeechOptions:
    file = tmp_path / "node.toml"
    file.write_text(text, encoding="utf-8")
    return load_speech_options(file)


def test_without_a_file_the_defaults_hold() -> None:
    options = load_speech_options(None)
    assert options == SpeechOptions()
    assert options.jobs_at_a_time == 2
    assert options.engines("nmt") == (EngineChoice("firefox"),)
    assert [choice.engine for choice in options.engines("tts")] == ["hibari", "espeak"]
    assert options.engines("asr")[0] == EngineChoice("whisper", {"model": "tiny.en"})
    assert options.engines("repair") == options.engines("partials") == ()


def test_an_engine_is_chosen_by_one_table_or_by_several(tmp_path) -> None:
    options = load(
        tmp_path,
        f"""
        [node]
        workers = 2
        [node.asr]
        engine = "{EARS}"
        [[node.nmt]]
        engine = "{tiny.__name__}:Dictionary"
        [[node.nmt]]
        engine = "{tiny.__name__}:Shout"
        [node.turns]
        pieces = "merge"
        [node.link]
        heartbeat_s = 5
        """,
    )
    assert options.asr == (EngineChoice(EARS),)
    assert [choice.engine.partition(":")[2] for choice in options.nmt or ()] == ["Dictionary", "Shout"]
    assert (options.turns.pieces, options.link.heartbeat_s, options.jobs_at_a_time) == ("merge", 5.0, 3)


def test_a_step_can_be_left_out(tmp_path) -> None:
    options = load(tmp_path, "[node]\ntts = []\nvad = []")
    assert options.engines("tts") == options.engines("vad") == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("node = 3", "node is a table: write [node]"),
        ("[server]", "unknown key server: a node reads the table [node]"),
        ("[node]\nworker = 2", "unknown key node.worker (did you mean node.workers?)"),
        ("[node]\nworkers = 0", "node.workers: expected int >= 1"),
        ("[node]\nworkers = 'a secret'", "node.workers: expected int, got str"),
        ("[node.turns]\npieces = 'both'", "node.turns.pieces: Invalid enum value 'both'"),
        ("[node.link]\nheartbeats = 1", "unknown key node.link.heartbeats"),
        ("[node]\nasr = 'whisper'", "node.asr is a table: write [node.asr] or [[node.asr]]"),
        ("[node.asr]\nmodel = 'base'", "node.asr: the key engine is missing"),
        (f"[node.nmt]\nengine = '{EARS}'", f"node.nmt.engine: {EARS} is an engine for asr, not for nmt"),
        (f"[node.asr]\nengine = '{EARS}'\nsize = 3", "unknown key node.asr.size"),
        ("[node.asr]\nengine = 'no_such_module:Ears'", "cannot be imported: ModuleNotFoundError"),
        ("[node.asr]\nengine = 'no such engine'", "no engine is called no such engine"),
        ("[node", "not TOML"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key(tmp_path, text, complaint) -> None:
    with pytest.raises(ConfigError) as refusal:
        load(tmp_path, text)
    said = str(refusal.value)
    assert said.startswith(str(tmp_path / "node.toml"))
    assert complaint in said
    assert "\n" not in said


def test_a_file_that_cannot_be_read_is_named(tmp_path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_speech_options(tmp_path / "absent.toml")


def test_the_engines_of_the_house_are_found_by_their_names(engines_installed) -> None:
    found = {name: registry._installed(name) for name in registry.names()}
    assert {"whisper", "firefox", "espeak", "hibari", "silero", "lexicon"} <= set(found)
    assert all(kind.service in SERVICES for kind in found.values())
    assert all(kind.Options.__struct_config__.forbid_unknown_fields for kind in found.values())


def test_a_near_miss_is_suggested(engines_installed) -> None:
    with pytest.raises(ConfigError, match="did you mean whisper"):
        registry.engine_class("wisper", "asr")


def test_options_of_an_engine_are_checked_by_its_own_record(tmp_path, engines_installed) -> None:
    good = load(tmp_path, "[node.asr]\nengine = 'whisper'\nmodel = 'base'\nlanguages = ['pt']")
    assert good.asr == (EngineChoice("whisper", {"model": "base", "languages": ["pt"]}),)
    with pytest.raises(
        ConfigError, match=r"unknown key node\.asr\.modle \(did you mean node\.asr\.model\?\)"
    ):
        load(tmp_path, "[node.asr]\nengine = 'whisper'\nmodle = 'base'")
    with pytest.raises(ConfigError, match=r"node\.nmt: a pair is written like en-pt"):
        load(tmp_path, "[node.nmt]\nengine = 'firefox'\nmodels = {enpt = '/models'}")
    with pytest.raises(ConfigError, match=r"node\.tts: .*missing required field folder"):
        load(tmp_path, "[node.tts]\nengine = 'kokoro'")
