"""Rooms: into which languages an utterance goes, and who hears what."""

from __future__ import annotations

import pytest

from lingua_scheduler.core.model import InstanceId, Languages, SessionId
from lingua_scheduler.core.rooms import (
    FanOut,
    Guesses,
    Member,
    Mode,
    Room,
    RoomOptions,
    Speech,
    Target,
    audience,
    hears,
    is_room_code,
    may_signal,
    new_room_code,
    new_room_id,
    plan,
    readers,
)

A, B, C, D = (SessionId(f"s-{name}") for name in "abcd")
HOME = InstanceId("instance-a")
ZH = Speech(A, "zh")


def room(*members: Member) -> Room:
    """Make a room of members in the order of joining."""
    return Room("123456", "room-1", 1, members, spoken_ms=0, remaining_ms=1)


def member(session_id: SessionId, lang: str | None = None, **said) -> Member:
    """Describe a member; it came after those whose name comes first."""
    number = ord(session_id[-1])
    return Member(session_id, HOME, 1, number, "2026-01-01T00:00:00.000Z", preferred_lang=lang, **said)


FOUR = room(member(A, "zh"), member(B, "en"), member(C, "en"), member(D, "ja"))


# Which jobs


def test_each_language_of_the_others_is_needed_once():
    """Case 107."""
    assert plan(FOUR, ZH, "fr") == FanOut((Target("en", voice=True), Target("ja", voice=True)))


def test_each_language_is_heard_by_those_who_want_it():
    """Case 108."""
    en, ja = plan(FOUR, ZH, "fr").targets
    assert [each.session_id for each in audience(FOUR, ZH, en).voice] == [B, C]
    assert [each.session_id for each in audience(FOUR, ZH, ja).voice] == [D]
    assert readers(FOUR, ZH) == ()


def test_who_is_alone_is_translated_for_itself():
    """Case 110."""
    alone = room(member(A, "zh"))
    (target,) = plan(alone, ZH, "en").targets
    assert target == Target("en", voice=True, own=True)
    assert [each.session_id for each in audience(alone, ZH, target).voice] == [A]


def test_who_is_heard_by_nobody_with_a_language_is_translated_for_itself():
    """Case 111."""
    silent = room(member(A, "zh"), member(B))
    (target,) = plan(silent, ZH, "en").targets
    assert target.own
    assert [each.session_id for each in audience(silent, ZH, target).voice] == [A]


def test_who_wants_no_language_hears_nothing_once_somebody_wants_one():
    some = room(member(A), member(B), member(C, "en"))
    (target,) = plan(some, ZH, "fr").targets
    assert target == Target("en", voice=True)
    assert [each.session_id for each in audience(some, ZH, target).voice] == [C]


def test_who_wants_the_spoken_language_is_shown_the_recognised_text():
    mixed = room(member(A), member(B, "zh"), member(C, "en"))
    assert [target.lang for target in plan(mixed, ZH, "fr").targets] == ["en"]
    assert [each.session_id for each in readers(mixed, ZH)] == [B]


def test_when_all_want_the_spoken_language_there_is_no_job():
    """They hear the speaker's own voice."""
    same = room(member(A), member(B, "zh"))
    out = plan(same, ZH, "en")
    assert (out.targets, out.first, out.followers) == ((), None, ())


def test_a_speaker_who_may_use_several_languages_is_translated_into_each_that_is_wanted():
    two_way = Languages("auto", "en", lang_a="zh", lang_b="en")
    speech = Speech.of(A, two_way)
    assert speech == Speech(A, None)
    both = room(member(A), member(B, "en"), member(C, "zh"))
    assert {target.lang for target in plan(both, speech, "en").targets} == {"en", "zh"}
    assert readers(both, speech) == ()


def test_the_language_of_a_speaker_is_known_when_there_is_one_choice():
    assert Speech.of(A, Languages("zh", "en")) == ZH
    assert Speech.of(A, Languages("auto", "en", auto_langs=("zh",))) == ZH


def test_what_the_speaker_wants_to_hear_makes_no_job():
    others = room(member(A, "fr"), member(B, "en"))
    assert [target.lang for target in plan(others, ZH, "fr").targets] == ["en"]


# Which one recognises


def test_the_longest_listener_decides_which_job_recognises():
    late = room(member(A), member(B, "ja"), member(C, "en"), member(D, "de"))
    out = plan(late, ZH, "fr")
    assert out.first is not None
    assert out.first.lang == "ja"
    assert [target.lang for target in out.followers] == ["de", "en"]


def test_one_who_joins_does_not_move_the_recognition():
    before = room(member(A), member(B, "ja"), member(C, "en"))
    after = room(*before.members, member(D, "ar"))
    assert plan(before, ZH, "fr").first == plan(after, ZH, "fr").first


# Modes


@pytest.mark.parametrize("mode", [Mode.CAPTIONS, Mode.TEXT])
def test_nothing_is_spoken_for_those_who_read(mode):
    reading = room(member(A), member(B, "en", mode=mode), member(C, "ja", mode=mode), member(D, "ja"))
    assert plan(reading, ZH, "fr").targets == (Target("en", voice=False), Target("ja", voice=True))
    heard = audience(reading, ZH, Target("ja", voice=True))
    assert ([each.session_id for each in heard.voice], [each.session_id for each in heard.text]) == ([D], [C])


def test_a_lone_speaker_who_reads_needs_no_voice():
    alone = room(member(A, mode=Mode.TEXT))
    (target,) = plan(alone, ZH, "en").targets
    assert not target.voice
    assert audience(alone, ZH, target).text == alone.members


# At delivery


def test_who_left_meanwhile_hears_nothing():
    """Case 115."""
    (en, _) = plan(FOUR, ZH, "fr").targets
    later = room(*FOUR.others(B))
    assert [each.session_id for each in audience(later, ZH, en).voice] == [C]


def test_who_came_or_changed_meanwhile_hears_what_is_delivered_from_then_on():
    (en, ja) = plan(FOUR, ZH, "fr").targets
    late = member(SessionId("s-e"), "en")
    later = room(*FOUR.others(C), member(C, "ja"), late)
    assert {each.session_id for each in audience(later, ZH, en).voice} == {B, late.session_id}
    assert {each.session_id for each in audience(later, ZH, ja).voice} == {C, D}


def test_a_speaker_who_left_is_still_heard():
    (en, _) = plan(FOUR, ZH, "fr").targets
    assert [each.session_id for each in audience(room(*FOUR.others(A)), ZH, en).voice] == [B, C]


def test_a_lone_speaker_hears_its_own_result_whoever_has_come():
    (own,) = plan(room(member(A)), ZH, "en").targets
    later = room(member(A), member(B, "en"), member(C, "ja"))
    assert [each.session_id for each in audience(later, ZH, own).voice] == [A, B]


def test_nobody_hears_a_result_twice_when_the_session_translates_into_its_own_language():
    own = Target("zh", voice=True, own=True)
    listener = member(B, "zh")
    assert not hears(listener, ZH, own)
    assert readers(room(member(A), listener), ZH) == (listener,)


# Voices


def test_a_muted_pair_is_silent_both_ways():
    """Cases 122 and 123."""
    muted = room(member(A), member(B, raw_voice={A: False, C: True}), member(C))
    assert not may_signal(muted, A, B)
    assert not may_signal(muted, B, A)
    assert may_signal(muted, A, C)
    assert may_signal(muted, B, C)


def test_strangers_do_not_signal():
    """Cases 124 and 125."""
    two = room(member(A), member(B))
    assert not may_signal(two, C, B)
    assert not may_signal(two, A, C)
    assert not may_signal(two, A, A)
    assert may_signal(two, A, B)


def test_wishes_about_voices_are_seen_by_their_owner_only():
    one = member(B, raw_voice={A: False})
    assert one.preferences_for(B) == {A: False}
    assert one.preferences_for(A) is None


# Codes


def test_a_code_has_six_digits_and_does_not_begin_with_zero():
    codes = {new_room_code() for _ in range(2000)}
    assert all(is_room_code(code) for code in codes)
    assert {code[0] for code in codes} == set("123456789")
    assert len(codes) > 1900


@pytest.mark.parametrize("text", ["", "abc", "12345", "1234567", "12345\n", "}{1234"])
def test_nothing_else_is_a_code(text):
    """Case 100."""
    assert not is_room_code(text)


def test_what_could_be_a_code_is_one_even_if_it_is_never_drawn():
    """Case 99: an unknown code, not an invalid one."""
    assert is_room_code("000000")


def test_ids_are_not_repeated():
    assert len({new_room_id() for _ in range(100)}) == 100


# Guesses


def test_wrong_codes_are_counted_per_session_and_per_address():
    guesses = Guesses(RoomOptions(guesses_per_minute=2))
    assert [guesses.try_code(A, "192.0.2.1", now) for now in (0, 1, 2)] == [True, True, False]
    assert not guesses.try_code(A, "192.0.2.2", 3), "another address does not help the session"
    assert not guesses.try_code(B, "192.0.2.1", 3), "another session does not help the address"
    assert guesses.try_code(B, "192.0.2.2", 3)
    assert guesses.try_code(A, "192.0.2.1", 60)


def test_who_is_refused_for_its_address_keeps_its_own_tries():
    guesses = Guesses(RoomOptions(guesses_per_minute=1))
    assert guesses.try_code(A, "192.0.2.1", 0)
    assert not guesses.try_code(B, "192.0.2.1", 1)
    assert guesses.try_code(B, "192.0.2.2", 2)


def test_right_codes_do_not_count():
    """A whole office may join through one address."""
    guesses = Guesses(RoomOptions(guesses_per_minute=1))
    for number in range(20):
        session_id = SessionId(f"s-{number}")
        assert guesses.try_code(session_id, "2001:db8::1", 0)
        guesses.was_right(session_id, "2001:db8::1")
