"""`lingua speak`: a WAV file is spoken to a server, and what comes back is printed as it comes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lingua_scheduler.client.audio import Speech, read_wav, write_wav
from lingua_scheduler.client.connection import ClientOptions
from lingua_scheduler.client.conversation import Conversation, Said
from lingua_scheduler.client.errors import ConnectionLost, ServerUnreachable, SessionRefused, UnreadableAudio
from lingua_scheduler.client.lasting import LastingClient
from lingua_scheduler.client.pace import hurried, spoken, until
from lingua_scheduler.client.pauses import Frame, Pauses
from lingua_scheduler.clock import Clock, SystemClock
from lingua_scheduler.core.model import AudioFormat
from lingua_scheduler.errors import ConfigError, InvalidMessage, LinguaError
from lingua_scheduler.log import printable
from lingua_scheduler.secret import Secret
from lingua_scheduler.wire.address import SESSION_PATH, endpoint
from lingua_scheduler.wire.opus import OpusEncoder, decode_opus
from lingua_scheduler.wire.session import (
    AsrPartial,
    ErrorMessage,
    MissingResult,
    ServerHeartbeat,
    SessionInitAck,
    ToClient,
    TranslationResult,
)

_FRAME_MS, _FRAME_S = 100, 0.1
_PAUSE_MS = 2000  # when the server does not name one
_SETTLE_S = 0.5  # after the server has heard all: time to find out what it took on
_PATIENCE_S = 60.0  # longest silence of the server while an answer is owed
_COMPLETE, _INCOMPLETE, _REFUSED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class SpeakRequest:
    """What to say, to whom, and what to do with the answer."""

    file: str  # path of a WAV file, or - for standard input
    src: str
    tgt: str
    url: str
    out: Path | None = None  # where the voice of the translation goes
    audio_format: Literal["opus", "pcm16"] = "opus"
    timings: bool = False
    token: Secret = Secret("")  # noqa: RUF009 it is a str
    fast: bool = False  # as fast as a server lets a client speak, instead of in real time


def speak(request: SpeakRequest) -> int:
    """Run the command: 0 when all that was said is translated, 1 when not, 2 when it could not be tried."""
    try:
        _check(request)
        speech = read_wav(sys.stdin.buffer if request.file == "-" else Path(request.file))
        return asyncio.run(Speaker(request).say(speech))
    except (ConfigError, UnreadableAudio, ServerUnreachable, SessionRefused) as refusal:
        print(f"lingua: {printable(str(refusal))}", file=sys.stderr)
        return _REFUSED


def _check(request: SpeakRequest) -> None:
    try:
        endpoint(request.url, SESSION_PATH)
    except ValueError as error:
        raise ConfigError(f"--url: {error}") from None
    if request.out is not None and not request.out.parent.is_dir():
        raise ConfigError(f"--out: there is no folder {request.out.parent}")


class Speaker:
    """Says one recording and listens meanwhile."""

    def __init__(
        self, request: SpeakRequest, *, clock: Clock | None = None, show: Callable[[str], None] | None = None
    ) -> None:
        self._request = request
        self._clock = clock or SystemClock()
        self._show = show or (lambda line: print(line, flush=True))
        self._conversation = Conversation()
        self._news = asyncio.Event()
        self._heard_at = self._clock.now()
        self._heartbeats = 0  # answered ones
        self._alone = False  # the connection has ended

    async def say(self, speech: Speech) -> int:
        """Speak, wait for the answers, save the voice; return the exit code."""
        request = self._request
        async with LastingClient.connect(
            request.url,
            clock=self._clock,
            options=ClientOptions(token=request.token),
            src_lang=request.src,
            tgt_lang=request.tgt,
            audio_format=request.audio_format,
        ) as client:
            if client.ack is not None and client.ack.warning:
                self._show(f"{client.ack.warning}: {client.ack.hint}")
            listening = asyncio.create_task(self._listen(client), name="listener")
            try:
                await self._speak(client, speech)
                await self._hear_out(client)
                if not await client.close("spoken"):
                    self._show(f"the connection was closed with code {client.close_code}")
            except (ConnectionLost, ServerUnreachable, SessionRefused) as lost:
                self._show(printable(str(lost)))
            finally:
                await client.disconnect()
                await listening
        saved = self._save()
        return self._conclude() if saved else _INCOMPLETE

    async def _speak(self, client: LastingClient, speech: Speech) -> None:
        """Send the frames, and end the utterance wherever the speaker pauses."""
        frames, clock = speech.frames(_FRAME_MS), self._clock
        pauses = Pauses((client.ack and client.ack.negotiated_pause_ms) or _PAUSE_MS, _FRAME_MS)
        encoder = OpusEncoder() if client.audio_format is AudioFormat.OPUS else None
        async for pcm in hurried(frames, clock) if self._request.fast else spoken(frames, _FRAME_S, clock):
            match pauses.judge(pcm):
                case Frame.SPEECH:
                    self._conversation.spoke(clock.now())
                case Frame.PAUSE:
                    await client.finish()
                    continue
                case Frame.NOTHING:
                    continue
            audio = encoder.encode(pcm) if encoder else pcm
            if audio:
                await client.send_audio(audio)
        if encoder and (rest := encoder.flush()):
            await client.send_audio(rest)
        if pauses.speaking:
            await client.finish()

    async def _hear_out(self, client: LastingClient) -> None:
        """Wait until every utterance the server took on has its answer."""
        heartbeats = self._heartbeats
        await client.heartbeat()
        await self._wait_until(lambda: self._heartbeats > heartbeats)
        if self._alone:
            return
        await until(self._clock, self._clock.now() + _SETTLE_S)
        await self._wait_until(lambda: not self._conversation.open)

    async def _wait_until(self, satisfied: Callable[[], bool]) -> None:
        """Wait for news that satisfy, or for the end of patience."""
        while not satisfied() and not self._alone:
            patience_ends = self._heard_at + _PATIENCE_S
            if self._clock.now() >= patience_ends:
                return
            self._news.clear()
            alarm = self._clock.call_at(patience_ends, self._news.set)
            await self._news.wait()
            alarm.cancel()

    async def _listen(self, client: LastingClient) -> None:
        async for message in client:
            self._heard_at = self._clock.now()
            said = self._conversation.heard(message, self._heard_at)
            for line in self._told(message, said):
                self._show(line)
            if isinstance(message, ServerHeartbeat):
                self._heartbeats += 1
            elif isinstance(message, SessionInitAck):
                await self._come_back(client, message)
            self._news.set()
        self._alone = True
        self._news.set()

    async def _come_back(self, client: LastingClient, ack: SessionInitAck) -> None:
        if not ack.resumed:
            self._conversation.begin_anew()
        with suppress(LinguaError):
            await client.heartbeat()  # the answer to an earlier one may be lost

    def _told(self, message: ToClient, said: Said | None) -> list[str]:
        match message:
            case AsrPartial():
                return [f"[{message.utterance_index}] ... {printable(message.text)}"]
            case TranslationResult() if said is not None:
                return self._told_result(message, said)
            case MissingResult():
                return [f"[{message.utterance_index}] no result: {printable(message.reason)}"]
            case SessionInitAck():
                return ["reconnected" if message.resumed else f"reconnected as a new session: {message.hint}"]
            case ErrorMessage():
                return [f"error {printable(message.code)}: {printable(message.message)}"]
            case _:
                return []

    def _told_result(self, result: TranslationResult, said: Said) -> list[str]:
        after = f"{said.latency_s:.2f} s after the end of speech" if said.latency_s is not None else ""
        lines = [
            f"[{result.utterance_index}] {printable(result.text_asr)}",
            f"    -> {printable(result.text_translated)}  ({after})",
        ]
        if self._request.timings:
            lines.append(f"    {timings(result)}")
        return lines

    def _save(self) -> bool:
        if self._request.out is None:
            return True
        voices = [_voice(result) for result in self._conversation.results]
        if None in voices:
            self._show("some of the voice came in a form that cannot be saved")
        try:
            write_wav(self._request.out, b"".join(voice for voice in voices if voice is not None))
        except OSError as error:
            self._show(f"{self._request.out}: {error.strerror}")
            return False
        return True

    def _conclude(self) -> int:
        talk = self._conversation
        if not talk.utterances:
            self._show("no speech was heard")
            return _INCOMPLETE
        self._show(f"utterances: {len(talk.utterances)}, results: {len(talk.results)}")
        return _COMPLETE if talk.complete else _INCOMPLETE


def timings(result: TranslationResult) -> str:
    """Tell where the time of a result went, step by step, as far as the server told."""
    steps, ways = result.service_timings, result.network_timings
    told = {
        "asr": steps and steps.asr_ms,
        "nmt": steps and steps.nmt_ms,
        "tts": steps and steps.tts_ms,
        "node": steps and steps.total_ms,
        "to node": ways and ways.scheduler_to_node_ms,
        "back": ways and ways.node_to_scheduler_ms,
    }
    known = [f"{name} {value:.0f} ms" for name, value in told.items() if value is not None]
    return ", ".join(known) or "no timings"


def _voice(result: TranslationResult) -> bytes | None:
    """Give the voice as pcm16; None when its form is unknown."""
    if result.tts_format == AudioFormat.PCM16:
        return result.tts_audio[: len(result.tts_audio) // 2 * 2]
    if result.tts_format != AudioFormat.OPUS:
        return None
    try:
        return decode_opus(result.tts_audio)
    except InvalidMessage:
        return None
