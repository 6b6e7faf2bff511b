"""Sessions in Redis: who owns them, and what a new owner needs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from lingua_scheduler.core.model import InstanceId, JobId, SessionId
from lingua_scheduler.core.stored import Holder, Logged, StoredJob, StoredSession, Tenure
from lingua_scheduler.errors import CorruptValue, Fenced
from lingua_scheduler.log import get_logger
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.jobs import LifeOptions
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.stored_job import CLAIM, JOB, TOLD, claim_of, stored_job

_log = get_logger(__name__)
_OWN_FIELDS = (
    "owner",
    "epoch",
    "next_index",
    "last_seq",
    "spoken",
    "whole",
    "taken_at",
    "taken_by",
    "taken_from",
)  # told by members of StoredSession


class SessionStore:
    """Implements `core.ports.SessionLedger`."""

    def __init__(
        self,
        connection: Connection,
        scripts: Scripts,
        keys: Keys,
        options: LifeOptions,
        *,
        transcript_keep_s: int = 0,
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._lease_ms = options.session_lease_s * 1000
        self._keep_ms = transcript_keep_s * 1000
        self._open = scripts.load("session_open")
        self._renew = scripts.load("session_renew")
        self._take = scripts.load("session_take")
        self._close = scripts.load("session_close")

    async def open(
        self, session_id: SessionId, owner: InstanceId, fields: dict[str, str], *, epoch: int
    ) -> int:
        """Write the session and its owner, at no lower epoch; return its epoch."""
        counters = {name: fields.get(name, "") for name in ("next_index", "last_seq")}
        flat = [part for name, value in fields.items() if name not in _OWN_FIELDS for part in (name, value)]
        reply = await self._open(
            session=self._keys.session(session_id),
            owner=owner,
            epoch=epoch,
            ttl_ms=self._lease_ms,
            fields=flat,
            **counters,
        )
        if reply is None:
            raise Fenced(f"session {session_id} has another owner")
        return int(reply)

    async def renew(self, sessions: dict[SessionId, int], owner: InstanceId) -> dict[SessionId, Tenure]:
        """Extend the lives of owned sessions, given with their epochs; return those that are not held."""
        answers = await asyncio.gather(
            *(self._renewed(session_id, owner, epoch) for session_id, epoch in sessions.items())
        )
        return {session_id: tenure for session_id, tenure in zip(sessions, answers, strict=True) if tenure}

    async def _renewed(self, session_id: SessionId, owner: InstanceId, epoch: int) -> Tenure | None:
        try:
            reply = await self._renew(
                session=self._keys.session(session_id),
                **self._transcript(session_id),
                owner=owner,
                epoch=epoch,
                ttl_ms=self._lease_ms,
            )
        except CorruptValue as error:
            _log.warning("session_unreadable", session=session_id, reason=str(error))
            return Tenure.GONE
        return None if reply == b"held" else Tenure(reply.decode())

    async def take_over(
        self, session_id: SessionId, owner: InstanceId, *, epoch: int, try_id: str = ""
    ) -> StoredSession | None:
        """Become the owner of a session that is at this epoch, under the next one; None when it is not.

        The same `try_id` takes it again by the same epoch until something was said under the later one.
        """
        try:
            reply = await self._take(
                session=self._keys.session(session_id),
                owner=owner,
                epoch=epoch,
                ttl_ms=self._lease_ms,
                **{"try": try_id},
            )
        except CorruptValue as error:
            _log.warning("session_unreadable", session=session_id, reason=str(error))
            return None
        if reply is None:
            return None
        taken, before, first, fields = reply
        record = {_text(name): value for name, value in _pairs(fields)}
        log = sorted(_logged(record), key=_place)
        jobs, lost = await self._jobs(session_id, record, {logged.name for logged in log})
        used = [index for index, _ in (*map(_place, jobs), *map(_place, log), *lost)]
        return StoredSession(
            epoch=taken,
            before=InstanceId(_text(before)),
            first=InstanceId(_text(first)),
            fields={name: _text(value) for name, value in record.items() if _is_about_it(name)},
            next_index=max((_number(record.get("next_index")) or 0, *(index + 1 for index in used))),
            last_seq=_number(record.get("last_seq")),
            jobs=tuple(jobs),
            log=tuple(log),
            lost=tuple(lost),
        )

    async def _jobs(
        self, session_id: SessionId, record: dict[str, bytes], logged: set[str]
    ) -> tuple[list[StoredJob], list[tuple[int, str]]]:
        """Read the jobs that have not ended; those that cannot be used are given by index and language."""
        found = [
            (JobId(name.removeprefix(JOB)), place, raw)
            for name, raw in record.items()
            if name.startswith(JOB) and (claim := claim_of(raw)) not in logged and (place := _claimed(claim))
        ]
        audios = await asyncio.gather(*(self._audio(session_id, job_id) for job_id, _, _ in found))
        jobs, lost = [], []
        for (job_id, place, raw), audio in zip(found, audios, strict=True):
            job = stored_job(job_id, place, raw, audio)
            if job is not None:
                jobs.append(job)
            else:
                _log.warning("job_lost", session=session_id, job=job_id, index=place[0])
                lost.append(place)
        return sorted(jobs, key=_place), sorted(lost)

    async def _audio(self, session_id: SessionId, job_id: JobId) -> bytes | None:
        try:
            audio: bytes | None = await self._connection.call("GET", self._keys.audio(session_id, job_id))
        except CorruptValue:
            return None
        return audio

    async def owner(self, session_id: SessionId) -> InstanceId | None:
        """Tell who owns a session; None when there is no such session."""
        try:
            reply = await self._connection.call("HGET", self._keys.session(session_id), "owner")
        except CorruptValue:
            return None
        return None if reply is None else InstanceId(_text(reply))

    async def holder(self, session_id: SessionId) -> Holder | None:
        """Tell how a session is owned; None when there is no such session."""
        names = ("owner", "epoch", "taken_by")
        try:
            reply = await self._connection.call("HMGET", self._keys.session(session_id), *names)
        except CorruptValue:
            return None
        owner, epoch, try_id = (_text(value or b"") for value in reply)
        return Holder(InstanceId(owner), int(epoch), try_id) if epoch.isdigit() else None

    async def close(self, session_id: SessionId, *, epoch: int) -> None:
        """Remove the session and all that belongs to it."""
        keys = self._keys
        key = keys.session(session_id)
        fields = await self._connection.call("HGETALL", key)
        kinds = (keys.audio, keys.ended, keys.voice)
        rest = [kind(session_id, job_id) for job_id in _jobs_of(fields) for kind in kinds]
        await self._close(session=key, **self._transcript(session_id), rest=rest, epoch=epoch)

    def _transcript(self, session_id: SessionId) -> dict[str, str | int]:
        keys = self._keys
        return {
            "transcript": keys.transcript(session_id),
            "transcript_order": keys.transcript_order(session_id),
            "keep_ms": self._keep_ms,
        }


def _pairs(flat: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _number(raw: bytes | None) -> int | None:
    return int(raw) if raw is not None and raw.isdigit() else None


def _is_about_it(name: str) -> bool:
    return name not in _OWN_FIELDS and not name.startswith((CLAIM, JOB, TOLD))


def _jobs_of(fields: list[bytes]) -> set[str]:
    """Name the jobs of a session."""
    named = {_text(name): _text(value) for name, value in _pairs(fields)}
    claimed = {job_id for name, job_id in named.items() if name.startswith(CLAIM)}
    return claimed | {name.removeprefix(JOB) for name in named if name.startswith(JOB)}


def _claimed(claim: str) -> tuple[int, str] | None:
    index, _, tgt_lang = claim.partition(":")
    number = _number(index.encode())
    return None if number is None else (number, tgt_lang)


def _logged(record: dict[str, bytes]) -> Iterator[Logged]:
    for name, message in record.items():
        if name.startswith(TOLD) and (place := _claimed(name.removeprefix(TOLD))):
            yield Logged(*place, message)


def _place(entry: Logged | StoredJob) -> tuple[int, str]:
    return entry.index, entry.tgt_lang
