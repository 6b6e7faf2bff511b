"""What an ended session must not leave behind (section 21): in memory, in the heap of alarms, in Redis."""

from __future__ import annotations

from typing import Any

from support import wait_until
from world import World


def in_memory(house: World) -> dict[str, int]:
    """Count everything an instance holds for its sessions."""
    instance = house.instance
    sessions = instance.sessions
    return {
        "sessions": len(sessions),
        "activity": len(sessions._active_at),
        "closing": len(sessions._closing),
        "away": len(sessions._away),
        "records": len(sessions.records),
        "jobs": len(instance.roster._jobs),
        "lanes": len(instance.dispatch._lanes),
        "waiting": len(instance.dispatch.waiting),
        "endings": len(instance.endings._tasks) + len(instance.endings._writing),
        "steps": len(instance.endings.steps),
        "alarms": len(instance.alarms),
    }


async def in_redis(house: World, *session_ids: str) -> list[str]:
    """Name the keys that carry one of these session ids, and those of slots that are still taken."""
    call = house.instance.stores.connection.call
    prefix = house.instance.config.redis.key_prefix
    keys = [key.decode() for key in await call("KEYS", f"{prefix}:*")]
    left = [key for key in keys if any(session_id in key for session_id in session_ids)]
    return left + [key for key in keys if key.endswith(":reserved")]


async def assert_nothing_left(house: World, before: dict[str, int], *session_ids: str) -> None:
    """Wait until memory is as it was before and Redis knows nothing of the sessions."""
    seen: Any = None

    async def clean() -> bool:
        nonlocal seen
        seen = (in_memory(house), await in_redis(house, *session_ids))
        return seen == (before, [])

    try:
        await wait_until(clean, description="nothing is left", timeout_s=5.0)
    except AssertionError:
        raise AssertionError(f"before: {before}\nleft: {seen[0]}\nin Redis: {seen[1]}") from None
