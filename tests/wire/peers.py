"""JSON as a peer may write it, and what a refusal looks like."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from lingua_scheduler.errors import InvalidMessage
from lingua_scheduler.wire.codec import decode_client

SECRET = "hunter2"
"""What a peer wrote and must never read again in a refusal."""


def refused(data: bytes | str, decode: Any = decode_client, **more: Any) -> str:
    """Decode what must be refused and return the kind of the refusal."""
    with pytest.raises(InvalidMessage) as caught:
        decode(data, **more)
    error = caught.value
    assert error.message.startswith("Invalid message format: ")
    assert SECRET not in error.message
    assert error.details is not None
    return str(error.details["kind"])


def chunk(**members: Any) -> str:
    return json.dumps({"type": "audio_chunk", "session_id": "s-1", "seq": 1, "is_final": False} | members)


def raw_chunk(seq: str) -> str:
    return f'{{"type":"audio_chunk","session_id":"s-1","seq":{seq},"is_final":false}}'


def init(**members: Any) -> str:
    usual = {"type": "session_init", "client_version": "1", "platform": "web"}
    return json.dumps(usual | {"src_lang": "zh", "tgt_lang": "en"} | members)


def utterance(audio: bytes, **members: Any) -> str:
    usual = {"type": "utterance", "session_id": "s-1", "utterance_index": 0, "manual_cut": True}
    spoken = {"src_lang": "zh", "tgt_lang": "en", "audio_format": "pcm16", "sample_rate": 16000}
    return json.dumps(usual | spoken | {"audio": base64.b64encode(audio).decode()} | members)


def heartbeat(**members: Any) -> str:
    usage = {"cpu_percent": 1, "mem_percent": 2, "running_jobs": 0}
    return json.dumps({"type": "node_heartbeat", "node_id": "n", "resource_usage": usage} | members)


def register(**members: Any) -> str:
    usual = {"type": "node_register", "version": "2", "platform": "linux", "accept_public_jobs": True}
    return json.dumps(
        usual | {"hardware": {"cpu_cores": 1, "memory_gb": 1}, "capability_by_type": []} | members
    )


def result(**members: Any) -> str:
    usual = {"type": "job_result", "job_id": "j", "attempt_id": 1, "node_id": "n", "session_id": "s"}
    return json.dumps(usual | {"utterance_index": 0, "success": True, "trace_id": "t"} | members)
