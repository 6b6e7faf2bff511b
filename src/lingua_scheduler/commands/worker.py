"""One of the processes of `lingua serve --workers`: an instance that lives no longer than its supervisor.

Its arguments say where its siblings listen, which of them it is and how many there are. Its standard input is
a lifeline: the first line is the configuration, so that no secret of it can be seen from outside; the end of
input means that the supervisor is gone, and that is an order to drain. On standard output it says when it is
ready.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from lingua_scheduler.admin.siblings import Siblings
from lingua_scheduler.commands.instance import StopOrders, serve_until_told
from lingua_scheduler.config import Config
from lingua_scheduler.errors import ConfigError, LinguaError

READY = b"ready "
"""What the line begins with that names the address of an instance which serves."""

_LIFELINE, _REPORTS = 0, 1
_FAILED, _REFUSED = 1, 2


def packed(config: Config) -> bytes:
    """Write a configuration as one line for a worker."""
    return msgspec.json.encode(config, enc_hook=str) + b"\n"


def unpacked(line: bytes) -> Config:
    """Read what `packed` wrote."""
    return msgspec.json.decode(line, type=Config, dec_hook=lambda kind, text: kind(text))


async def _work(config: Config, siblings: Siblings) -> int:
    orders = StopOrders()
    orders.listen()
    loop = asyncio.get_running_loop()

    def supervisor_gone() -> None:
        if not os.read(_LIFELINE, 1024):
            loop.remove_reader(_LIFELINE)
            orders.first.set()

    loop.add_reader(_LIFELINE, supervisor_gone)
    return await serve_until_told(config, orders, _report, siblings)


def _report(url: str) -> None:
    with suppress(OSError):
        os.write(_REPORTS, READY + url.encode() + b"\n")


def main() -> int:
    """Run one instance as its supervisor says; return the exit code."""
    import uvloop  # noqa: PLC0415 not there on every platform

    try:
        folder, number, count = sys.argv[1:]
        siblings = Siblings(Path(folder), int(number), int(count))
        return uvloop.run(_work(unpacked(sys.stdin.buffer.readline()), siblings))
    except LinguaError as failure:
        print(f"lingua: {failure}", file=sys.stderr)
        return _REFUSED if isinstance(failure, ConfigError) else _FAILED


if __name__ == "__main__":
    sys.exit(main())
