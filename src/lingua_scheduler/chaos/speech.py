"""Speech that proves who said it: every frame carries its speaker and its number, and is loud besides.

A node that hears such audio can tell exactly which frames of whom reached it, in which order. Its answer is
the proof from which lost, repeated and mixed speech is found.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

FRAME_MS = 40
RATE = 16_000
FRAME_BYTES = FRAME_MS * RATE // 1000 * 2
CANARY = "zwitscherkanarie"
"""A word of every answer that must not be in any log."""

_HEADER = struct.Struct("<4sII")
_MAGIC = b"\x7fLNG"
_LOUD = struct.pack("<hh", 8000, -8000) * FRAME_BYTES
_HEARD = re.compile(rf"{CANARY} c(\d+) ([\d,-]+)")


@dataclass(frozen=True, slots=True)
class Heard:
    """What a node heard: one speaker and the numbers of the frames, in order."""

    client: int
    frames: tuple[int, ...]

    @property
    def whole(self) -> bool:
        """The frames follow each other without a gap or a repetition."""
        return all(after == before + 1 for before, after in zip(self.frames, self.frames[1:], strict=False))


def frame(client: int, number: int) -> bytes:
    """Make one frame of pcm16 at 16 kHz."""
    header = _HEADER.pack(_MAGIC, client, number)
    return header + _LOUD[: FRAME_BYTES - len(header)]


def heard(audio: bytes) -> Heard | None:
    """Read frames back; None when this is not the speech of exactly one speaker in whole frames."""
    if not audio or len(audio) % FRAME_BYTES:
        return None
    found = [_HEADER.unpack_from(audio, at) for at in range(0, len(audio), FRAME_BYTES)]
    if any(magic != _MAGIC or client != found[0][1] for magic, client, _ in found):
        return None
    return Heard(found[0][1], tuple(number for _, _, number in found))


def worded(what: Heard | None) -> str:
    """Word what was heard, as text of an answer."""
    if what is None:
        return f"{CANARY} garbled"
    return f"{CANARY} c{what.client} {worded_frames(what.frames)}"


def read_words(text: str) -> Heard | None:
    """Read such a text; None when it tells of garbled speech or is none of ours."""
    match = _HEARD.fullmatch(text)
    return Heard(int(match[1]), read_frames(match[2])) if match else None


def worded_frames(frames: tuple[int, ...]) -> str:
    """Word frame numbers as runs: `3-5,7`."""
    runs: list[list[int]] = []
    for number in frames:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in runs)


def read_frames(text: str) -> tuple[int, ...]:
    """Read runs of frame numbers."""
    frames: list[int] = []
    for run in text.split(","):
        first, _, last = run.partition("-")
        frames += range(int(first), int(last or first) + 1)
    return tuple(frames)
