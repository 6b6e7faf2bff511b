"""The sessions an instance owns: opened, kept alive, drained, ended; nothing of an ended one stays."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lingua_scheduler.aio import Alarm, Tasks
from lingua_scheduler.core.model import InstanceId, SessionId, new_session_id
from lingua_scheduler.core.ports import Ledgers, Sink
from lingua_scheduler.errors import DependencyDown, StoreError
from lingua_scheduler.flow.endings import Endings
from lingua_scheduler.flow.opening import Opening
from lingua_scheduler.flow.roster import Roster
from lingua_scheduler.flow.session import Session, Surroundings
from lingua_scheduler.log import get_logger
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.common import ErrorMessage

_log = get_logger(__name__)
_RENEWALS_PER_LEASE = 3
_SWEEP_S = 5.0
_RETRY_S = 0.2
_STOP_S = 5.0  # time to erase sessions from Redis; what is left expires by itself


@dataclass(frozen=True, slots=True)
class _Closing:
    """A session that still waits for the results of what was said."""

    deadline: Alarm
    last_word: Callable[[], object]


class Sessions:
    """Every session of this instance, least recently active first."""

    def __init__(
        self, around: Surroundings, *, ledgers: Ledgers, endings: Endings, roster: Roster, owner: InstanceId
    ) -> None:
        self._around = around
        self._ledgers = ledgers
        self._endings = endings
        self._roster = roster
        self._owner = owner
        self._tasks = Tasks()
        self._sessions: OrderedDict[SessionId, Session] = OrderedDict()
        self._active_at: dict[SessionId, float] = {}
        self._closing: dict[SessionId, _Closing] = {}
        self._writing: dict[SessionId, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: SessionId) -> Session | None:
        """Find a session that lives here."""
        return self._sessions.get(session_id)

    def open(self, opening: Opening, sink: Sink) -> Session:
        """Make a session; its record in Redis is written behind."""
        session = Session(new_session_id(), opening, sink, self._around)
        session.epoch = 1
        self._sessions[session.id] = session
        self.touch(session)
        self._around.metrics.sessions_open.inc()
        self._write(session)
        _log.info("session_opened", session=session.id, trace=opening.trace_id)
        return session

    def touch(self, session: Session) -> None:
        """The client said something."""
        self._active_at[session.id] = self._around.clock.now()
        self._sessions.move_to_end(session.id)

    def close(self, session: Session, last_word: Callable[[], object]) -> None:
        """Translate what was said, deliver what comes in time, then end and say the last word."""
        if session.closing:
            return
        session.finish_speech()
        around = self._around
        until = around.clock.now() + around.rules.session.close_drain_ms / 1000
        alarm = around.alarms.set(until, lambda: self._drained(session))
        self._closing[session.id] = _Closing(alarm, last_word)
        self.changed(session)

    def drop(self, session: Session) -> None:
        """End a session whose client is gone, at once and without a word."""
        closing = self._closing.pop(session.id, None)
        if closing is not None:
            closing.deadline.cancel()
        self._end(session)

    def changed(self, session: Session) -> None:
        """A job of the session ended; one that is being closed may have nothing left to wait for."""
        if session.id in self._closing and session.idle and not session.jobs:
            self._drained(session)

    def _drained(self, session: Session) -> None:
        closing = self._closing.pop(session.id)
        closing.deadline.cancel()
        self._end(session)
        closing.last_word()

    def _end(self, session: Session) -> None:
        if self._sessions.pop(session.id, None) is None:
            return
        del self._active_at[session.id]
        for job in session.end():
            self._endings.abandon(job)
        self._roster.forget_session(session.id)
        self._around.metrics.sessions_open.dec()
        self._tasks.start(self._erase(session), name=f"erase {session.id}")
        _log.info("session_ended", session=session.id)

    def _write(self, session: Session) -> None:
        """Write the record in the background; its end waits for that."""
        writing = self._tasks.start(self._write_record(session), name=f"write {session.id}")
        self._writing[session.id] = writing
        writing.add_done_callback(lambda task: self._written(session.id, task))

    def _written(self, session_id: SessionId, task: asyncio.Task[None]) -> None:
        if self._writing.get(session_id) is task:
            del self._writing[session_id]

    async def _write_record(self, session: Session) -> None:
        languages = session.languages
        fields = {"trace_id": session.opening.trace_id, "src_lang": languages.src, "tgt_lang": languages.tgt}
        if session.opening.paired_with is not None:
            fields["paired_node_id"] = session.opening.paired_with
        try:
            session.epoch = await self._ledgers.sessions.open(session.id, self._owner, fields)
        except StoreError as error:
            _log.info("session_not_written", session=session.id, reason=str(error))

    async def _erase(self, session: Session) -> None:
        if (writing := self._writing.get(session.id)) is not None:
            await asyncio.wait((writing,))
        await self._endings.settle_session(session.id)
        while True:
            try:
                await self._ledgers.sessions.close(session.id, epoch=session.epoch)
            except DependencyDown:
                await asyncio.sleep(_RETRY_S)
            else:
                return

    async def keep_alive(self, lease_s: float) -> None:
        """Renew the records of all sessions for ever."""
        while True:
            await asyncio.sleep(lease_s / _RENEWALS_PER_LEASE)
            try:
                lost = await self._ledgers.sessions.renew(list(self._sessions), self._owner)
            except StoreError as error:
                _log.warning("sessions_not_renewed", reason=str(error))
                continue
            for session_id in lost:
                session = self._sessions.get(session_id)
                if session is not None and session_id not in self._writing:
                    self._write(session)

    def watch_idle(self) -> None:
        """Close sessions that nobody spoke to for too long, now and every few seconds from now on."""
        around = self._around
        oldest = around.clock.now() - around.rules.session.idle_timeout_seconds
        for session_id, session in list(self._sessions.items()):
            if self._active_at[session_id] > oldest:
                break
            self.close(session, partial(_dismiss, session))
        around.alarms.set(around.clock.now() + _SWEEP_S, self.watch_idle)

    async def stop(self) -> None:
        """End every session and, while Redis answers, leave nothing of them there."""
        for session in list(self._sessions.values()):
            self.drop(session)
        await self._tasks.settle(_STOP_S)


def _dismiss(session: Session) -> None:
    session.sink.post(ErrorMessage(code="SESSION_CLOSED", message="nothing was heard for too long"))
    session.sink.close(CloseCode.IDLE, "idle")
