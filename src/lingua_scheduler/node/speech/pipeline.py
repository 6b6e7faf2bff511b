"""A job through the engines: VAD, ASR, repair, NMT, TTS, each step timed and each with its deadline.

The node's own process only decides and waits; the work is done by workers. A job that is cancelled stops
between steps: the step that runs is finished, and nothing of it is used.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.model import AudioFormat
from lingua_scheduler.errors import InvalidMessage
from lingua_scheduler.node.job import NOTHING_SAID, Job, JobFailed, Translation
from lingua_scheduler.node.speech.calls import Hear, Speak, Spoken, Translate, Translated, Understood
from lingua_scheduler.node.speech.crew import Crew, Worker
from lingua_scheduler.node.speech.direction import Direction
from lingua_scheduler.node.speech.engine import Speech
from lingua_scheduler.node.speech.errors import EngineError
from lingua_scheduler.node.speech.options import SpeechOptions
from lingua_scheduler.node.speech.turns import Due, Piece, Turns
from lingua_scheduler.wire.common import ServiceTimings
from lingua_scheduler.wire.opus import SPEECH_RATE

_SAMPLE_BYTES = 2
_PROCESSING = "PROCESSING_ERROR"
_DEFAULT_INTERVAL_MS = 1000

KEPT_FOR_LATER = Translation(extra={"reason": "NO_TEXT_ASSIGNED"})
"""The answer for a piece whose speech is translated with a later job of its turn."""


@dataclass(slots=True)
class _Took:
    """How long each step took, in milliseconds."""

    asr: float | None = None
    nmt: float | None = None
    tts: float | None = None


class Pipeline:
    """Turns jobs into translations; `handle` is the handler of a node."""

    def __init__(self, crew: Crew, options: SpeechOptions, clock: Clock) -> None:
        self._crew = crew
        self._options = options
        self._clock = clock
        self._turns = Turns(options.turns)

    async def handle(self, job: Job) -> Translation:
        """Do a job; JobFailed says which service could not do its part."""
        if job.text is not None:
            return await self._translate(job, job.text)
        if not job.assign.pipeline.use_asr:
            raise JobFailed(
                _PROCESSING, "without recognition there is no text", details={"service_id": "asr"}
            )
        began = self._clock.now()
        piece = await self._piece(job)
        due = self._turns.take(piece, self._clock.now())
        if due is None:
            return KEPT_FOR_LATER
        try:
            async with self._crew.lent() as worker:
                return await _Passage(job, worker, self._options, self._clock).run(
                    piece, due, self._turns, began
                )
        except EngineError as error:
            raise JobFailed(error.code, str(error), details=error.details) from error

    async def _translate(self, job: Job, text: str) -> Translation:
        """Do a job about words that another one has recognised."""
        began = self._clock.now()
        direction = Direction.of(job.assign)
        heard = Understood(text=text, raw_text=text, language=direction.spoken[0], probability=1.0)
        try:
            async with self._crew.lent() as worker:
                return await _Passage(job, worker, self._options, self._clock).say(heard, began)
        except EngineError as error:
            raise JobFailed(error.code, str(error), details=error.details) from error

    async def _piece(self, job: Job) -> Piece:
        rate = SPEECH_RATE if job.assign.audio_format == AudioFormat.OPUS else job.assign.sample_rate
        if job.assign.audio_format not in list(AudioFormat):
            raise JobFailed(_PROCESSING, "the audio format is unknown")
        try:
            pcm16 = await asyncio.to_thread(job.pcm16)
        except InvalidMessage as error:
            raise JobFailed(_PROCESSING, error.message) from error
        return Piece.of(job.assign, pcm16[: len(pcm16) // _SAMPLE_BYTES * _SAMPLE_BYTES], rate)


class _Passage:
    """One job on its way through one worker."""

    def __init__(self, job: Job, worker: Worker, options: SpeechOptions, clock: Clock) -> None:
        self._job = job
        self._worker = worker
        self._options = options
        self._clock = clock
        self._took = _Took()
        self._direction = Direction.of(job.assign)

    async def run(self, piece: Piece, due: Due, turns: Turns, began: float) -> Translation:
        heard = await self._hear(due, piece.rate)
        if not heard.text:
            return NOTHING_SAID
        turns.heard(piece, heard.text)
        return await self.say(heard, began)

    async def say(self, heard: Understood, began: float) -> Translation:
        """Translate what was heard, and speak it."""
        steps, tgt = self._job.assign.pipeline, self._direction.target(heard.language)
        said, language = heard.text, heard.language
        way: tuple[str, ...] = (language,)
        if steps.use_nmt:
            translated = await self._translate(said, language, tgt)
            said, language, way = translated.text, tgt, translated.route
        audio = await self._speak(said, language) if steps.use_tts and said else b""
        return Translation(
            text_asr=heard.text,
            text_translated=said if steps.use_nmt else "",
            tts_audio=audio,
            tts_format=self._job.assign.audio_format,
            timings=self._timings(began),
            extra=_extra(heard, way),
        )

    async def _hear(self, due: Due, rate: int) -> Understood:
        assign, deadlines = self._job.assign, self._options.deadlines
        before = " ".join(filter(None, (assign.context_text, due.prompt)))
        interval_ms = assign.partial_update_interval_ms or _DEFAULT_INTERVAL_MS
        call = Hear(
            speech=Speech(
                pcm16=due.pcm16,
                languages=self._direction.spoken,
                prompt=before,
                hotwords=self._options.hotwords,
                interval_s=interval_ms / 1000,
            ),
            rate=rate,
            padding_ms=assign.padding_ms or 0,
            partials=assign.enable_streaming_asr is not False,
            repair=self._options.repair_always or assign.pipeline.use_semantic,
        )
        audio_s = len(due.pcm16) / _SAMPLE_BYTES / rate
        began = self._clock.now()
        with self._job.step("asr"):
            heard = await self._worker.call(
                call,
                Understood,
                service="asr",
                deadline_s=deadlines.asr_s + deadlines.asr_per_audio_s * audio_s,
                tell=self._job.partial,
            )
        self._took.asr = self._since(began)
        return heard

    async def _translate(self, text: str, src: str, tgt: str) -> Translated:
        if src == tgt:
            return Translated(text=text, route=(src,))
        began = self._clock.now()
        call = Translate(text=text, src=src, tgt=tgt)
        deadline_s = self._options.deadlines.nmt_s
        with self._job.step("nmt"):
            said = await self._worker.call(call, Translated, service="nmt", deadline_s=deadline_s)
        self._took.nmt = self._since(began)
        return said

    async def _speak(self, text: str, language: str) -> bytes:
        began = self._clock.now()
        call = Speak(text=text, language=language, audio_format=self._job.assign.audio_format)
        deadline_s = self._options.deadlines.tts_s
        with self._job.step("tts"):
            said = await self._worker.call(call, Spoken, service="tts", deadline_s=deadline_s)
        self._took.tts = self._since(began)
        return said.audio

    def _since(self, began: float) -> float:
        return round((self._clock.now() - began) * 1000, 1)

    def _timings(self, began: float) -> ServiceTimings:
        took = self._took
        return ServiceTimings(asr_ms=took.asr, nmt_ms=took.nmt, tts_ms=took.tts, total_ms=self._since(began))


def _extra(heard: Understood, way: tuple[str, ...]) -> dict[str, Any]:
    """Say what a result tells beside its texts."""
    extra: dict[str, Any] = {
        "detected_src_lang": heard.language,
        "language_probability": round(heard.probability, 3),
    }
    if heard.raw_text != heard.text:
        extra["raw_asr_text"] = heard.raw_text
    if len(way) > 2:  # noqa: PLR2004 more than both ends
        extra["translated_through"] = list(way[1:-1])
    return extra
