"""The audio of the utterance being spoken, and the quiet that may turn out to be its lead-in.

Audio is put together once, when it is taken out. The newest frames stay apart from the older ones, because a
cut in the middle of speech must leave a short tail behind, so that the end of the turn has something to
carry it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lingua_scheduler.core.audio import duration_ms, split_tail
from lingua_scheduler.core.model import AudioFormat, Frame


@dataclass(frozen=True, slots=True)
class Tail:
    """How much of the newest audio stays apart: whole frames that fit both limits, but at least one."""

    ms: float
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Speech:
    """Audio taken out of an utterance."""

    audio: bytes
    duration_ms: int
    first_client_ms: int | None


class OpenUtterance:
    """Frames in order of arrival, taken out whole or all but the tail; no byte is lost, none is doubled."""

    __slots__ = (
        "_body",
        "_body_ms",
        "_first_client_ms",
        "_fmt",
        "_rate",
        "_recent_bytes",
        "_recent_ms",
        "_tail_bytes",
        "_tail_ms",
        "duration_ms",
        "recent",
        "size_bytes",
    )

    def __init__(self, fmt: AudioFormat, rate: int, tail: Tail) -> None:
        self._fmt = fmt
        self._rate = rate
        self._tail_ms, self._tail_bytes = tail.ms, tail.max_bytes
        self._body: list[bytes] = []  # audio of frames older than every frame of `recent`
        self._body_ms = 0.0
        self.size_bytes = 0  # all that is held
        self.duration_ms = 0.0
        self.recent: list[Frame] = []  # few; most sessions are silent, and an empty list costs nothing
        self._recent_bytes = 0
        self._recent_ms = 0.0
        self._first_client_ms: int | None = None

    def __bool__(self) -> bool:
        return bool(self.recent)

    def add(self, frame: Frame) -> None:
        """Append a frame that has audio."""
        recent, size = self.recent, len(frame.audio)
        if not recent:
            self._first_client_ms = frame.client_ms
        recent.append(frame)
        self._recent_bytes += size
        self._recent_ms += frame.duration_ms
        while (self._recent_ms > self._tail_ms or self._recent_bytes > self._tail_bytes) and len(recent) > 1:
            self._melt()
        self.size_bytes += size
        self.duration_ms = self._body_ms + self._recent_ms

    def take(self) -> Speech | None:
        """Take everything out; None if there is nothing."""
        if not self.recent:
            return None
        while self.recent:
            self._melt()
        return self._take_body()

    def take_head(self) -> Speech | None:
        """Take out all but the tail; None if what is held is one piece that cannot be divided."""
        if len(self.recent) == 1 and (not self._body or self._recent_ms > 2 * self._tail_ms):
            self._divide()
        if not self._body:
            return None
        first = self.recent[0]
        speech = self._take_body()
        self._first_client_ms = first.client_ms
        return speech

    def _divide(self) -> None:
        """Replace the only recent frame, too long for a tail, by its two parts."""
        frame = self.recent[0]
        head, tail = split_tail(self._fmt, self._rate, frame.audio, self._tail_ms)
        if not head or not tail:
            return
        tail_ms = min(duration_ms(self._fmt, self._rate, tail), frame.duration_ms)
        self._body.append(head)
        self._body_ms += frame.duration_ms - tail_ms
        self.recent[0] = Frame(tail, tail_ms, frame.silent, frame.client_ms)
        self._recent_bytes = len(tail)
        self._recent_ms = tail_ms

    def _melt(self) -> None:
        frame = self.recent.pop(0)
        self._body.append(frame.audio)
        self._body_ms += frame.duration_ms
        self._recent_bytes -= len(frame.audio)
        # Not a running difference when it empties: rounding errors must not outlive the frames.
        self._recent_ms = self._recent_ms - frame.duration_ms if self.recent else 0.0

    def _take_body(self) -> Speech:
        speech = Speech(b"".join(self._body), round(self._body_ms), self._first_client_ms)
        self._body = []
        self._body_ms = 0.0
        self.size_bytes, self.duration_ms = self._recent_bytes, self._recent_ms
        return speech


class LeadIn:
    """The newest quiet before an utterance: never an utterance of its own."""

    __slots__ = ("_bytes", "_frames", "_max_bytes", "_max_ms", "_ms")

    def __init__(self, max_ms: float, max_bytes: int) -> None:
        self._max_ms = max_ms
        self._max_bytes = max_bytes
        self._frames: list[Frame] = []
        self._ms = 0.0
        self._bytes = 0

    @property
    def size_bytes(self) -> int:
        """Bytes held."""
        return self._bytes

    def add(self, frame: Frame) -> None:
        """Keep a quiet frame and forget the oldest that no longer fit."""
        self._frames.append(frame)
        self._ms += frame.duration_ms
        self._bytes += len(frame.audio)
        while self._frames and (self._ms > self._max_ms or self._bytes > self._max_bytes):
            oldest = self._frames.pop(0)
            self._ms = self._ms - oldest.duration_ms if self._frames else 0.0
            self._bytes -= len(oldest.audio)

    def take(self) -> list[Frame]:
        """Take out what is kept, oldest first."""
        frames, self._frames = self._frames, []
        self.clear()
        return frames

    def clear(self) -> None:
        """Forget the quiet."""
        self._frames.clear()
        self._ms = 0.0
        self._bytes = 0
