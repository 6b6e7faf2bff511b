"""Reservations in Redis: one slot of one node for one attempt, taken and given back in the pool's slot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lingua_scheduler.core.model import InstanceId, NodeId, PoolId
from lingua_scheduler.core.placement import Ask, Reservation
from lingua_scheduler.errors import StoreError
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.node_record import Line
from lingua_scheduler.store.scripts import Script, Scripts

_SCAN_BATCH = 1000
_MEMBER_WORDS = 3
_GUESSES = 3
_NOBODY = (b"none", b"bound")
_VERDICTS = frozenset({b"written", b"fenced", b"taken", b"renewed", b"gone", b"replaced"})


class Slots:
    """Takes slots and gives them back."""

    def __init__(self, connection: Connection, scripts: Scripts, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys
        self._reserve = scripts.load("node_reserve")
        self._release = scripts.load("node_release")

    async def reserve(self, ask: Ask) -> Reservation | None:
        """Choose the least loaded node of the shelves and take one of its slots, atomically."""
        if ask.again and (found := await self._find(ask)) is not None:
            return found
        return await self._choose(ask, dry=False)

    async def peek(self, ask: Ask) -> Reservation | None:
        """Tell what `reserve` would answer now; nothing is taken."""
        return await self._choose(ask, dry=True)

    async def _choose(self, ask: Ask, *, dry: bool) -> Reservation | None:
        keys = self._keys
        reply = await self._reserve(
            nodes=keys.nodes(ask.pool),
            aside=keys.aside(ask.pool),
            reserved=keys.reserved(ask.pool),
            shelves=[keys.shelf(ask.pool, shelf) for shelf in ask.shelves],
            ask=f"{ask.job_id}#{ask.attempt}",
            ttl_ms=ask.ttl_ms,
            reachable=_spaced(ask.reachable),
            prefer=ask.prefer or "",
            bound=int(ask.bound),
            without=_spaced(ask.without) if ask.without else "",
            dry=int(dry),
            only=int(ask.only),
        )
        if reply in _NOBODY:
            return None
        node_id, owner, epoch, place = reply.decode().split(" ")
        shelf = ask.shelves[int(place) - 1]
        return _reservation(ask, NodeId(node_id), owner=owner, epoch=epoch, shelf=shelf)

    async def _find(self, ask: Ask) -> Reservation | None:
        """Look for the slot that an unheard answer to the same question may have taken."""
        cursor = b"0"
        while True:
            cursor, entries = await self._connection.call(
                "ZSCAN", self._keys.reserved(ask.pool), cursor,
                "MATCH", f"{ask.job_id}#{ask.attempt} *", "COUNT", _SCAN_BATCH,
            )  # fmt: skip
            if entries:
                _, epoch, node_id = entries[0].decode().split(" ")
                line = await self.line(ask.pool, NodeId(node_id))
                if line is None or line.epoch != epoch:
                    return None
                return _reservation(ask, NodeId(node_id), owner=line.owner, epoch=epoch, shelf=line.shelf)
            if cursor == b"0":
                return None

    async def line(self, pool: PoolId, node_id: NodeId) -> Line | None:
        """Read what the pool knows of a node."""
        return Line.read(await self._connection.call("HGET", self._keys.nodes(pool), node_id))

    async def release(self, reservation: Reservation) -> bool:
        """Give the slot back; False when it was not held any more."""
        member = f"{reservation.job_id}#{reservation.attempt} {reservation.epoch} {reservation.node_id}"
        return await self.free(reservation.pool, member.encode(), shelf=reservation.shelf)

    async def free(self, pool: PoolId, member: bytes, *, shelf: str = "") -> bool:
        """Give back what a member of the reservations holds; one that cannot be read holds nothing."""
        words = member.split(b" ")
        _, epoch, node_id = words if len(words) == _MEMBER_WORDS else (b"", b"", b"")
        keys = self._keys
        reply = await self.where_it_stands(
            self._release,
            pool,
            guess=shelf,
            key="shelf",
            nodes=keys.nodes(pool),
            aside=keys.aside(pool),
            reserved=keys.reserved(pool),
            changes=keys.changes(pool),
            version=keys.version(pool),
            id=node_id,
            epoch=epoch,
            member=member,
        )
        return bool(reply)

    async def where_it_stands(
        self, script: Script, pool: PoolId, *, guess: str, key: str, **values: Any
    ) -> Any:
        """Call a script that needs the shelf a node stands on; it names the right one if we erred."""
        for _ in range(_GUESSES):
            values[key], values[f"{key}_name"] = self._keys.shelf(pool, guess), guess
            reply = await script(**values)
            if not isinstance(reply, bytes) or reply in _VERDICTS:
                return reply
            guess = reply.decode()
        raise StoreError(f"a node changed its shelf while {script.source.name} looked for it")


def _reservation(ask: Ask, node_id: NodeId, *, owner: str, epoch: str, shelf: str) -> Reservation:
    return Reservation(
        node_id=node_id,
        pool=ask.pool,
        owner=InstanceId(owner),
        epoch=int(epoch),
        shelf=shelf,
        job_id=ask.job_id,
        attempt=ask.attempt,
    )


def _spaced(words: Iterable[str]) -> str:
    return f" {' '.join(sorted(words))} "
