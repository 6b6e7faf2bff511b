"""From features and pipeline to what a node must have."""

from __future__ import annotations

import pytest

from lingua_scheduler.core.modules import FEATURE_MODULES, MODULES, Module, Pipeline, expand, required
from lingua_scheduler.errors import ConfigError, UnsupportedFeature


def test_a_plain_session_needs_the_three_core_services_and_no_model():
    needs = required(Pipeline(), {})
    assert needs.modules == {"asr", "nmt", "tts"}
    assert needs.services == {"asr", "nmt", "tts"}
    assert needs.models == frozenset()


def test_only_a_feature_that_is_true_counts():
    assert required(Pipeline(), {"emotion_detection": False, "persona_adaptation": None}) == required(
        Pipeline(), {}
    )


def test_ac76_voice_style_needs_the_models_of_what_it_builds_on():
    needs = required(Pipeline(), {"voice_style_detection": True})
    assert needs.models == {"vc-model-v1", "speaker-id-ecapa"}
    assert needs.modules == {"asr", "nmt", "tts", "voice_cloning", "speaker_identification"}


def test_ac76_speech_rate_control_needs_detection_too():
    needs = required(Pipeline(), {"speech_rate_control": True})
    assert needs.models == {"tts-vocoder-v1", "sr-d-v1"}


@pytest.mark.parametrize(
    ("feature", "model"),
    [
        ("emotion_detection", "emotion-xlm-r"),
        ("speaker_identification", "speaker-id-ecapa"),
        ("speech_rate_detection", "sr-d-v1"),
        ("persona_adaptation", "persona-style-transformer"),
    ],
)
def test_a_feature_brings_its_model(feature, model):
    assert required(Pipeline(), {feature: True}).models == {model}


def test_ac76_an_unknown_feature_or_module_is_an_error():
    with pytest.raises(UnsupportedFeature, match="telepathy"):
        required(Pipeline(), {"telepathy": True})
    with pytest.raises(UnsupportedFeature, match="telepathy"):
        expand(["asr", "telepathy"])


def test_an_unknown_dependency_is_an_error():
    with pytest.raises(UnsupportedFeature, match="b"):
        expand(["a"], {"a": Module(frozenset(), frozenset({"b"}))})


def test_a_cycle_is_named():
    table = {
        "a": Module(frozenset(), frozenset({"b"})),
        "b": Module(frozenset(), frozenset({"c"})),
        "c": Module(frozenset(), frozenset({"a"})),
    }
    with pytest.raises(ConfigError, match="a > b > c > a"):
        expand(["a"], table)


def test_two_ways_to_the_same_module_are_no_cycle():
    table = {
        "a": Module(frozenset(), frozenset({"b", "c"})),
        "b": Module(frozenset(), frozenset({"d"})),
        "c": Module(frozenset(), frozenset({"d"})),
        "d": Module(frozenset()),
    }
    assert expand(["a"], table) == {"a", "b", "c", "d"}


def test_the_table_is_closed_and_has_no_cycle():
    assert expand(MODULES) == set(MODULES) | {"asr", "tts"}
    assert set(FEATURE_MODULES.values()) == set(MODULES)


def test_vad_is_a_leaf_and_no_service():
    table = {"voice_cloning": Module(frozenset({"m"}), frozenset({"vad"}))}
    needs = required(Pipeline(), {"voice_style_detection": True}, table)
    assert "vad" in needs.modules
    assert needs.services == {"asr", "nmt", "tts"}


@pytest.mark.parametrize(
    ("pipeline", "services"),
    [
        (Pipeline(use_tts=False), {"asr", "nmt"}),
        (Pipeline(use_nmt=False, use_tts=False), {"asr"}),
        (Pipeline(use_semantic=True), {"asr", "nmt", "tts", "semantic"}),
        (Pipeline(use_tone=True), {"asr", "nmt", "tts", "tone"}),
    ],
)
def test_the_pipeline_names_the_services(pipeline, services):
    assert required(pipeline, {}).services == services


@pytest.mark.parametrize("feature", ["speaker_identification", "voice_style_detection"])
def test_features_about_the_voice_need_tone(feature):
    assert required(Pipeline(), {feature: True}).services == {"asr", "nmt", "tts", "tone"}


def test_a_feature_needs_the_core_services_it_builds_on_whatever_the_pipeline_says():
    assert required(Pipeline(use_tts=False), {"speech_rate_control": True}).services == {"asr", "nmt", "tts"}
