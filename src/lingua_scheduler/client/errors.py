"""What can go wrong for a client, each in words a person can act on.

::

    LinguaError
    ├── ServerUnreachable    nobody answers at this address, or it is not a scheduler
    ├── SessionRefused       the server does not open this session; the code says why
    ├── ConnectionLost       the connection ended; the close code says whether to come back
    └── UnreadableAudio      not a WAV file, or none that can be read
"""

from __future__ import annotations

from lingua_scheduler.errors import LinguaError
from lingua_scheduler.wire.close import reconnects


class ServerUnreachable(LinguaError):
    """Nobody answers at this address, or not as a scheduler does."""

    code = "WS_DISCONNECTED"
    retryable = True


class SessionRefused(LinguaError):
    """The server does not open this session; `code` says why."""

    def __init__(self, code: str, message: str, *, retry_after_ms: int | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.retry_after_ms = retry_after_ms
        self.retryable = retry_after_ms is not None


class ConnectionLost(LinguaError):
    """The connection ended before the session did."""

    code = "WS_DISCONNECTED"

    def __init__(self, close_code: int) -> None:
        super().__init__(f"the connection was closed with code {close_code}")
        self.close_code = close_code
        self.retryable = reconnects(close_code)


class UnreadableAudio(LinguaError):
    """Not a WAV file, or none that can be read; the message is one line that says why."""
