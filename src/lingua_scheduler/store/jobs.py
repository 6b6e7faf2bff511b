"""Jobs in Redis, in the session's slot: the claim on an index, attempts, the state machine and the audio."""

from __future__ import annotations

from typing import Annotated

import msgspec

from lingua_scheduler.core.model import InstanceId, JobId, SessionId
from lingua_scheduler.core.placement import Reservation
from lingua_scheduler.core.stored import NOBODY, Claimed, Finish, JobEnd, NewJob, Remembered
from lingua_scheduler.errors import CorruptValue, Fenced
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.stored_job import written

CLAIMS_KEPT = 256  # indexes whose claims are kept at least; older ones are known to be used by the counter
_VOICE_MS = 60_000


class LifeOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long records live in Redis without anybody renewing them."""

    session_lease_s: Annotated[int, msgspec.Meta(ge=3)] = 90
    """Life of a session's record. Its owner renews it three times as often, so after the owner's death it
    outlives the 60 s in which a client may resume."""
    ended_job_s: Annotated[int, msgspec.Meta(ge=1)] = 60
    """How long the record of an ended job still fences late results."""


class JobStore:
    """Implements `core.ports.JobLedger`."""

    def __init__(
        self, connection: Connection, scripts: Scripts, keys: Keys, owner: InstanceId, options: LifeOptions
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._owner = owner
        self._session_ttl_ms = options.session_lease_s * 1000
        self._ended_ms = options.ended_job_s * 1000
        self._create = scripts.load("job_create")
        self._attempt = scripts.load("job_attempt")
        self._step = scripts.load("job_step")
        self._finish = scripts.load("job_finish")
        self._audio = scripts.load("job_audio")

    async def create(self, job: NewJob, reservation: Reservation | None) -> Claimed:
        """Claim the index and write the job, placed (attempt 1) or waiting."""
        keys = self._keys
        reply = await self._create(
            session=keys.session(job.session_id),
            claims=keys.claims(job.session_id),
            open_jobs=keys.open_jobs(job.session_id),
            job=keys.job(job.session_id, job.job_id),
            audio=keys.audio(job.session_id, job.job_id),
            owner=self._owner,
            epoch=job.session_epoch,
            spoken=job.session_epoch if job.spoken else "",
            session_ttl_ms=self._session_ttl_ms,
            index=job.index,
            claim=f"{job.index}:{job.tgt_lang}",
            kept=CLAIMS_KEPT,
            last_seq="" if job.last_seq is None else job.last_seq,
            job_id=job.job_id,
            state="DISPATCHED" if reservation else "CREATED",
            attempt=reservation.attempt if reservation else 0,
            node=reservation.node_id if reservation else "",
            reservation=written(reservation),
            record=job.record,
            data=job.audio,
            job_ttl_ms=job.ttl_ms,
            affinity=job.affinity.node_id or "",
            affinity_ttl_ms=job.affinity.ttl_ms,
            pool="" if job.preferred_pool is None else job.preferred_pool,
            pair=job.last_pair,
        )
        if reply[0] == b"fenced":
            raise Fenced(f"session {job.session_id} has a newer owner")
        return Claimed(JobId(reply[1].decode()), fresh=reply[0] != b"known", anew=reply[0] == b"anew")

    async def attempt(
        self,
        session_id: SessionId,
        reservation: Reservation,
        affinity: Remembered = NOBODY,
        *,
        epoch: int,
    ) -> bool:
        """Make `reservation.attempt` the job's current one."""
        reply = await self._attempt(
            session=self._keys.session(session_id),
            job=self._keys.job(session_id, reservation.job_id),
            owner=self._owner,
            epoch=epoch,
            attempt=reservation.attempt,
            node=reservation.node_id,
            reservation=written(reservation),
            affinity=affinity.node_id or "",
            affinity_ttl_ms=affinity.ttl_ms,
        )
        return bool(reply)

    async def step(self, session_id: SessionId, reservation: Reservation, state: str, *, epoch: int) -> bool:
        """Advance the current attempt to `state`."""
        reply = await self._step(
            session=self._keys.session(session_id),
            job=self._keys.job(session_id, reservation.job_id),
            owner=self._owner,
            epoch=epoch,
            attempt=reservation.attempt,
            state=state,
        )
        return bool(reply)

    async def finish(self, end: JobEnd) -> Finish:
        """End the job by an attempt's outcome, log what its client is told, and drop its audio."""
        keys, session_id = self._keys, end.session_id
        reply = await self._finish(
            session=keys.session(session_id),
            open_jobs=keys.open_jobs(session_id),
            results=keys.results(session_id),
            job=keys.job(session_id, end.job_id),
            audio=keys.audio(session_id, end.job_id),
            owner=self._owner,
            epoch=end.session_epoch,
            session_ttl_ms=self._session_ttl_ms,
            job_id=end.job_id,
            attempt=end.attempt,
            outcome=end.outcome,
            keep_ms=self._ended_ms,
            name=end.log.name if end.log else "",
            message=end.log.message if end.log else b"",
            forget=end.forget,
        )
        return Finish(reply.decode())

    async def audio(self, session_id: SessionId, job_id: JobId, *, attempt: int) -> bytes | None:
        """Give a job's audio to the holder of an attempt; None when the attempt is not current any more."""
        keys = self._keys
        try:
            data: bytes | None = await self._audio(
                job=keys.job(session_id, job_id), audio=keys.audio(session_id, job_id), attempt=attempt
            )
        except CorruptValue:
            return None
        return data

    async def put_voice(self, session_id: SessionId, job_id: JobId, data: bytes) -> None:
        """Keep the spoken result of a job for the minute in which its session's owner fetches it."""
        await self._connection.call("SET", self._keys.voice(session_id, job_id), data, "PX", _VOICE_MS)

    async def take_voice(self, session_id: SessionId, job_id: JobId) -> bytes | None:
        """Give the spoken result of a job, as often as it is asked for; None when it is gone."""
        try:
            data: bytes | None = await self._connection.call("GET", self._keys.voice(session_id, job_id))
        except CorruptValue:
            return None
        return data
