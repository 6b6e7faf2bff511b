"""The first of many are those that sorting all of them would give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.admin.foremost import Foremost


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers()), unique=True), st.integers(1, 12))
def test_they_are_what_sorting_gives(places, most):
    foremost = Foremost[str](most)
    for place in places:
        foremost.add(place, str(place))
    assert foremost.items == [str(place) for place in sorted(places)[:most]]
