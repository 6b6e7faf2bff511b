"""Waiting for a moment of an injected clock, and sending frames no faster than they were spoken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

from lingua_scheduler.clock import Clock

_FAST_AT_ONCE = 300  # frames; together with the rate well within what a server lets a client send
_FAST_FRAMES_PER_S = 50


async def until(clock: Clock, when: float) -> None:
    """Wait until the clock has reached a moment."""
    if clock.now() >= when:
        return
    reached = asyncio.Event()
    handle = clock.call_at(when, reached.set)
    try:
        await reached.wait()
    finally:
        handle.cancel()


class Burst:
    """Lets many messages through at once and then only as many as a server takes from one client."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.now()
        self._number = 0

    async def wait(self) -> None:
        """Return when the next message may go."""
        too_many = self._number - _FAST_AT_ONCE
        self._number += 1
        if too_many >= 0:
            await until(self._clock, self._began + too_many / _FAST_FRAMES_PER_S)


async def spoken(frames: Iterable[bytes], frame_s: float, clock: Clock) -> AsyncIterator[bytes]:
    """Give each frame when its last sample would have been spoken."""
    began = clock.now()
    for number, frame in enumerate(frames, start=1):
        await until(clock, began + number * frame_s)
        yield frame


async def hurried(frames: Iterable[bytes], clock: Clock) -> AsyncIterator[bytes]:
    """Give frames as fast as a server takes them from one client."""
    burst = Burst(clock)
    for frame in frames:
        await burst.wait()
        yield frame
