"""One speaker of a chaos run: talks, listens, comes back after every loss, and records all of it.

It resumes its session by hand, a connection at a time, so that nothing between it and the server hides what
the server does: a result that comes twice is heard twice.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import msgspec

from lingua_scheduler.chaos.history import Op, Recorder
from lingua_scheduler.chaos.speech import CANARY, FRAME_MS, RATE, frame, read_words, worded_frames
from lingua_scheduler.client import SessionClient
from lingua_scheduler.client.connection import ClientOptions
from lingua_scheduler.client.errors import ConnectionLost, ServerUnreachable, SessionRefused
from lingua_scheduler.client.session import wish_for
from lingua_scheduler.wire.session import (
    AudioAck,
    AudioChunk,
    ErrorMessage,
    MissingResult,
    SessionInit,
    SessionInitAck,
    ToClient,
    TranslationResult,
    UiEvent,
)

SESSIONS_PER_SPEAKER = 1000
"""A session's number is its speaker's times this, plus how many it had before."""

_RETURN_S = (0.1, 0.5)
_LOOK_S = 0.05
_OPTIONS = ClientOptions(heartbeat_s=1.5, connect_timeout_s=3.0, close_timeout_s=6.0)
_PAUSE_MS = 10_000  # silence never cuts: every utterance is ended by hand
_TRY_AGAIN = ("WS_DISCONNECTED", "SCHEDULER_DEPENDENCY_DOWN")  # no word about the session itself

_WISH = wish_for("en", "pt", audio_format="pcm16", sample_rate=RATE, pause_ms=_PAUSE_MS, supports_resume=True)


class SpeakerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the process of speakers is started with."""

    url: str
    history: str  # file
    seed: int
    speakers: int
    period_s: float = 1.0  # from one utterance's beginning to the next
    patience_s: float = 40.0  # how long the last answers are waited for


class Talk:
    """One session: what was said in it and what came back."""

    def __init__(self, ack: SessionInitAck, voice: int) -> None:
        self.ack = ack
        self.voice = voice
        self.seq = 0  # number of the next frame
        self.kept: dict[int, AudioChunk] = {}  # frames that the server has not acknowledged
        self.spoken = 0
        self.ended: set[int] = set()  # indexes that have their end
        self.highest = -1  # highest index heard of

    @property
    def answered(self) -> bool:
        """Everything that was said has its end."""
        return len(self.ended) >= self.spoken and self.highest in {-1, *self.ended}

    @property
    def received_through(self) -> int | None:
        """Every end up to this index has come; None: not even the first."""
        through = -1
        while through + 1 in self.ended:
            through += 1
        return through if through >= 0 else None

    def next_chunk(self, *, final: bool) -> AudioChunk:
        """Make the next frame, and keep it until the server has it."""
        chunk = AudioChunk(
            session_id=self.ack.session_id,
            seq=self.seq,
            is_final=final,
            payload=frame(self.voice, self.seq),
        )
        self.kept[self.seq] = chunk
        self.seq += 1
        return chunk

    def acknowledged(self, seq: int) -> None:
        """The server has every frame up to this one."""
        for number in [number for number in self.kept if number <= seq]:
            del self.kept[number]


class Speaker:
    """Keeps one conversation going until told to be quiet, then waits for every answer."""

    def __init__(self, number: int, settings: SpeakerSettings, recorder: Recorder) -> None:
        self._number = number
        self._settings = settings
        self._recorder = recorder
        self._random = random.Random(f"{settings.seed}/{number}")  # noqa: S311 part of a plan
        self._lives = 0
        self._line = asyncio.Lock()  # frames leave in order, also those that are said again
        self._quiet = asyncio.Event()
        self._client: SessionClient
        self._talk: Talk
        self.open = asyncio.Event()  # has had a session

    def be_quiet(self) -> None:
        """Say nothing more; `run` ends when everything is answered."""
        self._quiet.set()

    async def run(self) -> None:
        """Speak and listen, in one session after the other if it must be."""
        await self._begin()
        talking = asyncio.create_task(self._keep_talking())
        listening = asyncio.create_task(self._listen())
        await talking
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.patience_s):
                while not self._talk.answered:  # noqa: ASYNC110 changed by another task, in many places
                    await asyncio.sleep(_LOOK_S)
        if not self._talk.answered:
            self._note(Op.LEFT)
        listening.cancel()
        await asyncio.wait((listening,))
        await self._say_goodbye()

    # Coming and going

    async def _connected(self, wish: SessionInit) -> SessionInitAck | None:
        """Make a connection of its own for a wish; None when the session is refused for good."""
        while True:
            client = SessionClient(self._settings.url, wish, options=_OPTIONS)
            try:
                await client.open()
            except (ServerUnreachable, SessionRefused, ConnectionLost) as failure:
                self._recorder.note(Op.REFUSED, who=f"c{self._number}", reason=str(failure))
                await client.disconnect()
                await asyncio.sleep(self._random.uniform(*_RETURN_S))
                if failure.code not in _TRY_AGAIN:
                    return None
            else:
                self._client = client
                return client.ack

    async def _begin(self) -> None:
        """Open a new session, however long it takes."""
        ack = None
        while ack is None:
            ack = await self._connected(_WISH)
        self._start(ack)

    def _start(self, ack: SessionInitAck) -> None:
        self._lives += 1
        self._talk = Talk(ack, self._number * SESSIONS_PER_SPEAKER + self._lives)
        self._note(Op.OPENED)
        self.open.set()

    async def _come_back(self) -> None:
        """Return to the session and say again what the server has not, or begin anew if it is gone."""
        talk = self._talk
        self._note(Op.LOST, reason=str(self._client.close_code))
        async with self._line:
            await self._client.disconnect()
            wish = msgspec.structs.replace(
                _WISH,
                resume_token=talk.ack.resume_token,
                resume_try=f"try-{self._random.getrandbits(60):x}",
                received_through=talk.received_through,
            )
            ack = await self._connected(wish)
            if ack is None:
                await self._begin()
            elif not ack.resumed or ack.session_id != talk.ack.session_id:
                self._start(ack)
            else:
                await self._take_up(talk, ack)

    async def _take_up(self, talk: Talk, ack: SessionInitAck) -> None:
        talk.ack = ack
        last = -1 if ack.last_seq is None else ack.last_seq
        self._note(Op.RESUMED, seq=last, index=ack.next_utterance_index or 0)
        talk.acknowledged(last)
        with suppress(ConnectionLost):
            for chunk in list(talk.kept.values()):
                await self._client.send(chunk)

    async def _say_goodbye(self) -> None:
        said = await self._client.close()
        for message in self._client.unread():
            self._heard(message)
        self._note(Op.CLOSED, reason="" if said else "unconfirmed")

    # Talking

    async def _keep_talking(self) -> None:
        await asyncio.sleep(self._random.random() * self._settings.period_s)
        loop = asyncio.get_running_loop()
        while not self._quiet.is_set():
            began = loop.time()
            await self._utter(self._random.randint(2, 6))
            rest_s = max(0.0, began + self._settings.period_s - loop.time())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._quiet.wait(), rest_s)

    async def _utter(self, frames: int) -> None:
        """Say one utterance; when its session is lost for good on the way, its rest is not said."""
        talk, first = self._talk, self._talk.seq
        for left in reversed(range(frames)):
            async with self._line:
                if talk is not self._talk:
                    return
                with suppress(ConnectionLost):  # it is kept and said again
                    await self._client.send(talk.next_chunk(final=left == 0))
            await asyncio.sleep(FRAME_MS / 1000)
        if talk is self._talk:
            talk.spoken += 1
            self._note(Op.SPOKE, first=first, seq=talk.seq - 1)

    # Listening

    async def _listen(self) -> None:
        while True:
            async for message in self._client:
                self._heard(message)
                if isinstance(message, TranslationResult | MissingResult):
                    with suppress(ConnectionLost):
                        await self._client.acknowledge(message.utterance_index)
            await self._come_back()

    def _heard(self, message: ToClient) -> None:
        match message:
            case TranslationResult():
                self._talk.ended.add(message.utterance_index)
                self._note_result(message)
            case MissingResult():
                self._talk.ended.add(message.utterance_index)
                self._note(Op.MISSING, index=message.utterance_index, reason=message.reason)
            case AudioAck():
                self._talk.acknowledged(message.seq)
                self._note(Op.ACKED, seq=message.seq)
            case ErrorMessage():
                self._note(Op.ERROR, reason=message.code)
            case UiEvent():
                self._talk.highest = max(self._talk.highest, message.utterance_index)
            case _:
                pass

    def _note_result(self, message: TranslationResult) -> None:
        """Note what a result proves; its text and its voice must tell the same."""
        said = read_words(message.text_asr)
        canary, node, _job, attempt = (*message.text_translated.split(" "), "", "", "", "")[:4]
        voice = frame(said.client, said.frames[0]) if said else b"-"
        proven = said is not None and canary == CANARY and message.tts_audio.startswith(voice)
        self._note(
            Op.RESULT,
            index=message.utterance_index,
            job=message.job_id,
            node=node,
            attempt=int(attempt or 0),
            client=said.client if said else -1,
            frames=worded_frames(said.frames) if said and proven else "",
        )

    def _note(self, op: Op, **facts: object) -> None:
        talk = self._talk
        known = {"session": talk.ack.session_id, "client": talk.voice, **facts}
        self._recorder.note(op, who=f"c{self._number}", **known)
