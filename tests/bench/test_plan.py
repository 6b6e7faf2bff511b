"""Everything in a run follows from its seed, and has the distributions that the profile names."""

from __future__ import annotations

import itertools
import random
import statistics
from collections import Counter

import msgspec
import pytest

from lingua_scheduler.bench import plan
from lingua_scheduler.bench.plan import Client, Draws, Form, clients, crashes, nodes, utterances
from lingua_scheduler.bench.profile import Company, Fleet, Profile, Rooms, Sessions, Speech, System

LONG = Profile(warmup_s=0, duration_s=20_000)


def changed(**tables: object) -> Profile:
    return msgspec.structs.replace(Profile(), **tables)


def of(profile: Profile) -> Client:
    return clients(profile)[0]


def test_the_same_seed_gives_the_same_plan_and_another_one_another() -> None:
    profile = changed(
        sessions=Sessions(count=50, arrivals_per_s=2, stay_s=10), fleet=Fleet(crashes_per_min=60)
    )
    other = msgspec.structs.replace(profile, seed=2)
    for made in (
        clients,
        nodes,
        crashes,
        lambda each: list(utterances(each, Client(0, Form.PCM, "en", "zh", "t", 0))),
    ):
        assert made(profile) == made(profile)
        assert made(profile) != made(other)


def test_what_one_client_says_does_not_depend_on_how_many_there_are() -> None:
    """A larger run contains the smaller one, so that growth is not mixed with chance."""
    few, many = (changed(sessions=Sessions(count=number)) for number in (5, 50))
    assert clients(many)[:5] == clients(few)
    assert list(utterances(few, clients(few)[3])) == list(utterances(many, clients(many)[3]))


def test_speech_and_pauses_have_their_means() -> None:
    said = list(utterances(LONG, of(LONG)))
    lengths_s = [each.frames * 0.1 for each in said]
    pauses_s = [
        after.begins_s - before.begins_s - before.frames * 0.1 for before, after in itertools.pairwise(said)
    ]
    assert statistics.mean(lengths_s) == pytest.approx(3.5, rel=0.1)
    assert statistics.mean(pauses_s) == pytest.approx(3.2, rel=0.1)
    assert min(lengths_s) >= 0.5
    assert max(lengths_s) <= LONG.speech.longest_s
    assert len({round(each, 1) for each in lengths_s}) > 30


def test_without_a_spread_all_utterances_are_equally_long() -> None:
    profile = changed(speech=Speech(mean_s=2.0, sigma=0.0, pause_s=0.0), duration_s=60.0)
    assert {each.frames for each in utterances(profile, of(profile))} == {20}


def test_arrivals_are_poisson() -> None:
    """As many as the rate says, and as unevenly spread: the variance of counts is their mean."""
    times = plan.poisson(random.Random(1), 5.0, 2000.0)
    counts = Counter(int(each) for each in times)
    per_second = [counts[second] for second in range(2000)]
    assert statistics.mean(per_second) == pytest.approx(5.0, rel=0.05)
    assert statistics.variance(per_second) == pytest.approx(5.0, rel=0.15)
    assert plan.poisson(random.Random(1), 0.0, 100.0) == []


def test_clients_come_at_their_rate_and_stay_as_long_as_told() -> None:
    profile = changed(sessions=Sessions(count=0, arrivals_per_s=20, stay_s=5.0), warmup_s=0, duration_s=100.0)
    coming = clients(profile)
    assert len(coming) == pytest.approx(2000, rel=0.1)
    assert statistics.mean(each.leaves_s - (each.arrives_s or 0) for each in coming) == pytest.approx(
        5, rel=0.1
    )
    leaver = min(coming, key=lambda each: each.leaves_s)
    assert all(each.begins_s < leaver.leaves_s for each in utterances(profile, leaver))


def test_overload_multiplies_those_who_speak() -> None:
    profile = changed(sessions=Sessions(count=100, idle=10), overload=1.5)
    assert sum(not each.silent for each in clients(profile)) == 150


def test_pairs_and_tenants_follow_zipf() -> None:
    profile = changed(sessions=Sessions(count=20_000))
    everybody = clients(profile)
    ranked = [number for _, number in Counter((each.src, each.tgt) for each in everybody).most_common()]
    assert len(ranked) == 12
    assert ranked[0] / ranked[1] == pytest.approx(2, rel=0.15)
    assert ranked[0] / ranked[3] == pytest.approx(4, rel=0.2)
    assert len({each.tenant for each in everybody}) == 50
    assert all(each.src != each.tgt for each in everybody)


def test_as_many_pairs_as_asked_for_and_no_two_alike() -> None:
    for number in (1, 2, 7, 100, 600):
        made = plan.pairs(changed(company=Company(pairs=number)))
        assert len(set(made)) == number


def test_forms_have_their_parts() -> None:
    forms = Counter(each.form for each in clients(changed(sessions=Sessions(count=10_000))))
    assert forms[Form.OPUS] / 10_000 == pytest.approx(0.4, abs=0.03)
    assert forms[Form.BINARY] / 10_000 == pytest.approx(0.3, abs=0.03)


def test_rooms_have_their_sizes_and_every_member_a_language_of_its_own() -> None:
    profile = changed(sessions=Sessions(count=200), rooms=Rooms(share=0.5, fewest=2, most=6))
    everybody = clients(profile)
    housed = [each for each in everybody if each.room is not None]
    assert 98 <= len(housed) <= 100
    for members in (
        [each for each in housed if each.room == room] for room in {each.room for each in housed}
    ):
        assert 2 <= len(members) <= 6
        assert len({each.src for each in members}) == len(members)
        assert {each.tgt for each in members} <= {each.src for each in members}
    assert [each.number for each in everybody] == list(range(200))


def test_clients_and_nodes_go_to_the_instances_that_are_named() -> None:
    profile = changed(system=System(instances=3, clients_at="first"), fleet=Fleet(at="last", nodes=6))
    assert {each.instance for each in clients(profile)} == {0}
    assert {each.instance for each in nodes(profile)} == {2}
    assert plan.instances_at("all", 3) == (0, 1, 2)
    assert (plan.instances_at("even", 3), plan.instances_at("odd", 3)) == ((0, 2), (1,))
    assert plan.instances_at("odd", 1) == (0,)


def test_instances_that_are_apart_share_no_language() -> None:
    profile = changed(system=System(instances=3), company=Company(apart=True), fleet=Fleet(nodes=6))
    spoken = {each.instance: each.languages for each in nodes(profile)}
    assert len({word for pair in spoken.values() for word in pair}) == 6
    assert all((each.src, each.tgt) == spoken[each.instance] for each in clients(profile))


def test_the_fleet_has_its_slots_its_slow_nodes_and_its_service_times() -> None:
    profile = changed(fleet=Fleet(nodes=200))
    fleet = nodes(profile)
    assert {each.slots for each in fleet} == set(range(2, 9))
    assert sum(each.factor > 1 for each in fleet) == 4
    service = Draws.of_service(profile)
    times_s = [service.of(client, index) for client in range(100) for index in range(100)]
    assert statistics.median(times_s) == pytest.approx(1.2 / 2.718281828**0.18, rel=0.05)
    assert service.of(3, 4) == Draws.of_service(profile).of(3, 4)


def test_stragglers_take_longer() -> None:
    profile = changed(fleet=Fleet(service_s=1.0, sigma=0.0, straggler_share=0.02, straggler_factor=6.0))
    service = Draws.of_service(profile)
    times_s = Counter(service.of(client, index) for client in range(100) for index in range(100))
    assert set(times_s) == {1.0, 6.0}
    assert times_s[6.0] / 10_000 == pytest.approx(0.02, abs=0.005)


def test_jitter_stays_within_its_bound() -> None:
    jitter = Draws.of_jitter(Profile())
    values_s = [jitter.of(client, frame) for client in range(50) for frame in range(200)]
    assert -0.01 <= min(values_s) < -0.009
    assert 0.009 < max(values_s) <= 0.01
