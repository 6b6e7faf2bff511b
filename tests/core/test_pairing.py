"""Pairing codes: their form, and how often somebody may try."""

from __future__ import annotations

import pytest

from lingua_scheduler.core.pairing import Quota, is_code, neighbourhood, new_code


def test_a_code_has_six_digits_and_every_code_may_come():
    codes = {new_code() for _ in range(2000)}
    assert all(is_code(code) and len(code) == 6 for code in codes)
    assert len(codes) > 1900
    assert {code[0] for code in codes} == set("0123456789")


@pytest.mark.parametrize(
    "text",
    ["", "12345", "1234567", "12345a", " 12345", "12345\n", "\uff11" * 6, "-12345"],
)
def test_nothing_else_is_a_code(text):
    assert not is_code(text)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("somewhere", "somewhere"),
    ],
)
def test_neighbours_guess_together(address, name):
    assert neighbourhood(address) == name


def test_a_quota_is_for_each_name_and_for_any_window():
    quota = Quota(2, 60)
    assert [quota.take("a", 0), quota.take("a", 30), quota.take("a", 59)] == [True, True, False]
    assert quota.take("b", 59)
    assert quota.take("a", 60), "the first one is a minute old"
    assert not quota.take("a", 61)
    assert quota.take("a", 90)


def test_what_is_given_back_does_not_count():
    quota = Quota(1, 60)
    for now in range(5):
        assert quota.take("a", now)
        quota.give_back("a")
    assert quota.take("a", 5)
    assert not quota.take("a", 6)
    quota.give_back("stranger")


def test_those_who_stopped_are_forgotten():
    quota = Quota(3, 60)
    for number in range(100):
        quota.take(f"n{number}", number / 10)
        if number % 2:
            quota.give_back(f"n{number}")
    quota.take("last", 100)
    assert len(quota) == 1
    assert len(quota._order) == 1


def test_those_who_are_refused_are_not_remembered_for_longer():
    quota = Quota(1, 60)
    quota.take("a", 0)
    for now in range(1, 60):
        assert not quota.take("a", now)
    assert quota.take("a", 60)
