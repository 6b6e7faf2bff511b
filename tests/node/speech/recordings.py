"""People who speak: recordings that come inside packages, what is said in them, and how to compare texts."""

from __future__ import annotations

import re
import wave
from dataclasses import dataclass

from lingua_scheduler.node.speech.weights import installed

_SPELLED = {"2": "two", "9": "nine", "o'clock": "oclock"}


@dataclass(frozen=True)
class Recording:
    """Samples of one voice, and the words."""

    pcm16: bytes
    rate: int
    text: str

    def first(self, seconds: float) -> Recording:
        """Give the beginning; the words are still all of them."""
        return Recording(self.pcm16[: round(seconds * self.rate) * 2], self.rate, self.text)


BECKETT = "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better."
TWO_CITIES = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of "
    "foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season of light, "
    "it was the season of darkness, it was the spring of hope, it was the winter of despair, we had "
    "everything before us, we had nothing before us, we were all going direct to heaven, we were all going "
    "direct the other way"
)


def recording(name: str, text: str) -> Recording:
    """Read a recording of the package moonshine-voice."""
    folder = installed("moonshine_voice")
    assert folder is not None
    with wave.open(str(folder / "assets" / name)) as file:
        assert (file.getnchannels(), file.getsampwidth()) == (1, 2)
        return Recording(file.readframes(file.getnframes()), file.getframerate(), text)


def words(text: str) -> list[str]:
    """Split a text for comparing: no case, no punctuation, small numbers spelled out."""
    found = re.findall(r"[\w']+", text.lower().replace("-", " "))
    return [_SPELLED.get(word, word) for word in found]


def word_errors(said: str, heard: str) -> float:
    """Give the word error rate: words to change, drop or add, for each word said."""
    reference, hypothesis = words(said), words(heard)
    return _changes(reference, hypothesis)[-1] / len(reference)


def beginning_errors(said: str, heard: str) -> float:
    """Give the word error rate when only the beginning of what was said was to be heard."""
    reference, hypothesis = words(said), words(heard)
    changes = _changes(reference, hypothesis)
    return min(count / length for length, count in enumerate(changes[1:], 1))


def _changes(reference: list[str], hypothesis: list[str]) -> list[int]:
    """Count the changes from each beginning of the reference to the whole hypothesis."""
    row = list(range(len(hypothesis) + 1))
    found = [row[-1]]
    for number, word in enumerate(reference, 1):
        before, row[0] = row[0], number
        for at, other in enumerate(hypothesis, 1):
            before, row[at] = row[at], min(before + (word != other), row[at] + 1, row[at - 1] + 1)
        found.append(row[-1])
    return found
