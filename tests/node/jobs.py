"""Assignments to work on, and what tests know of a node's machine."""

from __future__ import annotations

from typing import Any

from lingua_scheduler.node.usage import Usage
from lingua_scheduler.wire.common import Pipeline
from lingua_scheduler.wire.node import JobAssign

IDLE = Usage(cpu_percent=5.0, mem_percent=20.0)


def assign(job_id: str = "job-1", attempt_id: int = 1, **members: Any) -> JobAssign:
    """Word an assignment."""
    known: dict[str, Any] = {
        "session_id": "s-1",
        "utterance_index": 0,
        "src_lang": "en",
        "tgt_lang": "pt",
        "pipeline": Pipeline(),
        "audio": bytes(3200),
        "audio_format": "pcm16",
        "sample_rate": 16000,
        "trace_id": "t-1",
    }
    return JobAssign(job_id=job_id, attempt_id=attempt_id, **{**known, **members})
