"""Letters to other instances: assignments for their nodes, and what nodes here say about their jobs."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from lingua_scheduler.aio import Tasks
from lingua_scheduler.core.company import InboxLedger, Posted
from lingua_scheduler.core.model import InstanceId, JobId, NodeId, SessionId
from lingua_scheduler.core.placement import Reservation
from lingua_scheduler.core.ports import Ledgers
from lingua_scheduler.errors import DependencyDown, StoreError
from lingua_scheduler.flow.company import Company, PeerOptions
from lingua_scheduler.flow.errands import Errand, Errands
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.codec import encode
from lingua_scheduler.wire.node import JobAssign, JobResult, ModelNotAvailable
from lingua_scheduler.wire.peer import (
    NodeWord,
    Peer,
    PeerAssign,
    PeerCancel,
    PeerInRoom,
    PeerOrder,
    PeerReturn,
    PeerRoom,
    PeerTaken,
    PeerWord,
)

_log = get_logger(__name__)

_TRY_AGAIN_S = 0.5
_STOP_S = 2.0
_MOST_HOPS = 4  # a session cannot move so often while one letter looks for it


class Post:
    """Sends letters; those about a job follow its session to whoever owns it."""

    def __init__(
        self,
        instance_id: InstanceId,
        ledgers: Ledgers,
        company: Company,
        *,
        errands: Errands,
        options: PeerOptions,
        metrics: Metrics,
    ) -> None:
        self._id = instance_id
        self._ledgers = ledgers
        self._company = company
        self._errands = errands
        self._options = options
        self._metrics = metrics
        self._tasks = Tasks()
        self._announcing: set[tuple[InstanceId, str]] = set()  # rooms whose change is not sent yet

    @property
    def _inbox(self) -> InboxLedger:
        return self._ledgers.inbox

    async def stop(self) -> None:
        """Give what is still being sent a moment to leave."""
        await self._tasks.settle(_STOP_S)

    async def assign(self, reservation: Reservation, message: JobAssign) -> bool:
        """Hand a job to a node of another instance; False when that cannot be reached now."""
        letter = PeerAssign(
            node_id=reservation.node_id,
            node_epoch=reservation.epoch,
            job=msgspec.structs.replace(message, audio=b""),
        )
        try:
            return await self._send(reservation.owner, letter) is Posted.SENT
        except DependencyDown:  # perhaps it was sent: the next attempt fences this one
            return False

    def cancel(self, reservation: Reservation, *, job_id: JobId, trace_id: str, reason: str) -> None:
        """Ask the owner of a node to stop an attempt there; best effort."""
        self._send_soon(
            reservation.owner,
            PeerCancel(
                node_id=reservation.node_id,
                job_id=job_id,
                attempt_id=reservation.attempt,
                trace_id=trace_id,
                reason=reason,
            ),
        )

    def give_back(self, errand: Errand, why: str) -> None:
        """Tell who sent a job that its attempt is not on the node any more."""
        letter = PeerReturn(
            node_id=errand.node_id,
            session_id=errand.session_id,
            job_id=errand.job_id,
            attempt_id=errand.attempt,
            why=why,
        )
        self._send_soon(errand.sender, letter)

    def node_lost(self, node_id: NodeId, epoch: int) -> None:
        """Give back everything a node that is gone was asked to do for other instances."""
        for errand in self._errands.lost(node_id, epoch):
            self.give_back(errand, "node_lost")

    def taken(self, before: InstanceId, session_id: SessionId, epoch: int) -> None:
        """Tell a session's former owner that it lives here now."""
        if before != self._id:
            self._send_soon(before, PeerTaken(session_id=session_id, epoch=epoch))

    async def send(self, to: InstanceId, letter: PeerInRoom) -> Posted:
        """Send a letter about a room, and tell what became of it. DependencyDown as of Redis."""
        return await self._send(to, letter)

    def mention(self, to: InstanceId, letter: PeerInRoom) -> None:
        """Send a letter that is soon out of date; nobody minds if it is lost."""
        if len(self._tasks) < self._options.undelivered_max:
            self._tasks.start(self._send_once(to, letter), name=f"mention to {to}")

    def announce(self, to: InstanceId, code: str) -> None:
        """Tell another instance that a room has changed, unless it is about to be told."""
        if (to, code) not in self._announcing:
            self._announcing.add((to, code))
            self._tasks.start(self._announce(to, code), name=f"room {code} to {to}")

    async def order(self, owner: InstanceId, letter: PeerOrder) -> bool:
        """Pass an operator's order for a node on to its owner."""
        return await self._send(owner, letter) is Posted.SENT

    def word(self, node_id: NodeId, word: NodeWord) -> None:
        """Pass on what a node says about a job that is not of a session here."""
        errand = self._errands.done(word.job_id) if _last(word) else self._errands.get(word.job_id)
        session_id = errand.session_id if errand else getattr(word, "session_id", "")
        keep = isinstance(word, JobResult)
        if not session_id or (keep and len(self._tasks) >= self._options.undelivered_max):
            self._metrics.results_dropped_total.inc("unknown")
            return
        letter = PeerWord(node_id=node_id, session_id=session_id, word=word)
        to = errand.sender if errand and errand.sender in self._company.reachable else None
        self._tasks.start(self._follow(letter, to, patient=keep), name=f"word {word.job_id}")

    async def forward(self, letter: PeerWord | PeerReturn) -> Posted | None:
        """Send a letter on to the owner of its session; None when there is no such session."""
        owner = await self._ledgers.sessions.owner(SessionId(letter.session_id))
        if owner is None:
            return None
        if owner == self._id or letter.hops >= _MOST_HOPS:
            return Posted.GONE
        return await self._send(owner, msgspec.structs.replace(letter, hops=letter.hops + 1))

    async def _follow(self, letter: PeerWord, sender: InstanceId | None, *, patient: bool) -> None:
        """Send a node's word to who sent the job or owns its session now; a result waits for an owner.

        Redis may lose the session and the voice between two tries: who sent the job then still wants it.
        """
        sessions, to = self._ledgers.sessions, sender
        tries = round(self._options.dlq_max_age_ms / 1000 / _TRY_AGAIN_S) if patient else 1
        for _ in range(tries):
            try:
                to = to or await sessions.owner(SessionId(letter.session_id)) or sender
                if to is None:
                    self._metrics.results_dropped_total.inc("unknown")
                    return
                if await self._send(to, await self._without_voice(letter)) is Posted.SENT:
                    return
            except DependencyDown as error:
                _log.info("word_not_sent", reason=str(error), **_names(letter))
            to = None
            if patient:
                await asyncio.sleep(_TRY_AGAIN_S)
        self._metrics.results_dropped_total.inc("undeliverable")

    async def _without_voice(self, letter: PeerWord) -> PeerWord:
        """Put the audio of a result beside its job, where the reader finds it."""
        word = letter.word
        if not isinstance(word, JobResult) or not word.tts_audio:
            return letter
        session_id, job_id = SessionId(letter.session_id), JobId(word.job_id)
        await self._ledgers.jobs.put_voice(session_id, job_id, word.tts_audio)
        return msgspec.structs.replace(letter, word=msgspec.structs.replace(word, tts_audio=None), voice=True)

    async def _announce(self, to: InstanceId, code: str) -> None:
        self._announcing.discard((to, code))
        await self._send_surely(to, PeerRoom(room_code=code))

    async def _send_once(self, to: InstanceId, letter: Peer) -> None:
        with suppress(StoreError):
            await self._send(to, letter)

    def _send_soon(self, to: InstanceId, letter: Peer) -> None:
        self._tasks.start(self._send_surely(to, letter), name=f"letter to {to}")

    async def _send_surely(self, to: InstanceId, letter: Peer) -> None:
        for _ in range(round(self._options.dlq_max_age_ms / 1000 / _TRY_AGAIN_S)):
            try:
                if await self._send(to, letter) is not Posted.FULL:
                    return
            except StoreError as error:
                _log.info("letter_not_sent", to=to, reason=str(error))
            await asyncio.sleep(_TRY_AGAIN_S)

    async def _send(self, to: InstanceId, letter: Peer) -> Posted:
        kind = str(letter.__struct_config__.tag)
        try:
            posted = await self._inbox.send(to, encode(letter))
        except StoreError:
            self._metrics.letters_sent_total.inc(kind, "error")
            raise
        self._metrics.letters_sent_total.inc(kind, posted.value)
        if posted is Posted.GONE:
            self._company.doubt(to)
        return posted


def _names(letter: PeerWord) -> dict[str, str]:
    word = letter.word
    trace = {} if isinstance(word, ModelNotAvailable) else {"trace_id": word.trace_id}
    return {"session": letter.session_id, "job": word.job_id, **trace}


def _last(word: NodeWord) -> bool:
    return isinstance(word, JobResult)
