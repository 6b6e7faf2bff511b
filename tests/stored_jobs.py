"""What stands in Redis about a job and in a session's record, for tests that look behind the ledgers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from lingua_scheduler.store.keys import Keys

Call = Callable[..., Awaitable[Any]]


async def job_record(call: Call, keys: Keys, session_id: str, job_id: str) -> dict[str, str]:
    """Read a job: state, attempt, node, claim, reservation and record, or state, attempt and outcome."""
    raw = await call("HGET", keys.session(session_id), f"job:{job_id}")
    if raw is not None:
        head, claim, reservation, record = raw.decode().split("\n", 3)
        state, attempt, node = head.split(" ")
        about = {"claim": claim, "reservation": reservation, "record": record}
        return {"state": state, "attempt": attempt, "node": node, **about}
    raw = await call("GET", keys.ended(session_id, job_id))
    words = raw.decode().split(" ") if raw is not None else []
    return dict(zip(("state", "attempt", "outcome"), words, strict=False))


async def job_state(call: Call, keys: Keys, session_id: str, job_id: str) -> str | None:
    """Tell how far a job has come; None when Redis knows nothing of it."""
    return (await job_record(call, keys, session_id, job_id)).get("state")


async def session_fields(call: Call, keys: Keys, session_id: str, kind: str) -> dict[str, bytes]:
    """Give the fields of a session that begin with `kind` and a colon, by the rest of their names."""
    flat = await call("HGETALL", keys.session(session_id))
    fields = zip(flat[::2], flat[1::2], strict=True)
    return {
        name.decode().removeprefix(f"{kind}:"): value
        for name, value in fields
        if name.startswith(f"{kind}:".encode())
    }
