"""How a node of a chaos run behaves, well or badly, and how it is told from outside to change that."""

from __future__ import annotations

import asyncio
import sys
from enum import StrEnum
from typing import Any

import msgspec

from lingua_scheduler.chaos.history import Op, Recorder
from lingua_scheduler.chaos.speech import CANARY, frame, heard, worded, worded_frames
from lingua_scheduler.node import Translation
from lingua_scheduler.node.usage import Usage
from lingua_scheduler.wire.node import JobAssign

IDLE = Usage(cpu_percent=5.0, mem_percent=20.0)
"""What the nodes of a run say of their machine, so that a busy machine does not close them."""


class Habit(StrEnum):
    """What a node does with a job."""

    STEADY = "steady"  # acknowledges, works, answers
    SLOW = "slow"  # takes six times as long
    FULL = "full"  # refuses every job for want of room
    CRASH = "crash"  # dies right after it acknowledged the next job
    TWICE = "twice"  # answers every job twice
    LATE = "late"  # answers when its attempt was given up, and does not stop when asked
    MUTE = "mute"  # neither acknowledges nor answers


POLITE = (Habit.STEADY, Habit.SLOW, Habit.FULL, Habit.CRASH)
"""What a node built with the SDK can do; the others break the protocol."""

_SLOWER = 6.0


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a node process is started with."""

    url: str
    ids: tuple[str, ...]
    history: str  # file
    odd: bool = False  # able to break the protocol
    capacity: int = 2
    work_ms: int = 150
    late_s: float = 5.0  # when a late answer is sent


class Conduct:
    """The habit of all nodes of a process, and the record of what they do."""

    def __init__(self, settings: NodeSettings, recorder: Recorder) -> None:
        self.settings = settings
        self.habit = Habit.STEADY
        self._recorder = recorder

    @property
    def work_s(self) -> float:
        """How long a job takes."""
        if self.habit is Habit.LATE:
            return self.settings.late_s
        return self.settings.work_ms / 1000 * (_SLOWER if self.habit is Habit.SLOW else 1)

    def note(self, op: Op, node: str, **facts: Any) -> None:
        """Record something about a node."""
        self._recorder.note(op, who=node, node=node, **facts)

    def note_job(self, op: Op, node: str, job: JobAssign, *, reason: str = "") -> None:
        """Record something about a node's job."""
        what = heard(job.audio)
        self.note(
            op,
            node,
            session=job.session_id,
            index=job.utterance_index,
            job=job.job_id,
            attempt=job.attempt_id,
            client=what.client if what else -1,
            frames=worded_frames(what.frames) if what else "",
            reason=reason,
        )

    async def obey(self) -> None:
        """Take a new habit whenever a line on standard input names one, until it ends."""
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            self.habit = Habit(line.decode().strip())


def translation(job: JobAssign, node: str) -> Translation:
    """Answer with the proof of what was heard, by whom and in which attempt."""
    what = heard(job.audio)
    voice = frame(what.client, what.frames[0]) * 2 if what else b""
    return Translation(
        text_asr=worded(what),
        text_translated=f"{CANARY} {node} {job.job_id} {job.attempt_id}",
        tts_audio=voice,
    )
