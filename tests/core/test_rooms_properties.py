"""Whoever is in a room and whatever they want: nobody hears twice, nothing is done for nobody."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lingua_scheduler.core.model import InstanceId, SessionId
from lingua_scheduler.core.rooms import (
    Member,
    Mode,
    Room,
    Speech,
    Target,
    audience,
    hears,
    may_signal,
    plan,
    readers,
)

SESSIONS = [SessionId(f"s-{number}") for number in range(6)]
langs = st.sampled_from(["zh", "en", "ja", "de"])
speeches = st.builds(Speech, st.sampled_from(SESSIONS), st.none() | langs)


members = st.builds(
    Member,
    session_id=st.sampled_from(SESSIONS),
    owner=st.just(InstanceId("instance-a")),
    epoch=st.just(1),
    number=st.just(1),
    joined_at=st.just("2026-01-01T00:00:00.000Z"),
    display_name=st.none(),
    preferred_lang=st.none() | langs,
    mode=st.sampled_from(Mode),
    raw_voice=st.dictionaries(st.sampled_from(SESSIONS), st.booleans(), max_size=3),
)
rooms = st.builds(
    Room,
    code=st.just("123456"),
    room_id=st.just("room-1"),
    version=st.just(1),
    members=st.lists(members, unique_by=lambda member: member.session_id).map(tuple),
    spoken_ms=st.just(0),
    remaining_ms=st.just(1),
)
unhurried = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def heard(room: Room, speech: Speech, target: Target) -> list[Member]:
    """Give everybody who hears the result of a target."""
    reached = audience(room, speech, target)
    return [*reached.voice, *reached.text]


@unhurried
@given(rooms, speeches, langs)
def test_every_other_member_hears_its_language_or_reads_or_hears_nothing(room, speech, own_tgt):
    targets = plan(room, speech, own_tgt).targets
    times = Counter(each.session_id for target in targets for each in heard(room, speech, target))
    reading = {each.session_id for each in readers(room, speech)}
    for other in room.others(speech.speaker):
        wants = other.preferred_lang
        assert (other.session_id in reading) == (wants is not None and wants == speech.src)
        assert times[other.session_id] == (1 if wants and wants != speech.src else 0)
        for target in targets:
            assert not hears(other, speech, target) or target.lang == wants


@unhurried
@given(rooms, speeches, langs)
def test_each_language_has_one_job_and_no_job_is_for_nobody(room, speech, own_tgt):
    out = plan(room, speech, own_tgt)
    assert len({target.lang for target in out.targets}) == len(out.targets)
    assert out.targets == ((out.first, *out.followers) if out.first else ())
    for target in out.targets:
        assert target.own or heard(room, speech, target)
        assert target.own or target.lang != speech.src
        if not target.own:
            assert target.voice == bool(audience(room, speech, target).voice)
    own = [target for target in out.targets if target.own]
    assert bool(own) == (not any(other.preferred_lang for other in room.others(speech.speaker)))
    assert own == [] or (len(out.targets) == 1 and own[0].lang == own_tgt)


@unhurried
@given(rooms, rooms, speeches, langs)
def test_the_room_at_delivery_decides_who_hears(before, after, speech, own_tgt):
    """Never two, never somebody outside, never a language that is not wanted."""
    targets = plan(before, speech, own_tgt).targets
    reached = [(each, target) for target in targets for each in heard(after, speech, target)]
    times = Counter(each.session_id for each, _ in reached)
    times.update(each.session_id for each in readers(after, speech))
    assert all(count == 1 for count in times.values())
    assert times.keys() <= {each.session_id for each in after.members}
    for each, target in reached:
        assert target.own if each.session_id == speech.speaker else each.preferred_lang == target.lang


@unhurried
@given(rooms, st.sampled_from(SESSIONS), st.sampled_from(SESSIONS))
def test_signalling_is_mutual_and_among_members(room, one, other):
    allowed = may_signal(room, one, other)
    assert allowed == may_signal(room, other, one)
    assert not allowed or {one, other} <= {each.session_id for each in room.members}
