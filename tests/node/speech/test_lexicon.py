"""Repair by a lexicon: the same correction for the same text, always."""

import pytest

from lingua_scheduler.node.speech.engines.lexicon import Lexicon, LexiconOptions
from node.speech.conftest import needs


@pytest.mark.parametrize(
    ("heard", "meant"),
    [
        ("I store it in red is.", "I store it in Redis."),
        ("RED-IS and redis, please", "Redis and Redis, please"),
        ("it is coloured", "it is coloured"),
        ("it was red. Is it?", "it was red. Is it?"),
        ("a trip to sao paulo", "a trip to São Paulo"),
        ("", ""),
    ],
)
def test_terms_are_recognised_by_their_letters(heard, meant) -> None:
    assert Lexicon(LexiconOptions(terms=("Redis", "São Paulo"))).repair(heard, "en") == meant


def test_what_is_always_misheard_is_replaced_as_whole_words() -> None:
    lexicon = Lexicon(LexiconOptions(replace={"old-sposed": "ill disposed", "cat": "cut \\1"}))
    assert lexicon.repair("He was not an Old-sposed man", "en") == "He was not an ill disposed man"
    assert lexicon.repair("concatenate the cat", "en") == "concatenate the cut \\1"


def test_other_languages_are_left_alone_if_so_wanted() -> None:
    lexicon = Lexicon(LexiconOptions(languages=("en-GB",), terms=("Redis",)))
    assert lexicon.repair("red is", "en") == "Redis"
    assert lexicon.repair("red is", "pt") == "red is"


@needs("pypinyin")
@pytest.mark.parametrize(
    ("heard", "meant"),
    [
        ("我要一个中北的蓝莓马分", "我要一个中杯的蓝莓马芬"),
        ("请确认酒店定单", "请确认酒店订单"),
        ("没有别的", "没有别的"),
        ("order 中北 now", "order 中杯 now"),
    ],
)
def test_chinese_terms_are_recognised_by_their_sound(heard, meant) -> None:
    assert Lexicon(LexiconOptions(terms=("中杯", "马芬", "订单"))).repair(heard, "zh") == meant


@needs("pypinyin")
def test_the_longest_term_wins_and_a_single_character_is_no_term() -> None:
    lexicon = Lexicon(LexiconOptions(terms=("中杯", "中杯拿铁", "杯")))
    assert lexicon.repair("中北拿帖", "zh") == "中杯拿铁"
    assert lexicon.repair("背", "zh") == "背"
