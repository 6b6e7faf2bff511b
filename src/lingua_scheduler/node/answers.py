"""Finished results that may have to be sent, or sent again: bounded in number, bytes and age."""

from __future__ import annotations

from dataclasses import dataclass

from lingua_scheduler.node.options import LinkOptions
from lingua_scheduler.wire.node import JobResult

Key = tuple[str, int]  # job and attempt

_BESIDE_AUDIO_BYTES = 4096


@dataclass(slots=True)
class _Kept:
    result: JobResult
    finished_at: float
    sent_at: float | None = None

    @property
    def size_bytes(self) -> int:
        """About what it takes, texts included."""
        texts = len(self.result.text_asr or "") + len(self.result.text_translated or "")
        return _BESIDE_AUDIO_BYTES + 4 * texts + len(self.result.tts_audio or b"")


class Answers:
    """The newest results by job and attempt; the oldest go first."""

    def __init__(self, options: LinkOptions) -> None:
        self._options = options
        self._kept: dict[Key, _Kept] = {}
        self._kept_bytes = 0

    def keep(self, result: JobResult, now: float) -> None:
        """Remember a result that is about to be sent."""
        key = (result.job_id, result.attempt_id)
        self._drop(key)
        kept = self._kept[key] = _Kept(result, now)
        self._kept_bytes += kept.size_bytes
        self._shrink(now)

    def sent(self, result: JobResult, now: float) -> None:
        """A result was written to the connection; whether it arrived will show."""
        kept = self._kept.get((result.job_id, result.attempt_id))
        if kept is not None:
            kept.sent_at = now

    def lost(self, now: float) -> None:
        """The connection is gone: what was written last may not have arrived."""
        for kept in self._kept.values():
            if kept.sent_at is not None and kept.sent_at >= now - self._options.doubtful_s:
                kept.sent_at = None

    def find(self, key: Key) -> JobResult | None:
        """Give the result of an attempt that was finished not long ago."""
        kept = self._kept.get(key)
        return kept.result if kept is not None else None

    def unsent(self, now: float) -> list[JobResult]:
        """Give what must be sent, oldest first."""
        self._shrink(now)
        return [kept.result for kept in self._kept.values() if kept.sent_at is None]

    def _shrink(self, now: float) -> None:
        options = self._options
        for key, kept in list(self._kept.items()):
            too_many = len(self._kept) > options.kept_results or self._kept_bytes > options.kept_results_bytes
            if not too_many and kept.finished_at > now - options.kept_results_s:
                return
            self._drop(key)

    def _drop(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._kept_bytes -= kept.size_bytes
