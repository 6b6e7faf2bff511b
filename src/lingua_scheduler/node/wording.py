"""The messages of a node, worded from what it knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from lingua_scheduler.errors import InvalidMessage
from lingua_scheduler.node.job import FAILED, JobFailed, Translation
from lingua_scheduler.node.usage import Usage
from lingua_scheduler.wire.codec import decode_node, encode
from lingua_scheduler.wire.common import ErrorDetail, ServiceTimings
from lingua_scheduler.wire.machine import ResourceUsage
from lingua_scheduler.wire.node import (
    AsrPartial,
    JobAck,
    JobAssign,
    JobResult,
    JobStarted,
    NodeHeartbeat,
    NodeRegister,
)

_TEXT_CHARS = 65536


@dataclass(frozen=True, slots=True)
class Timing:
    """How long an attempt took on the node, and when it was done (Unix time)."""

    took_ms: int
    done_ms: int


def ack_of(assign: JobAssign, node_id: str) -> JobAck:
    """The node has taken the job."""
    return JobAck(node_id=node_id, **_ids(assign))


def started_of(assign: JobAssign, node_id: str) -> JobStarted:
    """The node works on the job."""
    return JobStarted(node_id=node_id, **_ids(assign))


def partial_of(assign: JobAssign, node_id: str, text: str, *, final: bool) -> AsrPartial:
    """What the node understood so far."""
    return AsrPartial(
        job_id=assign.job_id,
        node_id=node_id,
        session_id=assign.session_id,
        utterance_index=assign.utterance_index,
        text=text[:_TEXT_CHARS],
        is_final=final,
        trace_id=assign.trace_id,
    )


def heartbeat_of(
    register: NodeRegister, node_id: str, usage: Usage, *, running_jobs: int, now_ms: int
) -> NodeHeartbeat:
    """The node is there, this busy, and can do what it registered with."""
    return NodeHeartbeat(
        node_id=node_id,
        timestamp=now_ms,
        resource_usage=ResourceUsage(
            cpu_percent=usage.cpu_percent,
            mem_percent=usage.mem_percent,
            gpu_percent=usage.gpu_percent,
            running_jobs=running_jobs,
        ),
        installed_services=register.installed_services,
        capability_by_type=register.capability_by_type,
        language_capabilities=register.language_capabilities,
    )


def full(beat: NodeHeartbeat) -> NodeHeartbeat:
    """Say the same, and that the node takes no more jobs: in this protocol, that its GPU has a queue."""
    usage = msgspec.structs.replace(beat.resource_usage, gpu_queue_length=1)
    return msgspec.structs.replace(beat, resource_usage=usage)


def fitting_result(
    assign: JobAssign, outcome: Translation | JobFailed, node_id: str, timing: Timing
) -> tuple[JobResult, bool]:
    """Word a result; one that the scheduler could not read becomes a failure (False) instead of silence."""
    result = result_of(assign, outcome, node_id, timing)
    try:
        decode_node(encode(result))
    except (InvalidMessage, TypeError, ValueError):
        failure = JobFailed(FAILED, "the node made a result that cannot be sent")
        return result_of(assign, failure, node_id, timing), False
    return result, True


def result_of(assign: JobAssign, outcome: Translation | JobFailed, node_id: str, timing: Timing) -> JobResult:
    """The outcome of one attempt."""
    about: dict[str, Any] = {
        **_ids(assign),
        "node_id": node_id,
        "utterance_index": assign.utterance_index,
        "group_id": assign.group_id,
        "part_index": assign.part_index,
        "processing_time_ms": timing.took_ms,
        "node_completed_at_ms": timing.done_ms,
    }
    if isinstance(outcome, JobFailed):
        error = ErrorDetail(code=outcome.code, message=str(outcome), details=outcome.details)
        return JobResult(success=False, error=error, **about)
    timings = msgspec.to_builtins(outcome.timings or ServiceTimings(total_ms=timing.took_ms))
    return JobResult(
        success=True,
        text_asr=outcome.text_asr,
        text_translated=outcome.text_translated,
        tts_audio=outcome.tts_audio,
        tts_format=outcome.tts_format,
        extra={"service_timings": timings, **outcome.extra},
        asr_quality_level=outcome.asr_quality_level,
        quality_score=outcome.quality_score,
        reason_codes=outcome.reason_codes,
        **about,
    )


def _ids(assign: JobAssign) -> dict[str, Any]:
    return {
        "job_id": assign.job_id,
        "attempt_id": assign.attempt_id,
        "session_id": assign.session_id,
        "trace_id": assign.trace_id,
    }
