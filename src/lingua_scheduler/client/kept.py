"""What a client has said and the server has not confirmed as safe: said again after a resume.

Pure: frames and whole utterances go in with their numbers, and leave when they are confirmed or too many.
"""

from __future__ import annotations

from lingua_scheduler.wire.session import AudioChunk, Utterance


class Kept:
    """Unconfirmed speech, oldest first, bounded in bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._frames: dict[int, AudioChunk] = {}
        self._utterances: dict[int, Utterance] = {}
        self.lost = 0  # frames that had to leave unconfirmed

    @property
    def full(self) -> bool:
        """Another frame would push the oldest one out."""
        return self._bytes >= self._limit_bytes

    def frame(self, chunk: AudioChunk) -> None:
        """Keep a frame; the oldest ones leave when there are too many bytes."""
        while self._frames and self.full:
            self._drop(next(iter(self._frames)))
            self.lost += 1
        self._frames[chunk.seq] = chunk
        self._bytes += _size(chunk)

    def confirmed(self, seq: int) -> None:
        """Every frame up to this one is safe."""
        for number in [number for number in self._frames if number <= seq]:
            self._drop(number)

    def next_after(self, seq: int) -> AudioChunk | None:
        """Give the first kept frame behind this one."""
        return next((chunk for number, chunk in self._frames.items() if number > seq), None)

    def utterance(self, message: Utterance) -> None:
        """Keep a whole utterance until it has its end."""
        self._utterances[message.utterance_index] = message

    def ended(self, index: int) -> None:
        """Every utterance up to this one has its end."""
        for number in [number for number in self._utterances if number <= index]:
            del self._utterances[number]

    def utterances_from(self, index: int) -> list[Utterance]:
        """Give the kept utterances from this index on."""
        return [message for number, message in sorted(self._utterances.items()) if number >= index]

    def _drop(self, number: int) -> None:
        self._bytes -= _size(self._frames.pop(number))


def _size(chunk: AudioChunk) -> int:
    return len(chunk.audio) + 100  # what a frame without audio costs
