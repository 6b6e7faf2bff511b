"""An instance as a process: it serves until it is told to stop, then drains; its exit code says how it went.

The first SIGTERM or SIGINT drains, the second one stops at once.
"""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable
from typing import Any

from lingua_scheduler.admin.siblings import ALONE, Siblings
from lingua_scheduler.app import Instance, running
from lingua_scheduler.config import Config
from lingua_scheduler.errors import InstanceIdTaken
from lingua_scheduler.log import configure

DRAINED = 0
"""Exit code: everything finished, or moved to another instance."""
CUT_OFF = 3
"""Exit code: the deadline of the drain came before everything had finished."""
STOPPED = 4
"""Exit code: a second signal came before the drain was over."""

_YOUNG_OBJECTS, _YOUNG_ROUNDS, _OLD_ROUNDS = 2_000, 50, 100
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopOrders:
    """Orders to stop: the first is to drain, the second is to stop at once."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()

    def listen(self) -> None:
        """Take SIGTERM and SIGINT as orders from now on."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.give)

    def ignore(self) -> None:
        """Let signals change nothing any more: the work is done, and the exit code is known."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)

    def give(self) -> None:
        """Give the next order."""
        (self.second if self.first.is_set() else self.first).set()

    def forget(self) -> None:
        """Begin anew: the drain was taken back."""
        self.first.clear()
        self.second.clear()


async def serve_until_told(
    config: Config,
    orders: StopOrders,
    on_ready: Callable[[str], None] = lambda _url: None,
    siblings: Siblings = ALONE,
) -> int:
    """Run an instance until it is told to stop; return the exit code."""
    configure(config.log)
    async with running(config, siblings=siblings) as instance:
        _spare_the_collector()
        orders.listen()
        on_ready(instance.url)
        code = await drained(instance, orders)
    orders.ignore()
    return code


def _spare_the_collector() -> None:
    """Leave what lives as long as the process out of every collection, and collect rarely.

    Sessions and jobs are freed as soon as they end; the collector is for the few that hang on each other.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_ROUNDS, _OLD_ROUNDS)


async def drained(instance: Instance, orders: StopOrders) -> int:
    """Wait for the order to stop, then drain; return the exit code. InstanceIdTaken when the id is lost."""
    serving = asyncio.ensure_future(_until_drained(instance, orders))
    replaced = asyncio.ensure_future(instance.company.replaced.wait())
    await _first_of(serving, replaced)
    if serving.cancelled():
        raise InstanceIdTaken(
            f"the instance id {instance.id} belongs to another process now: this one was out of touch for"
            " too long"
        )
    return serving.result()


async def _until_drained(instance: Instance, orders: StopOrders) -> int:
    while True:
        await orders.first.wait()
        instance.drain.start()
        code = await _drain_over(instance, orders)
        if code is not None:
            return code
        orders.forget()


async def _drain_over(instance: Instance, orders: StopOrders) -> int | None:
    """Wait until a drain has come to its end or is cut short; None when it was taken back."""
    over = asyncio.ensure_future(instance.drain.over())
    second = asyncio.ensure_future(orders.second.wait())
    await _first_of(over, second)
    if over.cancelled():
        return STOPPED
    if not over.result():
        return None
    return CUT_OFF if instance.drain.cut_off else DRAINED


async def _first_of(*futures: asyncio.Future[Any]) -> None:
    """Wait until one has come to its end; cancel the others."""
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in futures:
            each.cancel()
        await asyncio.wait(futures)
