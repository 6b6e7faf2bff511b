"""Exceptions as the log may show them: what kind, and where, but not what they say.

The message of an exception often quotes what it is about: a payload, a text, an address. Only our own are
worded by us. The system's are shown as the system words them.
"""

from __future__ import annotations

import traceback

from lingua_scheduler.errors import LinguaError

_MOST_CAUSES = 8
_MOST_FRAMES = 40


def told(error: BaseException) -> str:
    """Name an exception, with its message if that cannot quote anybody."""
    name = type(error).__name__
    if isinstance(error, LinguaError) and not error.quotes:
        return f"{name}: {error}"
    if isinstance(error, OSError) and error.strerror:
        return f"{name}: {error.strerror}"
    return f"{name} (its message is not logged)" if error.args else name


def trace_of(error: BaseException) -> list[str]:
    """Tell where an exception came from, line by line: those before it, the places, its name."""
    return _lines(error, _MOST_CAUSES)


def _lines(error: BaseException, depth: int) -> list[str]:
    lines: list[str] = []
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and depth > 0:
        lines += [*_lines(cause, depth - 1), "which led to:"]
    frames = traceback.extract_tb(error.__traceback__)[-_MOST_FRAMES:]
    lines += [
        part for frame in traceback.format_list(frames) for part in frame.rstrip("\n").split("\n") if part
    ]
    lines.append(told(error))
    if isinstance(error, BaseExceptionGroup) and depth > 0:
        for number, each in enumerate(error.exceptions[:_MOST_CAUSES], start=1):
            lines += [f"of which number {number}:", *_lines(each, depth - 1)]
    return lines
