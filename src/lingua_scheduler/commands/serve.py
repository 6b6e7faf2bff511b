"""`lingua serve` and `lingua up`: an instance as a process, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

import msgspec

from lingua_scheduler.app import running
from lingua_scheduler.config import Config
from lingua_scheduler.log import configure
from lingua_scheduler.node.demo import demo_node

_WELCOME = """
Lingua Scheduler is up at {url}
  speak to it:  ./lingua speak FILE.wav --from en --to pt --url {ws}
  stop it:      Ctrl-C
"""


def serve(config: Config) -> int:
    """Run one instance until it is told to stop; return the exit code."""
    return _run(_serve(config))


def up(config: Config) -> int:
    """Run an instance with an in-process demo node until it is told to stop; return the exit code."""
    return _run(_up(config))


def _run(main: Coroutine[Any, Any, int]) -> int:
    import uvloop  # noqa: PLC0415 not there on every platform

    return uvloop.run(main)


async def _serve(config: Config) -> int:
    configure(config.log)
    async with running(config):
        await _told_to_stop()
    return 0


async def _up(config: Config) -> int:
    configure(config.log)
    async with running(_for_one_machine(config)) as instance:
        address = instance.url.replace("http", "ws", 1)
        node = demo_node(address)
        serving = asyncio.create_task(node.run(), name="demo node")
        await node.registered.wait()
        print(_WELCOME.format(url=instance.url, ws=address), flush=True)
        await _told_to_stop()
        await node.drain()
        await serving
    return 0


def _for_one_machine(config: Config) -> Config:
    """Accept a node without a GPU, however busy the machine is that it shares with everything else."""
    replace = msgspec.structs.replace
    return replace(
        config,
        node_health=replace(config.node_health, require_gpu=False),
        nodes=replace(config.nodes, resource_threshold=100, memory_threshold=100),
    )


async def _told_to_stop() -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    await told.wait()
