"""What a server's error means to us: each one translated once, into an error that says what to do next."""

from __future__ import annotations

import re

from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from lingua_scheduler.errors import CorruptValue, DependencyDown, StoreError

_REASON_CHARS = 300  # of a server's error text
_SENT = re.compile(r",? with args beginning with")
_UNABLE = (ClusterDownError, ReadOnlyError, OutOfMemoryError)  # the server is there but cannot serve now
_UNABLE_WORDS = ("MISCONF", "NOREPLICAS", "BUSY", "UNBLOCKED")
_CORRUPT_WORDS = ("WRONGTYPE", "CORRUPT")  # the second is for our own scripts
_FORBIDDEN_IN_SCRIPT = "ACL failure in script"
_FORBIDDEN_COMMAND = re.compile(r"run the '([\w|-]+)' command")


class ScriptUnknown(StoreError):
    """The server does not have the script; nothing was run."""


class Redirected(StoreError):
    """Another server of the cluster has the slot; nothing was run."""

    def __init__(self, slot: int, host: str, port: int, *, once: bool) -> None:
        super().__init__(f"slot {slot} is served by {host}:{port}")
        self.slot = slot
        self.host = host
        self.port = port
        self.once = once  # ASK: this call only, the slot has not moved yet


class Migrating(StoreError):
    """The keys of the call are between two servers of the cluster; nothing was run."""


class Forbidden(StoreError):
    """The user of the connection may not do this; the text names the command, never its arguments."""


def shortened(error: BaseException) -> str:
    """Give an error's text in a length that fits a line, without what was sent (perhaps a password)."""
    return _SENT.split(str(error))[0][:_REASON_CHARS]


def is_demoted(reply: object) -> bool:
    """Tell whether an answer means that the server is no master any more."""
    return isinstance(reply, ReadOnlyError) or (
        isinstance(reply, ResponseError) and str(reply).startswith("UNBLOCKED")
    )


def translated(error: ResponseError, command: str) -> StoreError:
    """Say what the error of a command means."""
    text = shortened(error)
    word = text.partition(" ")[0]
    match error:
        case NoScriptError():
            return ScriptUnknown(text)
        case AskError():  # MovedError is a subclass
            moved = isinstance(error, MovedError)
            return Redirected(error.slot_id, error.host, error.port, once=not moved)
        case TryAgainError():
            return Migrating(text)
        case _ if isinstance(error, _UNABLE) or word in _UNABLE_WORDS:
            return DependencyDown(f"Redis cannot serve now: {text}")
        case _ if isinstance(error, NoPermissionError) or text.startswith(_FORBIDDEN_IN_SCRIPT):
            return Forbidden(_forbidden(text, command))
    return CorruptValue(text) if word in _CORRUPT_WORDS else StoreError(text)


def _forbidden(text: str, command: str) -> str:
    named = _FORBIDDEN_COMMAND.search(text)
    what = named[1].upper() if named else f"the keys of {command}"
    inside = f", used in a script ({command})" if text.startswith(_FORBIDDEN_IN_SCRIPT) else ""
    return f"the Redis user has no permission for {what}{inside}"
