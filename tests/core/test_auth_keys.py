"""Keys and tokens: nobody guesses one, changes one or learns one from what is kept or printed."""

from __future__ import annotations

import hmac

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.core import keys, resume
from lingua_scheduler.core.failures import Failures
from lingua_scheduler.core.keys import (
    KeyFacts,
    KeyKind,
    KeyRecord,
    Refusal,
    TokenFacts,
    TokenWish,
    bearer_of,
    digest_of,
    fits,
    key_id_of,
    made_key,
    opened,
    sealed,
    well_formed,
)
from lingua_scheduler.core.model import SessionId

SECRET = b"s" * 32


def record(kind: KeyKind = KeyKind.ADMIN, **members) -> tuple[str, KeyRecord]:
    """Make a key and what is kept of it."""
    key_id, key = made_key(kind)
    times = {name: members.pop(name) for name in ("expires_ms", "revoked_ms") if name in members}
    return key, KeyRecord(KeyFacts(id=key_id, kind=kind, digest=digest_of(key), **members), **times)


def facts(**members) -> TokenFacts:
    """Say something in a token."""
    basic = {"key_id": "0123456789ab", "tenant": "acme", "scope": "session", "until_ms": 5000}
    return TokenFacts(**{**basic, **members})


# Keys


@pytest.mark.parametrize("kind", KeyKind)
def test_a_key_names_its_kind_and_id_and_fits_its_record(kind):
    tenant = "acme" if kind is KeyKind.TENANT else ""
    key, known = record(kind, tenant=tenant)
    assert str(key).split("_")[:3] == ["lk", kind.value, known.facts.id]
    assert key_id_of(key) == known.facts.id
    assert fits(key, known)


def test_keys_differ_and_have_160_random_bits():
    made = {str(made_key(KeyKind.NODE)[1]) for _ in range(100)}
    assert len(made) == 100
    assert {len(key.rpartition("_")[2]) * 4 for key in made} == {160}


def test_another_key_with_the_same_id_does_not_fit():
    key, known = record()
    assert not fits(f"{key[:-1]}{'0' if key[-1] != '0' else '1'}", known)
    assert not fits(key.replace("admin", "tenant"), known), "the kind is part of what is hashed"
    assert not fits(key, None)


def test_what_is_kept_and_printed_does_not_tell_the_key():
    key, known = record()
    secret = str(key).rpartition("_")[2]
    assert secret not in repr(known)
    assert secret not in repr(key)
    assert secret not in msgspec.json.encode(known.facts).decode()


@pytest.mark.parametrize(
    "text",
    ["", "lk_", "lk_tenant_0123456789ab_", "lk_root_0123456789ab_" + "0" * 40, "lk_admin_x_" + "0" * 40]
    + [f"lk_admin_0123456789ab_{'0' * 40}{end}" for end in ("\n", "0", " ", "\u0661")]
    + ["LK_ADMIN_0123456789AB_" + "0" * 40, "lk_admin_0123456789ab_" + "\u0660" * 40],
)
def test_what_is_not_a_key_has_no_id(text):
    assert key_id_of(text) is None


def test_every_comparison_takes_the_same_time(monkeypatch):
    """A known id, an unknown one and a wrong secret all pass one constant-time comparison of one length."""
    lengths = []

    def compare(a: bytes, b: bytes) -> bool:
        lengths.append((len(a), len(b)))
        return hmac_compare(a, b)

    hmac_compare = hmac.compare_digest
    monkeypatch.setattr(keys.hmac, "compare_digest", compare)
    key, known = record()
    stranger, _ = record()
    assert [fits(key, known), fits(stranger, known), fits(key, None)] == [True, False, False]
    token = sealed(SECRET, facts())
    assert opened(SECRET, token)
    assert opened(b"t" * 32, token) is None
    assert lengths == [(71, 71)] * 3 + [(43, 43)] * 2


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("tenant", {}),
        ("node", {"tenant": "acme"}),
        ("admin", {"node_id": "node-1"}),
        ("admin", {"digest": "sha256:" + "0" * 63}),
        ("admin", {"digest": "md5:" + "0" * 64}),
        ("admin", {"id": "0123456789AB"}),
        ("admin", {"label": "x" * 129}),
        ("tenant", {"tenant": "acme", "max_sessions": -1}),
        ("root", {}),
    ],
)
def test_facts_that_make_no_sense_are_refused(kind, members):
    basic = {"id": "0123456789ab", "kind": kind, "digest": "sha256:" + "0" * 64}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**basic, **members}, KeyFacts)


def test_a_key_counts_until_it_expires_or_is_revoked():
    _, known = record(expires_ms=1000)
    assert known.refusal(999) is None
    assert known.refusal(1000) is Refusal.EXPIRED
    assert record(expires_ms=1000, revoked_ms=1)[1].refusal(2) is Refusal.REVOKED
    assert record()[1].refusal(10**15) is None


# Tokens


@given(
    tenant=st.text(min_size=1, max_size=64).filter(lambda text: text.isprintable()),
    room=st.from_regex(r"\A[0-9]{6}\Z"),
    languages=st.lists(st.sampled_from(["en", "zh", "pt-br"]), max_size=3),
)
def test_a_token_says_what_was_sealed_and_fits_into_a_header(tenant, room, languages):
    said = facts(tenant=tenant, room=room, languages=tuple(languages))
    token = sealed(SECRET, said)
    assert opened(SECRET, token) == said
    assert well_formed(token)
    assert not set(token) & set(',;= "/')


@given(st.data())
def test_a_token_with_one_other_character_is_no_token(data):
    token = sealed(SECRET, facts())
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters(codec="utf-8").filter(lambda mark: mark != token[place]))
    changed = opened(SECRET, token[:place] + other + token[place + 1 :])
    assert changed is None


@given(st.text())
def test_any_other_text_is_no_token(text):
    assert opened(SECRET, text) is None
    assert opened(SECRET, f"lt1.{text}") is None


def test_a_resume_token_is_no_session_token_and_the_other_way_round():
    """Both are sealed with the secret that all instances share."""
    token = resume.make(SECRET, SessionId("s-1"), 1, tenant="acme")
    assert opened(SECRET, token) is None
    assert resume.read(SECRET, sealed(SECRET, facts())) is None


def test_a_token_of_a_later_version_is_no_token(monkeypatch):
    monkeypatch.setattr(keys.msgspec.json, "encode", lambda _facts: b'{"k":"0123456789ab","new":1}')
    assert opened(SECRET, sealed(SECRET, facts())) is None


@pytest.mark.parametrize(
    "wish",
    [
        {"scope": "admin"},
        {"ttl_s": 0},
        {"ttl_s": 3601},
        {"ttl_s": 1.5},
        {"languages": []},
        {"languages": ["e n"]},
        {"languages": ["en"] * 17},
        {"room": "1\n"},
        {"room": ""},
        {"more": 1},
    ],
)
def test_wishes_beyond_the_limits_are_refused(wish):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wish, TokenWish)


def test_the_longest_token_can_be_shown():
    longest = facts(tenant="t" * 128, room="9" * 32, languages=("l" * 35,) * 16)
    assert well_formed(sealed(SECRET, longest))


# Headers


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ([], None),
        (["Bearer x"], "x"),
        (["bearer  x "], "x"),
        (["Bearer "], ""),
        (["Bearer"], ""),
        (["Basic x"], ""),
        (["x"], ""),
        ([""], ""),
        (["Bearer x", "Bearer x"], ""),
    ],
)
def test_one_bearer_is_read_and_everything_else_is_of_no_use(headers, found):
    assert bearer_of(headers) == found


@pytest.mark.parametrize("text", ["", "a b", "\u00e9", "a\tb", "a\x00", "x" * 2049])
def test_what_no_key_or_token_looks_like_is_not_looked_at(text):
    assert not well_formed(text)


# Failures


def test_an_address_is_not_heard_for_a_minute_after_too_many_failures():
    failures = Failures(3)
    for _ in range(3):
        assert not failures.too_many("a", 0.0)
        failures.add("a", 0.0)
    assert failures.too_many("a", 59.9)
    assert not failures.too_many("b", 0.0)
    assert not failures.too_many("a", 60.0)
    failures.add("a", 60.0)
    assert not failures.too_many("a", 60.0)


def test_failures_of_many_addresses_cost_bounded_memory():
    failures = Failures(1)
    for number in range(10_050):
        failures.add(str(number), 0.0)
    assert len(failures) == 10_000
    assert failures.too_many("10049", 1.0)


def test_failures_need_not_be_counted():
    failures = Failures(0)
    failures.add("a", 0.0)
    assert not failures.too_many("a", 0.0)
    assert len(failures) == 0
