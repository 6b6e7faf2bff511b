"""Who is let in, by which key, and until when: decided from a copy of the keys that needs no call of Redis.

The copy follows Redis by version. While it was never loaded, nobody with a key from there is let in. Revoking
a key closes what it opened, on every instance, when the instance's copy learns of it.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Final, Literal

import msgspec

from lingua_scheduler.clock import Clock
from lingua_scheduler.core.failures import Failures
from lingua_scheduler.core.keys import (
    LONGEST_TOKEN_S,
    SESSION_SCOPE,
    TOKEN_MARK,
    Grant,
    KeyFacts,
    KeyKind,
    KeyLedger,
    KeyRecord,
    NotLetIn,
    Refusal,
    TokenFacts,
    TokenWish,
    fits,
    key_id_of,
    opened,
    sealed,
    well_formed,
)
from lingua_scheduler.flow.admission_pass import Pass
from lingua_scheduler.flow.key_copy import KeyCopy
from lingua_scheduler.log import get_logger
from lingua_scheduler.secret import Secret
from lingua_scheduler.wire.close import CloseCode

_log = get_logger(__name__)

_GUESSES: Final = (Refusal.MALFORMED, Refusal.UNKNOWN, Refusal.WRONG)
_Strangers = Literal["on_loopback", "always", "never"]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class AuthOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is let in, and with what."""

    allow_anonymous_sessions: _Strangers = "on_loopback"
    """Let clients open sessions without a key: on_loopback means when nobody else can reach the instance."""
    allow_anonymous_nodes: _Strangers = "on_loopback"
    """Let nodes register without a key; the same words."""
    insecure: bool = False
    """Listen beyond this machine although there is no key, and take that for on_loopback."""
    keys: tuple[KeyFacts, ...] = ()
    """Keys that are known without Redis, by their digests; `lingua keys create --no-store` words them."""
    refresh_s: Annotated[float, msgspec.Meta(ge=0.1, le=60)] = 1.0
    """How often an instance looks for new and revoked keys."""
    token_default_s: Annotated[int, msgspec.Meta(ge=1, le=LONGEST_TOKEN_S)] = 600
    """How long a session token may be used to connect when nobody asks for another time."""
    max_sessions_per_tenant: _Count = 0
    """Most connections of one tenant at a time on one instance, unless its key says otherwise; 0: any."""
    failures_per_min: _Count = 60
    """Wrong keys within a minute after which an address is not heard; 0: any number, as behind a proxy."""

    def __post_init__(self) -> None:
        if len({key.id for key in self.keys}) != len(self.keys):
            raise ValueError("keys: two of them have the same id")


class Purpose(StrEnum):
    """What somebody wants to be let in for."""

    SESSION = "session"
    NODE = "node"
    ADMIN = "admin"
    TOKEN = "token"  # noqa: S105 a word


_KINDS: Final = {
    Purpose.SESSION: KeyKind.TENANT,
    Purpose.NODE: KeyKind.NODE,
    Purpose.ADMIN: KeyKind.ADMIN,
    Purpose.TOKEN: KeyKind.TENANT,
}


class Credentials:
    """The keys as this instance knows them, and everybody they let in."""

    def __init__(
        self,
        options: AuthOptions,
        ledger: KeyLedger,
        *,
        clock: Clock,
        secret: Callable[[], bytes],
        host: str,
        count: Callable[[str, str], None] = lambda _purpose, _why: None,
    ) -> None:
        self._options = options
        self._clock = clock
        self._secret = secret  # what all instances share
        self._count = count
        private = options.insecure or is_loopback(host)
        self._strangers = {
            Purpose.SESSION: _welcome(options.allow_anonymous_sessions, private=private),
            Purpose.NODE: _welcome(options.allow_anonymous_nodes, private=private),
        }
        self._copy = KeyCopy(options.keys, ledger, clock)
        self._failures = Failures(options.failures_per_min)
        self._inside: dict[str, set[Pass]] = {}  # by the key that let them in
        self._present: Counter[str] = Counter()  # by tenant

    async def refresh(self) -> None:
        """Learn of new and revoked keys; close what revoked ones have opened."""
        if await self._copy.refresh():
            for key_id in tuple(self._inside):
                if self._copy.revoked(key_id):
                    self._show_out(key_id)

    # The door

    def let_in(self, purpose: Purpose, shown: str | None, remote: str) -> Pass:
        """Judge what somebody shows, None when it is nothing; NotLetIn says no."""
        try:
            grant = self._grant(purpose, shown, remote)
            self._refuse_crowd(purpose, grant)
        except NotLetIn as refusal:
            if refusal.why in _GUESSES:
                self._failures.add(remote, self._clock.now())
            self.refused(purpose, refusal.why)
            raise
        return Pass(grant, purpose, self)

    def refusal(self, shown: str | None, remote: str) -> Refusal | None:
        """Say why no session can be opened with this; None when one can. To show nothing is no failure."""
        if shown is None and not self._strangers[Purpose.SESSION]:
            return Refusal.MISSING
        try:
            self.let_in(Purpose.SESSION, shown, remote)
        except NotLetIn as refusal:
            return refusal.why
        return None

    def is_admin(self, shown: str, remote: str) -> bool:
        """Tell whether this is a key of an operator."""
        try:
            self.let_in(Purpose.ADMIN, shown, remote)
        except NotLetIn:
            return False
        return True

    def token(self, shown: str | None, remote: str, wish: TokenWish) -> tuple[Secret, int]:
        """Make a session token for whoever shows a tenant key; give it and its seconds. NotLetIn says no."""
        grant = self.let_in(Purpose.TOKEN, shown, remote).grant
        ttl_s = wish.ttl_s or self._options.token_default_s
        facts = TokenFacts(
            key_id=grant.key_id,
            tenant=grant.tenant,
            scope=wish.scope,
            until_ms=self._copy.now_ms + ttl_s * 1000,
            room=wish.room or "",
            languages=tuple(lang.lower() for lang in wish.languages or ()),
        )
        return sealed(self._secret(), facts), ttl_s

    def refused(self, purpose: str, why: Refusal) -> None:
        """Count a refusal."""
        self._count(purpose, why)

    def _grant(self, purpose: Purpose, shown: str | None, remote: str) -> Grant:
        if shown is None:
            if self._strangers.get(purpose, False):
                return Grant()
            raise NotLetIn(Refusal.MISSING)
        if self._failures.too_many(remote, self._clock.now()):
            raise NotLetIn(Refusal.THROTTLED)
        if not well_formed(shown):
            raise NotLetIn(Refusal.MALFORMED)
        if purpose is Purpose.SESSION and shown.startswith(TOKEN_MARK):
            return self._by_token(shown)
        return self._by_key(purpose, shown)

    def _by_key(self, purpose: Purpose, shown: str) -> Grant:
        key_id = key_id_of(shown)
        if key_id is None:
            raise NotLetIn(Refusal.MALFORMED)
        record = self._copy.record(key_id)
        if not fits(shown, record):
            raise NotLetIn(Refusal.UNKNOWN if record is None else Refusal.WRONG)
        facts = self._counting(record)
        if facts.kind is not _KINDS[purpose]:
            raise NotLetIn(Refusal.KIND)
        return Grant(key_id, facts.kind, facts.tenant, facts.node_id, facts.max_sessions)

    def _by_token(self, shown: str) -> Grant:
        said = opened(self._secret(), shown)
        if said is None:
            raise NotLetIn(Refusal.WRONG)
        if said.scope != SESSION_SCOPE:
            raise NotLetIn(Refusal.KIND)
        if said.until_ms <= self._copy.now_ms:
            raise NotLetIn(Refusal.EXPIRED)
        facts = self._counting(self._copy.record(said.key_id))
        if facts.tenant != said.tenant:
            raise NotLetIn(Refusal.WRONG)
        return Grant(
            said.key_id,
            KeyKind.TENANT,
            said.tenant,
            max_sessions=facts.max_sessions,
            room=said.room,
            languages=said.languages,
        )

    def _counting(self, record: KeyRecord | None) -> KeyFacts:
        if record is None:
            raise NotLetIn(Refusal.UNKNOWN)
        refusal = record.refusal(self._copy.now_ms)
        if refusal is not None:
            raise NotLetIn(refusal)
        return record.facts

    def _refuse_crowd(self, purpose: Purpose, grant: Grant) -> None:
        limit = grant.max_sessions or self._options.max_sessions_per_tenant
        if purpose is Purpose.SESSION and grant.tenant and 0 < limit <= self._present[grant.tenant]:
            raise NotLetIn(Refusal.CROWDED)

    # Who is inside

    def entered(self, who: Pass) -> None:
        """Remember a connection until `left`."""
        self._inside.setdefault(who.grant.key_id, set()).add(who)
        if who.grant.tenant:
            self._present[who.grant.tenant] += 1

    def left(self, who: Pass) -> None:
        """Forget a connection."""
        inside = self._inside.get(who.grant.key_id, set())
        if who not in inside:
            return
        inside.remove(who)
        if not inside:
            del self._inside[who.grant.key_id]
        if who.grant.tenant:
            self._present[who.grant.tenant] -= 1
            if not self._present[who.grant.tenant]:
                del self._present[who.grant.tenant]

    def speaks_for(self, grant: Grant, tenant: str) -> bool:
        """Tell whether somebody may use the name of a tenant; a stranger only if nobody has a key for it."""
        return tenant == grant.tenant or (not grant.tenant and tenant not in self._copy.tenants)

    def may_be(self, grant: Grant, node_id: str) -> bool:
        """Tell whether a node may have an id: its own, or any that no key is bound to."""
        if grant.node_id:
            return node_id == grant.node_id
        return node_id not in self._copy.bound_nodes

    def _show_out(self, key_id: str) -> None:
        inside = tuple(self._inside.get(key_id, ()))
        _log.info("access_revoked", id=key_id, connections=len(inside))
        for who in inside:
            who.close(CloseCode.UNAUTHORISED, "the key was revoked")


def is_loopback(host: str) -> bool:
    """Tell whether an address to listen on can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _welcome(rule: _Strangers, *, private: bool) -> bool:
    return rule == "always" or (rule == "on_loopback" and private)
