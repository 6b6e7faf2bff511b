"""Ids of this protocol and of the W3C trace context are the same ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.core.model import new_trace_id
from lingua_scheduler.tracing.context import Context, read_traceparent, span_of, trace_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_a_traceparent_is_read_and_written():
    context = read_traceparent(f"00-{TRACE}-{SPAN}-01")
    assert context == Context(TRACE, SPAN, sampled=True)
    assert context.traceparent == f"00-{TRACE}-{SPAN}-01"
    unsampled = read_traceparent(f"00-{TRACE}-{SPAN}-00")
    assert not unsampled.sampled
    assert unsampled.traceparent.endswith("-00")


def test_a_later_version_is_read_as_far_as_it_is_known():
    assert read_traceparent(f"01-{TRACE}-{SPAN}-03-more") == Context(TRACE, SPAN, sampled=True)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "00",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"01-{TRACE}-{SPAN}-01-" + "x" * 1000,
        f"00-{TRACE}-{SPAN}-0\uff11",
    ],
)
def test_what_is_no_traceparent_is_none(text):
    assert read_traceparent(text) is None


@given(st.text(max_size=200))
def test_no_text_makes_reading_fail(text):
    read_traceparent(text)
    assert len(trace_of(text)) == 32


def test_a_trace_id_that_has_the_form_is_the_id_of_the_trace():
    made = new_trace_id()
    assert trace_of(made) == made
    assert trace_of("0E6F2F0A-1111-4222-8333-444455556666") == "0e6f2f0a111142228333444455556666"


@pytest.mark.parametrize("given_id", ["t-1", "", "x" * 128, "0" * 32])
def test_any_other_becomes_one_by_a_rule_that_all_follow(given_id):
    trace = trace_of(given_id)
    assert read_traceparent(f"00-{trace}-{span_of(given_id)}-01") is not None
    assert trace == trace_of(given_id) != trace_of(given_id + "?")
