"""Notices in Redis: something that many instances may want to say is said by one of them."""

from __future__ import annotations

import hashlib

from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.keys import Keys


class NoticeStore:
    """Implements `core.ports.NoticeLedger`."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys

    async def first(self, subject: str, *, window_ms: int) -> bool:
        """Tell one caller, of all that ask about a subject within the window, that it is the first."""
        digest = hashlib.blake2s(subject.encode(), digest_size=8).hexdigest()
        reply = await self._connection.call("SET", self._keys.notice(digest), 1, "NX", "PX", window_ms)
        return reply is not None
