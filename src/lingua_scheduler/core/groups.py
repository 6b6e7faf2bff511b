"""Utterance groups: consecutive utterances of one session that share context for translation and playback.

A session has at most one live group. A result with recognised text joins it, or starts a new one when the
last playback ended too long ago. Only the server's clock counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from lingua_scheduler.core.model import SessionId

_REMEMBERED_INDEXES = 64  # so that slower languages of an utterance find the part the first one made


class GroupOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When utterances belong together, and how much of them a node is told."""

    window_ms: Annotated[int, msgspec.Meta(ge=0)] = 2000
    """How long after the last playback ended (or the group began) a result still joins the group."""
    max_parts: Annotated[int, msgspec.Meta(ge=1)] = 8
    """How many of the newest parts are kept as context."""
    max_context_chars: Annotated[int, msgspec.Meta(ge=1)] = 800
    """The longest context text, in characters."""
    idle_s: Annotated[float, msgspec.Meta(gt=0)] = 600
    """After how long without activity a group is removed."""
    send_context: bool = True
    """Tell nodes the group and its context with each job."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a result says of one utterance: the recognised text and, if there is one, its translation."""

    index: int
    text_asr: str
    language: str
    translation: str | None = None


@dataclass(frozen=True, slots=True)
class Membership:
    """The place of an utterance in a group."""

    group_id: str
    part_index: int


@dataclass(frozen=True, slots=True)
class GroupContext:
    """What a new job is told: the live group, the part it would become, and what was said before."""

    group_id: str
    part_index: int
    context_text: str


class _Part:
    """One utterance of a group: its lines without a translation, and those with one, by language."""

    __slots__ = ("bare", "translated")

    def __init__(self, text_asr: str) -> None:
        self.bare = f"User: {text_asr}\n"
        self.translated: dict[str, str] = {}

    def add(self, language: str, translation: str) -> None:
        if language not in self.translated:
            self.translated[language] = f"{self.bare}Target: {translation}\n"


@dataclass(slots=True)
class _Group:
    group_id: str
    anchor: float  # when the last playback ended; at first, when the group began
    active_at: float
    next_part: int = 0
    parts: dict[int, _Part] = field(default_factory=dict)  # by utterance index, oldest first


class Groups:
    """The groups of one session; its single writer is the only caller."""

    def __init__(self, session_id: SessionId, options: GroupOptions) -> None:
        self._session_id = session_id
        self._options = options
        self._group: _Group | None = None
        self._placed: dict[int, Membership] = {}  # newest utterance indexes, oldest first
        self._last_id_ms = -1
        self._closed = False

    def join(self, heard: Heard, now: float, wall_ms: int) -> Membership | None:
        """Give the utterance its part, the same one for each language; None without text or after `close`."""
        text_asr = self._one_line(heard.text_asr)
        if self._closed or not text_asr:
            return None
        membership = self._placed.get(heard.index)
        if membership is None:
            membership = self._add_part(heard.index, text_asr, now, wall_ms)
        self._add_translation(heard, now)
        return membership

    def current(self, now: float, language: str) -> GroupContext | None:
        """Tell what a job towards `language` created now is to be sent along; None without a live group."""
        group = self._live(now)
        if group is None or not self._options.send_context:
            return None
        newest_first = [part.translated.get(language, part.bare) for part in reversed(group.parts.values())]
        return GroupContext(group.group_id, group.next_part, self._context_text(newest_first))

    def playback_started(self, group_id: str, now: float) -> None:
        """Note that somebody began to listen; no effect for a group that is not the live one."""
        if self._group is not None and self._group.group_id == group_id:
            self._group.active_at = now

    def playback_ended(self, group_id: str, now: float) -> None:
        """Count the window from now on; no effect for a group that is not the live one."""
        if self._group is not None and self._group.group_id == group_id:
            self._group.anchor = self._group.active_at = now

    def forget_idle(self, now: float) -> bool:
        """Remove the group if nothing happened to it for too long; tell whether it was removed."""
        if self._group is None or now - self._group.active_at < self._options.idle_s:
            return False
        self._group = None
        self._placed.clear()
        return True

    def close(self) -> None:
        """End and remove everything; no later result makes a group."""
        self._closed = True
        self._group = None
        self._placed.clear()

    def _live(self, now: float) -> _Group | None:
        group = self._group
        if group is None or round((now - group.anchor) * 1000) > self._options.window_ms:
            return None
        return group

    def _add_part(self, index: int, text_asr: str, now: float, wall_ms: int) -> Membership:
        group = self._live(now)
        if group is None:
            group = self._group = _Group(self._new_id(wall_ms), anchor=now, active_at=now)
        group.parts[index] = _Part(text_asr)
        if len(group.parts) > self._options.max_parts:
            del group.parts[next(iter(group.parts))]
        membership = self._placed[index] = Membership(group.group_id, group.next_part)
        group.next_part += 1
        if len(self._placed) > _REMEMBERED_INDEXES:
            del self._placed[next(iter(self._placed))]
        return membership

    def _add_translation(self, heard: Heard, now: float) -> None:
        if self._group is None or heard.index not in self._group.parts:
            return
        self._group.active_at = now
        if translation := self._one_line(heard.translation or ""):
            self._group.parts[heard.index].add(heard.language, translation)

    def _new_id(self, wall_ms: int) -> str:
        self._last_id_ms = max(wall_ms, self._last_id_ms + 1)
        return f"group_{self._session_id}_{self._last_id_ms}"

    def _one_line(self, text: str) -> str:
        return " ".join(text.split())[: self._options.max_context_chars]

    def _context_text(self, newest_first: Iterable[str]) -> str:
        kept: list[str] = []
        room = self._options.max_context_chars
        for lines in newest_first:
            if len(lines) > room:
                if not kept:
                    kept.append(lines[:room])
                break
            kept.append(lines)
            room -= len(lines)
        return "".join(reversed(kept))
