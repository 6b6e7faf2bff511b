"""Repair by a lexicon: deterministic, explainable, milliseconds.

Three rules, in this order:

1. `replace`: what is always misheard the same way, word for word.
2. Terms in Chinese characters replace what has the same pinyin, tones aside: 中北 becomes 中杯.
3. Other terms replace words with the same letters, whatever their case, accents, hyphens and spaces: "red is"
   becomes Redis.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable
from typing import ClassVar

import msgspec

from lingua_scheduler.node.speech.engine import Service, primary

_CHINESE = re.compile(r"[\u3400-\u9fff]")
_CHINESE_RUN = re.compile(r"[\u3400-\u9fff]+")
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_SHORTEST_TERM = 2  # characters: a single one has too many homophones


class LexiconOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a recogniser tends to mishear."""

    languages: tuple[str, ...] = ()
    """Languages to repair; empty repairs all."""
    terms: tuple[str, ...] = ()
    """Words as they should be written: names, products, dishes."""
    replace: dict[str, str] = {}
    """What is heard, and what was meant."""


class Lexicon:
    """Corrects a text by rules that people wrote."""

    service: ClassVar[Service] = "repair"
    extra: ClassVar[str] = "speech"
    Options: ClassVar[type[msgspec.Struct]] = LexiconOptions

    def __init__(self, options: LexiconOptions) -> None:
        self._languages = frozenset(map(primary, options.languages))
        self._replacements = [(_phrase(heard), meant) for heard, meant in options.replace.items()]
        chinese = [term for term in options.terms if _CHINESE.search(term) and len(term) >= _SHORTEST_TERM]
        self._pinyin = _pinyin() if chinese else list
        self._sounds: dict[tuple[str, ...], str] = {}
        for term in chinese:  # of homophones, the first one counts
            self._sounds.setdefault(tuple(self._pinyin(term)), term)
        self._letters = {_letters(term): term for term in options.terms if not _CHINESE.search(term)}
        self._longest_words = (
            max((len(_WORD.findall(term)) for term in self._letters.values()), default=0) + 1
        )

    def repair(self, text: str, language: str) -> str:
        """Give the corrected text."""
        if self._languages and language not in self._languages:
            return text
        for phrase, meant in self._replacements:
            text = phrase.sub(meant.replace("\\", r"\\"), text)
        if self._sounds:
            text = _CHINESE_RUN.sub(lambda run: self._by_sound(run[0]), text)
        return self._by_letters(text) if self._letters else text

    def _by_sound(self, run: str) -> str:
        """Replace homophones of terms, from left to right, the longest first."""
        sounds = self._pinyin(run)
        lengths = sorted({len(sound) for sound in self._sounds}, reverse=True)
        done, at = "", 0
        while at < len(run):
            found = (self._sounds.get(tuple(sounds[at : at + length])) for length in lengths)
            term = next(filter(None, found), None)
            done += term or run[at]
            at += len(term or run[at])
        return done

    def _by_letters(self, text: str) -> str:
        """Replace runs of words that have the letters of a term, from left to right, the longest first."""
        words = list(_WORD.finditer(text))
        done, copied, at = "", 0, 0
        while at < len(words):
            for end in range(min(len(words), at + self._longest_words), at, -1):
                term = self._letters.get(_letters(text[words[at].start() : words[end - 1].end()]))
                if term is not None and _is_one_phrase(text, words[at:end]):
                    done += text[copied : words[at].start()] + term
                    copied, at = words[end - 1].end(), end - 1
                    break
            at += 1
        return done + text[copied:]


def _is_one_phrase(text: str, words: list[re.Match[str]]) -> bool:
    """Only spaces and hyphens stand between the words."""
    gaps = (text[one.end() : other.start()] for one, other in itertools.pairwise(words))
    return all(not gap.strip(" -") for gap in gaps)


def _phrase(heard: str) -> re.Pattern[str]:
    start, end = (
        r"\b" if mark.isalnum() and not _CHINESE.match(mark) else "" for mark in (heard[:1], heard[-1:])
    )
    return re.compile(f"{start}{re.escape(heard)}{end}", re.IGNORECASE)


def _letters(words: str) -> str:
    """Keep letters and digits alone, without case and accents."""
    apart = unicodedata.normalize("NFKD", words.casefold())
    return "".join(mark for mark in apart if mark.isalnum())


def _pinyin() -> Callable[[str], list[str]]:
    """Give the function that turns Chinese characters into syllables, one each, without tones."""
    from pypinyin import Style, lazy_pinyin  # noqa: PLC0415

    return lambda run: list(lazy_pinyin(run, style=Style.NORMAL))
