"""A job as the next owner of its session finds it in Redis; what cannot be read is no job."""

from __future__ import annotations

from typing import Any

import msgspec

from lingua_scheduler.core.model import JobId
from lingua_scheduler.core.placement import Reservation
from lingua_scheduler.core.stored import StoredJob

_OPEN = (b"CREATED", b"DISPATCHED", b"ACCEPTED", b"RUNNING")
_ENDED = (b"FINISHED", b"RELEASED")
_reservation = msgspec.json.Decoder(Reservation)


def written(reservation: Reservation | None) -> bytes:
    """Write the reservation of a job's current attempt; nothing for a job that waits."""
    return b"" if reservation is None else msgspec.json.encode(reservation)


def ended(reply: list[Any] | None) -> bool:
    """Tell whether the script `job_read` found a job that has ended."""
    return reply is not None and reply[0] in _ENDED


def stored_job(job_id: JobId, place: tuple[int, str], reply: list[Any] | None) -> StoredJob | None:
    """Make a job of what the script `job_read` found at an index and language; None when it is no use."""
    if reply is None:
        return None
    state, attempt, raw, record, audio = reply
    if state not in _OPEN or record is None or audio is None or not (attempt or b"").isdigit():
        return None
    reservation = _read(raw or b"") if int(attempt) else None
    if int(attempt) and (
        reservation is None or (reservation.job_id, reservation.attempt) != (job_id, int(attempt))
    ):
        return None
    return StoredJob(job_id, *place, int(attempt), record, audio, reservation)


def _read(raw: bytes) -> Reservation | None:
    try:
        return _reservation.decode(raw)
    except msgspec.DecodeError:
        return None
