"""Letters from other instances: each is dealt with once, kept for later, or buried with a reason."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from enum import Enum, auto
from typing import Protocol

import msgspec

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.company import InboxLedger, Letter, Posted
from lingua_scheduler.core.model import InstanceId, JobId, NodeId, SessionId
from lingua_scheduler.core.ports import Ledgers
from lingua_scheduler.crash import CrashPoint, crash_point
from lingua_scheduler.errors import DependencyDown, InvalidMessage, StoreError
from lingua_scheduler.flow.company import PeerOptions
from lingua_scheduler.flow.errands import Errand, Errands
from lingua_scheduler.flow.failover import Failover
from lingua_scheduler.flow.post import Post
from lingua_scheduler.flow.results import Results
from lingua_scheduler.flow.room_courier import RoomCourier
from lingua_scheduler.flow.room_post import RoomPost
from lingua_scheduler.flow.rooms import Rooms
from lingua_scheduler.flow.routing import Routing
from lingua_scheduler.flow.session import Session
from lingua_scheduler.flow.signalling import Signalling
from lingua_scheduler.flow.trail import tell_hop
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.tracing.spans import Tracer
from lingua_scheduler.wire.node import JobCancel, JobResult
from lingua_scheduler.wire.peer import (
    Peer,
    PeerAssign,
    PeerCancel,
    PeerHeard,
    PeerInRoom,
    PeerKept,
    PeerOrder,
    PeerReturn,
    PeerRoom,
    PeerSignal,
    PeerTaken,
    PeerWord,
    decode_peer,
)

_log = get_logger(__name__)

_REMEMBERED = 10_000  # letters whose effect is done, in case their removal was not heard of


class Fate(Enum):
    """What becomes of a letter."""

    DONE = auto()
    LATER = auto()  # whom it is for is not here now


class SessionHome(Protocol):
    """The sessions that live here, as letters need them."""

    def holds(self, session_id: SessionId) -> bool:
        """The session lives here, or ended here a short while ago."""
        ...

    def get(self, session_id: SessionId) -> Session | None:
        """Find a session that lives here."""
        ...

    def fenced(self, session_id: SessionId, epoch: int, by: InstanceId | None = None) -> None:
        """Another instance owns the session from this epoch on."""


class Letters:
    """Reads this instance's inbox."""

    def __init__(
        self,
        ledgers: Ledgers,
        *,
        work: tuple[Results, Failover, SessionHome],
        ways: tuple[Routing, Post, Errands],
        rooms: tuple[Rooms, RoomPost, RoomCourier, Signalling],
        options: PeerOptions,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._ledgers = ledgers
        self._inbox: InboxLedger = ledgers.inbox
        self._results, self._failover, self._sessions = work
        self._routing, self._post, self._errands = ways
        self._rooms, self._room_post, self._courier, self._signalling = rooms
        self._options = options
        self._clock = clock
        self._metrics = metrics
        self._dealt: OrderedDict[str, None] = OrderedDict()
        self.tracer: Tracer | None = None  # None: nothing is traced

    async def receive(self, *, block_s: float = 1.0) -> None:
        """Wait for new letters and deal with them."""
        await self._deal_with(await self._inbox.take(block_s=block_s))

    async def try_again(self) -> None:
        """Deal with letters that had to wait."""
        letters = await self._inbox.retake(idle_ms=self._options.retake_ms)
        self._metrics.phase2_inbox_pending.set(len(letters))
        await self._deal_with(letters)

    async def inherit(self, instance_id: InstanceId) -> int:
        """Move the letters of a dead instance into our own inbox, as far as there is room; tell how many."""
        moved = 0
        while letters := await self._inbox.inherit(instance_id):
            for letter in letters:
                if await self._inbox.send(self._routing.instance_id, letter.body) is not Posted.SENT:
                    return moved  # the rest stays where it is until we are asked again
                await self._inbox.settle_inherited(instance_id, [letter])
                moved += 1
        return moved

    async def _deal_with(self, letters: list[Letter]) -> None:
        """Take letters in their order; what they need of Redis is fetched for all of them at once."""
        if not letters:
            return
        opened = await asyncio.gather(*(self._open(letter) for letter in letters), return_exceptions=True)
        settled: list[Letter] = []
        for letter, content in zip(letters, opened, strict=True):
            if isinstance(content, InvalidMessage):
                await self._bury(letter, str(content))
            elif isinstance(content, DependencyDown):
                continue
            elif isinstance(content, BaseException):
                raise content
            elif await self._take(letter, content):
                settled.append(letter)
        if settled:
            crash_point(CrashPoint.AFTER_LETTER_EFFECT)
            await self._inbox.settle(settled)

    async def _take(self, letter: Letter, content: Peer | None) -> bool:
        """Have a letter's effect, once; True when it can be removed."""
        if content is None or letter.id in self._dealt:
            return True
        kind = str(content.__struct_config__.tag)
        try:
            fate = await self._apply(letter, content)
        except StoreError as error:
            _log.info("letter_waits", kind=kind, reason=str(error))
            fate = Fate.LATER
        if fate is Fate.LATER:
            self._metrics.letters_received_total.inc(kind, "later")
            return await self._give_up_old(letter, kind)
        self._metrics.letters_received_total.inc(kind, "done")
        self._metrics.letter_age_seconds.observe(letter.age_ms / 1000)
        if isinstance(content, PeerAssign) or (
            isinstance(content, PeerWord) and isinstance(content.word, JobResult)
        ):
            self._metrics.stage_seconds.observe("hop", letter.age_ms / 1000)
        self._dealt[letter.id] = None
        if len(self._dealt) > _REMEMBERED:
            self._dealt.popitem(last=False)
        return True

    async def _give_up_old(self, letter: Letter, kind: str) -> bool:
        options = self._options
        if letter.deliveries >= options.dlq_max_deliveries or letter.age_ms > options.dlq_max_age_ms:
            await self._bury(letter, f"{kind}: whom it is for was not found")
        return False

    async def _bury(self, letter: Letter, reason: str) -> None:
        await self._inbox.bury(letter, reason)
        self._metrics.phase2_dlq_moved_total.inc()
        _log.warning("letter_buried", letter=letter.id, source=letter.source, reason=reason)

    async def _open(self, letter: Letter) -> Peer | None:
        """Read a letter with the audio it names; None when its job has moved on."""
        content = decode_peer(letter.body)
        jobs = self._ledgers.jobs
        if isinstance(content, PeerAssign) and self._routing.link(NodeId(content.node_id)) is not None:
            job = content.job
            audio = await jobs.audio(SessionId(job.session_id), JobId(job.job_id), attempt=job.attempt_id)
            if audio is None:
                self._metrics.letters_received_total.inc("peer_assign", "stale")
                return None
            return msgspec.structs.replace(content, job=msgspec.structs.replace(job, audio=audio))
        if isinstance(content, PeerHeard):
            return await self._courier.opened(content)
        if isinstance(content, PeerWord) and content.voice and self._holds(content):
            word = content.word
            if isinstance(word, JobResult):
                voice = await jobs.take_voice(SessionId(content.session_id), JobId(word.job_id))
                return msgspec.structs.replace(
                    content, word=msgspec.structs.replace(word, tts_audio=voice), voice=False
                )
        return content

    async def _apply(self, letter: Letter, content: Peer) -> Fate:
        match content:
            case PeerAssign():
                self._assign(letter, content)
            case PeerCancel():
                self._cancel(content)
            case PeerWord() | PeerReturn():
                return await self._about_job(content)
            case PeerTaken():
                self._sessions.fenced(SessionId(content.session_id), content.epoch, letter.source)
            case PeerOrder():
                self._order(content)
            case _:
                await self._about_room(content)
        return Fate.DONE

    async def _about_room(self, content: PeerInRoom) -> None:
        match content:
            case PeerRoom():
                self._rooms.changed(content.room_code)
            case PeerHeard():
                await self._room_post.receive(content)
            case PeerSignal():
                self._signalling.receive(content)
            case PeerKept():
                session = self._sessions.get(SessionId(content.session_id))
                if session is not None:
                    await self._room_post.take_on(session, content)

    def _assign(self, letter: Letter, content: PeerAssign) -> None:
        job = content.job
        errand = Errand(
            job_id=JobId(job.job_id),
            attempt=job.attempt_id,
            session_id=SessionId(job.session_id),
            node_id=NodeId(content.node_id),
            node_epoch=content.node_epoch,
            sender=letter.source,
            begun=self._clock.now(),
        )
        link = self._routing.link(errand.node_id)
        if link is None or link.epoch != errand.node_epoch:
            self._post.give_back(errand, "unreachable")
            return
        self._errands.add(errand)
        _log.debug("job_handed_on", session=job.session_id, job=job.job_id, trace_id=job.trace_id)
        if self.tracer is not None:
            tell_hop(self.tracer, letter, job, self._clock)
        if not link.assign(job):
            self._errands.done(errand.job_id)
            self._post.give_back(errand, "unreachable")

    def _order(self, content: PeerOrder) -> None:
        link = self._routing.link(NodeId(content.node_id))
        if link is None:
            return
        if content.drain_s is None:
            link.resume()
        else:
            link.drain(content.drain_s)

    def _cancel(self, content: PeerCancel) -> None:
        errand = self._errands.get(content.job_id)
        if errand is not None and errand.attempt == content.attempt_id:
            self._errands.done(content.job_id)
        link = self._routing.link(NodeId(content.node_id))
        if link is not None:
            link.cancel(
                JobCancel(
                    job_id=content.job_id,
                    attempt_id=content.attempt_id,
                    trace_id=content.trace_id,
                    reason=content.reason,
                )
            )

    def _holds(self, content: PeerWord | PeerReturn) -> bool:
        return self._sessions.holds(SessionId(content.session_id))

    async def _about_job(self, content: PeerWord | PeerReturn) -> Fate:
        if not self._holds(content):
            posted = await self._post.forward(content)
            return Fate.LATER if _worth_waiting(content, posted) else Fate.DONE
        if isinstance(content, PeerWord):
            self._results.hear(NodeId(content.node_id), content.word)
        else:
            self._failover.returned(content)
        return Fate.DONE


def _worth_waiting(content: PeerWord | PeerReturn, posted: Posted | None) -> bool:
    """A session may get a new owner; a result waits even for a session that Redis does not know now."""
    if posted is Posted.SENT:
        return False
    if isinstance(content, PeerReturn):
        return posted is not None
    return isinstance(content.word, JobResult)
