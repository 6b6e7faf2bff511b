"""Letters that nobody could deal with, for people: what they are, and a way back or out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from lingua_scheduler.core.company import Posted
from lingua_scheduler.core.model import InstanceId
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.inbox import split_id
from lingua_scheduler.store.instances import CompanyOptions, InstanceStore
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts

PAGE = 50
"""Dead letters of a page, unless asked otherwise."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One letter that was buried."""

    id: str  # <instance>/<entry among its dead letters>
    instance_id: InstanceId  # whose inbox it was in
    source: InstanceId
    reason: str
    deliveries: int
    sent_ms: int
    buried_ms: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of a dead letter that was sent again."""

    posted: Posted  # anything but SENT: it is still a dead letter
    to: InstanceId | None  # None: no instance lives


class DeadLetters:
    """The dead letters of all instances."""

    def __init__(self, connection: Connection, scripts: Scripts, keys: Keys, options: CompanyOptions) -> None:
        self._connection = connection
        self._keys = keys
        self._inbox_max = options.inbox_max
        self._instances = InstanceStore(scripts, keys, options)
        self._send = scripts.load("inbox_send")

    async def page(self, *, most: int = PAGE, before: str | None = None) -> list[DeadLetter]:
        """Give the newest dead letters of all instances; `before` is the last one of the page before."""
        pages = await asyncio.gather(
            *(self._newest(instance_id, most, before) for instance_id in await self._graves())
        )
        letters = [letter for page in pages for letter in page]
        return sorted(letters, key=_order, reverse=True)[:most]

    async def find(self, letter_id: str) -> DeadLetter | None:
        """Give one dead letter; None when there is none of this id."""
        instance_id, entry = split_id(letter_id)
        if not _is_entry(entry):
            return None
        found = await self._connection.call("XRANGE", self._keys.dead(instance_id), entry, entry)
        return _dead_letter(instance_id, *found[0]) if found else None

    async def replay(self, letter_id: str, *, to: InstanceId | None = None) -> Replayed | None:
        """Put a dead letter back into an inbox: the given one, else its own, else that of any live instance.

        None when there is no such letter. It is removed after it was sent: it may arrive twice, but is never
        lost.
        """
        letter = await self.find(letter_id)
        if letter is None:
            return None
        outcome = Replayed(Posted.GONE, to)
        for candidate in [to] if to else await self._candidates(letter.instance_id):
            reply = await self._send(
                presence=self._keys.presence(candidate),
                inbox=self._keys.inbox(candidate),
                max=self._inbox_max,
                body=letter.body,
                source=letter.source,
            )
            outcome = Replayed(Posted(reply.decode()), candidate)
            if outcome.posted is Posted.SENT:
                await self.drop(letter_id)
                break
        return outcome

    async def drop(self, letter_id: str) -> bool:
        """Remove one dead letter; False when there is none of this id."""
        instance_id, entry = split_id(letter_id)
        if not _is_entry(entry):
            return False
        return bool(await self._connection.call("XDEL", self._keys.dead(instance_id), entry))

    async def drop_all(self) -> int:
        """Remove every dead letter; return how many there were."""
        trimmed = await asyncio.gather(
            *(
                self._connection.call("XTRIM", self._keys.dead(instance_id), "MAXLEN", 0)
                for instance_id in await self._graves()
            )
        )
        return sum(trimmed)

    async def _graves(self) -> list[InstanceId]:
        raw = await self._connection.call("ZRANGE", self._keys.graves(), 0, -1)
        return [InstanceId(instance_id.decode(errors="replace")) for instance_id in raw]

    async def _newest(self, instance_id: InstanceId, most: int, before: str | None) -> list[DeadLetter]:
        newest = "+"
        if before is not None:
            other, entry = split_id(before)
            newest = entry if instance_id < other else f"({entry}"
        key = self._keys.dead(instance_id)
        entries = await self._connection.call("XREVRANGE", key, newest, "-", "COUNT", most)
        return [_dead_letter(instance_id, *entry) for entry in entries]

    async def _candidates(self, own: InstanceId) -> list[InstanceId]:
        others = sorted(each for each in await self._instances.company() if each != own)
        return [own, *others]


def _is_entry(entry: str) -> bool:
    number, _, place = entry.partition("-")
    return number.isdecimal() and place.isdecimal()


def _order(letter: DeadLetter) -> tuple[int, int, InstanceId]:
    number, _, place = split_id(letter.id)[1].partition("-")
    return int(number), int(place), letter.instance_id


def _dead_letter(instance_id: InstanceId, entry: bytes, flat: list[Any]) -> DeadLetter:
    fields = dict(zip(flat[::2], flat[1::2], strict=True))

    def text(name: bytes) -> str:
        written: bytes = fields.get(name, b"")
        return written.decode(errors="replace")

    def number(name: bytes) -> int:
        return int(text(name)) if text(name).isdecimal() else 0

    return DeadLetter(
        id=f"{instance_id}/{entry.decode()}",
        instance_id=instance_id,
        source=InstanceId(text(b"source")),
        reason=text(b"reason"),
        deliveries=number(b"deliveries"),
        sent_ms=number(b"sent_ms"),
        buried_ms=number(b"buried_ms"),
        body=fields.get(b"body", b""),
    )
