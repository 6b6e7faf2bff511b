"""Pairing codes: what one looks like, and how often one may be asked for or guessed.

A code is short because a person types it. It is safe because it works once and not for long, and because
nobody may guess often.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections import deque
from typing import Annotated

import msgspec

_DIGITS = 6
_CODE = re.compile(rf"[0-9]{{{_DIGITS}}}")
_IPV6_HOST_BITS = 64  # one customer has all addresses below these


class PairingOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a pairing code lives, and how often one may be asked for or guessed."""

    code_life_s: Annotated[int, msgspec.Meta(ge=30, le=3600)] = 300
    """How long a code may be used, once."""
    codes_per_minute: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10
    """Codes a node may ask for each minute."""
    guesses_per_minute: Annotated[int, msgspec.Meta(ge=1)] = 5
    """Wrong codes from one address each minute; behind a proxy that hides addresses, allow more."""
    guesses_per_connection: Annotated[int, msgspec.Meta(ge=1)] = 5
    """Wrong codes on one connection that close it with 4529."""


def new_code() -> str:
    """Make a code that nobody can foresee."""
    return f"{secrets.randbelow(10**_DIGITS):0{_DIGITS}d}"


def is_code(text: str) -> bool:
    """Tell whether a text could be a code at all."""
    return _CODE.fullmatch(text) is not None


def neighbourhood(address: str) -> str:
    """Name those who guess together: an IPv4 address, or the network that an IPv6 address is from."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(known, ipaddress.IPv4Address):
        return str(known)
    if known.ipv4_mapped is not None:
        return str(known.ipv4_mapped)
    network = int(known) >> _IPV6_HOST_BITS << _IPV6_HOST_BITS
    return f"{ipaddress.IPv6Address(network)}/{_IPV6_HOST_BITS}"


class Quota:
    """Lets everybody do something `most` times within any window of time; forgets those who stopped."""

    def __init__(self, most: int, window_s: float) -> None:
        self._most = most
        self._window_s = window_s
        self._taken: dict[str, deque[float]] = {}  # by name, oldest first
        self._order: deque[tuple[float, str]] = deque()  # all of it; some may be given back already

    def __len__(self) -> int:
        """Count the names that are remembered."""
        return len(self._taken)

    def take(self, name: str, now: float) -> bool:
        """Use one up; False when none is left."""
        self._forget(now - self._window_s)
        times = self._taken.setdefault(name, deque())
        if len(times) >= self._most:
            return False
        times.append(now)
        self._order.append((now, name))
        return True

    def give_back(self, name: str) -> None:
        """Undo the newest `take`: it was no misuse."""
        times = self._taken.get(name)
        if times:
            times.pop()
            if not times:
                del self._taken[name]

    def _forget(self, oldest: float) -> None:
        while self._order and self._order[0][0] <= oldest:
            name = self._order.popleft()[1]
            times = self._taken.get(name)
            if times and times[0] <= oldest:
                times.popleft()
                if not times:
                    del self._taken[name]
