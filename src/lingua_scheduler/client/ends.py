"""Which utterances have their end, so that none is told twice after a resume and the server learns of it."""

from __future__ import annotations

from lingua_scheduler.wire.session import MissingResult, TranslationResult

_REMEMBERED = 1000  # newest ends; older ones are acknowledged and never come again


class Ends:
    """The ends of utterances that a client has got, of its own speech and of others'."""

    def __init__(self) -> None:
        self.own = ""  # the session whose speech is the own one
        self.through: int | None = None  # ends of the own speech have arrived up to this index
        self.unacknowledged = 0
        self._got: dict[tuple[str, str | None, int], bool] = {}  # True: with a result; oldest first

    def begin(self, session_id: str) -> None:
        """Speak as another session: nothing of it has ended."""
        if session_id != self.own:
            self.own, self.through, self.unacknowledged = session_id, None, 0

    def fresh(self, message: TranslationResult | MissingResult) -> bool:
        """Take an end; False when the same is known. A result may still follow what was missing."""
        speaker = message.speaker_session_id or message.session_id
        key = (speaker, message.tgt_lang, message.utterance_index)
        result = isinstance(message, TranslationResult)
        if speaker == self.own:
            self.through = max(message.utterance_index, -1 if self.through is None else self.through)
            self.unacknowledged += 1
        if key in self._got and (self._got[key] or not result):
            return False
        self._got[key] = result
        while len(self._got) > _REMEMBERED:
            del self._got[next(iter(self._got))]
        return True
