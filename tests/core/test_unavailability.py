"""Missing services: which type is marked, for how long, and what of a node's reports is believed."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from lingua_scheduler.core.unavailability import (
    _REASONS,
    Debounce,
    ModelReport,
    Unavailability,
    UnavailabilityOptions,
    normal_reason,
    type_of,
)
from lingua_scheduler.labels import MISSING_REASONS

OPTIONS = UnavailabilityOptions()


@dataclass(frozen=True)
class Service:
    service_id: str
    type: str
    model_id: str | None = None


# What is reported


@pytest.mark.parametrize(
    ("details", "report"),
    [
        ({"service_id": "nmt-m2m100"}, ModelReport("nmt-m2m100")),
        ({"model_id": "m2m"}, ModelReport("m2m")),
        ({"service_id": "a", "model_id": "b"}, ModelReport("a")),
        ({"service_id": "", "model_id": "b"}, ModelReport("b")),
        ({"service_id": "a", "service_version": "2", "version": "1"}, ModelReport("a", "2")),
        ({"service_id": "a", "version": "1", "reason": "gone"}, ModelReport("a", "1", "gone")),
        ({"service_id": "a", "version": 3, "reason": None}, ModelReport("a")),
        ({"service_id": 7, "model_id": ["x"]}, None),
        ({"reason": "gone"}, None),
        ({}, None),
        (["service_id"], None),
        ("service_id", None),
        (None, None),
    ],
)
def test_a_report_names_a_service(details, report):
    assert ModelReport.of(details) == report


def test_a_report_is_short():
    report = ModelReport.of({"service_id": "s" * 5000, "version": "v" * 5000, "reason": "r" * 5000})
    assert [len(part) for part in (report.service_id, report.version, report.reason)] == [128, 128, 1024]


def test_reports_of_any_version_are_about_the_same():
    assert ModelReport("nmt").subject == ModelReport("nmt", "", "why").subject
    assert ModelReport("nmt", "1").subject != ModelReport("nmt", "2").subject


@pytest.mark.parametrize(
    ("service_id", "kind"),
    [
        ("piper", "tts"),
        ("m2m", "nmt"),
        ("whisper", "asr"),
        ("nmt-m2m100", "nmt"),
        ("TTS_voice", "tts"),
        ("semantic", "semantic"),
        ("asr-lookalike", "tone"),
        ("piper-tts", None),
        ("nmtx", None),
        ("", None),
        ("?", None),
    ],
)
def test_the_type_is_what_the_node_lists_else_the_first_word(service_id, kind):
    installed = [
        Service("piper", "tts"),
        Service("m2m-service", "nmt", "m2m"),
        Service("whisper", "asr", "piper"),
        Service("asr-lookalike", "tone"),
    ]
    assert type_of(ModelReport(service_id), installed) == kind


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "unknown"),
        ("  \n", "unknown"),
        ("model NOT FOUND", "not_found"),
        ("No such file or directory", "not_found"),
        ("checksum differs", "checksum_mismatch"),
        ("SHA256 differs", "checksum_mismatch"),
        ("bad hash", "checksum_mismatch"),
        ("cannot load weights", "load_failed"),
        ("init failed", "load_failed"),
        ("timeout after 5 s", "timeout"),
        ("CUDA out of memory", "oom"),
        ("OOM", "oom"),
        ("who knows", "raw:who knows"),
        ("a\nb\u202ec", "raw:a?b?c"),
    ],
)
def test_a_reason_is_brought_into_a_known_form(text, reason):
    assert normal_reason(text) == reason


def test_every_known_reason_has_its_place_among_the_metrics():
    assert {"unknown", *(word for word, _ in _REASONS)} == set(MISSING_REASONS)


def test_ac69_a_long_reason_is_cut_by_characters():
    label = normal_reason("模" * 70)
    assert label == "raw:" + "模" * 60
    assert len(label) == 64


# What is marked


def test_a_type_is_marked_until_its_time_is_over():
    node = Unavailability(OPTIONS)
    assert node.types(0) == frozenset()
    assert node.deadline(0) is None
    assert node.mark("nmt", 0)
    assert node.mark("tts", 10)
    assert node.types(59.9) == {"nmt", "tts"}
    assert node.deadline(59.9) == 60
    assert node.types(60) == {"tts"}
    assert node.deadline(60) == 70
    assert node.deadline(70) is None
    assert node.types(70) == frozenset()


def test_a_mark_lasts_longer_when_it_is_reported_again():
    node = Unavailability(OPTIONS)
    assert node.mark("nmt", 0)
    assert not node.mark("nmt", 30), "nothing changes but its end"
    assert node.types(60) == {"nmt"}
    assert node.deadline(60) == 90
    assert node.mark("nmt", 90), "it had ended"


def test_ac67_of_a_hundred_reports_thirty_are_believed_and_later_ones_again():
    node = Unavailability(OPTIONS)
    assert sum(node.admit(number / 10) for number in range(100)) == 30
    assert sum(node.admit(10 + number / 10) for number in range(100)) == 30
    assert node.admit(1000)


@pytest.mark.parametrize(
    "wrong",
    [
        {"unavailable_ttl_s": 0},
        {"debounce_window_s": 0.5},
        {"debounce_window_s": 61},
        {"node_ratelimit_window_s": 0},
        {"node_ratelimit_window_s": 301},
        {"node_ratelimit_max": 0},
    ],
)
def test_values_out_of_bounds_are_refused(wrong):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, UnavailabilityOptions)


# What is said once


def test_ac68_the_first_of_a_window_is_let_through():
    debounce = Debounce(5)
    assert [debounce.first("nmt any", now) for now in (0, 1, 4.9, 5, 9, 10)] == [
        True,
        False,
        False,
        True,
        False,
        True,
    ]


def test_subjects_are_told_apart_and_forgotten():
    debounce = Debounce(5)
    assert debounce.first("nmt any", 0)
    assert debounce.first("tts any", 1)
    assert not debounce.first("nmt any", 2)
    assert debounce.first("asr any", 100)
    assert len(debounce) == 1


def test_however_many_subjects_a_node_thinks_of_few_are_kept():
    debounce = Debounce(60)
    for number in range(5000):
        assert debounce.first(f"s{number}", 0)
    assert len(debounce) <= 1024
