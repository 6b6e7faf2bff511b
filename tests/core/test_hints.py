"""Sentences for people who see an error code."""

from __future__ import annotations

import pytest

from lingua_scheduler import errors
from lingua_scheduler.core.hints import NODE_FAILURE_CODES, generic_hint, hint

SESSION_CODES = [
    "INVALID_MESSAGE",
    "INTERNAL_ERROR",
    "INVALID_SESSION",
    "SESSION_CLOSED",
    "NODE_UNAVAILABLE",
    "NO_AVAILABLE_NODE",
    "JOB_TIMEOUT",
    "MODEL_NOT_AVAILABLE",
    "NMT_TIMEOUT",
    "TTS_TIMEOUT",
    "MODEL_VERIFY_FAILED",
    "MODEL_CORRUPTED",
    "WS_DISCONNECTED",
    "INVALID_PAIRING_CODE",
    "UNSUPPORTED_FEATURE",
    "NODE_OVERLOADED",
    "MODEL_LOAD_FAILED",
    "SCHEDULER_DEPENDENCY_DOWN",
    "NO_GPU_AVAILABLE",
    "NODE_ID_CONFLICT",
    "INVALID_CAPABILITY_SCHEMA",
    "ROOM_NOT_FOUND",
    "ROOM_FULL",
    "INVALID_ROOM_CODE",
    "ALREADY_IN_ROOM",
    "NOT_IN_ROOM",
]


@pytest.mark.parametrize("code", SESSION_CODES)
def test_every_code_has_a_short_sentence_in_both_languages(code):
    english, chinese = hint(code, "en"), hint(code, "zh")
    assert english is not None
    assert chinese is not None
    assert english.isascii()
    assert not chinese.isascii()
    assert len(english) <= 80
    assert len(chinese) <= 40


def test_every_error_of_the_program_has_a_sentence():
    codes = {kind.code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "code")}
    assert all(hint(code, "en") for code in codes)


@pytest.mark.parametrize("lang", ["zh", "zh-CN", "zh_TW", "ZH"])
def test_chinese_is_chosen_by_its_primary_tag(lang):
    assert hint("ROOM_FULL", lang) == "房间已满。"


@pytest.mark.parametrize("lang", ["en", "en-GB", "fr", "auto", ""])
def test_any_other_language_gets_english(lang):
    assert hint("ROOM_FULL", lang) == "The room is full."


def test_80_an_unknown_code_has_no_hint():
    assert hint("FOO", "en") is None
    assert generic_hint("en").isascii()
    assert not generic_hint("zh").isascii()


def test_79_the_codes_a_failed_result_may_show():
    assert len(NODE_FAILURE_CODES) == 7
    assert all(hint(code, "zh") for code in NODE_FAILURE_CODES)
    assert "FOO" not in NODE_FAILURE_CODES
