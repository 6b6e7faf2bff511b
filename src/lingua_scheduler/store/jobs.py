"""Jobs in Redis, in the session's slot: the claim on an index, attempts, the state machine and the audio."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec

from lingua_scheduler.core.model import InstanceId, JobId, SessionId
from lingua_scheduler.core.placement import Reservation
from lingua_scheduler.core.stored import NOBODY, Claimed, Finish, JobEnd, NewJob, Remembered
from lingua_scheduler.errors import CorruptValue, DependencyDown, Fenced
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.packing import large
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.stored_job import (
    CLAIM,
    JOB,
    RELEASED,
    TOLD,
    current_attempt,
    encoded,
    written,
)

CLAIMS_KEPT = 256  # indexes whose claims are kept at least; older ones are known to be used by the counter
_VOICE_MS = 60_000
_WRITTEN = (b"fresh", b"anew")


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

    async def create(self, job: NewJob, reservation: Reservation | None) -> Claimed:
        """Claim the index and write the job, placed (attempt 1) or waiting, after its audio."""
        keys, session_id = self._keys, job.session_id
        claim, audio = f"{job.index}:{job.tgt_lang}", keys.audio(session_id, job.job_id)
        create = self._create(
            session=keys.session(session_id),
            audio=audio,
            owner=self._owner,
            epoch=job.session_epoch,
            spoken=job.session_epoch if job.spoken else "",
            ttl_ms=self._session_ttl_ms,
            claim=f"{CLAIM}{claim}",
            id=job.job_id,
            job=f"{JOB}{job.job_id}",
            record=written(claim, job.record, reservation),
            next_index=job.index + 1,
            last_seq="" if job.last_seq is None else job.last_seq,
            old="" if job.index % CLAIMS_KEPT else job.index - CLAIMS_KEPT,
            affinity=job.affinity.node_id or "",
            affinity_ttl_ms=job.affinity.ttl_ms,
            pool="" if job.preferred_pool is None else job.preferred_pool,
            pair=job.last_pair,
        )
        put = ("SET", audio, large(job.audio), "PX", job.ttl_ms)
        reply = await self._connection.in_order(put, create, durable=True)
        if reply in _WRITTEN:
            return Claimed(job.job_id, fresh=True, anew=reply == b"anew")
        await self._drop_audio(session_id, job.job_id)
        if reply == b"mute":
            raise DependencyDown(f"the audio of job {job.job_id} came after the job")
        if reply == b"fenced":
            raise Fenced(f"session {session_id} has a newer owner")
        return Claimed(JobId(reply[0].decode()), fresh=False)

    async def _drop_audio(self, session_id: SessionId, job_id: JobId) -> None:
        """Remove the audio of a job that was not written now, unless it was before and has not ended."""
        call, keys = self._connection.call, self._keys
        if not await call("HEXISTS", keys.session(session_id), f"{JOB}{job_id}"):
            await call("UNLINK", keys.audio(session_id, job_id))

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
            owner=self._owner,
            epoch=epoch,
            job=f"{JOB}{reservation.job_id}",
            attempt=reservation.attempt,
            node=reservation.node_id,
            reservation=encoded(reservation),
            affinity=affinity.node_id or "",
            affinity_ttl_ms=affinity.ttl_ms,
        )
        return bool(reply)

    async def step(self, session_id: SessionId, reservation: Reservation, state: str, *, epoch: int) -> bool:
        """Advance the current attempt to `state`; RELEASED is a job that has ended and whose slot is free."""
        ended = self._keys.ended(session_id, reservation.job_id)
        if state == RELEASED:
            mark = f"{state} {reservation.attempt}"
            return await self._connection.call("SET", ended, mark, "XX", "KEEPTTL") is not None
        reply = await self._step(
            session=self._keys.session(session_id),
            ended=ended,
            owner=self._owner,
            epoch=epoch,
            job=f"{JOB}{reservation.job_id}",
            attempt=reservation.attempt,
            state=state,
        )
        return bool(reply)

    async def finish(self, end: JobEnd) -> Finish:
        """End the job by an attempt's outcome, log what its client is told, and drop its audio."""
        keys, session_id = self._keys, end.session_id
        reply = await self._finish(
            session=keys.session(session_id),
            ended=keys.ended(session_id, end.job_id),
            audio=keys.audio(session_id, end.job_id),
            owner=self._owner,
            epoch=end.session_epoch,
            job=f"{JOB}{end.job_id}",
            attempt=end.attempt,
            state=f"FINISHED {end.attempt} {end.outcome}",
            keep_ms=self._ended_ms,
            name=f"{TOLD}{end.log.name}" if end.log else "",
            message=large(end.log.message) if end.log else b"",
            forget=[f"{TOLD}{name}" for name in end.forget],
        )
        return Finish(reply.decode())

    async def audio(self, session_id: SessionId, job_id: JobId, *, attempt: int) -> bytes | None:
        """Give a job's audio to the holder of an attempt; None when the attempt is not current any more."""
        call, keys = self._connection.call, self._keys
        try:
            raw, audio = await asyncio.gather(
                call("HGET", keys.session(session_id), f"{JOB}{job_id}"),
                call("GET", keys.audio(session_id, job_id)),
            )
        except CorruptValue:
            return None
        found: bytes | None = audio if current_attempt(raw) == attempt else None
        return found

    async def put_voice(self, session_id: SessionId, job_id: JobId, data: bytes) -> None:
        """Keep the spoken result of a job for the minute in which its session's owner fetches it."""
        await self._connection.call("SET", self._keys.voice(session_id, job_id), large(data), "PX", _VOICE_MS)

    async def take_voice(self, session_id: SessionId, job_id: JobId) -> bytes | None:
        """Give the spoken result of a job, as often as it is asked for; None when it is gone."""
        try:
            data: bytes | None = await self._connection.call("GET", self._keys.voice(session_id, job_id))
        except CorruptValue:
            return None
        return data
