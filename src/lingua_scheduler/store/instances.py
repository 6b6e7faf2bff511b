"""Instances in Redis: who lives, who has died, and who looks after what the dead left.

An instance's presence lies in its own slot beside its inbox, so that nothing is ever sent to a dead one. The
registry repeats it in one place for everybody: one call tells who lives. All times are those of Redis' clock.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, NamedTuple

import msgspec

from lingua_scheduler.core.company import Presence, Renewal
from lingua_scheduler.core.model import InstanceId
from lingua_scheduler.errors import InstanceIdTaken
from lingua_scheduler.log import get_logger
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts

GROUP = "scheduler"
"""The consumer group of every inbox."""
BEATS_PER_PRESENCE = 4
"""How often an instance renews its presence within its time to live."""

_LOOK_AGAIN_S = 0.1  # while another process may still live under our id
_PATIENCE = 1.25  # lives of a presence that a start waits for the id of a process that may be dead

_log = get_logger(__name__)


class CompanyOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How instances know of each other, and how many letters they keep for each other."""

    presence_ttl_s: Annotated[float, msgspec.Meta(ge=2, le=30)] = 10.0
    """An instance that has not renewed its presence for this long is dead; it renews four times as often."""
    adoption_s: Annotated[float, msgspec.Meta(ge=1)] = 30.0
    """How long one instance is in charge of what a dead one left, before another may try."""
    inbox_max: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """Most letters in the inbox of an instance; more are refused."""
    dead_max: Annotated[int, msgspec.Meta(ge=1)] = 1000
    """Most dead letters kept per instance; beyond it the oldest go."""
    dead_keep_s: Annotated[int, msgspec.Meta(ge=60)] = 7 * 86_400
    """How long dead letters are kept after the last one was buried."""


class _Said(msgspec.Struct, frozen=True):
    """What an instance says about itself in its line of the registry."""

    url: str
    started_ms: int
    draining: bool
    about: dict[str, int]


class _Holder(NamedTuple):
    """The process that lives under an id; a renewal changes `until_ms`."""

    boot: str
    until_ms: str
    now_ms: int


class _Known(NamedTuple):
    """An instance's line in the registry, held against Redis' clock."""

    lives: bool
    adopted: bool
    presence: Presence | None  # None: the line cannot be read


class InstanceStore:
    """Implements `core.company.InstanceLedger`."""

    def __init__(self, scripts: Scripts, keys: Keys, options: CompanyOptions) -> None:
        self._keys = keys
        self._ttl_ms = round(options.presence_ttl_s * 1000)
        self._adoption_ms = round(options.adoption_s * 1000)
        self._hold = scripts.load("instance_hold")
        self._leave = scripts.load("instance_leave")
        self._adopt = scripts.load("instance_adopt")
        self._forget = scripts.load("instance_forget")
        self._note = scripts.load("instance_note")
        self._note_adopted = scripts.load("instance_adopted")
        self._strike = scripts.load("instance_strike")
        self._list = scripts.load("instance_list")
        self._secret = scripts.load("instance_secret")

    async def enter(self, presence: Presence) -> None:
        """Become known, with an inbox, once whoever had the id is dead; InstanceIdTaken while it lives."""
        first: _Holder | None = None
        while isinstance(holder := await self._held(presence), _Holder):
            if first is None:
                first = holder
                _log.info("instance_id_in_use", instance=presence.instance_id)
            renewed = holder[:2] != first[:2]
            if renewed or holder.now_ms - first.now_ms > _PATIENCE * self._ttl_ms:
                raise InstanceIdTaken(
                    f"another process lives under the instance id {presence.instance_id}: stop it, or start"
                    " this one with an instance.id of its own"
                )
            await asyncio.sleep(_LOOK_AGAIN_S)
        await self._write_line(presence, self._ttl_ms)

    async def renew(self, presence: Presence) -> Renewal:
        """Stay known, unless another process has the id; a presence that is not there is written anew."""
        held = await self._held(presence)
        if isinstance(held, _Holder):
            return Renewal.TAKEN
        await self._write_line(presence, self._ttl_ms)
        return Renewal.HELD if held else Renewal.LOST

    async def leave(self, presence: Presence) -> None:
        """Stop being known, unless another process has the id; letters that are left await an adopter."""
        instance_id = presence.instance_id
        reply = await self._leave(
            presence=self._keys.presence(instance_id),
            inbox=self._keys.inbox(instance_id),
            boot=presence.boot,
        )
        if reply == b"letters":
            await self._write_line(presence, 0)
        elif reply == b"empty":
            await self._strike(registry=self._keys.registry(), id=instance_id, boot=presence.boot)

    async def company(self) -> dict[InstanceId, Presence]:
        """Every instance that lives now."""
        lines = await self._lines()
        return {each: known.presence for each, known in lines.items() if known.lives and known.presence}

    async def missing(self) -> list[InstanceId]:
        """Instances that were known, do not live any more and have not been adopted."""
        lines = await self._lines()
        return sorted(each for each, known in lines.items() if not known.lives and not known.adopted)

    async def adopt(self, instance_id: InstanceId, *, by: InstanceId) -> bool:
        """Take charge of what a dead instance left; the one in charge may ask again to stay so."""
        won = await self._adopt(
            presence=self._keys.presence(instance_id),
            adopter=self._keys.adopter(instance_id),
            by=by,
            ttl_ms=self._adoption_ms,
        )
        if won:
            await self._note_adopted(registry=self._keys.registry(), id=instance_id, ttl_ms=self._adoption_ms)
        return bool(won)

    async def forget(self, instance_id: InstanceId) -> None:
        """Remove a dead instance for good; one that lives again or has letters left stays."""
        keys = self._keys
        gone = await self._forget(
            presence=keys.presence(instance_id),
            inbox=keys.inbox(instance_id),
            adopter=keys.adopter(instance_id),
        )
        if gone:
            await self._strike(registry=keys.registry(), id=instance_id, boot="")

    async def shared_secret(self, proposal: bytes) -> bytes:
        """Agree with every other instance on one secret; the first proposal wins and lives on with us."""
        agreed: bytes = await self._secret(secret=self._keys.secret(), proposal=proposal)
        return agreed

    async def _held(self, presence: Presence) -> _Holder | bool:
        """Hold the id and tell whether we held it before; else give who holds it."""
        reply = await self._hold(
            presence=self._keys.presence(presence.instance_id),
            inbox=self._keys.inbox(presence.instance_id),
            boot=presence.boot,
            ttl_ms=self._ttl_ms,
            group=GROUP,
            fields=[
                *("url", presence.url),
                *("started_ms", presence.started_ms),
                *("draining", int(presence.draining)),
                *("about", msgspec.json.encode(presence.about)),
            ],
        )
        if isinstance(reply, int):
            return bool(reply)
        return _Holder(reply[0].decode(), reply[1].decode(), reply[2])

    async def _write_line(self, presence: Presence, lease_ms: int) -> None:
        said = _Said(presence.url, presence.started_ms, presence.draining, presence.about)
        await self._note(
            registry=self._keys.registry(),
            id=presence.instance_id,
            lease_ms=lease_ms,
            boot=presence.boot,
            about=msgspec.json.encode(said),
        )

    async def _lines(self) -> dict[InstanceId, _Known]:
        now_ms, flat = await self._list(registry=self._keys.registry())
        ids = [InstanceId(raw.decode(errors="replace")) for raw in flat[::2]]
        return {each: _known(each, line, now_ms) for each, line in zip(ids, flat[1::2], strict=True)}


def _known(instance_id: InstanceId, line: bytes, now_ms: Any) -> _Known:
    try:
        lease_ms, adopted_ms, boot, about = line.split(b" ", 3)
        lives, adopted = int(lease_ms) > now_ms, int(adopted_ms) > now_ms
    except ValueError:
        return _Known(lives=False, adopted=False, presence=None)
    try:
        said = msgspec.json.decode(about, type=_Said)
    except (msgspec.DecodeError, UnicodeError):
        return _Known(lives, adopted, None)
    presence = Presence(
        instance_id, boot.decode(errors="replace"), said.url, said.started_ms, said.draining, said.about
    )
    return _Known(lives, adopted, presence)
