"""What became of each utterance of one speaker, told from the messages of the server and the time.

Pure: what was said and heard goes in with its time, and the state of every utterance comes out.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from lingua_scheduler.wire.session import AsrPartial, MissingResult, ToClient, TranslationResult, UiEvent

_NOTHING_SAID = ("no_text", "silence_detected")


@dataclass(slots=True)
class Said:
    """One utterance as far as its speaker knows."""

    index: int
    ended_at: float  # when the speech of it ended, as far as can be told
    result: TranslationResult | None = None
    missing: str | None = None  # why there is no result
    answered_at: float | None = None

    @property
    def latency_s(self) -> float | None:
        """Time from the end of speech to the answer."""
        return None if self.answered_at is None else self.answered_at - self.ended_at


class Conversation:
    """The utterances of one speaker, by number; those of a session that follows another one count on."""

    def __init__(self) -> None:
        self.utterances: dict[int, Said] = {}
        self._first = 0  # the number of the session's first utterance
        self._voiced_at: list[float] = []  # when frames with speech in them were sent
        self._settled_below = 0  # results come in order: whatever is lower has its answer, if any

    def spoke(self, now: float) -> None:
        """A frame with speech in it was sent."""
        self._voiced_at.append(now)

    def heard(self, message: ToClient, now: float) -> Said | None:
        """Take a message; return the utterance it is about."""
        if not isinstance(message, UiEvent | AsrPartial | TranslationResult | MissingResult):
            return None
        number = self._first + message.utterance_index
        said = self.utterances.get(number)
        if said is None:
            elapsed_ms = message.elapsed_ms if isinstance(message, UiEvent) else None
            said = Said(number, self._end_of_speech(now - (elapsed_ms or 0) / 1000))
            self.utterances[said.index] = said
        if isinstance(message, TranslationResult):
            said.result, said.missing, said.answered_at = message, None, now
            self._settled_below = max(self._settled_below, said.index)
        elif isinstance(message, MissingResult):
            said.missing = message.reason
            self._settled_below = max(self._settled_below, said.index)
        return said

    def begin_anew(self) -> None:
        """The session was lost and another one follows: what waits for an answer will get none."""
        for said in self.open:
            said.missing = "session_lost"
        self._first = self._settled_below = max(self.utterances, default=-1) + 1

    def _end_of_speech(self, cut_at: float) -> float:
        """Find the last frame with speech in it before the cut."""
        before = bisect_right(self._voiced_at, cut_at)
        return self._voiced_at[before - 1] if before else cut_at

    @property
    def open(self) -> list[Said]:
        """Utterances that wait for their answer."""
        return [
            said
            for said in self.utterances.values()
            if said.result is None and said.missing is None and said.index >= self._settled_below
        ]

    @property
    def failed(self) -> list[Said]:
        """Utterances with speech that will get no result."""
        return [
            said
            for said in self.utterances.values()
            if said.missing is not None and said.missing not in _NOTHING_SAID
        ]

    @property
    def results(self) -> list[TranslationResult]:
        """Every result, in the order of the speech."""
        return [said.result for _, said in sorted(self.utterances.items()) if said.result is not None]

    @property
    def complete(self) -> bool:
        """Something was said, and everything that was said has its result."""
        return bool(self.results) and not self.open and not self.failed
