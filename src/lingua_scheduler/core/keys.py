"""Keys that tenants, nodes and operators show at the door, and short-lived tokens made from tenants' keys.

A key is `lk_<kind>_<id>_<secret>`. Only its SHA-256 is kept: the secret has 160 random bits, so there is no
dictionary to try and nothing a slow hash would slow down, while a check must be cheap enough for a storm of
connections. A token is sealed with the instances' shared secret and is checked without asking anybody.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Protocol

import msgspec

from lingua_scheduler.errors import LinguaError
from lingua_scheduler.secret import Secret

KEY_MARK: Final = "lk_"
"""What every key begins with, so that one that got lost is recognised."""
TOKEN_MARK: Final = "lt1."  # noqa: S105 the mark is public
"""What every token begins with."""
SESSION_SCOPE: Final = "session"
"""What a token is good for: opening sessions."""
LONGEST_TOKEN_S: Final = 3600

_ID_BYTES: Final = 6
_SECRET_BYTES: Final = 20
_LONGEST_CHARS: Final = 2048
_BEARER: Final = "bearer "
_KEY: Final = re.compile(r"lk_(tenant|node|admin)_([0-9a-f]{12})_[0-9a-f]{40}")
_PURPOSE: Final = b"lingua access token"

Digest = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
KeyId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{12}\Z")]
_Named = Annotated[str, msgspec.Meta(max_length=128)]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class KeyKind(StrEnum):
    """Whose key it is."""

    TENANT = "tenant"  # opens sessions and makes tokens
    NODE = "node"  # lets one node, or any, register
    ADMIN = "admin"  # gives orders


class Refusal(StrEnum):
    """Why somebody is not let in; told to operators, never to who knocks."""

    MISSING = "missing"  # nothing was shown, and strangers are not let in
    MALFORMED = "malformed"  # neither a key nor a token, or more than one
    UNKNOWN = "unknown"  # no such key
    WRONG = "wrong"  # a wrong secret or seal
    KIND = "kind"  # a right key, but of another kind
    EXPIRED = "expired"
    REVOKED = "revoked"
    THROTTLED = "throttled"  # too many failures from there
    CROWDED = "crowded"  # the tenant has as many connections as it may
    UNREADY = "unready"  # which keys exist is not known yet
    TENANT = "tenant"  # let in, but speaks for another tenant
    NODE = "node"  # let in, but registers another node's id
    ROOM = "room"  # let in, but goes to a room its token does not name
    LANGUAGE = "language"  # let in, but asks for a language its token does not name


class NotLetIn(LinguaError):
    """Somebody may not do what they ask for; `why` is for operators only."""

    code = "UNAUTHORISED"

    def __init__(self, why: Refusal) -> None:
        super().__init__("not allowed")
        self.why = why


class KeyFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a key is for, and the digest by which it is known."""

    id: KeyId
    """The middle part of the key; not a secret."""
    kind: KeyKind
    """tenant opens sessions, node lets nodes register, admin gives orders."""
    digest: Digest
    """`sha256:` and the SHA-256 of the whole key in hex."""
    tenant: _Named = ""
    """Tenant whose sessions it opens; tenant keys need one."""
    node_id: _Named = ""
    """Only id a node may register with; empty: any."""
    label: _Named = ""
    """For people."""
    max_sessions: _Count = 0
    """Most connections of the tenant at a time on one instance; 0: as `auth.max_sessions_per_tenant` says."""

    def __post_init__(self) -> None:
        if (self.kind is KeyKind.TENANT) != bool(self.tenant):
            raise ValueError("a tenant key names its tenant, and no other key does")
        if self.node_id and self.kind is not KeyKind.NODE:
            raise ValueError("only a node key is bound to a node id")


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as it is known to all instances; times are those of Redis' clock, 0 means never."""

    facts: KeyFacts
    created_ms: int = 0
    expires_ms: int = 0
    revoked_ms: int = 0

    def refusal(self, now_ms: int) -> Refusal | None:
        """Say why it does not count now, if it does not."""
        if self.revoked_ms:
            return Refusal.REVOKED
        return Refusal.EXPIRED if self.expires_ms and self.expires_ms <= now_ms else None


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """All keys at a version, and what time it is where they are kept."""

    version: str
    now_ms: int
    records: tuple[KeyRecord, ...] | None  # None: nothing has changed since


class KeyLedger(Protocol):
    """Where keys are kept for all instances."""

    async def changes(self, since: str) -> KeyChanges:
        """Tell the time, and all keys if they are not those of version `since`; one call."""
        ...


@dataclass(frozen=True, slots=True)
class Grant:
    """What somebody who was let in may do, and the key that lies behind it; the default is a stranger's."""

    key_id: str = ""
    kind: KeyKind | None = None
    tenant: str = ""
    node_id: str = ""
    max_sessions: int = 0
    room: str = ""  # only this room; empty: any
    languages: tuple[str, ...] = ()  # only these; empty: any


def made_key(kind: KeyKind) -> tuple[str, Secret]:
    """Make up a key: its id and the whole of it, which nobody can guess."""
    key_id = secrets.token_hex(_ID_BYTES)
    return key_id, Secret(f"{KEY_MARK}{kind}_{key_id}_{secrets.token_hex(_SECRET_BYTES)}")


def digest_of(key: str) -> str:
    """Give the digest by which a key is known."""
    return f"sha256:{hashlib.sha256(key.encode(errors='replace')).hexdigest()}"


def key_id_of(text: str) -> str | None:
    """Give the id of a well-formed key; None for any other text."""
    found = _KEY.fullmatch(text)
    return found[2] if found else None


def fits(text: str, record: KeyRecord | None) -> bool:
    """Tell whether this is the key of a record; takes as long when there is none."""
    known = record.facts.digest if record else f"sha256:{'0' * 64}"
    return hmac.compare_digest(digest_of(text).encode(), known.encode()) and record is not None


def well_formed(text: str) -> bool:
    """Tell whether a text could be a key or a token at all."""
    return 0 < len(text) <= _LONGEST_CHARS and text.isascii() and text.isprintable() and " " not in text


def bearer_of(headers: Sequence[str]) -> str | None:
    """Read the `Authorization` headers of a request: None when there is none, empty when it is no use."""
    if not headers:
        return None
    if len(headers) > 1 or headers[0][: len(_BEARER)].lower() != _BEARER:
        return ""
    return headers[0][len(_BEARER) :].strip()


def bearer_header(credential: str) -> dict[str, str]:
    """Give the headers that show a key or token; none when there is none."""
    return {"Authorization": f"Bearer {credential}"} if credential else {}


class TokenWish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody with a tenant key wants a token for."""

    scope: Annotated[str, msgspec.Meta(pattern=rf"^{SESSION_SCOPE}\Z")] = SESSION_SCOPE
    ttl_s: Annotated[int, msgspec.Meta(ge=1, le=LONGEST_TOKEN_S)] | None = None
    room: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,32}\Z")] | None = None
    languages: (
        Annotated[
            tuple[Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,35}\Z")], ...],
            msgspec.Meta(min_length=1, max_length=16),
        ]
        | None
    ) = None


class TokenFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a token says."""

    key_id: KeyId = msgspec.field(name="k")
    tenant: _Named = msgspec.field(name="t")
    scope: _Named = msgspec.field(name="s")
    until_ms: int = msgspec.field(name="e")
    room: _Named = msgspec.field(name="r", default="")
    languages: tuple[_Named, ...] = msgspec.field(name="l", default=())


_read_facts = msgspec.json.Decoder(TokenFacts).decode


def sealed(secret: bytes, facts: TokenFacts) -> Secret:
    """Make the token that says this."""
    said = f"{TOKEN_MARK}{_text(msgspec.json.encode(facts))}"
    return Secret(f"{said}.{_seal(secret, said)}")


def opened(secret: bytes, token: str) -> TokenFacts | None:
    """Read a token of ours; None, after the same time, for any other text."""
    said, _, seal = token.rpartition(".")
    genuine = hmac.compare_digest(_seal(secret, said).encode(), seal.encode(errors="replace"))
    if not genuine or not said.startswith(TOKEN_MARK):
        return None
    body = said.removeprefix(TOKEN_MARK)
    try:
        return _read_facts(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except msgspec.DecodeError:  # of a later version
        return None


def _seal(secret: bytes, said: str) -> str:
    """Seal with a key of its own, so that no other use of the shared secret can stand for a token."""
    own = hmac.digest(secret, _PURPOSE, hashlib.sha256)
    return _text(hmac.digest(own, said.encode(errors="replace"), hashlib.sha256))


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
