"""Every exception of the scheduler, each with its wire code and whether trying again can help.

::

    LinguaError
    ├── ConfigError             the start is refused; one line names the key
    ├── InstanceIdTaken         another process lives under this instance's id
    ├── EmbeddedRedisError      the embedded Redis could not be started
    ├── WireError               a peer sent something it must not send
    │   ├── InvalidMessage      not a message of this protocol: syntax, type, size, base64
    │   ├── InvalidSession      names a session this socket does not own
    │   ├── UnsupportedFeature  asks for something this server does not offer
    │   └── RateExceeded        more than a named limit allows
    ├── NodeRefused             a registration that cannot be accepted (code says why)
    ├── IllegalTransition       a state machine was asked for a step it does not have
    ├── StoreError              Redis could not do what was asked
    │   ├── DependencyDown      Redis cannot be reached; the outcome is unknown
    │   ├── Fenced              somebody newer owns what was to be written
    │   └── CorruptValue        a stored value is not of this version or type
    ├── NotLetIn                somebody may not do what they ask for (core/keys.py)
    ├── ServerUnreachable       the client could not connect (client/errors.py, as the next three)
    ├── SessionRefused          the server does not open the session
    ├── ConnectionLost          the connection ended under the client
    ├── UnreadableAudio         a file is not audio that can be read
    ├── NoCatalogue             the model hub or the local index gives none (core/catalogue.py)
    ├── JobFailed               a handler cannot do its job (node/job.py)
    └── NodeGaveUp              the scheduler does not want the node (node/uplink.py)
"""

from __future__ import annotations

from typing import Any


class LinguaError(Exception):
    """Base of all: `code` goes on the wire, `retryable` says whether trying again can help."""

    code = "INTERNAL_ERROR"
    retryable = False
    quotes = False  # the message may repeat what somebody said: it is not logged


class ConfigError(LinguaError):
    """The configuration cannot be used; the message is one line that names the key."""


class InstanceIdTaken(LinguaError):
    """Another process lives under this instance's id."""


class EmbeddedRedisError(LinguaError):
    """The embedded Redis could not be started."""


class WireError(LinguaError):
    """A peer sent something it must not send; the text is fit to be shown to that peer."""

    code = "INVALID_MESSAGE"

    def __init__(self, message: str, *, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class InvalidMessage(WireError):
    """Not a message of this protocol."""


class InvalidSession(WireError):
    """The message names a session that does not live on this socket."""

    code = "INVALID_SESSION"


class UnsupportedFeature(WireError):
    """The message asks for something this server does not offer."""

    code = "UNSUPPORTED_FEATURE"


class RateExceeded(WireError):
    """More than a named limit allows."""

    code = "RATE_LIMITED"
    retryable = True


class NodeRefused(WireError):
    """A registration that cannot be accepted; `code` says why."""

    def __init__(self, code: str, message: str, *, details: dict[str, Any] | None = None) -> None:
        super().__init__(message, details=details)
        self.code = code


class IllegalTransition(LinguaError):
    """A state machine was asked for a step it does not have; names both sides."""

    def __init__(self, machine: str, *, expected: str, received: str) -> None:
        super().__init__(f"{machine}: expected {expected}, received {received}")


class StoreError(LinguaError):
    """Redis could not do what was asked."""


class DependencyDown(StoreError):
    """Redis cannot be reached or did not answer in time; the outcome of the call is unknown."""

    code = "SCHEDULER_DEPENDENCY_DOWN"
    retryable = True


class Fenced(StoreError):
    """Somebody newer owns what was to be written; nothing was."""


class CorruptValue(StoreError):
    """A stored value is not of this version or type."""
