"""One session as a program sees it: say something, hear everything, end it.

A connection costs two tasks, one that reads and one that sends heartbeats; nothing is started per message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar, cast

import aiohttp
import msgspec

from lingua_scheduler.aio import Tasks
from lingua_scheduler.client.connection import ClientOptions, Connection, TokenSource
from lingua_scheduler.client.errors import ConnectionLost, ServerUnreachable, SessionRefused
from lingua_scheduler.client.pace import until
from lingua_scheduler.client.wish import agreed_about, wish_for
from lingua_scheduler.clock import Clock, SystemClock
from lingua_scheduler.core.model import AudioFormat
from lingua_scheduler.wire.address import SESSION_PATH, endpoint
from lingua_scheduler.wire.audio import build_frame
from lingua_scheduler.wire.codec import encode
from lingua_scheduler.wire.session import (
    AudioChunk,
    ClientHeartbeat,
    ErrorMessage,
    FromClient,
    ResultAck,
    SessionClose,
    SessionInit,
    SessionInitAck,
    ToClient,
    TranslationResult,
    TtsPlayEnded,
    TtsStarted,
    Utterance,
)

__all__ = ["SessionClient", "wish_for"]

M = TypeVar("M")
NO_SESSION = "a connection without a session cannot be resumed"


class SessionClient:
    """One client's conversation; `connect` opens it."""

    def __init__(
        self,
        url: str | Sequence[str],
        wish: SessionInit | None,
        *,
        clock: Clock | None = None,
        options: ClientOptions | None = None,
        http: aiohttp.ClientSession | None = None,
        fresh_token: TokenSource | None = None,
    ) -> None:
        self._wish = wish
        self._clock = clock or SystemClock()
        self._options = options or ClientOptions()
        self._urls = deque(endpoint(each, SESSION_PATH) for each in ([url] if isinstance(url, str) else url))
        self._connection = Connection(self._urls[0], self._options, http, fresh_token)
        self._tasks = Tasks()
        self._next_utterance = 0
        self.ack: SessionInitAck | None = None  # what was agreed
        self.seq = 0  # number of the next audio frame

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        url: str | Sequence[str],
        wish: SessionInit | None = None,
        *,
        clock: Clock | None = None,
        options: ClientOptions | None = None,
        http: aiohttp.ClientSession | None = None,
        fresh_token: TokenSource | None = None,
        **wishes: Any,
    ) -> AsyncIterator[Self]:
        """Open a session for the length of a block; `wishes` are members of `session_init`.

        The first of several addresses counts. `fresh_token` is asked for a token before each connection.
        ServerUnreachable or SessionRefused when there is no session.
        Leaving the block ends the connection; call `close` before to hear what is still being translated.
        """
        wish = wish or wish_for(**wishes)
        client = cls(url, wish, clock=clock, options=options, http=http, fresh_token=fresh_token)
        try:
            await client.open()
            yield client
        finally:
            await client.disconnect()

    @classmethod
    @asynccontextmanager
    async def raw(cls, url: str) -> AsyncIterator[Self]:
        """Connect without a word, to send anything."""
        client = cls(url, None)
        try:
            await client.open()
            yield client
        finally:
            await client.disconnect()

    # The session

    async def open(self) -> None:
        """Connect, and say what is wished if anything is."""
        await self._connection.open()
        if self._wish is not None:
            await self._introduce(self._wish)

    async def reconnect(self, url: str | None = None, *, resume: bool = True) -> SessionInitAck:
        """Come back, to the same server or another, into the same session if the server lets us."""
        if self._wish is None:
            raise ValueError(NO_SESSION)
        await self.disconnect()
        if url is not None:
            self._connection.url = endpoint(url, SESSION_PATH)
        token = self.ack.resume_token if self.ack and resume else None
        await self._connection.open()
        return await self._introduce(msgspec.structs.replace(self._wish, resume_token=token))

    async def close(self, reason: str = "client_disconnect") -> bool:
        """End the session and wait for the acknowledgement, the last message; False when it did not come.

        What came before it stays readable.
        """
        connection = self._connection
        try:
            await self.send(SessionClose(session_id=self.session_id, reason=reason))
            async with asyncio.timeout(self._options.close_timeout_s):
                await connection.over.wait()
        except (ConnectionLost, TimeoutError):
            return False
        finally:
            await self.disconnect()
        return connection.goodbye

    async def disconnect(self) -> None:
        """Close the connection without ending the session, as a closed program does."""
        await self._tasks.stop()
        await self._connection.close()

    async def drop(self) -> None:
        """Lose the connection, as a broken network does."""
        await self._tasks.stop()
        await self._connection.cut()

    @property
    def session_id(self) -> str:
        """The id that the server gave."""
        return self.ack.session_id if self.ack else "none"

    @property
    def audio_format(self) -> AudioFormat:
        """The agreed format of audio frames."""
        return AudioFormat((self.ack and self.ack.negotiated_audio_format) or AudioFormat.OPUS)

    @property
    def close_code(self) -> int | None:
        """Why the connection ended; None while it lasts."""
        return self._connection.close_code

    @property
    def unreadable(self) -> int:
        """How many messages of the server were none of this protocol."""
        return self._connection.unreadable

    # What the client says

    async def send(self, message: FromClient) -> None:
        """Send any message."""
        await self._connection.send(encode(message), text=True)

    async def send_raw(self, data: bytes | str) -> None:
        """Send a text or binary frame as it is, right or wrong."""
        text = isinstance(data, str)
        await self._connection.send(data.encode() if isinstance(data, str) else data, text=text)

    async def send_audio(self, audio: bytes, *, final: bool = False) -> int:
        """Send one frame of audio in the agreed form; return its number."""
        chunk = AudioChunk(
            session_id=self.session_id,
            seq=self.seq,
            is_final=final,
            payload=audio,
            client_timestamp_ms=self._clock.wall_ms(),
        )
        self.seq += 1
        await self._speak(chunk)
        return chunk.seq

    async def finish(self) -> int:
        """End the utterance."""
        return await self.send_audio(b"", final=True)

    async def utterance(self, audio: bytes, *, index: int | None = None, **members: Any) -> int:
        """Send a whole utterance, numbered by itself unless told; return its number."""
        number = self._next_utterance if index is None else index
        self._next_utterance = number + 1
        known = {**agreed_about(self._wish, self.ack), **members}
        await self.send(Utterance(session_id=self.session_id, utterance_index=number, audio=audio, **known))
        return number

    async def heartbeat(self) -> None:
        """Send a heartbeat now; the regular ones go by themselves."""
        await self.send(ClientHeartbeat(session_id=self.session_id, timestamp=self._clock.wall_ms()))

    async def playback_started(self, result: TranslationResult) -> None:
        """Report that a result is being played; one without a group cannot be reported."""
        if (about := self._about(result)) is not None:
            await self.send(TtsStarted(ts_start_ms=self._clock.wall_ms(), **about))

    async def playback_ended(self, result: TranslationResult) -> None:
        """Report that everything was played."""
        if (about := self._about(result)) is not None:
            await self.send(TtsPlayEnded(ts_end_ms=self._clock.wall_ms(), **about))

    async def acknowledge(self, index: int) -> None:
        """Report that every result of the own speech up to this index has arrived."""
        await self.send(ResultAck(session_id=self.session_id, utterance_index=index))

    # What the client hears

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ToClient:
        """Give everything the server says, in order, until the connection has ended."""
        message = await self._connection.inbox.take()
        if message is None:
            raise StopAsyncIteration
        return message

    async def expect(self, kind: type[M], *, timeout_s: float = 10.0, **members: Any) -> M:
        """Wait for the first unread message of a type whose members have these values; others stay unread.

        TimeoutError or ConnectionLost when it does not come.
        """

        def fits(message: ToClient) -> bool:
            return isinstance(message, kind) and all(
                getattr(message, name) == value for name, value in members.items()
            )

        return cast("M", await self._connection.hear(fits, timeout_s))

    def unread(self) -> list[ToClient]:
        """Take everything that has arrived and was not read."""
        return self._connection.inbox.clear()

    # Inside

    async def _speak(self, chunk: AudioChunk) -> None:
        if chunk.session_id != self.session_id:
            chunk = msgspec.structs.replace(chunk, session_id=self.session_id)
        if self.ack is not None and self.ack.use_binary_frame:
            await self._connection.send(build_frame(chunk), text=False)
        else:
            await self._connection.send(encode(chunk), text=True)

    async def _introduce(self, wish: SessionInit) -> SessionInitAck:
        try:
            await self._connection.send(encode(wish), text=True)
            answer = await self._answered()
        except TimeoutError:
            raise ServerUnreachable(f"{self._connection.url} does not answer") from None
        except ConnectionLost as lost:
            raise SessionRefused("WS_DISCONNECTED", str(lost)) from None
        if isinstance(answer, ErrorMessage):
            raise SessionRefused(answer.code, answer.message, retry_after_ms=answer.retry_after_ms)
        self.ack = cast("SessionInitAck", answer)
        self._tasks.start(self._beat(), name="client heartbeat")
        return self.ack

    async def _answered(self) -> ToClient:
        return await self._connection.hear(
            lambda message: isinstance(message, SessionInitAck | ErrorMessage),
            self._options.connect_timeout_s,
        )

    def _about(self, result: TranslationResult) -> dict[str, str] | None:
        if result.group_id is None:
            return None
        return {"session_id": self.session_id, "trace_id": result.trace_id, "group_id": result.group_id}

    async def _beat(self) -> None:
        try:
            while True:
                await until(self._clock, self._clock.now() + self._options.heartbeat_s)
                await self.heartbeat()
        except ConnectionLost:
            pass  # whoever reads is told
