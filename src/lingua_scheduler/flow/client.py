"""One client's connection: it opens a session or takes one up, and speaks for that session only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from lingua_scheduler.aio import Tasks
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.hints import hint
from lingua_scheduler.core.ports import Sink
from lingua_scheduler.errors import InvalidSession, StoreError
from lingua_scheduler.flow.opening import Opening, agree
from lingua_scheduler.flow.pairing import Pairing, Redeemed
from lingua_scheduler.flow.resume import Comeback, Resume
from lingua_scheduler.flow.room_desk import Caller, RoomDesk
from lingua_scheduler.flow.session import Session
from lingua_scheduler.flow.sessions import Sessions
from lingua_scheduler.flow.signalling import Signalling
from lingua_scheduler.flow.surroundings import SessionRules
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.session import (
    AudioChunk,
    ClientHeartbeat,
    ErrorMessage,
    FromClient,
    ResultAck,
    RoomChange,
    RoomCreate,
    RoomJoin,
    RoomLeave,
    RoomRawVoicePreference,
    ServerHeartbeat,
    SessionClose,
    SessionCloseAck,
    SessionInit,
    SessionInitAck,
    TtsPlayEnded,
    TtsStarted,
    Utterance,
    WebrtcAnswer,
    WebrtcIce,
    WebrtcOffer,
)

PROTOCOL_VERSION = "1.0"
_NO_NODE = "NO_AVAILABLE_NODE"
_RESUME_FAILED = "RESUME_FAILED"
_UNCHECKED = "the session cannot be taken up now: try again"

_NAMES_A_SESSION = Utterance | ClientHeartbeat | TtsStarted | TtsPlayEnded | SessionClose | ResultAck


@dataclass(frozen=True, slots=True)
class ClientHome:
    """What the connections of clients use of the instance they come to."""

    sessions: Sessions
    rules: SessionRules
    clock: Clock
    pairing: Pairing
    resume: Resume
    tasks: Tasks
    served: Callable[[Opening], bool]  # some node can do what the session will ask for
    rooms: RoomDesk
    signalling: Signalling
    transcript_token: Callable[[Session], str | None]  # with which it reads what was said


class ClientDoor:
    """Where new connections of clients come in."""

    def __init__(self, home: ClientHome) -> None:
        self._home = home

    def open(self, sink: Sink, *, remote: str) -> ClientPeer:
        """Make the peer of a new connection."""
        return ClientPeer(sink, self._home, remote=remote)


class ClientPeer:
    """The flow's side of one client's socket."""

    __slots__ = (
        "_caller",
        "_clock",
        "_closing",
        "_gone",
        "_home",
        "_introducing",
        "_remote",
        "_rules",
        "_session",
        "_sessions",
        "_sink",
        "_wrong_codes",
        "_wrong_tokens",
    )

    def __init__(self, sink: Sink, home: ClientHome, *, remote: str) -> None:
        self._sink = sink
        self._sessions, self._rules, self._clock = home.sessions, home.rules, home.clock
        self._home = home
        self._remote = remote
        self._session: Session | None = None
        self._closing: list[Session] = []  # earlier ones of this connection that still wait for results
        self._introducing: asyncio.Task[None] | None = None  # checks a token or a code, then opens a session
        self._wrong_codes = 0
        self._wrong_tokens = 0
        self._gone = False
        self._caller = Caller(sink, remote)

    @property
    def binary_audio(self) -> bool:
        """The client agreed to send audio in binary frames."""
        return self._session is not None and self._session.opening.binary_audio

    def received(self, message: FromClient) -> None:
        """Take one message; errors are answered and change nothing."""
        if type(message) is AudioChunk:  # what almost every message is
            session = self._session
            if session is None or session.closing or message.session_id != session.id:
                raise InvalidSession("Session does not exist")
            now = self._clock.now()
            if now >= session.stirs_at or session.again is not None:
                self._sessions.touch(session, now)
            session.audio(message, now)
        elif isinstance(message, SessionInit):
            self._init(message)
        else:
            self._control(message)

    def _control(self, message: FromClient) -> None:
        session = self._owned(message)
        self._sessions.touch(session, self._clock.now())
        match message:
            case Utterance():
                session.utterance(message)
            case ClientHeartbeat():
                self._sink.post(ServerHeartbeat(session_id=session.id, timestamp=self._clock.wall_ms()))
            case TtsStarted() | TtsPlayEnded():
                session.playback(message.group_id, ended=isinstance(message, TtsPlayEnded))
            case SessionClose():
                self._close(session, SessionCloseAck(session_id=session.id))
            case ResultAck():
                session.acknowledge(message.utterance_index, speaker=message.speaker_session_id)
            case RoomCreate() | RoomJoin() | RoomLeave() | RoomChange() | RoomRawVoicePreference():
                self._home.rooms.received(session, message, self._caller)
            case WebrtcOffer() | WebrtcAnswer() | WebrtcIce():
                self._home.signalling.received(session, message)

    def lost(self) -> None:
        """The connection is gone."""
        self._gone = True
        session, self._session = self._session, None
        for each in (*self._closing, session):
            if each is not None:
                self._sessions.detach(each, self._sink)
        self._closing.clear()

    def _owned(self, message: FromClient) -> Session:
        session = self._session
        if session is None or session.closing:
            raise InvalidSession("Session does not exist")
        if isinstance(message, _NAMES_A_SESSION) and message.session_id != session.id:
            raise InvalidSession("Session does not exist")
        return session

    def _close(self, session: Session, last_word: SessionCloseAck | None = None) -> None:
        """Let a session end in its own time; it speaks to this connection until then."""
        self._session = None
        self._closing = [each for each in self._closing if self._sessions.get(each.id) is not None]
        self._closing.append(session)
        self._sessions.close(session, lambda: last_word and self._sink.post(last_word))

    def _init(self, message: SessionInit) -> None:
        """Open a session: at once, or when its token or code is checked and all before it are open."""
        opening = agree(message, self._rules.session, self._rules.segmentation)
        code, token = (message.pairing_code or "").strip(), message.resume_token
        if self._session is not None and not token:
            self._close(self._session)
        if code or token or self._introducing is not None:
            checking = self._introduce(message, opening, before=self._introducing)
            self._introducing = self._home.tasks.start(checking, name=f"introduce {opening.trace_id}")
        else:
            self._open(opening)

    async def _introduce(
        self, message: SessionInit, opening: Opening, *, before: asyncio.Task[None] | None
    ) -> None:
        if before is not None:
            await asyncio.wait((before,))
        code = (message.pairing_code or "").strip()
        try:
            settled = await self._resume(message, opening)
            redeemed = await self._redeem(code) if code and not settled else None
        finally:
            if self._introducing is asyncio.current_task():
                self._introducing = None
        if not settled and not self._gone:
            self._introduced(opening, redeemed, lost=bool(message.resume_token))

    async def _resume(self, message: SessionInit, opening: Opening) -> bool:
        """Take a session up; False when it is lost and a new one is to be opened instead."""
        resume, comeback = self._home.resume, Comeback.of(message)
        if self._gone or comeback is None:
            return self._gone
        try:
            session = await resume.take_up(comeback)
        except StoreError as error:
            self._sink.post(
                ErrorMessage(
                    code=error.code,
                    message=_UNCHECKED,
                    hint=hint(error.code, opening.hint_lang),
                    retry_after_ms=resume.options.retry_after_ms,
                )
            )
            return True
        if session is not None:
            self._take_up(session)
            return True
        resume.count("failed")
        self._wrong_tokens += 1
        if self._wrong_tokens < resume.options.guesses_per_connection:
            return False
        self._gone = True
        self._sink.close(CloseCode.TOO_MANY_GUESSES, "too many wrong resume tokens")
        return True

    def _take_up(self, session: Session) -> None:
        """Go on with a session that was interrupted; without a connection it goes on waiting."""
        if self._gone:
            return
        if self._session is not None and self._session is not session:
            self._close(self._session)
        self._session = session
        self._sessions.attach(session, self._sink)
        self._welcome(session, resumed=True)
        session.catch_up()

    async def _redeem(self, code: str) -> Redeemed | None:
        return None if self._gone else await self._home.pairing.redeem(code, self._remote)

    def _introduced(self, opening: Opening, redeemed: Redeemed | None, *, lost: bool) -> None:
        """Open a session, paired or not; close the connection of somebody who guesses."""
        if redeemed is None:
            self._open(opening, lost=lost)
            return
        complaint = redeemed.complaint(lang=opening.hint_lang, trace_id=opening.trace_id)
        self._wrong_codes += redeemed.wrong
        guessing = self._wrong_codes >= self._home.pairing.options.guesses_per_connection
        if not guessing:
            self._open(replace(opening, paired_with=redeemed.node_id), lost=lost)
        if complaint is not None:
            self._sink.post(complaint)
        if guessing:
            self._gone = True
            self._sink.close(CloseCode.TOO_MANY_GUESSES, "too many wrong pairing codes")

    def _open(self, opening: Opening, *, lost: bool = False) -> None:
        if self._session is not None:
            self._close(self._session)
        self._session = self._sessions.open(opening, self._sink)
        self._welcome(self._session, resumed=False if lost else None)

    def _welcome(self, session: Session, *, resumed: bool | None) -> None:
        """Tell what was agreed; `resumed` is False when there was a token and its session is lost."""
        opening = session.opening
        unserved = not self._home.served(opening)
        warning = _RESUME_FAILED if resumed is False else _NO_NODE if unserved else None
        self._sink.post(
            SessionInitAck(
                session_id=session.id,
                trace_id=opening.trace_id,
                message="session resumed" if resumed else "session created",
                assigned_node_id=opening.paired_with,
                protocol_version=PROTOCOL_VERSION,
                use_binary_frame=opening.binary_audio,
                negotiated_codec=opening.audio_format.value,
                negotiated_audio_format=opening.audio_format.value,
                negotiated_sample_rate=opening.sample_rate,
                negotiated_channel_count=1,
                negotiated_pause_ms=opening.segmentation.pause_ms,
                negotiated_max_duration_ms=opening.segmentation.max_duration_ms,
                resume_token=self._home.resume.token(session),
                transcript_token=self._home.transcript_token(session),
                resumed=resumed,
                last_seq=session.last_seq if resumed else None,
                next_utterance_index=session.next_index if resumed else None,
                warning=warning,
                hint=hint(warning, opening.hint_lang) if warning else None,
                retry_after_ms=self._rules.session.unserved_retry_ms if unserved else None,
            )
        )
