"""The audio of the utterance being spoken, and the quiet that may turn out to be its lead-in.

Frames are kept as they came and put together once, when they are taken out. A cut in the middle of speech
must leave a short tail behind, so that the end of the turn has something to carry it.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from lingua_scheduler.core.audio import duration_ms, split_tail
from lingua_scheduler.core.model import AudioFormat, Frame, believable_ms


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

    __slots__ = ("_fmt", "_rate", "_tail_bytes", "_tail_ms", "duration_ms", "frames", "size_bytes")

    def __init__(self, fmt: AudioFormat, rate: int, tail: Tail) -> None:
        self._fmt = fmt
        self._rate = rate
        self._tail_ms, self._tail_bytes = tail.ms, tail.max_bytes
        self.frames: list[Frame] = []
        self.size_bytes = 0
        self.duration_ms = 0.0

    def __bool__(self) -> bool:
        return bool(self.frames)

    def add(self, frame: Frame) -> None:
        """Append a frame that has audio."""
        self.frames.append(frame)
        self.size_bytes += len(frame.audio)
        self.duration_ms += frame.duration_ms

    def take(self) -> Speech | None:
        """Take everything out; None if there is nothing."""
        return self._take(len(self.frames))

    def take_head(self) -> Speech | None:
        """Take out all but the tail; None if what is held is one piece that cannot be divided."""
        return self._take(self._tail_at())

    def _tail_at(self) -> int:
        """Find where the tail begins; a single frame that is too long for a tail is divided."""
        frames, at = self.frames, len(self.frames)
        left_ms, left_bytes = self._tail_ms, self._tail_bytes
        while at:
            left_ms -= frames[at - 1].duration_ms
            left_bytes -= len(frames[at - 1].audio)
            if (left_ms < 0 or left_bytes < 0) and at < len(frames):
                break
            at -= 1
        if frames and at == len(frames) - 1 and (not at or frames[at].duration_ms > 2 * self._tail_ms):
            return at + self._divide(frames[at])
        return at

    def _divide(self, last: Frame) -> bool:
        """Replace the last frame by its two parts; False when it has only one."""
        head, tail = split_tail(self._fmt, self._rate, last.audio, self._tail_ms)
        if not head or not tail:
            return False
        tail_ms = min(duration_ms(self._fmt, self._rate, tail), last.duration_ms)
        self.frames[-1:] = (
            replace(last, audio=head, duration_ms=last.duration_ms - tail_ms),
            replace(last, audio=tail, duration_ms=tail_ms),
        )
        return True

    def _take(self, count: int) -> Speech | None:
        """Take out so many of the oldest frames."""
        if not count:
            return None
        taken, self.frames = self.frames[:count], self.frames[count:]
        audio = b"".join([frame.audio for frame in taken])
        # Not a running difference: rounding errors must not outlive the frames.
        self.size_bytes = sum([len(frame.audio) for frame in self.frames])
        self.duration_ms = sum([frame.duration_ms for frame in self.frames], 0.0)
        lasted_ms = sum([frame.duration_ms for frame in taken])
        return Speech(audio, round(lasted_ms), believable_ms(taken[0].client_ms))


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

    @property
    def oldest(self) -> Frame | None:
        """The frame that has waited longest."""
        return self._frames[0] if self._frames else None

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
