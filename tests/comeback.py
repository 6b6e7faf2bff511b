"""Clients that come back: how a test leaves and resumes, and what the client knows when it does."""

from __future__ import annotations

from typing import Any

from lingua_scheduler.errors import DependencyDown
from support import wait_until
from world import Speaker, World

RESUMES = {"supports_resume": True}


async def resumed(house: World, before: Speaker, **wish: Any) -> Speaker:
    """Come back with the token a speaker has, on a new connection to any instance."""
    speaker = await house.speaker()
    speaker._seq = before._seq
    return await speaker.init(**{"resume_token": before.ack["resume_token"], **RESUMES, **wish})


async def left(house: World, speaker: Speaker) -> None:
    """Lose the connection, and wait until the server has noticed."""
    speaker.reset()
    await noticed(house, speaker)


async def noticed(house: World, speaker: Speaker) -> None:
    """Wait until the server knows that a client is away."""

    def away() -> bool:
        session = house.instance.sessions.get(speaker.id)
        return session is None or not session.attached

    await wait_until(away, description="the session waits for its client")


def ends(speaker: Speaker) -> list[tuple[str, int]]:
    """List how utterances ended, in the order in which the client was told."""
    kinds = {"translation_result": "result", "missing_result": "missing"}
    return [
        (kinds[message["type"]], message["utterance_index"])
        for message in speaker.inbox
        if message["type"] in kinds
    ]


async def failed(speaker: Speaker, **wish: Any) -> None:
    """Ask for a session that is lost, and get a new one."""
    await speaker.init(**wish)
    assert speaker.ack["resumed"] is False
    assert speaker.ack["warning"] == "RESUME_FAILED"
    assert speaker.ack["hint"]
    assert speaker.ack["resume_token"]
    assert "last_seq" not in speaker.ack


def away(house: World, name: str, *, effect: bool = False, times: int = 1) -> None:
    """Let calls of the session ledger fail, with their effect or without."""
    ledger = house.instance.stores.sessions
    real, left_over = getattr(ledger, name), times

    async def call(*args: Any, **values: Any) -> Any:
        nonlocal left_over
        if not left_over:
            return await real(*args, **values)
        left_over -= 1
        if effect:
            await real(*args, **values)
        raise DependencyDown("away")

    setattr(ledger, name, call)
