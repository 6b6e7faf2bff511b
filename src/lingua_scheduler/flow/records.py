"""The records of this instance's sessions in Redis: written behind, renewed, erased when a session ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lingua_scheduler.aio import Tasks
from lingua_scheduler.core.model import InstanceId, SessionId
from lingua_scheduler.core.ports import SessionLedger
from lingua_scheduler.core.stored import Tenure
from lingua_scheduler.errors import DependencyDown, Fenced, StoreError
from lingua_scheduler.flow.endings import Endings
from lingua_scheduler.flow.session import Session
from lingua_scheduler.log import get_logger

_log = get_logger(__name__)
_RETRY_S = 0.2


class SessionRecords:
    """Writes what another instance would need of a session."""

    def __init__(
        self,
        ledger: SessionLedger,
        endings: Endings,
        *,
        owner: InstanceId,
        disown: Callable[[Session], None],
    ) -> None:
        self._ledger = ledger
        self._endings = endings
        self._owner = owner
        self._disown = disown
        self._tasks = Tasks()
        self._writing: dict[SessionId, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        """Count what is being written or erased."""
        return len(self._tasks) + len(self._writing)

    def write_behind(self, session: Session) -> None:
        """Write a record in the background, after what is being written of it now."""
        before = self._writing.get(session.id)
        writing = self._tasks.start(self._write(session, before), name=f"write {session.id}")
        self._writing[session.id] = writing
        writing.add_done_callback(lambda task: self._written(session.id, task))

    async def written(self, session: Session) -> None:
        """Return when what was to be written is written, or could not be."""
        while (writing := self._writing.get(session.id)) is not None:
            await asyncio.wait((writing,))

    async def write(self, session: Session) -> None:
        """Write a record under the session's epoch; Fenced when somebody else has the session."""
        opening, languages = session.opening, session.languages
        fields = {
            "trace_id": opening.trace_id,
            "src_lang": languages.src,
            "tgt_lang": languages.tgt,
            "paired_node_id": opening.paired_with,
            "opening": opening.text(),
            "room": session.room or "",
            "next_index": session.next_index,
            "last_seq": session.safe_through,
        }
        known = {name: str(value) for name, value in fields.items() if value is not None}
        await self._ledger.open(session.id, self._owner, known, epoch=session.epoch)

    async def renew(self, sessions: list[Session]) -> list[tuple[Session, int, Tenure]]:
        """Extend the lives of records; give those that are not held, with the epoch that was asked for."""
        asked = {session.id: (session, session.epoch) for session in sessions}
        epochs = {session_id: epoch for session_id, (_, epoch) in asked.items()}
        lost = await self._ledger.renew(epochs, self._owner)
        return [(*asked[session_id], tenure) for session_id, tenure in lost.items()]

    def erase(self, session: Session) -> None:
        """Remove a session and all that belongs to it, once everything about it is written."""
        self._tasks.start(self._erase(session), name=f"erase {session.id}")

    async def settle(self, within_s: float) -> None:
        """Give what is being written this long, then stop."""
        await self._tasks.settle(within_s)

    def _written(self, session_id: SessionId, task: asyncio.Task[None]) -> None:
        if self._writing.get(session_id) is task:
            del self._writing[session_id]

    async def _write(self, session: Session, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait((before,))
        epoch = session.epoch
        try:
            await self.write(session)
        except Fenced:
            if session.moves_on(epoch):
                await asyncio.sleep(_RETRY_S)
                await self._write(session, None)
            else:
                self._disown(session)
        except StoreError as error:
            _log.info("session_not_written", reason=str(error), **session.names)

    async def _erase(self, session: Session) -> None:
        await self.written(session)
        await self._endings.settle_session(session.id)
        while True:
            try:
                await self._ledger.close(session.id, epoch=session.epoch)
            except DependencyDown:
                await asyncio.sleep(_RETRY_S)
            else:
                return
