"""Which node a session's next job should go to: pieces of one speech belong together, strangers do not stick.

Timeout and max-duration cuts record the node; manual and gap cuts clear it before their job is made. Inside
an open turn the record binds, because the node merges the turn's audio; afterwards it is a preference. One
record per target language, since each language has its own node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

from lingua_scheduler.core.model import CutReason, NodeId, TurnId

_RECORDING = frozenset({CutReason.SILENCE, CutReason.MAX_DURATION, CutReason.MAX_LENGTH})


class AffinityOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a session remembers its node."""

    ttl_seconds: Annotated[int, msgspec.Meta(ge=1)] = 300
    """How long a recorded node is preferred; refreshed whenever it is recorded again."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The node to ask first; `bound` means that nobody else will do while it lives."""

    node_id: NodeId
    bound: bool


@dataclass(slots=True)
class _Record:
    node_id: NodeId
    until: float
    turn_id: TurnId | None


class Affinity:
    """One session's memory of nodes, per target language."""

    __slots__ = ("_records", "_ttl_s", "ttl_ms")

    def __init__(self, options: AffinityOptions) -> None:
        self._ttl_s = options.ttl_seconds
        self.ttl_ms = options.ttl_seconds * 1000
        self._records: dict[str, _Record] = {}

    def wish(self, tgt_lang: str, *, reason: CutReason, turn_id: TurnId, now: float) -> Wish | None:
        """Name the node for the job of a cut; manual and gap cuts forget first what no open turn binds."""
        record = self._records.get(tgt_lang)
        if record is None or record.until <= now:
            self._records.pop(tgt_lang, None)
            return None
        if record.turn_id == turn_id:
            return Wish(record.node_id, bound=True)
        if reason not in _RECORDING:
            del self._records[tgt_lang]
            return None
        return Wish(record.node_id, bound=False)

    def placed(
        self, tgt_lang: str, node_id: NodeId, *, reason: CutReason, turn_id: TurnId, now: float
    ) -> None:
        """Record or clear after the job of a cut has its node."""
        if reason in _RECORDING:
            open_turn = turn_id if reason.continues_turn else None
            self._records[tgt_lang] = _Record(node_id, now + self._ttl_s, open_turn)
        else:
            self._records.pop(tgt_lang, None)

    def recorded(self, tgt_lang: str) -> NodeId | None:
        """Tell what is remembered for a language."""
        record = self._records.get(tgt_lang)
        return record.node_id if record else None

    def clear(self) -> None:
        """Forget everything; the session ends."""
        self._records.clear()
