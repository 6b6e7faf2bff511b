"""One client's connection: it opens a session with `session_init` and speaks for that session only."""

from __future__ import annotations

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.ports import Sink
from lingua_scheduler.errors import InvalidSession, UnsupportedFeature
from lingua_scheduler.flow.opening import agree
from lingua_scheduler.flow.session import Session, SessionRules
from lingua_scheduler.flow.sessions import Sessions
from lingua_scheduler.wire.session import (
    AudioChunk,
    ClientHeartbeat,
    FromClient,
    ResultAck,
    ServerHeartbeat,
    SessionClose,
    SessionCloseAck,
    SessionInit,
    SessionInitAck,
    TtsPlayEnded,
    TtsStarted,
    Utterance,
)

PROTOCOL_VERSION = "1.0"

_NAMES_A_SESSION = (
    AudioChunk | Utterance | ClientHeartbeat | TtsStarted | TtsPlayEnded | SessionClose | ResultAck
)


class ClientDoor:
    """Where new connections of clients come in."""

    def __init__(self, sessions: Sessions, rules: SessionRules, clock: Clock) -> None:
        self._home = (sessions, rules, clock)

    def open(self, sink: Sink, *, remote: str) -> ClientPeer:  # noqa: ARG002 admission by address is the edge's
        """Make the peer of a new connection."""
        return ClientPeer(sink, self._home)


class ClientPeer:
    """The flow's side of one client's socket."""

    def __init__(self, sink: Sink, home: tuple[Sessions, SessionRules, Clock]) -> None:
        self._sink = sink
        self._sessions, self._rules, self._clock = home
        self._session: Session | None = None
        self._closing: list[Session] = []  # earlier ones of this connection that still wait for results

    @property
    def binary_audio(self) -> bool:
        """The client agreed to send audio in binary frames."""
        return self._session is not None and self._session.opening.binary_audio

    def received(self, message: FromClient) -> None:
        """Take one message; errors are answered and change nothing."""
        if isinstance(message, SessionInit):
            self._init(message)
            return
        session = self._owned(message)
        self._sessions.touch(session)
        match message:
            case AudioChunk():
                session.audio(message)
            case Utterance():
                session.utterance(message)
            case ClientHeartbeat():
                self._sink.post(ServerHeartbeat(session_id=session.id, timestamp=self._clock.wall_ms()))
            case TtsStarted():
                session.playback(message.group_id, ended=False)
            case TtsPlayEnded():
                session.playback(message.group_id, ended=True)
            case SessionClose():
                self._close(session, SessionCloseAck(session_id=session.id))
            case ResultAck():
                pass
            case _:
                raise UnsupportedFeature(f"{type(message).__name__} is not offered by this server")

    def lost(self) -> None:
        """The connection is gone."""
        session, self._session = self._session, None
        for each in (*self._closing, session):
            if each is not None:
                self._sessions.drop(each)
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
        opening = agree(message, self._rules.session, self._rules.segmentation)
        if self._session is not None:
            self._close(self._session)
        session = self._session = self._sessions.open(opening, self._sink)
        self._sink.post(
            SessionInitAck(
                session_id=session.id,
                trace_id=opening.trace_id,
                message="session created",
                protocol_version=PROTOCOL_VERSION,
                use_binary_frame=opening.binary_audio,
                negotiated_codec=opening.audio_format.value,
                negotiated_audio_format=opening.audio_format.value,
                negotiated_sample_rate=opening.sample_rate,
                negotiated_channel_count=1,
                negotiated_pause_ms=opening.segmentation.pause_ms,
                negotiated_max_duration_ms=opening.segmentation.max_duration_ms,
            )
        )
