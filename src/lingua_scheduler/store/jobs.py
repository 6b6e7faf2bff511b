"""Jobs in Redis, in the session's slot: the claim on an index, attempts, the state machine and the audio."""

from __future__ import annotations

from collections import deque
from typing import Annotated

import msgspec

from lingua_scheduler.core.model import InstanceId, JobId, SessionId
from lingua_scheduler.core.placement import Reservation
from lingua_scheduler.core.ports import NOBODY, Claimed, Finish, NewJob, Remembered
from lingua_scheduler.errors import StoreError
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts

CLAIMS_KEPT = 256  # newest claims of a session; older indexes are known to be used by its owner's counter


class LifeOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long records live in Redis without anybody renewing them."""

    session_lease_s: Annotated[int, msgspec.Meta(ge=3)] = 45
    """Life of a session's record; its owner renews it three times as often."""
    ended_job_s: Annotated[int, msgspec.Meta(ge=1)] = 60
    """How long the record of an ended job still fences late results."""


class JobStore:
    """Implements `core.ports.JobLedger`."""

    def __init__(self, scripts: Scripts, keys: Keys, owner: InstanceId, options: LifeOptions) -> None:
        self._keys = keys
        self._owner = owner
        self._options = options
        self._claims: dict[SessionId, deque[str]] = {}
        self._create = scripts.load("job_create")
        self._attempt = scripts.load("job_attempt")
        self._step = scripts.load("job_step")
        self._finish = scripts.load("job_finish")

    async def create(self, job: NewJob, reservation: Reservation | None) -> Claimed:
        """Claim the index and write the job, placed (attempt 1) or waiting."""
        keys, claim = self._keys, f"{job.index}:{job.tgt_lang}"
        reply = await self._create(
            session=keys.session(job.session_id),
            claims=keys.claims(job.session_id),
            job=keys.job(job.session_id, job.job_id),
            audio=keys.audio(job.session_id, job.job_id),
            owner=self._owner,
            epoch=job.session_epoch,
            session_ttl_ms=self._options.session_lease_s * 1000,
            claim=claim,
            job_id=job.job_id,
            state="DISPATCHED" if reservation else "CREATED",
            attempt=reservation.attempt if reservation else 0,
            node=reservation.node_id if reservation else "",
            record=job.record,
            data=job.audio,
            job_ttl_ms=job.ttl_ms,
            affinity=job.affinity.node_id or "",
            affinity_ttl_ms=job.affinity.ttl_ms,
            pool="" if job.preferred_pool is None else job.preferred_pool,
            pair=job.last_pair,
            forget=self._outdated(job.session_id, claim),
        )
        if reply[0] == b"fenced":
            raise StoreError(f"session {job.session_id} has a newer owner")
        return Claimed(JobId(reply[1].decode()), fresh=reply[0] == b"fresh")

    def _outdated(self, session_id: SessionId, claim: str) -> list[str]:
        claims = self._claims.setdefault(session_id, deque())
        claims.append(claim)
        return [claims.popleft()] if len(claims) > CLAIMS_KEPT else []

    async def attempt(
        self, session_id: SessionId, reservation: Reservation, affinity: Remembered = NOBODY
    ) -> bool:
        """Make `reservation.attempt` the job's current one."""
        reply = await self._attempt(
            job=self._keys.job(session_id, reservation.job_id),
            session=self._keys.session(session_id),
            attempt=reservation.attempt,
            node=reservation.node_id,
            affinity=affinity.node_id or "",
            affinity_ttl_ms=affinity.ttl_ms,
        )
        return bool(reply)

    async def step(self, session_id: SessionId, reservation: Reservation, state: str) -> bool:
        """Advance the current attempt to `state`."""
        job = self._keys.job(session_id, reservation.job_id)
        return bool(await self._step(job=job, attempt=reservation.attempt, state=state))

    async def finish(self, session_id: SessionId, job_id: JobId, *, attempt: int, outcome: str) -> Finish:
        """End the job by this attempt's outcome and drop its audio."""
        reply = await self._finish(
            job=self._keys.job(session_id, job_id),
            audio=self._keys.audio(session_id, job_id),
            attempt=attempt,
            outcome=outcome,
            keep_ms=self._options.ended_job_s * 1000,
        )
        return Finish(reply.decode())

    def forget(self, session_id: SessionId) -> None:
        """Drop what is remembered of an ended session."""
        self._claims.pop(session_id, None)
