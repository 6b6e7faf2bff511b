"""Names under which a node of the first generation hears of sessions: one for each language.

Such a node takes each utterance of a session once, whichever language it is wanted in, and never says the
same words twice. In a room an utterance goes into several languages. To the node each is its own session;
what it says about one is translated back here, and nobody else knows.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

import msgspec

from lingua_scheduler.wire.node import (
    AsrPartial,
    JobAck,
    JobAssign,
    JobResult,
    JobStarted,
    ModelNotAvailable,
)

_SESSIONS = 1000
_JOBS = 1000

Told = TypeVar("Told", bound=JobAck | JobStarted | AsrPartial | JobResult | ModelNotAvailable)


class Aliases:
    """The names that one connection of a node has been told."""

    def __init__(self) -> None:
        self._languages: OrderedDict[str, str] = OrderedDict()  # the first one of each session has its name
        self._sessions: OrderedDict[str, str] = OrderedDict()  # by job, those that have another name

    def assigned(self, message: JobAssign) -> JobAssign:
        """Give a job the name of its session for its language."""
        session_id = message.session_id
        first = self._languages.setdefault(session_id, message.tgt_lang)
        self._languages.move_to_end(session_id)
        if len(self._languages) > _SESSIONS:
            self._languages.popitem(last=False)
        if first == message.tgt_lang:
            return message
        self._sessions[message.job_id] = session_id
        if len(self._sessions) > _JOBS:
            self._sessions.popitem(last=False)
        return msgspec.structs.replace(message, session_id=f"{session_id}.{message.tgt_lang}")

    def heard(self, message: Told) -> Told:
        """Give what a node says about a job its session's own name."""
        session_id = self._sessions.get(message.job_id)
        if session_id is None or isinstance(message, ModelNotAvailable):
            return message
        return msgspec.structs.replace(message, session_id=session_id)
