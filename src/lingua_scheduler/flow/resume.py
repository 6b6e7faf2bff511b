"""A client comes back with its token: its session goes on here, wherever it was before.

A token counts for one epoch of its session. Taking the session up raises the epoch, in Redis and for one
caller only, so that a token works once and a former owner can write nothing more. A client that got no answer
may use it again in the same try, until it has said something.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass

from lingua_scheduler.aio import Tasks
from lingua_scheduler.core import resume
from lingua_scheduler.core.model import InstanceId, SessionId
from lingua_scheduler.core.ports import SessionLedger
from lingua_scheduler.core.resume import Try
from lingua_scheduler.core.stored import StoredSession
from lingua_scheduler.crash import CrashPoint, crash_point
from lingua_scheduler.errors import CorruptValue, DependencyDown, Fenced
from lingua_scheduler.flow.revival import revive
from lingua_scheduler.flow.session import Session
from lingua_scheduler.flow.sessions import Sessions
from lingua_scheduler.flow.surroundings import Surroundings
from lingua_scheduler.log import get_logger
from lingua_scheduler.wire.session import SessionInit

_log = get_logger(__name__)

_TRY_BYTES = 8
_MOST_UNHEARD = 1000
_ASK_AGAIN_S = 0.1


@dataclass(frozen=True, slots=True)
class Comeback:
    """What a client that returns says about itself."""

    token: str
    tenant: str
    attempt: Try | None  # None: it does not try twice
    received: int  # it has the ends of all utterances up to this index; -1: none

    @classmethod
    def of(cls, message: SessionInit) -> Comeback | None:
        """Read it from a message; None when that asks for a new session."""
        if not message.resume_token:
            return None
        received, name = message.received_through, message.resume_try
        return cls(
            message.resume_token,
            message.tenant_id or "",
            Try(name, message.resume_attempt or 0) if name else None,
            -1 if received is None else received,
        )


class Resume:
    """Gives tokens, and sessions for tokens."""

    def __init__(
        self, sessions: Sessions, ledger: SessionLedger, around: Surroundings, *, owner: InstanceId
    ) -> None:
        self._sessions = sessions
        self._ledger = ledger
        self._around = around
        self._owner = owner
        self.options = around.rules.resume
        self._unheard: dict[tuple[SessionId, int], Try] = {}  # by token: asked, and got no answer of Redis
        self._tasks = Tasks()
        self.stop = self._tasks.stop

    def token(self, session: Session) -> str | None:
        """Give the token for a session's present epoch; None when sessions are not resumed here."""
        if not self.options.window_s:
            return None
        tenant = session.opening.tenant_id or ""
        return resume.make(self._sessions.secret, session.id, session.epoch, tenant=tenant)

    def count(self, outcome: str) -> None:
        """Count what became of a client that came back."""
        self._around.metrics.session_resume_total.inc(outcome)

    async def take_up(self, comeback: Comeback) -> Session | None:
        """Find the session of a token and make it ours; None, for whatever reason, when it is lost.

        DependencyDown when that cannot be told now. The session is not attached to the new connection yet.
        """
        named = resume.read(self._sessions.secret, comeback.token, tenant=comeback.tenant)
        if named is None or not self.options.window_s:
            return None
        session_id, epoch = named
        if self._sessions.has_ended(session_id):
            return None
        attempt = comeback.attempt or self._unheard.pop(named, None) or Try(secrets.token_hex(_TRY_BYTES))
        here = self._sessions.get(session_id)
        if here is not None and here.epoch < epoch:  # another instance has had it since
            self._sessions.disown(here)
            here = None
        try:
            if here is None:
                stored = await self._ledger.take_over(
                    session_id, self._owner, epoch=epoch, try_id=str(attempt)
                )
            else:
                stored = await self._take_here(here, epoch, attempt)
        except DependencyDown:
            self.count("unchecked")
            if len(self._unheard) < _MOST_UNHEARD:
                self._unheard[named] = attempt
            raise
        if stored is None:
            return None
        crash_point(CrashPoint.AFTER_TAKE_OVER)
        session = await self._go_on(session_id, stored, received=comeback.received)
        if session is not None:
            session.again = (epoch, attempt)
            session.acknowledge(comeback.received)
        return session

    async def _take_here(self, session: Session, epoch: int, attempt: Try) -> StoredSession | None:
        if session.moving is not None and attempt.follows(session.moving):
            raise DependencyDown("the session is being taken up for an earlier attempt")
        if session.moving is not None or not session.accepts(epoch, attempt):
            return None
        session.moving = attempt
        try:
            return await self._raised(session, epoch, str(attempt))
        except Fenced:
            self._sessions.disown(session)
            return None
        except DependencyDown:
            if not session.unsure:
                session.unsure = True
                self._tasks.start(self._make_sure(session), name=f"make sure of {session.id}")
            session.again = (epoch, attempt)
            raise
        finally:
            session.moving = None

    async def _make_sure(self, session: Session) -> None:
        """Find out whether Redis raised the epoch for the client that got no answer."""
        while session.unsure and not session.ended:
            await asyncio.sleep(_ASK_AGAIN_S)
            try:
                holder = await self._ledger.holder(session.id)
            except DependencyDown:
                continue
            if session.moving is not None:  # the client asks again: its answer tells
                continue
            session.unsure = False
            asked = session.again and str(session.again[1])
            if holder is not None and (holder.owner, holder.try_id) == (self._owner, asked):
                session.epoch = max(session.epoch, holder.epoch)

    async def _raised(self, session: Session, epoch: int, try_id: str) -> StoredSession | None:
        take_over, records = self._ledger.take_over, self._sessions.records
        await records.written(session)
        stored = await take_over(session.id, self._owner, epoch=epoch, try_id=try_id)
        if stored is None:  # Redis has lost the session, or has not heard of our epoch
            await records.write(session)
            stored = await take_over(session.id, self._owner, epoch=session.epoch, try_id=try_id)
        return stored

    async def _go_on(self, session_id: SessionId, stored: StoredSession, *, received: int) -> Session | None:
        """Make the session what Redis knows of it, unless it never left this instance."""
        here = self._sessions.get(session_id)
        if here is not None and stored.before == self._owner:
            here.epoch = stored.epoch
            here.unsure = False
            self._around.move(here)
            self.count("here")
            return here
        if here is not None:
            self._sessions.disown(here)
        try:
            session, jobs = revive(session_id, stored, self._around, received=received)
        except CorruptValue as error:
            _log.warning("session_unreadable", session=session_id, reason=str(error))
            self._around.metrics.store_corrupt_value_total.inc()
            await self._ledger.close(session_id, epoch=stored.epoch)
            return None
        self._sessions.admit(session)
        for former in {stored.before, stored.first}:
            self._around.taken(former, session_id, stored.epoch)
        self._around.move(session)
        for job in jobs:
            if job.reservation is None:
                self._around.launch(job)
            else:
                self._around.adopt(job)
        self.count("moved")
        _log.info("session_taken_over", before=stored.before, jobs=len(jobs), **session.names)
        return session
