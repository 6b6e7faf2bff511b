"""Sessions in Redis: who owns them, and what a new owner needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lingua_scheduler.core.model import InstanceId, SessionId
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.jobs import LifeOptions
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts


class SessionStore:
    """Implements `core.ports.SessionLedger`."""

    def __init__(
        self,
        connection: Connection,
        scripts: Scripts,
        keys: Keys,
        options: LifeOptions,
        *,
        on_closed: Callable[[SessionId], None],
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._lease_ms = options.session_lease_s * 1000
        self._on_closed = on_closed
        self._open = scripts.load("session_open")
        self._renew = scripts.load("session_renew")
        self._close = scripts.load("session_close")

    async def open(self, session_id: SessionId, owner: InstanceId, fields: dict[str, str]) -> int:
        """Write the session and its owner; return its epoch."""
        flat = [part for item in fields.items() for part in item]
        reply = await self._open(
            session=self._keys.session(session_id), owner=owner, ttl_ms=self._lease_ms, fields=flat
        )
        return int(reply)

    async def renew(self, session_ids: list[SessionId], owner: InstanceId) -> list[SessionId]:
        """Extend the lives of owned sessions; return those that were lost."""
        kept = await asyncio.gather(
            *(
                self._renew(
                    session=self._keys.session(session_id),
                    claims=self._keys.claims(session_id),
                    owner=owner,
                    ttl_ms=self._lease_ms,
                )
                for session_id in session_ids
            )
        )
        return [session_id for session_id, ok in zip(session_ids, kept, strict=True) if not ok]

    async def close(self, session_id: SessionId, *, epoch: int) -> None:
        """Remove the session and all that belongs to it."""
        keys = self._keys
        jobs = await self._connection.call("HVALS", keys.claims(session_id))
        rest = [keys.claims(session_id)]
        for job in jobs:
            rest += [keys.job(session_id, job.decode()), keys.audio(session_id, job.decode())]
        await self._close(session=keys.session(session_id), rest=rest, epoch=epoch)
        self._on_closed(session_id)
