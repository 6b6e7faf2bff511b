"""When to cut speech, and what goes with a cut: the options of the segmenter."""

from __future__ import annotations

from typing import Annotated

import msgspec

from lingua_scheduler.core.model import CutReason

_Ms = Annotated[int, msgspec.Meta(ge=0)]


class SegmenterOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When to cut, and what goes with a cut."""

    pause_ms: _Ms = 2000
    """Silence that ends an utterance; 0 never ends one by silence."""
    shortest_pause_ms: Annotated[int, msgspec.Meta(ge=1)] = 300
    """Bound for a pause shortened by a voice-activity detector."""
    max_duration_ms: _Ms = 30_000
    """Longest utterance; longer speech goes on in the next one of the same turn. 0 is no limit."""
    max_utterance_bytes: Annotated[int, msgspec.Meta(ge=1)] = 512_000
    """Largest utterance; one byte more is cut."""
    hangover_ms: _Ms = 150
    """Window after a pause ran out, in which frames still join the closing utterance."""
    short_merge_ms: _Ms = 400
    """An utterance shorter than this is not ended by the first pause; 0 ends it."""
    turn_tail_ms: Annotated[int, msgspec.Meta(ge=1)] = 200
    """Speech held back from a cut at a limit, so that the end of the turn has audio to carry it."""
    quiet_lead_ms: _Ms = 300
    """Quiet kept in front of an utterance."""
    playback_cap_ms: Annotated[int, msgspec.Meta(ge=1)] = 60_000
    """Longest time that one report of playback holds silence cuts back."""
    padding_auto_ms: _Ms = 220
    """Padding for cuts made by the clock."""
    padding_manual_ms: _Ms = 280
    """Padding for cuts the client asked for."""
    padding_exception_ms: _Ms = 0
    """Padding for cuts made because an utterance grew too large."""

    def padding_ms(self, reason: CutReason) -> int:
        """Say which padding goes with a cut."""
        if reason is CutReason.MANUAL:
            return self.padding_manual_ms
        return self.padding_exception_ms if reason is CutReason.MAX_LENGTH else self.padding_auto_ms
