"""How the nodes in the field answer, as far as a scheduler can see it.

They repeat nothing, need one of the end flags, gather the pieces of a turn, and leave short texts of a pure
timeout cut untranslated. Tests and benchmarks use this in place of such a node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lingua_scheduler.core.audio import duration_ms
from lingua_scheduler.core.model import AudioFormat
from lingua_scheduler.node.job import FAILED, JobFailed, Translation
from lingua_scheduler.wire.node import JobAssign
from lingua_scheduler.wire.opus import encode_opus

_ENOUGH_MS = 10_000  # buffered audio that is recognised although no flag ends it
_SHORTEST_CHARS, _HELD_CHARS = 6, 40  # of a timeout cut: dropped below, untranslated up to

Recognise = Callable[[JobAssign, float], str]  # assignment and duration in milliseconds to text


def words_by_duration(assign: JobAssign, spoken_ms: float) -> str:
    """Understand one numbered word per 100 ms, different for every utterance."""
    return " ".join(
        f"word{assign.utterance_index}.{number}" for number in range(max(1, round(spoken_ms / 100)))
    )


@dataclass(slots=True)
class _Turn:
    buffered_ms: float = 0.0
    texts: list[str] = field(default_factory=list)


class FirstGeneration:
    """One node's memory over all its connections, and its answer to each job; None where it keeps silent."""

    def __init__(self, recognise: Recognise = words_by_duration) -> None:
        self._recognise = recognise
        self._jobs: set[str] = set()
        self._indexes: set[tuple[str, int]] = set()
        self._turns: dict[str, _Turn] = {}
        self._last_text: dict[str, str] = {}
        self._last_index: dict[str, int] = {}

    def __call__(self, assign: JobAssign) -> Translation | JobFailed | None:
        """Answer one assignment."""
        refusal = self._refusal(assign)
        if refusal is not None:
            return refusal
        if not assign.audio:
            return None
        spoken_ms = duration_ms(AudioFormat(assign.audio_format), assign.sample_rate, assign.audio)
        key = f"{assign.turn_id}|{assign.tgt_lang}" if assign.turn_id else assign.job_id
        turn = self._turns.setdefault(key, _Turn())
        turn.buffered_ms += spoken_ms
        if assign.is_manual_cut or assign.is_timeout_triggered:
            del self._turns[key]
            return self._end_of_turn(assign, turn)
        return self._piece(assign, turn)

    def _refusal(self, assign: JobAssign) -> JobFailed | None:
        index = (assign.session_id, assign.utterance_index)
        if assign.job_id in self._jobs:
            return JobFailed(FAILED, f"DUPLICATE_JOB_ID: {assign.job_id}")
        self._jobs.add(assign.job_id)
        if index in self._indexes:
            return JobFailed(FAILED, f"DUPLICATE_UTTERANCE_INDEX: {assign.utterance_index}")
        self._indexes.add(index)
        if assign.audio_format not in set(AudioFormat):
            return JobFailed(FAILED, f"Unsupported audio format: {assign.audio_format}")
        return None

    def _piece(self, assign: JobAssign, turn: _Turn) -> Translation | None:
        if turn.buffered_ms < _ENOUGH_MS:
            return None
        text = self._recognise(assign, turn.buffered_ms)
        turn.buffered_ms = 0.0
        turn.texts.append(text)
        return _recognised(text)

    def _end_of_turn(self, assign: JobAssign, turn: _Turn) -> Translation | None:
        text = " ".join([*turn.texts, self._recognise(assign, turn.buffered_ms)]).strip()
        if len(text) < _SHORTEST_CHARS:
            return Translation(extra={"reason": "ASR_EMPTY"}, tts_format=AudioFormat.OPUS.value)
        if self._last_text.get(assign.session_id) == text:
            return None
        self._last_text[assign.session_id] = text
        in_order = assign.utterance_index > self._last_index.get(assign.session_id, -1)
        self._last_index[assign.session_id] = max(
            assign.utterance_index, self._last_index.get(assign.session_id, -1)
        )
        if not in_order or (not assign.is_manual_cut and len(text) <= _HELD_CHARS):
            return _recognised(text)
        return Translation(
            text_asr=text,
            text_translated=f"({assign.tgt_lang}) {text}",
            tts_audio=_SILENCE,
            tts_format=AudioFormat.OPUS.value,
            extra={"audioBuffered": False},
        )


_SILENCE = encode_opus(bytes(640))


def _recognised(text: str) -> Translation:
    return Translation(text_asr=text, tts_format=AudioFormat.OPUS.value, extra={"audioBuffered": False})
