"""Utterance groups: who belongs together, and what a node is told about it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lingua_scheduler.core.groups import GroupOptions, Groups, Heard, Membership
from lingua_scheduler.core.model import SessionId

NOW = 1000.0
WALL_MS = 1_800_000_000_000


def groups(**options: object) -> Groups:
    return Groups(SessionId("s-1"), msgspec.convert(options, GroupOptions))


def join(
    subject: Groups, index: int, now: float = NOW, *, asr: str = "你好", translation: str | None = "hello"
) -> Membership:
    """Let a result with text join, at the wall time that belongs to `now`."""
    membership = subject.join(Heard(index, asr, "en", translation), now, WALL_MS + round((now - NOW) * 1000))
    assert membership is not None
    return membership


def context(subject: Groups, now: float = NOW, language: str = "en") -> str:
    current = subject.current(now, language)
    assert current is not None
    return current.context_text


def test_90_two_results_close_together_share_a_group():
    subject = groups()
    assert join(subject, 0) == Membership(f"group_s-1_{WALL_MS}", 0)
    assert join(subject, 1, NOW + 0.5) == Membership(f"group_s-1_{WALL_MS}", 1)


def test_91_a_result_after_the_window_starts_a_new_group():
    subject = groups()
    join(subject, 0)
    assert join(subject, 1, NOW + 2.1) == Membership(f"group_s-1_{WALL_MS + 2100}", 0)


@pytest.mark.parametrize(("after_ms", "part_index"), [(2000, 1), (2001, 0)])
def test_the_end_of_the_window_belongs_to_the_window(after_ms, part_index):
    subject = groups()
    join(subject, 0, 1000.1)
    assert join(subject, 1, 1000.1 + after_ms / 1000).part_index == part_index


@pytest.mark.parametrize(("after_s", "part_index"), [(1.9, 1), (2.1, 0)])
def test_92_the_window_counts_from_the_end_of_playback_by_the_servers_clock(after_s, part_index):
    subject = groups()
    group_id = join(subject, 0).group_id
    subject.playback_started(group_id, NOW + 1)
    subject.playback_ended(group_id, NOW + 6)
    assert join(subject, 1, NOW + 6 + after_s).part_index == part_index


def test_playback_of_an_unknown_group_changes_nothing():
    subject = groups()
    subject.playback_started("group_s-9_1", NOW)
    subject.playback_ended("group_s-9_1", NOW)
    join(subject, 0)
    subject.playback_started("group_s-9_1", NOW + 6)
    subject.playback_ended("group_s-9_1", NOW + 6)
    assert join(subject, 1, NOW + 7).part_index == 0


def test_93_a_result_without_translation_still_takes_a_part():
    subject = groups()
    assert join(subject, 0, translation=None).part_index == 0
    assert join(subject, 1, translation=" ").part_index == 1
    assert join(subject, 2).part_index == 2
    assert context(subject) == "User: 你好\nUser: 你好\nUser: 你好\nTarget: hello\n"


def test_94_a_job_of_a_live_group_is_told_the_group_and_what_was_said():
    subject = groups()
    assert subject.current(NOW, "en") is None
    group_id = join(subject, 0).group_id
    current = subject.current(NOW + 1, "en")
    assert current is not None
    assert (current.group_id, current.part_index) == (group_id, 1)
    assert current.context_text == "User: 你好\nTarget: hello\n"
    assert subject.current(NOW + 2.1, "en") is None


def test_context_can_be_kept_from_nodes():
    subject = groups(send_context=False)
    join(subject, 0)
    assert subject.current(NOW, "en") is None


def test_95_context_holds_the_newest_eight_parts():
    subject = groups()
    for index in range(10):
        assert join(subject, index, asr=f"word {index}", translation=None).part_index == index
    assert context(subject) == "".join(f"User: word {index}\n" for index in range(2, 10))


def test_87_a_long_chinese_translation_is_cut_between_characters():
    subject = groups()
    join(subject, 0, asr="a" * 300, translation="译" * 162)
    assert context(subject) == f"User: {'a' * 300}\nTarget: {'译' * 162}\n"
    join(subject, 1, asr="问" * 500, translation="答" * 500)
    assert context(subject) == f"User: {'问' * 500}\nTarget: {'答' * 500}\n"[:800]


def test_older_parts_go_before_the_newest_is_cut():
    subject = groups(max_context_chars=40)
    join(subject, 0, asr="a" * 20, translation=None)
    join(subject, 1, asr="b" * 20, translation=None)
    assert context(subject) == f"User: {'b' * 20}\n"


def test_96_a_closed_session_keeps_no_group_and_makes_none():
    subject = groups()
    join(subject, 0)
    subject.close()
    assert subject.current(NOW, "en") is None
    assert subject.join(Heard(1, "late", "en"), NOW, WALL_MS) is None


@pytest.mark.parametrize("blank", ["", "  \n\t", "\u3000"])
def test_a_result_without_text_joins_no_group(blank):
    """76: the utterance after an empty one is part 0."""
    subject = groups()
    assert subject.join(Heard(0, blank, "en"), NOW, WALL_MS) is None
    assert join(subject, 1).part_index == 0


def test_each_language_of_an_utterance_shares_its_part():
    subject = groups()
    first = join(subject, 0)
    second = subject.join(Heard(0, "你好", "fr", "bonjour"), NOW + 1, WALL_MS)
    assert second == first
    assert context(subject, language="en") == "User: 你好\nTarget: hello\n"
    assert context(subject, language="fr") == "User: 你好\nTarget: bonjour\n"
    assert context(subject, language="de") == "User: 你好\n"


def test_a_slow_language_keeps_its_utterances_part_in_a_group_that_has_ended():
    subject = groups()
    first = join(subject, 0)
    later = join(subject, 1, NOW + 3)
    assert subject.join(Heard(0, "你好", "fr", "bonjour"), NOW + 4, WALL_MS) == first
    assert context(subject, NOW + 4, "fr") == "User: 你好\n"
    assert join(subject, 2, NOW + 4) == Membership(later.group_id, 1)


def test_groups_of_the_same_millisecond_have_different_ids():
    """B41: also when the wall clock steps back."""
    subject = groups(window_ms=0)
    ids = [
        subject.join(Heard(index, "x", "en"), NOW + index, wall_ms)
        for index, wall_ms in enumerate([WALL_MS, WALL_MS, WALL_MS - 50])
    ]
    assert len({membership.group_id for membership in ids if membership is not None}) == 3


def test_a_group_without_activity_for_ten_minutes_is_removed():
    subject = groups()
    group_id = join(subject, 0).group_id
    subject.playback_started(group_id, NOW + 60)
    assert not subject.forget_idle(NOW + 659)
    assert subject.forget_idle(NOW + 660)
    assert not subject.forget_idle(NOW + 661)
    assert not subject._placed


def test_memory_is_bounded_over_a_long_group():
    subject = groups(window_ms=10_000_000)
    for index in range(2000):
        join(subject, index, NOW + index, asr="x" * 5000, translation="y" * 5000)
    assert subject._group is not None
    assert len(subject._group.parts) == 8
    assert len(subject._placed) <= 64
    parts = subject._group.parts.values()
    assert max(len(part.bare) for part in parts) <= 800 + len("User: \n")
    assert max(len(text) for part in parts for text in part.translated.values()) < 1700


utterances = st.lists(
    st.tuples(
        st.text(st.sampled_from("ab 你好世界é😀\n"), max_size=400),
        st.none() | st.text(st.sampled_from("xy 今天天気ñ🎉"), max_size=400),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(utterances, st.sampled_from([20, 100, 800]))
def test_context_is_short_valid_text_that_keeps_the_newest_part(spoken, limit):
    subject = groups(max_context_chars=limit)
    newest = ""
    for index, (asr, translation) in enumerate(spoken):
        if subject.join(Heard(index, asr, "en", translation), NOW, WALL_MS) is None:
            assert not asr.strip()
            continue
        newest = f"User: {' '.join(asr.split())[:limit]}\n"
        if translation and translation.strip():
            newest += f"Target: {' '.join(translation.split())[:limit]}\n"
        text = context(subject)
        assert len(text) <= limit
        assert text.encode().decode() == text
        assert text.endswith(newest) if len(newest) <= limit else text == newest[:limit]
        assert text.startswith("User: ")
