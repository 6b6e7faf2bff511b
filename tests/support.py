"""What tests share: waiting for a condition, and finding keys that nobody would ever remove."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import redis

from lingua_scheduler.store.keys import Keys

_POLL_S = 0.002


async def wait_until(
    predicate: Callable[[], Any | Awaitable[Any]], *, description: str, timeout_s: float = 10.0
) -> Any:
    """Wait until the predicate (plain or async) gives something true, and return that."""
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                found = predicate()
                if inspect.isawaitable(found):
                    found = await found
                if found:
                    return found
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise AssertionError(f"not within {timeout_s} s: {description}") from None


def leaks(client: redis.Redis, keys: Keys) -> list[str]:
    """Name every key that is not under the prefix, would stay for ever, or is not what the catalogue says."""
    found = []
    for raw in client.scan_iter(count=1000):
        key = raw.decode(errors="replace")
        rule = keys.rule_of(key)
        if not key.startswith(f"{keys.prefix}:"):
            found.append(f"{key}: outside the prefix {keys.prefix}")
        elif client.ttl(raw) == -1 and not (rule and rule.owner):
            found.append(f"{key}: no TTL, and no owner in the catalogue")
        elif rule and rule.type != (actual := client.type(raw).decode()) and actual != "none":
            found.append(f"{key}: is a {actual}, the catalogue says {rule.type}")
    return found
