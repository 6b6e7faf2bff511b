"""A job as a handler sees it, and what a handler gives back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import msgspec

from lingua_scheduler.core.model import AudioFormat
from lingua_scheduler.errors import LinguaError
from lingua_scheduler.node.trace import JobTrace
from lingua_scheduler.wire.common import ServiceTimings
from lingua_scheduler.wire.node import JobAssign
from lingua_scheduler.wire.opus import decode_opus

FAILED = "PROCESSING_ERROR"
OVERLOADED = "NODE_OVERLOADED"


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """What was said, what it means, and how it sounds."""

    text_asr: str = ""
    text_translated: str = ""
    tts_audio: bytes = b""
    tts_format: str = AudioFormat.PCM16.value
    timings: ServiceTimings | None = None
    extra: dict[str, Any] = {}
    asr_quality_level: str | None = None
    quality_score: float | None = None
    reason_codes: tuple[str, ...] | None = None


NOTHING_SAID = Translation(extra={"reason": "ASR_EMPTY"})
"""The answer for audio without speech."""


class JobFailed(LinguaError):
    """Raised by a handler that cannot do its job; the scheduler is told code, message and details."""

    quotes = True

    def __init__(self, code: str, message: str, *, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.details = details


class Job:
    """One utterance to translate; `assign` holds everything the scheduler said about it."""

    def __init__(
        self, assign: JobAssign, tell_partial: Callable[[str, bool], None], trace: JobTrace | None = None
    ) -> None:
        self.assign = assign
        self._trace = trace
        self._tell_partial = tell_partial

    @property
    def id(self) -> str:
        """The job's id, the same for every attempt."""
        return self.assign.job_id

    @property
    def src_lang(self) -> str:
        """The language spoken, or `auto`."""
        return self.assign.src_lang

    @property
    def tgt_lang(self) -> str:
        """The language wanted."""
        return self.assign.tgt_lang

    @property
    def text(self) -> str | None:
        """What was said, when that is known already: there is no audio then. None: recognise it."""
        return self.assign.text

    def pcm16(self) -> bytes:
        """Give the speech as samples: Opus is decoded to 16 kHz, pcm16 comes at `assign.sample_rate`."""
        audio = self.assign.audio
        return decode_opus(audio) if self.assign.audio_format == AudioFormat.OPUS else audio

    async def partial(self, text: str, *, final: bool = False) -> None:
        """Tell what was understood so far; of calls in quick succession only the newest is sent."""
        self._tell_partial(text, final)

    def step(self, name: str) -> AbstractContextManager[None]:
        """Show a step of the work in the job's trace, for as long as the block lasts, if there is a trace."""
        return nullcontext() if self._trace is None else self._trace.step(name)


Handler = Callable[[Job], Awaitable[Translation]]
