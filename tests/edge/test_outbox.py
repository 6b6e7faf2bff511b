"""The outbox: one callback for all that was posted in a tick, and nobody's fault is another's."""

from __future__ import annotations

import asyncio

from lingua_scheduler.edge.outbox import Outbox


class Counted:
    """An outlet that counts."""

    def __init__(self) -> None:
        self.flushes = 0

    def flush(self) -> None:
        self.flushes += 1


class Broken:
    """An outlet that cannot send."""

    def flush(self) -> None:
        raise RuntimeError("broken")


async def test_everyone_is_flushed_once_when_the_tick_ends():
    outbox, one, other = Outbox(), Counted(), Counted()
    outbox.add(one)
    outbox.add(other)
    assert (one.flushes, other.flushes) == (0, 0)
    await asyncio.sleep(0)
    assert (one.flushes, other.flushes) == (1, 1)
    outbox.add(one)
    await asyncio.sleep(0)
    assert (one.flushes, other.flushes) == (2, 1)


async def test_who_speaks_while_others_are_flushed_is_flushed_in_the_next_tick():
    outbox, late = Outbox(), Counted()

    class Eager(Counted):
        def flush(self) -> None:
            super().flush()
            outbox.add(late)

    eager = Eager()
    outbox.add(eager)
    await asyncio.sleep(0)
    assert (eager.flushes, late.flushes) == (1, 0)
    await asyncio.sleep(0)
    assert (eager.flushes, late.flushes) == (1, 1)


async def test_one_that_fails_does_not_silence_the_others():
    outbox, one = Outbox(), Counted()
    outbox.add(Broken())
    outbox.add(one)
    await asyncio.sleep(0)
    assert one.flushes == 1
