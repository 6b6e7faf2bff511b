"""Buckets and strikes, and that the limits fit to one another."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.edge.limits import Allowance, NodeSocketOptions, SocketOptions, Strikes, TokenBucket
from lingua_scheduler.edge.server import EdgeOptions
from lingua_scheduler.wire.codec import DEFAULT_OPTIONS


def test_a_bucket_gives_its_burst_and_then_its_rate():
    bucket = TokenBucket(10, 3, now_s=0.0)
    assert [bucket.take(1, 0.0) for _ in range(4)] == [True, True, True, False]
    assert not bucket.take(1, 0.05)
    assert bucket.take(1, 0.1)
    assert [bucket.take(1, 100.0) for _ in range(4)] == [True, True, True, False]


def test_a_refused_question_takes_nothing():
    bucket = TokenBucket(1, 10, now_s=0.0)
    assert not bucket.take(11, 0.0)
    assert bucket.take(10, 0.0)


@given(st.lists(st.tuples(st.floats(0, 0.5), st.floats(0, 5)), max_size=60))
def test_a_bucket_never_gives_more_than_burst_and_rate(steps):
    bucket, now_s, given_out = TokenBucket(4, 8, now_s=0.0), 0.0, 0.0
    for wait_s, amount in steps:
        now_s += wait_s
        if bucket.take(amount, now_s):
            given_out += amount
        assert given_out <= 8 + 4 * now_s + 1e-6


@given(st.lists(st.tuples(st.floats(0, 0.5), st.integers(0, 2000)), max_size=60))
def test_an_allowance_is_a_bucket_of_messages_and_one_of_bytes(steps):
    options = SocketOptions(messages_per_s=20, message_burst=8, bytes_per_s=2000, byte_burst=6000)
    allowance, now_s = Allowance(options, 0.0), 0.0
    messages, octets = TokenBucket(20, 8, 0.0), TokenBucket(2000, 6000, 0.0)
    for wait_s, size in steps:
        now_s += wait_s
        excess = allowance.excess(size, now_s)
        if not messages.take(1, now_s):
            assert "messages_per_s" in excess
            return
        if not octets.take(size, now_s):
            assert "bytes_per_s" in excess
            return
        assert excess == ""


def test_strikes_count_within_their_window_only():
    strikes = Strikes(3, 10.0)
    assert [strikes.add(now_s) for now_s in (0.0, 6.0, 12.0, 15.9, 16.0)] == [False, False, False, True, True]


def test_the_longest_message_fits_into_the_burst_of_bytes():
    assert SocketOptions().byte_burst > DEFAULT_OPTIONS.client_ceiling_bytes
    assert NodeSocketOptions().byte_burst > DEFAULT_OPTIONS.node_ceiling_bytes


def test_a_partly_set_node_table_keeps_the_defaults_of_nodes():
    options = msgspec.convert({"nodes": {"pings_per_s": 5}}, EdgeOptions)
    assert options.nodes.pings_per_s == 5
    assert options.nodes.send_queue_messages == NodeSocketOptions().send_queue_messages == 1000


@pytest.mark.parametrize("bad", [{"port": 70_000}, {"clients": {"silence_s": 0}}, {"unknown": 1}])
def test_values_out_of_bounds_are_refused(bad):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(bad, EdgeOptions)
