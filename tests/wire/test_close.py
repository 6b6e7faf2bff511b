"""The number of a close code says what the peer does next."""

from __future__ import annotations

import re

import pytest

from lingua_scheduler.wire.close import CloseCode, reconnects


@pytest.mark.parametrize("code", [code for code in CloseCode if code >= 4000])
def test_the_range_of_a_code_says_reconnect_or_give_up(code):
    assert code < 5000
    assert code.reconnect == (code < 4500)


@pytest.mark.parametrize("code", [1000, 1001, 1005, 1006, 1011, 1012, 1013, 4000, 4499])
def test_a_peer_comes_back_after_what_may_pass(code):
    assert reconnects(code)


@pytest.mark.parametrize("code", [1002, 1003, 1007, 1008, 1009, 4500, 4999])
def test_a_peer_stays_away_after_what_would_happen_again(code):
    assert not reconnects(code)


def test_the_table_lists_every_code_truly():
    rows = re.findall(r"^ +(\d{4})    (\w+) +(yes|no) ", CloseCode.__doc__ or "", re.MULTILINE)
    assert rows == [(str(code.value), code.name, "yes" if code.reconnect else "no") for code in CloseCode]
