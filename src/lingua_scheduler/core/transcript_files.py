"""A transcript as a file for people and programs: plain text, JSON, SubRip and WebVTT subtitles.

Subtitles follow each other without overlapping, because many players show one at a time, and a long utterance
becomes several. What was said is data: none of it can end a subtitle, begin one, or be taken for markup.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import zip_longest
from math import ceil

import msgspec

from lingua_scheduler.core.transcript import Entry, Transcript
from lingua_scheduler.core.wrapping import RIGHT_TO_LEFT_MARK, is_right_to_left, one_line, wrapped

_COLUMNS = 42  # of a subtitle
_LINES = 2  # of each text in a subtitle
_SHORTEST_MS = 1000  # time to read one subtitle, if nothing follows sooner
_FRACTION_CHARS = 4  # of a time, which plain text leaves out
_INDENT = " " * 10
_ISOLATE, _END_ISOLATE = "\u2068", "\u2069"
_SUBRIP = str.maketrans({"<": "\u2039", ">": "\u203a", "{": "(", "}": ")"})  # it has no way to quote them
_WEBVTT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Format(StrEnum):
    """The kinds of files."""

    TXT = "txt"
    JSON = "json"
    SRT = "srt"
    VTT = "vtt"


class Show(StrEnum):
    """Which texts of an utterance are in the file."""

    BOTH = "both"
    SOURCE = "source"
    TRANSLATED = "translated"


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants of a transcript.

    With a language, only that one is translated into; as a source, only what was said in it is given. Of
    translations alone, what was said in that language stands as it was said, so that nothing is missing.
    """

    format: Format = Format.TXT
    show: Show = Show.BOTH
    lang: str = ""


@dataclass(frozen=True, slots=True)
class _Text:
    lang: str
    text: str


@dataclass(frozen=True, slots=True)
class _Cue:
    """One subtitle."""

    began_ms: int
    ended_ms: int
    lines: tuple[str, ...]
    name: str = ""


def write(transcript: Transcript, wish: Wish, *, about: str) -> str:
    """Write the file; `about` says what it is a transcript of."""
    match wish.format:
        case Format.TXT:
            return _plain(transcript, wish, about)
        case Format.JSON:
            return _json(transcript, wish, about)
        case Format.SRT:
            return _subrip(transcript, wish)
        case Format.VTT:
            return _webvtt(transcript, wish, about)


def _chosen(entry: Entry, wish: Wish) -> list[_Text]:
    said = _Text(entry.lang, entry.text)
    translated = [
        _Text(lang, text) for lang, text in entry.translations.items() if not wish.lang or lang == wish.lang
    ]
    is_asked_for = not wish.lang or entry.lang == wish.lang
    match wish.show:
        case Show.SOURCE:
            found = [said] if is_asked_for else []
        case Show.TRANSLATED:
            found = translated or ([said] if wish.lang and is_asked_for else [])
        case Show.BOTH:
            found = [said, *translated]
    return [each for each in found if one_line(each.text)]


# Plain text


def _plain(transcript: Transcript, wish: Wish, about: str) -> str:
    lines = [f"Transcript of {about}", f"Began at {_date(transcript.began_wall_ms)}"]
    lines += [_loss(transcript.dropped)] if transcript.dropped else []
    lines.append("")
    for entry in transcript.entries:
        name = _isolated(one_line(entry.name))
        head = f"[{_clock(entry.began_ms)[:-_FRACTION_CHARS]}]{f' {name}' if name else ''}"
        for each in _chosen(entry, wish):
            lines.append(f"{head} ({each.lang or '?'}) {_isolated(one_line(each.text))}")
            head = _INDENT
    return "\n".join(lines) + "\n"


def _isolated(text: str) -> str:
    """Keep text that runs from right to left from reordering what stands around it."""
    return f"{_ISOLATE}{text}{_END_ISOLATE}" if is_right_to_left(text) else text


def _loss(dropped: int) -> str:
    return f"The oldest lines are not kept any more: {dropped}"


# JSON


def _json(transcript: Transcript, wish: Wish, about: str) -> str:
    entries = [_record(transcript, entry, wish) for entry in transcript.entries if _chosen(entry, wish)]
    record = {
        "about": about,
        "began_at": _date(transcript.began_wall_ms),
        "dropped": transcript.dropped,
        "entries": entries,
    }
    return msgspec.json.format(msgspec.json.encode(record), indent=2).decode() + "\n"


def _record(transcript: Transcript, entry: Entry, wish: Wish) -> dict[str, object]:
    chosen = _chosen(entry, wish)
    said = _Text(entry.lang, entry.text)
    return {
        "speaker": entry.speaker,
        "name": entry.name or None,
        "index": entry.index,
        "said_at": _date(transcript.began_wall_ms + entry.began_ms),
        "began_ms": entry.began_ms,
        "ended_ms": entry.ended_ms,
        "lang": entry.lang or None,
        "text": entry.text if said in chosen else None,
        "translations": {each.lang: each.text for each in chosen if each != said},
    }


# Subtitles


def _subrip(transcript: Transcript, wish: Wish) -> str:
    cues = list(_cues(transcript, wish))
    if transcript.dropped:
        cues.insert(0, _Cue(0, _SHORTEST_MS, (_loss(transcript.dropped),)))
    blocks = []
    for number, cue in enumerate(_in_a_row(cues), 1):
        times = f"{_clock(cue.began_ms, ',')} --> {_clock(cue.ended_ms, ',')}"
        said = [line.translate(_SUBRIP) for line in _named(cue)]
        blocks.append("\n".join([str(number), times, *said]))
    return "".join(f"{block}\n\n" for block in blocks)


def _webvtt(transcript: Transcript, wish: Wish, about: str) -> str:
    blocks = ["WEBVTT", f"NOTE Transcript of {about}, begun at {_date(transcript.began_wall_ms)}"]
    blocks += [f"NOTE {_loss(transcript.dropped)}"] if transcript.dropped else []
    for cue in _in_a_row(list(_cues(transcript, wish))):
        times = f"{_clock(cue.began_ms)} --> {_clock(cue.ended_ms)}"
        said = "\n".join(line.translate(_WEBVTT) for line in cue.lines)
        voice = f"<v {cue.name.translate(_WEBVTT)}>" if cue.name else ""
        blocks.append(f"{times}\n{voice}{said}")
    return "\n\n".join(blocks) + "\n"


def _named(cue: _Cue) -> tuple[str, ...]:
    return (f"{cue.name}: {cue.lines[0]}", *cue.lines[1:]) if cue.name else cue.lines


def _cues(transcript: Transcript, wish: Wish) -> Iterator[_Cue]:
    """Cut utterances into subtitles, which share the utterance's time evenly."""
    for entry in transcript.entries:
        blocks = [_lines(each.text) for each in _chosen(entry, wish)]
        parts = max((ceil(len(block) / _LINES) for block in blocks), default=0)
        lasts_ms = max(entry.ended_ms - entry.began_ms, parts * _SHORTEST_MS)
        for part in range(parts):
            lines = [line for block in blocks for line in _share(block, part, parts)]
            yield _Cue(
                entry.began_ms + lasts_ms * part // parts,
                entry.began_ms + lasts_ms * (part + 1) // parts,
                tuple(lines),
                one_line(entry.name),
            )


def _lines(text: str) -> list[str]:
    mark = RIGHT_TO_LEFT_MARK if is_right_to_left(text) else ""
    return [f"{mark}{line}" for line in wrapped(text, _COLUMNS)]


def _share(lines: list[str], part: int, parts: int) -> list[str]:
    return lines[ceil(len(lines) * part / parts) : ceil(len(lines) * (part + 1) / parts)]


def _in_a_row(cues: list[_Cue]) -> Iterator[_Cue]:
    """Let each subtitle begin after the one before, and end before the next one begins."""
    begun: list[_Cue] = []
    for cue in sorted(cues, key=lambda each: each.began_ms):
        earliest_ms = begun[-1].began_ms + 1 if begun else 0
        began_ms = max(cue.began_ms, earliest_ms)
        begun.append(replace(cue, began_ms=began_ms, ended_ms=max(cue.ended_ms, began_ms + 1)))
    ends = [cue.began_ms for cue in begun[1:]]
    for cue, latest_ms in zip_longest(begun, ends):
        yield cue if latest_ms is None else replace(cue, ended_ms=min(cue.ended_ms, latest_ms))


# Times


def _clock(ms: int, point: str = ".") -> str:
    seconds, thousandths = divmod(max(0, ms), 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{point}{thousandths:03}"


def _date(wall_ms: int) -> str:
    """Write a time since 1970 as RFC 3339 has it."""
    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
