"""How often each address has failed lately: whoever tries many keys is not heard for a while."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

_WINDOW_S: Final = 60.0
_MOST_ADDRESSES: Final = 10_000  # beyond them those that failed longest ago are forgiven


class Failures:
    """Counts failures per address within windows of a minute; `most` 0 counts nothing."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._windows: OrderedDict[str, tuple[float, int]] = OrderedDict()  # since when, how many

    def __len__(self) -> int:
        return len(self._windows)

    def too_many(self, address: str, now_s: float) -> bool:
        """Tell whether an address has failed too often to be heard now."""
        since_s, count = self._windows.get(address, (now_s, 0))
        return 0 < self._most <= count and now_s - since_s < _WINDOW_S

    def add(self, address: str, now_s: float) -> None:
        """Count one."""
        if not self._most:
            return
        since_s, count = self._windows.pop(address, (now_s, 0))
        fresh = now_s - since_s >= _WINDOW_S
        self._windows[address] = (now_s, 1) if fresh else (since_s, count + 1)
        if len(self._windows) > _MOST_ADDRESSES:
            self._windows.popitem(last=False)
