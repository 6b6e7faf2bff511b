"""Text of any language as lines of a bounded width, fit for a place where a line break means something.

Width is counted as terminals and subtitle editors do: a Chinese, Japanese or Korean character is as wide as
two Latin ones, and a mark that combines with the character before it has no width.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

RIGHT_TO_LEFT_MARK = "\u200f"

_JOINER = "\u200d"
_WIDE = ("W", "F")
_RIGHT_TO_LEFT = ("R", "AL")
_BREAKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_DIRECTION_CONTROLS = re.compile("[\u202a-\u202e\u2066-\u2069\ufeff]")
_NEVER_FIRST = ("Pe", "Pf", "Po")  # what closes or ends, as Unicode puts it


def one_line(text: str) -> str:
    """Make all white space and control characters single spaces, and take away what reorders other text."""
    return _BREAKS.sub(" ", _DIRECTION_CONTROLS.sub("", text)).strip()


def is_right_to_left(text: str) -> bool:
    """Tell whether the first letter that has a direction is written from right to left."""
    for char in text:
        direction = unicodedata.bidirectional(char)
        if direction == "L" or direction in _RIGHT_TO_LEFT:
            return direction in _RIGHT_TO_LEFT
    return False


def width(text: str) -> int:
    """Count the columns a text takes."""
    return sum(_columns(char) for char in text)


def wrapped(text: str, columns: int) -> list[str]:
    """Break a text into lines of at most so many columns; a text that is blank has none."""
    lines: list[str] = []
    line = ""
    for piece in _pieces(one_line(text), columns):
        if line and width(f"{line}{piece}".rstrip()) > columns:
            lines.append(line.rstrip())
            line = piece.lstrip()
        else:
            line += piece
    return [*lines, line.rstrip()] if line.strip() else lines


def _pieces(text: str, columns: int) -> Iterator[str]:
    """Give what may stand on a line of its own: words with the space after them, wide characters."""
    piece = ""
    for cluster in _clusters(text):
        between = piece.endswith(" ") or _is_wide(cluster) or (piece and _is_wide(piece[-1]))
        if piece and (width(piece + cluster) > columns or (between and not _stays(cluster))):
            yield piece
            piece = ""
        piece += cluster
    if piece:
        yield piece


def _clusters(text: str) -> Iterator[str]:
    """Give characters together with the marks that combine with them."""
    cluster = ""
    for char in text:
        joined = cluster.endswith(_JOINER) or char == _JOINER or unicodedata.category(char).startswith("M")
        if cluster and not joined:
            yield cluster
            cluster = ""
        cluster += char
    if cluster:
        yield cluster


def _stays(cluster: str) -> bool:
    """Tell what must not begin a line."""
    return cluster == " " or unicodedata.category(cluster[0]) in _NEVER_FIRST


def _is_wide(text: str) -> bool:
    return unicodedata.east_asian_width(text[0]) in _WIDE


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in _WIDE else 1
