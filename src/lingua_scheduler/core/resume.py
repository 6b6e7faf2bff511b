"""The token with which a client takes up an interrupted session, and what is kept for that.

A token names a session and its epoch. Taking the session up raises the epoch, so a token works once.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from typing import Annotated

import msgspec

from lingua_scheduler.core.model import SessionId

_VERSION = "r1"


class ResumeOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a session outlives its connection, and what it keeps meanwhile."""

    window_s: Annotated[float, msgspec.Meta(ge=0)] = 60
    """How long a client may take to come back; 0 gives no tokens and ends sessions with their connection."""
    log_results: Annotated[int, msgspec.Meta(ge=1)] = 50
    """Most unacknowledged results of a session that are kept; the oldest leave first."""
    log_bytes: Annotated[int, msgspec.Meta(ge=1024)] = 2 * 2**20
    """Most bytes of them; the newest one is kept whatever its size."""
    guesses_per_connection: Annotated[int, msgspec.Meta(ge=1)] = 5
    """Tokens that lead nowhere, on one connection, that close it with 4529."""
    retry_after_ms: Annotated[int, msgspec.Meta(ge=1)] = 1000
    """What a client is told to wait when its token cannot be checked because Redis is away."""


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt of a client to come back; those of one interruption have the same name and count up."""

    name: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.name}#{self.number}"

    def follows(self, other: Try) -> bool:
        """It is not older than another attempt of the same interruption."""
        return self.name == other.name and self.number >= other.number


def make(secret: bytes, session_id: SessionId, epoch: int, *, tenant: str = "") -> str:
    """Make the token of a session at an epoch, for clients of one tenant only."""
    named = f"{_VERSION}.{session_id}.{epoch}"
    return f"{named}.{_seal(secret, named, tenant)}"


def read(secret: bytes, token: str, *, tenant: str = "") -> tuple[SessionId, int] | None:
    """Give the session and the epoch of a token of ours; None, after the same time, for any other text."""
    named, _, seal = token.rpartition(".")
    genuine = hmac.compare_digest(_seal(secret, named, tenant).encode(), _bytes(seal))
    version, _, rest = named.partition(".")
    session_id, _, epoch = rest.rpartition(".")
    if not genuine or version != _VERSION:
        return None
    return SessionId(session_id), int(epoch)


def _seal(secret: bytes, named: str, tenant: str) -> str:
    digest = hmac.digest(secret, _bytes(f"{named}\n{tenant}"), hashlib.sha256)
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
