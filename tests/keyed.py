"""Instances that ask for keys: a tenant's key, tokens made from it, and a clock that lets them expire."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lingua_scheduler.app import Instance
from lingua_scheduler.core.keys import KeyChanges, KeyFacts, KeyKind, TokenWish, digest_of, made_key
from lingua_scheduler.secret import Secret
from support import wait_until

KEYS_ONLY = {"auth": {"allow_anonymous_sessions": "never", "refresh_s": 0.1}}
"""Options with which nobody opens a session without a key or token."""
HOUR_MS = 3_600_000


async def tenant_key(instance: Instance, tenant: str = "acme") -> Secret:
    """Make a key as `lingua keys create` does, and let an instance learn of it."""
    key_id, key = made_key(KeyKind.TENANT)
    facts = KeyFacts(id=key_id, kind=KeyKind.TENANT, digest=digest_of(key), tenant=tenant)
    assert await instance.stores.auth_keys.add(facts)
    await instance.credentials.refresh()
    return key


def token(instance: Instance, key: str, **wish: Any) -> Secret:
    """Make a token as `POST /api/v1/tokens` does."""
    return instance.credentials.token(key, "127.0.0.1", TokenWish(**wish))[0]


async def revoke(instance: Instance, key: str) -> None:
    """Revoke a key as `lingua keys revoke` does; nobody is told."""
    assert await instance.stores.auth_keys.revoke(key.split("_")[2])


async def an_hour_passes(instance: Instance) -> None:
    """Let the clock that tokens go by, which is that of Redis, be an hour later."""
    ledger = instance.stores.auth_keys
    changes, asked = ledger.changes, []

    async def later(since: str) -> KeyChanges:
        asked.append(since)
        found = await changes(since)
        return replace(found, now_ms=found.now_ms + HOUR_MS)

    ledger.changes = later
    await wait_until(lambda: len(asked) > 1, description="the instance knows how late it is")
