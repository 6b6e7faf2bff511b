"""A node and a speaker who have just met: what most tests about results begin with."""

from __future__ import annotations

from typing import Any

from world import FakeNode, Speaker, World


async def one_of_each(house: World, **wish: Any) -> tuple[FakeNode, Speaker]:
    """Connect a node with plenty of room and a speaker."""
    return await house.node(max_concurrent_jobs=256), await house.session(**wish)


async def said(node: FakeNode, speaker: Speaker, count: int = 1) -> list[dict[str, Any]]:
    """Speak so many utterances and return the node's jobs for them, by index."""
    jobs = []
    for _ in range(count):
        await speaker.say()
        jobs.append(await node.job())
    return jobs


def order(speaker: Speaker) -> list[tuple[str, int]]:
    """List the ends of utterances in the order in which the client got them."""
    ends = {"translation_result", "missing_result"}
    return [
        (message["type"], message["utterance_index"]) for message in speaker.inbox if message["type"] in ends
    ]
