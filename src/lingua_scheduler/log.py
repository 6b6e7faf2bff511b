"""Structured logs that never hold speech or secrets and never stop the service.

A line is one event name and its facts. Values that could be audio, text or a secret are masked before
anything is rendered, and lines leave through a thread of their own: a log pipe that blocks or a disk that is
full costs lines, which are counted, and never time.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal

import msgspec
import structlog

from lingua_scheduler.culprit import told, trace_of
from lingua_scheduler.line_writer import LineWriter
from lingua_scheduler.secret import mask_url

Level = Literal["debug", "info", "warning", "error"]

_PACKAGE = "lingua_scheduler."
_VALUE_LIMIT_CHARS = 400
_ITEMS_LIMIT = 20
_DEPTH_LIMIT = 3
_PRIVATE_NAME = re.compile(
    r"^text|(^|_)(audio|pcm|payload|text|transcript|authorization|cookie|key|password|secret|token)s?(_|$)",
    re.IGNORECASE,
)
_OBJECT = re.compile(r"[<(]")  # where the repr of an object begins
_DEBUG, _INFO, _WARNING, _ERROR = 10, 20, 30, 40
_SEVERITY: dict[Level, int] = {"debug": _DEBUG, "info": _INFO, "warning": _WARNING, "error": _ERROR}


class LogOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much is logged, and in which form. Logs go to standard error."""

    level: Level = "info"
    """Lines below this level are not written: debug, info, warning or error."""
    format: Literal["auto", "console", "json"] = "auto"
    """console for people, json for machines; auto is console on a terminal and json elsewhere."""
    levels: dict[str, Level] = {}
    """Levels of single modules and everything below them, for example {"store" = "debug"}."""


class _Channel:
    """Where the lines of one module go: its name and its level; all channels share one writer."""

    __slots__ = ("name", "threshold")

    def __init__(self, name: str, threshold: int) -> None:
        self.name = name
        self.threshold = threshold

    def write(self, line: str) -> None:
        _logs.writer.write(line.encode("utf-8", "backslashreplace") + b"\n")

    debug = info = warning = error = write


class Logger(structlog.BoundLoggerBase):
    """Logs the events of one module; a call below the module's level does nothing."""

    _logger: _Channel

    def debug(self, event: str, **facts: Any) -> None:
        """Log what only somebody looking for a fault wants to see."""
        if self._logger.threshold <= _DEBUG:
            self._proxy_to_logger("debug", event, **facts)

    def info(self, event: str, **facts: Any) -> None:
        """Log a change of state that belongs to normal work."""
        if self._logger.threshold <= _INFO:
            self._proxy_to_logger("info", event, **facts)

    def warning(self, event: str, **facts: Any) -> None:
        """Log something an operator should look at when it repeats."""
        if self._logger.threshold <= _WARNING:
            self._proxy_to_logger("warning", event, **facts)

    def error(self, event: str, **facts: Any) -> None:
        """Log a failure that somebody must look at."""
        self._proxy_to_logger("error", event, **facts)

    def exception(self, event: str, **facts: Any) -> None:
        """Log a failure with the traceback of the exception being handled."""
        self._proxy_to_logger("error", event, **{"exc_info": True, **facts})


class _Logs:
    """The one set of channels of this process, and what the last `configure` said about them."""

    def __init__(self) -> None:
        self.writer = LineWriter(2)
        self.options = LogOptions(level="warning")
        self.channels: dict[str, _Channel] = {}
        self.processors: list[structlog.typing.Processor] = _processors(readable=True, colours=False)
        self.library_handler = _LibraryHandler()

    def channel(self, name: str) -> _Channel:
        if name not in self.channels:
            self.channels[name] = _Channel(name, self.threshold(name))
        return self.channels[name]

    def threshold(self, name: str) -> int:
        level = self.options.level
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            level = self.options.levels.get(".".join(parts[:count]), level)
        return _SEVERITY[level]


class _LibraryHandler(logging.Handler):
    """Takes in what libraries log; their sentences pass the same masks as our facts."""

    def emit(self, record: logging.LogRecord) -> None:
        logger = get_logger(record.name)
        if record.levelno >= logger._logger.threshold:  # noqa: SLF001
            facts = {"exc_info": record.exc_info} if record.exc_info else {}
            step = next((name for name, value in _SEVERITY.items() if record.levelno <= value), "error")
            logger._proxy_to_logger(step, _sentence(record), **facts)  # noqa: SLF001


def _sentence(record: logging.LogRecord) -> str:
    """Word what a library says: its first line, without what exceptions say and what objects look like."""
    if isinstance(record.args, tuple):
        record.args = tuple(told(each) if isinstance(each, BaseException) else each for each in record.args)
    line = record.getMessage().partition("\n")[0]
    return _OBJECT.split(line)[0].rstrip() if record.name == "asyncio" else line


def get_logger(name: str) -> Logger:
    """Give the logger of a module; it follows every later `configure`."""
    channel = _logs.channel(name.removeprefix(_PACKAGE))
    return Logger(channel, _logs.processors, {"logger": channel.name})


def configure(options: LogOptions, *, fd: int = 2) -> None:
    """Set level and form of every logger, made or yet to be made, and take in what libraries log."""
    if _logs.writer.fd != fd:
        _logs.writer = LineWriter(fd)
    _logs.options = options
    for name, channel in _logs.channels.items():
        channel.threshold = _logs.threshold(name)
    terminal = os.isatty(fd)
    readable = options.format == "console" or (options.format == "auto" and terminal)
    _logs.processors[:] = _processors(readable=readable, colours=terminal and "NO_COLOR" not in os.environ)
    root = logging.getLogger()
    root.setLevel(min(_SEVERITY[level] for level in (options.level, *options.levels.values())))
    if _logs.library_handler not in root.handlers:
        root.addHandler(_logs.library_handler)


def dropped_lines() -> int:
    """Count the lines that could not be written since the start."""
    return _logs.writer.dropped


def flush(timeout_s: float = 1.0) -> bool:
    """Wait until what was logged has been written; False when the other end does not take it in time."""
    return _logs.writer.flush(timeout_s)


def _processors(*, readable: bool, colours: bool) -> list[structlog.typing.Processor]:
    first: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        _mask_facts,
        _format_exception,
    ]
    if readable:
        return [
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
            *first,
            structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=structlog.dev.plain_traceback),
        ]
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    return [stamp, *first, structlog.processors.JSONRenderer(serializer=_to_json)]


def _to_json(facts: Any, **_: Any) -> str:
    try:
        return msgspec.json.encode(facts).decode()
    except OverflowError:  # an integer beyond 64 bits
        return json.dumps(facts)


def _mask_facts(_logger: Any, _method: str, facts: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {name: value if name == "exc_info" else _safe(name, value) for name, value in facts.items()}


def _format_exception(
    _logger: Any, _method: str, facts: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    error = facts.pop("exc_info", None)
    if isinstance(error, tuple):
        error = error[1]
    elif error is True:
        error = sys.exc_info()[1]
    if isinstance(error, BaseException):  # indented, so that no line of a message can pass for a log line
        facts["exception"] = "\n".join("    " + printable(mask_url(line)) for line in trace_of(error))
    return facts


def _safe(name: str, value: Any, depth: int = 0) -> Any:
    """Give a value that may be shown: plain, short, printable, and nothing private."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value)} bytes>"
    if _PRIVATE_NAME.search(name):
        return "***"
    if isinstance(value, (str, BaseException)):
        text = value if isinstance(value, str) else told(value)
        return printable(mask_url(_clip(text)))
    return _safe_parts(name, value, depth + 1)


def _safe_parts(name: str, value: Any, depth: int) -> Any:
    if depth <= _DEPTH_LIMIT:
        if isinstance(value, Enum):
            return _safe(name, value.value, depth)
        if isinstance(value, Mapping):
            items = list(value.items())[:_ITEMS_LIMIT]
            return {printable(_clip(str(key))): _safe(str(key), inner, depth) for key, inner in items}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [_safe(name, inner, depth) for inner in list(value)[:_ITEMS_LIMIT]]
    return f"<{type(value).__name__}>"


def _clip(text: str) -> str:
    extra = len(text) - _VALUE_LIMIT_CHARS
    return text if extra <= 0 else f"{text[:_VALUE_LIMIT_CHARS]}... ({extra} more)"


def printable(text: str) -> str:
    """Escape what could move a cursor, forge a line or turn the reading direction."""
    if text.isprintable():
        return text
    return "".join(
        mark if mark.isprintable() else mark.encode("unicode_escape", "backslashreplace").decode()
        for mark in text
    )


_logs = _Logs()
atexit.register(flush)
