"""The first of many in some order, found while the many are looked at one by one, not sorted at the end."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


class Foremost(Generic[Item]):
    """Keeps the items that come first by their places."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._places: list[tuple[Any, ...]] = []
        self.items: list[Item] = []

    def add(self, place: tuple[Any, ...], item: Item) -> None:
        """Take an item in; no two have the same place."""
        if len(self.items) == self._most and place > self._places[-1]:
            return
        at = bisect_left(self._places, place)
        self._places.insert(at, place)
        self.items.insert(at, item)
        del self._places[self._most :], self.items[self._most :]
