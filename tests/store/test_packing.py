"""Commands on the wire: what is long travels without a copy and reads the same."""

from __future__ import annotations

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.store.packing import command_name, large, packed

words = st.text(st.characters(codec="utf-8")) | st.binary() | st.integers(-(2**62), 2**62)
viewed = st.binary().map(memoryview)


def plain(argument):
    """Give what a view shows."""
    return bytes(argument) if isinstance(argument, memoryview) else argument


@given(
    st.tuples(st.just("SET")).flatmap(
        lambda head: st.lists(words | viewed, max_size=6).map(lambda rest: (*head, *rest))
    )
)
def test_views_change_nothing_of_what_is_sent(args):
    assert b"".join(packed(args)) == hiredis.pack_command(tuple(map(plain, args)))


@given(st.lists(viewed, min_size=1, max_size=4))
def test_views_are_sent_as_they_are(views):
    wire = packed(("RPUSH", "key", *views, "end"))
    assert [piece for piece in wire if isinstance(piece, memoryview)] == views


def test_only_long_values_become_views():
    assert large(b"short") == b"short"
    assert isinstance(large(b"x" * 100_000), memoryview)


@pytest.mark.parametrize("wrong", [None, True, object(), ["a"]])
def test_a_value_of_another_kind_is_refused(wrong):
    for args in (("SET", "key", wrong), ("SET", memoryview(b"x"), wrong)):
        with pytest.raises(TypeError):
            packed(args)


def test_the_name_of_a_command_is_read_past_others():
    wire = packed(("ASKING",)) + packed(("set", "key", memoryview(b"x")))
    assert (command_name(wire), command_name(wire, skip=1)) == ("ASKING", "SET")
