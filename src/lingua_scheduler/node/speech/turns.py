"""Speech that was cut only because it was long, put together again.

A turn is a run of jobs whose audio ended at a limit (`is_max_duration_triggered`) and the job that ends it.
They share `turn_id`, and reach this node once per target language. Two ways:

`answer`  Each piece is answered when it comes, with its own text and translation. A limit falls into the
          middle of a word, so a piece is cut again at the quietest moment of its last second: what stands
          before is heard now, the rest is put in front of the next job of the turn. No word is heard twice,
          none is heard in halves, and the text of each piece is the prompt of the next.
`merge`   Each piece is answered with NO_TEXT_ASSIGNED, and the job that ends the turn with all of it.

The scheduler holds back the last moment of every piece, so a job that ends the turn always comes. If this
node is lost before, so is what it kept: at most a second with `answer`, the whole turn with `merge`.
"""

from __future__ import annotations

import sys
from array import array
from collections import OrderedDict
from dataclasses import dataclass

from lingua_scheduler.node.speech.options import TurnOptions
from lingua_scheduler.wire.node import JobAssign

_SAMPLE_BYTES = 2
_WINDOW_MS, _STEP_MS = 40, 10
_PROMPT_CHARS = 200

TurnKey = tuple[str, str, str, int]  # session, turn, target language, sample rate


@dataclass(frozen=True, slots=True)
class Piece:
    """The audio of one job and its place in a turn."""

    key: TurnKey | None  # None: a job that belongs to no turn
    index: int
    pcm16: bytes
    rate: int
    goes_on: bool  # cut at a limit: more will come

    @classmethod
    def of(cls, assign: JobAssign, pcm16: bytes, rate: int) -> Piece:
        """Read what a job says about its turn."""
        ends = assign.is_manual_cut or assign.is_timeout_triggered
        key = (assign.session_id, assign.turn_id, assign.tgt_lang, rate) if assign.turn_id else None
        return cls(key, assign.utterance_index, pcm16, rate, assign.is_max_duration_triggered and not ends)


@dataclass(frozen=True, slots=True)
class Due:
    """What a job has to hear, and what was said before it in the same turn."""

    pcm16: bytes
    prompt: str = ""


@dataclass(slots=True)
class _Turn:
    index: int  # of the newest piece
    touched_at: float
    before: bytes = b""  # what was put in front of the newest piece, should it come again
    kept: bytes = b""  # what will be put in front of the next one
    text: str = ""  # what was said last
    text_index: int = -1


class Turns:
    """The open turns of a node."""

    def __init__(self, options: TurnOptions) -> None:
        self._options = options
        self._open: OrderedDict[TurnKey, _Turn] = OrderedDict()  # the one idle longest first

    def __len__(self) -> int:
        return len(self._open)

    def take(self, piece: Piece, now: float) -> Due | None:
        """Give what to hear for this job; None when its audio is kept for a later one."""
        self._forget_idle(now)
        if piece.key is None:
            return Due(piece.pcm16)
        turn = self._open.pop(piece.key, None)
        if turn is None:
            turn = _Turn(piece.index - 1, now)
        elif piece.index < turn.index:  # came too late: what was kept belongs to another place
            self._remember(piece.key, turn)
            return Due(piece.pcm16)
        if piece.index > turn.index:
            turn.index, turn.before, turn.kept = piece.index, turn.kept, b""
        turn.touched_at = now
        return self._due(piece, turn)

    def heard(self, piece: Piece, text: str) -> None:
        """Remember what a piece said, as the prompt of the next."""
        turn = self._open.get(piece.key) if piece.key else None
        if turn is not None and piece.index > turn.text_index and text:
            turn.text, turn.text_index = text[-_PROMPT_CHARS:], piece.index

    def _due(self, piece: Piece, turn: _Turn) -> Due | None:
        whole = turn.before + piece.pcm16
        if not piece.goes_on or piece.key is None:
            return Due(whole, turn.text)
        self._remember(piece.key, turn)
        if self._options.pieces == "merge":
            limit_bytes = round(self._options.merge_limit_s * piece.rate) * _SAMPLE_BYTES
            if len(whole) <= limit_bytes:
                turn.kept = whole
                return None
        at = quietest(whole, piece.rate, self._options.join_ms)
        turn.kept = whole[at:]
        return Due(whole[:at], turn.text)

    def _remember(self, key: TurnKey, turn: _Turn) -> None:
        self._open[key] = turn
        while len(self._open) > self._options.open_limit:
            self._open.popitem(last=False)

    def _forget_idle(self, now: float) -> None:
        while self._open:
            key, turn = next(iter(self._open.items()))
            if turn.touched_at > now - self._options.idle_s:
                return
            del self._open[key]


def quietest(pcm16: bytes, rate: int, within_ms: int) -> int:
    """Find the byte at which the last part of speech is quietest; the very end when there is no such part.

    At most the later half of the audio is looked at, so that something is always left to be heard.
    """
    whole = len(pcm16) // _SAMPLE_BYTES
    window, step = rate * _WINDOW_MS // 1000, max(1, rate * _STEP_MS // 1000)
    first = whole - min(rate * within_ms // 1000, whole // 2)
    if whole - first < window or not window:
        return whole * _SAMPLE_BYTES
    samples = array("h", pcm16[first * _SAMPLE_BYTES : whole * _SAMPLE_BYTES])
    if sys.byteorder == "big":
        samples.byteswap()
    starts = range(0, len(samples) - window + 1, step)
    best = min(starts, key=lambda start: (_power(samples[start : start + window]), -start))
    return (first + best + window // 2) * _SAMPLE_BYTES


def _power(samples: array[int]) -> int:
    return sum(sample * sample for sample in samples)
