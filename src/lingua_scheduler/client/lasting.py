"""A session that outlives its connections: it comes back by itself, repeats what may be lost, hears all once.

Whoever speaks notices nothing but a pause: audio is kept while there is no connection and sent when there is.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

import aiohttp
import msgspec

from lingua_scheduler.aio import Tasks
from lingua_scheduler.client.connection import ClientOptions, TokenSource
from lingua_scheduler.client.ends import Ends
from lingua_scheduler.client.errors import ConnectionLost, ServerUnreachable, SessionRefused
from lingua_scheduler.client.kept import Kept
from lingua_scheduler.client.pace import Burst, until
from lingua_scheduler.client.session import NO_SESSION, SessionClient
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.keys import NotLetIn
from lingua_scheduler.errors import LinguaError
from lingua_scheduler.wire.close import CloseCode, reconnects
from lingua_scheduler.wire.session import (
    AudioAck,
    AudioChunk,
    ErrorMessage,
    FromClient,
    GoingAway,
    MissingResult,
    ResultAck,
    SessionInit,
    SessionInitAck,
    ToClient,
    TranslationResult,
    Utterance,
)

_TRY_BYTES = 8
_ELSEWHERE = (CloseCode.SERVICE_RESTART, CloseCode.GOING_AWAY, CloseCode.TRY_AGAIN_LATER)


class LastingClient(SessionClient):
    """A `SessionClient` that reconnects, to any of several servers; the ack of each return can be read.

    It ends when the server wants no client any more or none answers for `reconnect_for_s`. A token that has
    expired does not let it come back: with `fresh_token` it shows another one each time.
    """

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
        if wish is None:
            raise ValueError(NO_SESSION)
        wish = msgspec.structs.replace(wish, supports_resume=True)
        super().__init__(url, wish, clock=clock, options=options, http=http, fresh_token=fresh_token)
        self._kept = Kept(self._options.keep_bytes)
        self._ends = Ends()
        self._ready = asyncio.Event()  # connected, and all that was kept is said again; or given up
        self._failure: LinguaError | None = None  # why it was given up
        self._ending = False
        self._house = Tasks()  # those that outlive a connection
        self._answer: asyncio.Future[ToClient] | None = None
        self._acknowledging: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._connection.lasting = True
        self._connection.listener = self._take
        self._refused_token = False  # while it tries to come back
        self.returns = 0  # how often it came back

    @property
    def failure(self) -> LinguaError | None:
        """Why it does not come back any more; None while it does."""
        return self._failure

    async def open(self) -> None:
        """Connect and say what is wished; from then on stay connected."""
        await super().open()
        self._ends.begin(self.session_id)
        self._ready.set()
        self._house.start(self._stay(), name="client stays")

    async def close(self, reason: str = "client_disconnect") -> bool:
        """End the session and wait for the acknowledgement; False when it did not come."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.close_timeout_s):
                await self._ready.wait()
        self._ending = True
        return await super().close(reason)

    async def disconnect(self) -> None:
        """Close the connection without ending the session, and do not come back."""
        self._ending = True
        await self._house.stop()
        await super().disconnect()
        self._connection.inbox.end()

    async def drop(self) -> None:
        """Lose the connection, as a broken network does, and come back."""
        self._connection.sever()

    # What the client says

    async def send(self, message: FromClient) -> None:
        """Send any message, as soon as there is a connection; ConnectionLost when there will be none."""
        if isinstance(message, Utterance) and self._resumable:
            self._kept.utterance(message)
        while True:
            if isinstance(message, Utterance) and not self._ready.is_set():
                return  # it is said when the connection is back
            await self._connected()
            if getattr(message, "session_id", self.session_id) != self.session_id:
                return  # about a session that is lost
            try:
                await super().send(message)
            except ConnectionLost:
                if self._ending:
                    raise
                self._ready.clear()
            else:
                return

    async def _speak(self, chunk: AudioChunk) -> None:
        if not self._ready.is_set() and self._kept.full:
            await self._connected()
        if self._failure is not None:
            raise self._failure
        if self._resumable:
            self._kept.frame(chunk)
        if self._ready.is_set():
            with suppress(ConnectionLost):  # it is kept
                await super()._speak(chunk)

    @property
    def _resumable(self) -> bool:
        return self.ack is not None and self.ack.resume_token is not None

    async def _connected(self) -> None:
        if not self._ending:
            await self._ready.wait()
        if self._failure is not None:
            raise self._failure

    # What the client hears

    def _take(self, message: ToClient) -> bool:
        """Look at what was heard before anybody reads it; False when nobody is to read it."""
        match message:
            case SessionInitAck() | ErrorMessage() if self._answer is not None:
                self._answer.set_result(message)
                self._answer = None
                return isinstance(message, SessionInitAck)
            case AudioAck():
                self._kept.confirmed(message.seq)
                return False
            case TranslationResult() | MissingResult():
                fresh = self._ends.fresh(message)
                self._acknowledge_soon()
                return fresh
            case GoingAway():
                self._leave(message)
        return True

    def _acknowledge_soon(self) -> None:
        if self._ends.through is not None:
            self._kept.ended(self._ends.through)
        if self._acknowledging is None or self._acknowledging.done():
            self._acknowledging = self._house.start(self._acknowledge_all(), name="client acknowledges")

    async def _acknowledge_all(self) -> None:
        """Acknowledge many results at once."""
        due = self._clock.now() + self._options.acknowledge_after_s
        if self._ends.unacknowledged < self._options.acknowledge_results:
            await until(self._clock, due)
        through, self._ends.unacknowledged = self._ends.through, 0
        if through is not None and self._ready.is_set():
            with suppress(ConnectionLost):
                ack = ResultAck(session_id=self.session_id, utterance_index=through)
                await super().send(ack)

    def _leave(self, message: GoingAway) -> None:
        if self._leaving is None or self._leaving.done():
            self._leaving = self._house.start(self._move(message.retry_after_ms or 0), name="client moves")

    async def _move(self, after_ms: int) -> None:
        """Go to another server before this one closes the connection."""
        over = asyncio.create_task(self._connection.over.wait())
        moment = asyncio.create_task(until(self._clock, self._clock.now() + after_ms / 1000))
        try:
            await asyncio.wait((over, moment), return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.cancel()
            moment.cancel()
        if not self._connection.over.is_set():
            self._urls.rotate(-1)
            self._connection.over.set()

    # Coming back

    async def _stay(self) -> None:
        while True:
            await self._connection.over.wait()
            if self._ending:
                return
            self._ready.clear()
            try:
                await self._come_back(self._connection.close_code or CloseCode.NORMAL)
            except LinguaError as failure:
                self._failure = failure
                self._connection.inbox.end()
                return
            finally:
                self._ready.set()

    async def _come_back(self, code: int) -> None:
        if not reconnects(code):
            raise ConnectionLost(code)
        if code in _ELSEWHERE:
            self._urls.rotate(-1)
        options, begun, attempt = self._options, self._clock.now(), 0
        self._refused_token = False
        name, step_s, pause_s = secrets.token_hex(_TRY_BYTES), options.reconnect_min_s, 0.0
        while True:
            await until(self._clock, self._clock.now() + pause_s)
            attempt += 1
            try:
                await self._return(name, attempt)
            except (ServerUnreachable, SessionRefused, ConnectionLost) as failure:
                if not self._worth_another(failure, begun):
                    raise
                self._urls.rotate(-1)
                pause_s = step_s * (0.5 + random.random() / 2)  # noqa: S311 spreads a storm, guards nothing
                pause_s = max(pause_s, (getattr(failure, "retry_after_ms", None) or 0) / 1000)
                step_s = min(options.reconnect_max_s, step_s * 2)
            else:
                return

    def _worth_another(self, failure: LinguaError, begun: float) -> bool:
        if self._clock.now() >= begun + self._options.reconnect_for_s:
            return False
        if isinstance(failure, SessionRefused) and failure.code == "WS_DISCONNECTED":
            return reconnects(self._connection.close_code or CloseCode.NORMAL)
        if isinstance(failure, SessionRefused) and failure.code == NotLetIn.code:
            once, self._refused_token = not self._refused_token, True
            return once and self._connection.fresh_token is not None  # it may have expired on its way
        return failure.retryable

    async def _return(self, name: str, attempt: int) -> None:
        """Connect once more, take the session up and say again what is not safe."""
        await self._tasks.stop()
        await self._connection.close()
        self._connection.url = self._urls[0]
        await self._connection.open()
        token = self.ack.resume_token if self.ack else None
        ack = await self._introduce(
            msgspec.structs.replace(
                cast("SessionInit", self._wish),
                resume_token=token,
                resume_try=name if token else None,
                resume_attempt=attempt if token else None,
                received_through=self._ends.through if token else None,
            )
        )
        self._ends.begin(ack.session_id)
        await self._say_again(ack)
        self.returns += 1

    async def _answered(self) -> ToClient:
        if not self._ready.is_set() and self.ack is not None:
            self._answer = asyncio.get_running_loop().create_future()
            return await self._connection.unless_lost(self._answer, self._options.connect_timeout_s)
        return await super()._answered()

    async def _say_again(self, ack: SessionInitAck) -> None:
        """Send what the server does not have, at the pace it allows; what is said meanwhile goes with it."""
        last_seq = ack.last_seq if ack.resumed and ack.last_seq is not None else -1
        burst = Burst(self._clock)
        for message in self._kept.utterances_from(ack.next_utterance_index or 0 if ack.resumed else 0):
            await burst.wait()
            await super().send(msgspec.structs.replace(message, session_id=self.session_id))
        while (chunk := self._kept.next_after(last_seq)) is not None:
            await burst.wait()
            await super()._speak(chunk)
            last_seq = chunk.seq
