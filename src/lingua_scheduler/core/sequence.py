"""Frame numbers of one session: each is taken once, whatever order they come in."""

from __future__ import annotations

_WINDOW = 512
_ALL = (1 << _WINDOW) - 1


class SequenceWindow:
    """Remembers the newest numbers; one from far below means that the client counts anew."""

    __slots__ = ("_seen", "highest", "skipped")

    def __init__(self, highest: int | None = None) -> None:
        self.highest = highest
        self.skipped = 0  # numbers jumped over so far
        self._seen = 0 if highest is None else _ALL  # bit n: highest - n was seen

    def fresh(self, number: int) -> bool:
        """Take a number; False when it was taken before."""
        highest = self.highest
        if highest is None or number <= highest - _WINDOW:
            self.highest, self._seen = number, 1
            return True
        ahead = number - highest
        if ahead > 0:
            self._seen = (self._seen << ahead | 1) & _ALL if ahead < _WINDOW else 1
            self.highest = number
            self.skipped += ahead - 1
            return True
        bit = 1 << -ahead
        if self._seen & bit:
            return False
        self._seen |= bit
        self.skipped -= 1
        return True
