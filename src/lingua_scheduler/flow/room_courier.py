"""Letters with what was said in a room, to the instances of those who want it; who has moved is followed.

Letters to one instance about one room leave in order. While an instance is dead and clients of its sessions
may still come back elsewhere, what is for them waits, and what comes after it waits behind it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable
from functools import partial

import msgspec

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.company import Posted
from lingua_scheduler.core.model import InstanceId, JobId, SessionId
from lingua_scheduler.core.ports import Ledgers
from lingua_scheduler.errors import StoreError
from lingua_scheduler.flow.hearing import Kept, packed
from lingua_scheduler.flow.lanes import Lanes
from lingua_scheduler.flow.post import Post
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.peer import PeerHeard, PeerKept

_log = get_logger(__name__)

_TRY_AGAIN_S = 0.5
_MOST_HOPS = 4  # a session cannot move so often while one letter looks for it
_STOP_S = 3.0


class RoomCourier:
    """Sends letters about what was said in rooms."""

    def __init__(
        self,
        instance_id: InstanceId,
        post: Post,
        ledgers: Ledgers,
        *,
        time: tuple[Clock, float],
        metrics: Metrics,
    ) -> None:
        self.instance_id = instance_id
        self._post = post
        self._ledgers = ledgers
        self._clock, self._patience_s = time
        self._metrics = metrics
        self._lanes = Lanes("courier")
        self._followed: dict[str, Hashable] = {}  # sessions whose instance died, and where letters wait
        self.receive: Callable[[PeerHeard], Awaitable[None]]  # what turns out to be for sessions here

    def __len__(self) -> int:
        """Count what is on its way."""
        return len(self._lanes)

    def send(self, to: InstanceId, letter: PeerHeard) -> None:
        """Send a letter to the instance of its listeners, behind what waits for them."""
        lanes: dict[Hashable, set[str]] = defaultdict(set)
        self._followed = {each: lane for each, lane in self._followed.items() if self._lanes.busy(lane)}
        for session_id in (*letter.hear, *letter.read):
            lanes[self._followed.get(session_id, (to, letter.room_code))].add(session_id)
        for lane, ids in lanes.items():
            self._lanes.put(lane, partial(self._deliver, to, _for(letter, ids), lane))

    async def _deliver(self, to: InstanceId, letter: PeerHeard, lane: Hashable) -> None:
        """Send a letter; when its addressee is gone, look where the sessions are now."""
        until = self._clock.now() + self._patience_s
        while True:
            try:
                posted = await self._post.send(to, letter)
                if posted is Posted.SENT:
                    return
                if posted is Posted.GONE and await self._redirected(to, letter, lane):
                    return
            except StoreError as error:
                _log.info("room_letter_not_sent", to=to, reason=str(error))
            if self._clock.now() >= until:
                self._metrics.results_dropped_total.inc("undeliverable")
                return
            await asyncio.sleep(_TRY_AGAIN_S)

    async def _redirected(self, gone: InstanceId, letter: PeerHeard, lane: Hashable) -> bool:
        """Send a letter on to those who hold its sessions now; False while they still belong to the dead."""
        self._followed.update(dict.fromkeys((*letter.hear, *letter.read), lane))
        owners = await self._owners(letter)
        if gone in owners.values():
            return False
        await self._forward(letter, owners)
        return True

    def follow(self, letter: PeerHeard) -> None:
        """Send a letter on to where its sessions have moved."""
        if letter.hops < _MOST_HOPS:
            further = msgspec.structs.replace(letter, spoken=b"", hops=letter.hops + 1)
            self._lanes.put((self.instance_id, letter.room_code), partial(self._follow, further))

    async def _follow(self, letter: PeerHeard) -> None:
        try:
            await self._forward(letter, await self._owners(letter))
        except StoreError as error:
            _log.info("room_letter_not_forwarded", reason=str(error))

    async def _owners(self, letter: PeerHeard) -> dict[str, InstanceId | None]:
        ids = (*letter.hear, *letter.read)
        owners = await asyncio.gather(*(self._ledgers.sessions.owner(SessionId(each)) for each in ids))
        return dict(zip(ids, owners, strict=True))

    async def _forward(self, letter: PeerHeard, owners: dict[str, InstanceId | None]) -> None:
        for owner in {owner for owner in owners.values() if owner is not None}:
            theirs = _for(letter, {each for each, whose in owners.items() if whose == owner})
            if owner != self.instance_id:
                await self._post.send(owner, theirs)
            elif letter.hops < _MOST_HOPS:
                theirs = msgspec.structs.replace(theirs, hops=letter.hops + 1)
                await self.receive(await self.opened(theirs))

    async def opened(self, letter: PeerHeard) -> PeerHeard:
        """Fetch the voice of a letter, if somebody listens to it."""
        if letter.parcel is None or not letter.hear:
            return letter
        voice = await self._ledgers.jobs.take_voice(SessionId(letter.speaker), JobId(letter.parcel))
        return msgspec.structs.replace(letter, spoken=voice or b"")

    async def put_aside(self, speaker: SessionId, name: str, voice: bytes) -> str | None:
        """Put a spoken result where other instances find it; without it they pass on the text."""
        try:
            await self._ledgers.jobs.put_voice(speaker, JobId(name), voice)
        except StoreError as error:
            _log.info("voice_not_put_aside", reason=str(error))
            return None
        return name

    def hand_on(self, session_id: SessionId, kept: list[Kept], to: InstanceId | None) -> None:
        """Give what a session's client may not have heard to its new owner; None: look who that is."""
        if kept:
            self._lanes.put(("kept", session_id), partial(self._hand_on, session_id, kept, to))

    async def _hand_on(self, session_id: SessionId, kept: list[Kept], to: InstanceId | None) -> None:
        name = f"kept.{kept[-1].heard.index}"
        try:
            to = to or await self._ledgers.sessions.owner(session_id)
            if to is None or to == self.instance_id:
                return
            await self._ledgers.jobs.put_voice(session_id, JobId(name), packed(kept))
            await self._post.send(to, PeerKept(session_id=session_id, parcel=name))
        except StoreError as error:
            _log.info("kept_not_handed_on", reason=str(error))

    async def take_over(self, letter: PeerKept) -> bytes:
        """Fetch what the former owner of a session kept for its client."""
        return await self._ledgers.jobs.take_voice(SessionId(letter.session_id), JobId(letter.parcel)) or b""

    async def stop(self) -> None:
        """Give what is on its way a moment, then stop."""
        await self._lanes.settle(_STOP_S)


def _for(letter: PeerHeard, ids: set[str]) -> PeerHeard:
    """Address a letter to some of its listeners only."""
    hear = tuple(each for each in letter.hear if each in ids)
    read = tuple(each for each in letter.read if each in ids)
    return msgspec.structs.replace(letter, hear=hear, read=read)
