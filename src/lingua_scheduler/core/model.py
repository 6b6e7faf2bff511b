"""The words of the house as types: ids, languages, audio, cuts, jobs and attempts."""

from __future__ import annotations

import os
import random
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

import msgspec

SessionId = NewType("SessionId", str)
NodeId = NewType("NodeId", str)
JobId = NewType("JobId", str)
InstanceId = NewType("InstanceId", str)
TurnId = NewType("TurnId", str)
PoolId = NewType("PoolId", int)

_ID_BYTES = 10  # 80 random bits
_LATEST_MS = 2**53

_numbers = random.Random()  # noqa: S311 for names that must be unlike, not secret; seeded by the system
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_numbers.seed)


def new_session_id() -> SessionId:
    """Make a session id that nobody can guess."""
    return SessionId(f"s-{os.urandom(_ID_BYTES).hex()}")


def new_job_id() -> JobId:
    """Make a job id; no node ever sees the same one for two jobs."""
    return JobId(f"job-{_numbers.getrandbits(8 * _ID_BYTES):020x}")


def new_node_id() -> NodeId:
    """Make an id for a node that registered without one."""
    return NodeId(f"node-{secrets.token_hex(_ID_BYTES).upper()}")


def new_turn_id() -> TurnId:
    """Make an id for a turn."""
    return TurnId(f"turn-{_numbers.getrandbits(8 * _ID_BYTES):020x}")


def new_trace_id() -> str:
    """Make a trace id in the form of the W3C trace context."""
    return secrets.token_hex(16)


class AudioFormat(StrEnum):
    """How audio bytes are to be read; all of it is mono."""

    OPUS = "opus"  # repeated: u16 little-endian length, one Opus packet
    PCM16 = "pcm16"  # signed 16-bit little-endian samples


@dataclass(frozen=True, slots=True, order=True)
class Pair:
    """A directed language pair: `zh:en` is not `en:zh`."""

    src: str
    tgt: str

    def __str__(self) -> str:
        return f"{self.src}:{self.tgt}"


@dataclass(frozen=True, slots=True)
class Languages:
    """What a session speaks and wants to hear."""

    src: str
    tgt: str
    dialect: str | None = None
    mode: str | None = None
    lang_a: str | None = None
    lang_b: str | None = None
    auto_langs: tuple[str, ...] = ()

    @property
    def automatic(self) -> bool:
        """The node recognises which language is spoken."""
        return self.src == "auto"

    def spoken(self) -> tuple[str, ...]:
        """Every language the speaker may use; empty means the session cannot be served."""
        if not self.automatic:
            return (self.src,)
        if self.lang_a and self.lang_b:
            return (self.lang_a, self.lang_b)
        return self.auto_langs

    def pairs(self, tgt: str) -> tuple[Pair, ...]:
        """Every direction that a node must serve to take an utterance towards `tgt`."""
        if self.automatic and self.lang_a and self.lang_b and tgt in (self.lang_a, self.lang_b, self.tgt):
            return (Pair(self.lang_a, self.lang_b), Pair(self.lang_b, self.lang_a))
        return tuple(Pair(src, tgt) for src in self.spoken())


class CutReason(StrEnum):
    """Why an utterance ended."""

    MANUAL = "manual"  # the client said so
    SILENCE = "silence"  # the silence timer rang
    GAP = "gap"  # a frame came after a long pause
    MAX_DURATION = "max_duration"  # the longest allowed piece; speech goes on
    MAX_LENGTH = "max_length"  # the largest allowed piece; speech goes on
    CLOSE = "close"  # the session ends

    @property
    def continues_turn(self) -> bool:
        """Speech goes on after this cut: the next utterance belongs to the same turn."""
        return self in (CutReason.MAX_DURATION, CutReason.MAX_LENGTH)


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One piece of audio as the session received it."""

    audio: bytes
    duration_ms: float
    silent: bool = False
    client_ms: float | str | None = None  # the client's clock as it was told, for information only
    after: int | None = None  # the number of the frame that came before it


def believable_ms(said: float | str | None) -> int | None:
    """Read a client's clock, if it told a believable number of milliseconds."""
    if said is None or isinstance(said, str) or not 0 < said < _LATEST_MS:
        return None
    return int(said)


class Cut(msgspec.Struct, frozen=True):
    """One utterance, decided: its number, its audio and why it ended."""

    index: int
    reason: CutReason
    audio: bytes
    duration_ms: int
    turn_id: TurnId
    padding_ms: int | None
    first_client_ms: int | None = None
