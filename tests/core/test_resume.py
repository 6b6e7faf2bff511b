"""Tokens: sealed, bound to a session, its epoch and its tenant; anything else is no token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.core.model import SessionId, new_session_id
from lingua_scheduler.core.resume import make, read

SECRET = b"s" * 32
SESSION = SessionId("s-0123456789abcdef0123")
TOKEN = make(SECRET, SESSION, 7)


def test_a_token_names_its_session_and_epoch():
    assert read(SECRET, TOKEN) == (SESSION, 7)


@given(st.integers(1, 2**53), st.text(max_size=20))
def test_every_token_is_read_back(epoch, tenant):
    session_id = new_session_id()
    token = make(SECRET, session_id, epoch, tenant=tenant)
    assert read(SECRET, token, tenant=tenant) == (session_id, epoch)


def test_a_token_is_short_and_fits_an_address():
    longest = make(SECRET, new_session_id(), 2**53)
    assert len(longest) < 200
    assert set(longest) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")


def test_another_secret_or_tenant_reads_nothing():
    assert read(b"t" * 32, TOKEN) is None
    assert read(SECRET, TOKEN, tenant="acme") is None
    assert read(SECRET, make(SECRET, SESSION, 7, tenant="acme")) is None


@pytest.mark.parametrize("at", range(len(TOKEN)))
def test_a_token_with_one_character_changed_is_none(at):
    other = "A" if TOKEN[at] != "A" else "B"
    assert read(SECRET, TOKEN[:at] + other + TOKEN[at + 1 :]) is None


@given(st.text())
def test_other_text_is_no_token(text):
    assert read(SECRET, text) is None
    assert read(SECRET, f"{TOKEN}{text}") is None or not text


@pytest.mark.parametrize("text", ["", ".", "...", "r1", "r1...", f"r1.{SESSION}.x.", "\udc80.\udc80"])
def test_pieces_of_a_token_are_none(text):
    assert read(SECRET, text) is None
