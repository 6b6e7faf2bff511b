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


async def spoken(frames: Iterable[bytes], frame_s: float, clock: Clock) -> AsyncIterator[bytes]:
    """Give each frame when its last sample would have been spoken."""
    began = clock.now()
    for number, frame in enumerate(frames, start=1):
        await until(clock, began + number * frame_s)
        yield frame


async def hurried(frames: Iterable[bytes], clock: Clock) -> AsyncIterator[bytes]:
    """Give frames as fast as a server takes them from one client."""
    began = clock.now()
    for number, frame in enumerate(frames):
        if number >= _FAST_AT_ONCE:
            await until(clock, began + (number - _FAST_AT_ONCE) / _FAST_FRAMES_PER_S)
        yield frame
