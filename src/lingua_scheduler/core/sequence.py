"""Frame numbers of one session: each is taken once, whatever order they come in."""

from __future__ import annotations

_WINDOW = 512
_ALL = (1 << _WINDOW) - 1


class SequenceWindow:
    """Remembers the newest numbers; one from far below means that the client counts anew.

    Whoever sees that a number is `next` may take it by raising `next` by one, without asking `fresh`.
    """

    __slots__ = ("_seen", "_seen_to", "next", "skipped")

    def __init__(self, highest: int | None = None) -> None:
        self.next = None if highest is None else highest + 1  # above all that were taken
        self.skipped = 0  # numbers jumped over so far
        self._seen = 0 if highest is None else _ALL  # bit n: `_seen_to` - n was seen
        self._seen_to = highest or 0  # every number from here to `next` was seen

    @property
    def highest(self) -> int | None:
        """The highest number taken."""
        return None if self.next is None else self.next - 1

    def fresh(self, number: int) -> bool:
        """Take a number; False when it was taken before."""
        highest = self.highest
        if highest is None or number <= highest - _WINDOW:
            self._seen = 1
        elif number > highest:
            self._seen = self._seen_at(highest) << min(number - highest, _WINDOW) & _ALL | 1
            self.skipped += number - highest - 1
        else:
            seen, bit = self._seen_at(highest), 1 << highest - number
            self._seen, self._seen_to = seen | bit, highest
            if seen & bit:
                return False
            self.skipped -= 1
            return True
        self._seen_to, self.next = number, number + 1
        return True

    def _seen_at(self, highest: int) -> int:
        """Give the window below the highest number, with those that were taken as the next one."""
        run = min(highest - self._seen_to, _WINDOW)
        return (self._seen << run | (1 << run) - 1) & _ALL
