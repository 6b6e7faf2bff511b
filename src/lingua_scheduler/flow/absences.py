"""Members of rooms whom nobody holds: their instance has died, and their clients may still come back.

Every instance that has members in a room looks after the others there. Whoever is first removes a member
whose time is over; its epoch says whether it has come back meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lingua_scheduler.core.model import InstanceId, SessionId

Absence = tuple[str, SessionId, int]
"""The code of a room, a member, and the epoch of its owner."""


class Absences:
    """Counts the time since members have had nobody."""

    def __init__(self, window_s: float, *, is_stray: Callable[[Absence, InstanceId], bool]) -> None:
        self._window_s = window_s
        self._is_stray = is_stray  # a member is said to be here, and is not
        self._since: dict[Absence, float] = {}
        self._orphans: set[Absence] = set()  # their instance died, even if it lives again under its id

    def lost(self, instance_id: InstanceId, members: Iterable[tuple[Absence, InstanceId]]) -> None:
        """An instance has died; it may live again, without the sessions it had."""
        self._orphans |= {name for name, owner in members if owner == instance_id}

    def over(
        self, members: dict[Absence, InstanceId], reachable: frozenset[InstanceId], now: float
    ) -> list[Absence]:
        """Give those who have had the time to come back, once; who is back is not counted any more."""
        self._orphans &= members.keys()
        gone = [
            name
            for name, owner in members.items()
            if owner not in reachable or name in self._orphans or self._is_stray(name, owner)
        ]
        self._since = {name: self._since.get(name, now) for name in gone}
        over = [name for name, begun in self._since.items() if now - begun >= self._window_s]
        for name in over:
            del self._since[name]
            self._orphans.discard(name)
        return over
