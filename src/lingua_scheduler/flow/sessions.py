"""The sessions an instance owns: opened, kept alive, drained, ended; nothing of an ended one stays.

A session outlives its connection for a while. It may move to another instance meanwhile; then it is forgotten
here, and nothing more is written about it.
"""

from __future__ import annotations

import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lingua_scheduler.aio import Alarm
from lingua_scheduler.core.model import InstanceId, Languages, SessionId, new_session_id
from lingua_scheduler.core.ports import Ledgers, Sink
from lingua_scheduler.core.stored import Tenure
from lingua_scheduler.flow.endings import Endings
from lingua_scheduler.flow.opening import Opening
from lingua_scheduler.flow.records import SessionRecords
from lingua_scheduler.flow.rooms import Rooms
from lingua_scheduler.flow.roster import Roster
from lingua_scheduler.flow.session import Session
from lingua_scheduler.flow.surroundings import Surroundings
from lingua_scheduler.log import get_logger
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.common import ErrorMessage

_log = get_logger(__name__)
_SWEEP_S = 5.0
_STIR_S = 1.0  # who speaks is moved to the end of the line once in this time, not with every frame
_STOP_S = 5.0  # time to erase sessions from Redis; what is left expires by itself
_MOVING_S = 1.0  # more time for a client that is back while its window ends
_RENEWED_AT_ONCE = 100
_REMEMBERED = 1000  # sessions that ended here
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class _Closing:
    """A session that still waits for the results of what was said."""

    deadline: Alarm
    last_word: Callable[[], object]


class Sessions:
    """Every session of this instance, least recently active first."""

    def __init__(
        self,
        around: Surroundings,
        *,
        ledgers: Ledgers,
        endings: Endings,
        tables: tuple[Roster, Rooms],
        owner: InstanceId,
    ) -> None:
        self.secret = secrets.token_bytes(_SECRET_BYTES)  # seals tokens; all instances must have the same
        self._around = around
        self.records = SessionRecords(ledgers.sessions, endings, owner=owner, disown=self.disown)
        self._endings = endings
        self._roster, self._rooms = tables
        self._rooms.remember = self.records.write_behind
        self._sessions: OrderedDict[SessionId, Session] = OrderedDict()
        self.languages: Counter[Languages] = Counter()  # of all of them
        self._active_at: dict[SessionId, float] = {}
        self._away: dict[SessionId, Alarm] = {}  # detached ones, until their window ends
        self._closing: dict[SessionId, _Closing] = {}
        self._ended: OrderedDict[SessionId, None] = OrderedDict()  # newest last
        around.metrics.sessions_away.set_function(lambda: len(self._away))

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: SessionId) -> Session | None:
        """Find a session that lives here."""
        return self._sessions.get(session_id)

    def every(self) -> list[Session]:
        """Give all sessions that live here."""
        return list(self._sessions.values())

    def attached(self) -> list[Session]:
        """Sessions whose clients are connected."""
        return [session for session in self._sessions.values() if session.attached]

    def holds(self, session_id: SessionId) -> bool:
        """Tell whether a session lives here, or ended here a short while ago."""
        return session_id in self._sessions or session_id in self._ended

    def has_ended(self, session_id: SessionId) -> bool:
        """Tell whether a session ended here a short while ago; its record may not be erased yet."""
        return session_id in self._ended

    # Beginning, going away and coming back

    def open(self, opening: Opening, sink: Sink) -> Session:
        """Make a session; its record in Redis is written behind."""
        session = Session(new_session_id(), opening, self._around)
        session.attach(sink)
        self._enter(session)
        self.records.write_behind(session)
        _log.info("session_opened", **session.names)
        return session

    def admit(self, session: Session) -> None:
        """Take in a session that another instance had; its client is about to attach."""
        self._enter(session)
        self._wait_for_client(session)

    def touch(self, session: Session, now: float) -> None:
        """The client said something: it has its latest token."""
        session.again = None
        if now >= session.stirs_at:
            self._stir(session)

    def attach(self, session: Session, sink: Sink) -> None:
        """Let a session speak to a new connection; the one before, if it is still there, is closed."""
        if (window := self._away.pop(session.id, None)) is not None:
            window.cancel()
        before = session.attach(sink)
        if before is not sink:
            before.close(CloseCode.REPLACED, "a newer connection has taken this session over")
        self._stir(session)

    def detach(self, session: Session, sink: Sink) -> None:
        """A session's connection is lost: it waits for its client, unless it was about to end."""
        if session.sink is not sink or self._sessions.get(session.id) is not session:
            return
        if session.closing or not self._around.rules.resume.window_s:
            self.drop(session)
            return
        session.detach()
        if session.room is not None and not session.opening.resumes:
            self._rooms.leave(session)
            self.records.write_behind(session)
        self._wait_for_client(session)
        _log.info("session_detached", **session.names)

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
        self._end(session)

    def changed(self, session: Session) -> None:
        """A job of the session ended; one that is being closed may have nothing left to wait for."""
        if session.id in self._closing and session.idle and not session.jobs:
            self._drained(session)

    # Another owner

    def fenced(self, session_id: SessionId, epoch: int, by: InstanceId | None = None) -> None:
        """Another instance owns the session from this epoch on; it is given what the client has missed."""
        session = self._sessions.get(session_id)
        if session is not None and session.epoch < epoch:
            self.disown(session, by)

    def disown(self, session: Session, by: InstanceId | None = None) -> None:
        """Forget a session that lives elsewhere; its client, if it is still connected, has left it."""
        missed = session.hearing.unheard()
        if self.let_go(session):
            self._around.hand_on(session.id, missed, by)
            session.sink.close(CloseCode.REPLACED, "another instance has taken this session over")

    def let_go(self, session: Session) -> bool:
        """Forget a session and leave all of it in Redis for its next owner; False when it is not here."""
        if not self._leave(session):
            return False
        self._rooms.forget(session)
        for job in session.end():
            self._endings.forget(job)
        self._roster.forget_session(session.id)
        _log.info("session_let_go", **session.names)
        return True

    # Inside

    def _enter(self, session: Session) -> None:
        self._sessions[session.id] = session
        self._stir(session)
        self.languages[session.languages] += 1
        self._around.metrics.sessions_open.inc()

    def _leave(self, session: Session) -> bool:
        if self._sessions.get(session.id) is not session:  # it may have come back to us as another one
            return False
        del self._sessions[session.id], self._active_at[session.id]
        for alarm in (self._away.pop(session.id, None), self._deadline(session.id)):
            if alarm is not None:
                alarm.cancel()
        self.languages[session.languages] -= 1
        if not self.languages[session.languages]:
            del self.languages[session.languages]
        self._around.metrics.sessions_open.dec()
        return True

    def _deadline(self, session_id: SessionId) -> Alarm | None:
        closing = self._closing.pop(session_id, None)
        return closing.deadline if closing else None

    def _stir(self, session: Session) -> None:
        self._active_at[session.id] = now = self._around.clock.now()
        session.stirs_at = now + _STIR_S
        self._sessions.move_to_end(session.id)

    def _wait_for_client(self, session: Session, *, longer_s: float | None = None) -> None:
        around = self._around
        wait_s = around.rules.resume.window_s if longer_s is None else longer_s
        self._away[session.id] = around.alarms.set(
            around.clock.now() + wait_s, lambda: self._window_over(session)
        )

    def _window_over(self, session: Session) -> None:
        del self._away[session.id]
        if session.moving is not None:
            self._wait_for_client(session, longer_s=_MOVING_S)
        else:
            self._end(session)

    def _drained(self, session: Session) -> None:
        last_word = self._closing[session.id].last_word
        self._end(session)
        last_word()

    def _end(self, session: Session) -> None:
        if not self._leave(session):
            return
        self._rooms.leave(session)
        for job in session.end():
            self._endings.abandon(job)
        self._roster.forget_session(session.id)
        self._ended[session.id] = None
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)
        self.records.erase(session)
        _log.info("session_ended", **session.names)

    async def renew(self) -> None:
        """Extend the lives of all records; write anew what Redis has lost, forget what others have."""
        every = list(self._sessions.values())
        for begin in range(0, len(every), _RENEWED_AT_ONCE):  # others have their turn in between
            some = every[begin : begin + _RENEWED_AT_ONCE]
            steady = [each for each in some if not each.ended and not each.moves_on(each.epoch)]
            for session, epoch, tenure in await self.records.renew(steady):
                self._not_held(session, epoch, tenure)

    def _not_held(self, session: Session, epoch: int, tenure: Tenure) -> None:
        if session.ended or session.moves_on(epoch):
            return
        if tenure is Tenure.TAKEN:
            self.disown(session)
        else:
            self.records.write_behind(session)

    def watch_idle(self) -> None:
        """Close sessions that nobody spoke to for too long, now and every few seconds from now on."""
        around = self._around
        oldest = around.clock.now() - around.rules.session.idle_timeout_seconds
        for session_id, session in list(self._sessions.items()):
            if self._active_at[session_id] > oldest:
                break
            if session.attached:
                self.close(session, partial(_dismiss, session))
        around.alarms.set(around.clock.now() + _SWEEP_S, self.watch_idle)

    async def stop(self) -> None:
        """Let go of sessions that can go on elsewhere; end the others and leave nothing of them in Redis."""
        for session in list(self._sessions.values()):
            if session.opening.resumes and not session.closing and self._around.rules.resume.window_s:
                self.let_go(session)
            else:
                self.drop(session)
        await self.records.settle(_STOP_S)


def _dismiss(session: Session) -> None:
    session.sink.post(ErrorMessage(code="SESSION_CLOSED", message="nothing was heard for too long"))
    session.sink.close(CloseCode.IDLE, "idle")
