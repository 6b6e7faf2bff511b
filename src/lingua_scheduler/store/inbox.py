"""Letters between instances in Redis: one stream per instance, read by nobody but itself or its adopter.

A letter stays in the stream until it is settled or buried, whatever becomes of its readers. An inbox is
bounded by refusing letters, never by cutting off old ones.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from lingua_scheduler.core.company import Letter, Posted
from lingua_scheduler.core.model import InstanceId
from lingua_scheduler.errors import CorruptValue, StoreError
from lingua_scheduler.log import get_logger
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.instances import GROUP, CompanyOptions
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts

BATCH = 64
"""Most letters that leave Redis at once."""

_SETTLED_AT_ONCE = 1000
_BEGINNING = "0-0"

_log = get_logger(__name__)


class InboxStore:
    """Implements `core.company.InboxLedger`; a letter's id is `<instance>/<entry of its stream>`."""

    def __init__(
        self,
        connection: Connection,
        scripts: Scripts,
        keys: Keys,
        owner: InstanceId,
        options: CompanyOptions,
    ) -> None:
        self._connection = connection
        self._reader = connection.blocking()
        self._keys = keys
        self._owner = owner
        self._options = options
        self._inbox = keys.inbox(owner)
        self._recalled: str | None = _BEGINNING  # how far we are with what a former life left; None: through
        self.remade = 0  # times our stream or its group had been lost
        self.vanished = 0  # letters that were handed out and then deleted by somebody else
        self._open = scripts.load("inbox_open")
        self._send = scripts.load("inbox_send")
        self._recall = scripts.load("inbox_recall")
        self._retake = scripts.load("inbox_retake")
        self._inherit = scripts.load("inbox_inherit")
        self._settle = scripts.load("inbox_settle")
        self._bury = scripts.load("inbox_bury")
        self._mark = scripts.load("inbox_mark")

    async def open(self) -> bool:
        """Make our inbox with its group, which reads it from the beginning; True when one was missing."""
        return bool(await self._open(inbox=self._inbox, group=GROUP))

    async def send(self, to: InstanceId, body: bytes) -> Posted:
        """Append a letter to an instance's inbox, unless it does not live or has no room."""
        reply = await self._send(
            presence=self._keys.presence(to),
            inbox=self._keys.inbox(to),
            max=self._options.inbox_max,
            body=body,
            source=self._owner,
        )
        return Posted(reply.decode())

    async def take(self, *, block_s: float) -> list[Letter]:
        """Wait for new letters of our own, after those a former life left; a lost inbox is made again."""
        try:
            return await self._next(block_s)
        except StoreError as error:
            if not _is_loss(error):
                raise
        await self._make_again()
        return await self._next(block_s)

    async def retake(self, *, idle_ms: int) -> list[Letter]:
        """Hand out again our own letters that were taken so long ago and are not settled; all of them."""
        letters: list[Letter] = []
        cursor = _BEGINNING
        while True:
            try:
                reply = await self._retake(
                    inbox=self._inbox,
                    group=GROUP,
                    consumer=self._owner,
                    idle_ms=idle_ms,
                    cursor=cursor,
                    count=BATCH,
                )
            except StoreError as error:
                if not _is_loss(error):
                    raise
                await self._make_again()
                return letters
            cursor = reply[1].decode()
            letters += self._handed(self._owner, reply)
            if cursor == _BEGINNING:
                return letters

    async def settle(self, letters: list[Letter]) -> None:
        """These are dealt with: remove them, from whichever inbox they came."""
        entries: defaultdict[InstanceId, list[str]] = defaultdict(list)
        for letter in letters:
            instance_id, entry = split_id(letter.id)
            entries[instance_id].append(entry)
        for instance_id, ids in entries.items():
            for start in range(0, len(ids), _SETTLED_AT_ONCE):
                some = ids[start : start + _SETTLED_AT_ONCE]
                await self._settle(inbox=self._keys.inbox(instance_id), group=GROUP, ids=some)

    async def bury(self, letter: Letter, reason: str) -> None:
        """Move a letter that cannot be dealt with to the dead letters of the instance it was sent to."""
        instance_id, entry = split_id(letter.id)
        keep_s = self._options.dead_keep_s
        await self._mark(graves=self._keys.graves(), id=instance_id, keep_s=keep_s)
        await self._bury(
            inbox=self._keys.inbox(instance_id),
            dead=self._keys.dead(instance_id),
            group=GROUP,
            id=entry,
            max=self._options.dead_max,
            keep_s=keep_s,
            body=letter.body,
            source=letter.source,
            reason=reason,
            deliveries=letter.deliveries,
        )

    async def inherit(self, instance_id: InstanceId) -> list[Letter]:
        """Give the next letters of a dead instance that we have adopted; empty when there are none."""
        reply = await self._inherit(
            presence=self._keys.presence(instance_id),
            inbox=self._keys.inbox(instance_id),
            adopter=self._keys.adopter(instance_id),
            group=GROUP,
            consumer=self._owner,
            count=BATCH,
            ttl_ms=round(self._options.adoption_s * 1000),
        )
        return self._handed(instance_id, reply)

    async def settle_inherited(self, instance_id: InstanceId, letters: list[Letter]) -> None:  # noqa: ARG002
        """Remove letters of a dead instance that are dealt with; their ids name the instance."""
        await self.settle(letters)

    async def _next(self, block_s: float) -> list[Letter]:
        while self._recalled is not None:
            reply = await self._recall(
                inbox=self._inbox, group=GROUP, consumer=self._owner, count=BATCH, after=self._recalled
            )
            self._recalled = reply[1].decode() or None
            if letters := self._handed(self._owner, reply):
                return letters
        return await self._new(block_s)

    async def _new(self, block_s: float) -> list[Letter]:
        wait = ("BLOCK", max(1, round(block_s * 1000))) if block_s > 0 else ()
        reply = await self._reader.call(
            "XREADGROUP", "GROUP", GROUP, self._owner, "COUNT", BATCH, *wait, "STREAMS", self._inbox, ">",
            block_s=block_s,
        )  # fmt: skip
        if not reply:
            return []
        seconds, micros = await self._connection.call("TIME", route=self._inbox)
        now_ms = int(seconds) * 1000 + int(micros) // 1000
        return [_letter(self._owner, [entry, 1, fields], now_ms) for entry, fields in reply[0][1]]

    async def _make_again(self) -> None:
        """Make the lost inbox again; whatever is in it is new from now on."""
        if await self.open():
            self.remade += 1
            _log.warning("inbox_made_again", instance=self._owner)

    def _handed(self, instance_id: InstanceId, reply: list[Any]) -> list[Letter]:
        now_ms, _, entries, vanished = reply
        if vanished:
            self.vanished += vanished
            _log.warning("letters_vanished", instance=instance_id, count=vanished)
        return [_letter(instance_id, entry, now_ms) for entry in entries]


def split_id(letter_id: str) -> tuple[InstanceId, str]:
    """Take a letter's id apart: the instance whose it is, and the entry of the stream."""
    instance_id, _, entry = letter_id.rpartition("/")
    return InstanceId(instance_id), entry


def _is_loss(error: StoreError) -> bool:
    return isinstance(error, CorruptValue) or str(error).startswith("NOGROUP")


def _letter(instance_id: InstanceId, entry: list[Any], now_ms: int) -> Letter:
    """Read an entry; one that no instance wrote gets all its bytes as body, for its reader to refuse."""
    raw_id, deliveries, flat = entry
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    body = fields.get(b"body")
    return Letter(
        id=f"{instance_id}/{raw_id.decode()}",
        body=b" ".join(flat) if body is None else body,
        source=InstanceId(fields.get(b"source", b"").decode(errors="replace")),
        deliveries=deliveries,
        age_ms=max(0, now_ms - int(raw_id.partition(b"-")[0])),
    )
