"""How a job that has not ended stands in Redis, in a field of its session.

It is a line of state, attempt and node, a line with the utterance (index and language), a line with the
reservation, and the request. What cannot be read is no job.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from lingua_scheduler.core.model import JobId
from lingua_scheduler.core.placement import Reservation
from lingua_scheduler.core.stored import StoredJob

CLAIM, JOB, TOLD = "claim:", "job:", "told:"
"""What fields of a session begin with: which job an utterance has, what is to be done, what was told."""
RELEASED = "RELEASED"
"""The state of a job that has ended and whose slot is free."""

_OPEN_STATES = (b"CREATED", b"DISPATCHED", b"ACCEPTED", b"RUNNING")
_LINES, _WORDS = 4, 3
_decode = msgspec.json.Decoder(Reservation).decode


def encoded(reservation: Reservation) -> bytes:
    """Write the reservation of a job's current attempt."""
    return msgspec.json.encode(reservation)


def written(claim: str, request: bytes, reservation: Reservation | None) -> bytes:
    """Write a new job for an utterance: placed, or waiting for a node."""
    if reservation is None:
        return f"CREATED 0 \n{claim}\n\n".encode() + request
    head = f"DISPATCHED {reservation.attempt} {reservation.node_id}\n{claim}\n"
    return b"".join((head.encode(), encoded(reservation), b"\n", request))


def current_attempt(raw: bytes | None) -> int | None:
    """Read the attempt of a job that has not ended; None when there is no such job."""
    read = _read(raw)
    return read.attempt if read else None


def claim_of(raw: bytes) -> str:
    """Read which utterance a job belongs to; empty when that cannot be read."""
    lines = raw.split(b"\n", 2)
    return lines[1].decode(errors="replace") if len(lines) > 1 else ""


def stored_job(job_id: JobId, place: tuple[int, str], raw: bytes, audio: bytes | None) -> StoredJob | None:
    """Make a job of what was written and its audio, at an index and language; None when it is no use."""
    read = _read(raw)
    if read is None or audio is None:
        return None
    reservation = _reservation(read.reservation) if read.attempt else None
    if read.attempt and (
        reservation is None or (reservation.job_id, reservation.attempt) != (job_id, read.attempt)
    ):
        return None
    return StoredJob(job_id, *place, read.attempt, read.request, audio, reservation)


class _Job(NamedTuple):
    attempt: int
    reservation: bytes
    request: bytes


def _read(raw: bytes | None) -> _Job | None:
    lines = (raw or b"").split(b"\n", _LINES - 1)
    words = lines[0].split(b" ")
    if len(lines) != _LINES or len(words) != _WORDS or words[0] not in _OPEN_STATES or not words[1].isdigit():
        return None
    return _Job(int(words[1]), lines[2], lines[3])


def _reservation(raw: bytes) -> Reservation | None:
    try:
        return _decode(raw)
    except msgspec.DecodeError:
        return None
