"""Processes that share one port, asked one by one: whichever is reached fetches the metrics of another.

The system hands each connection to any of them, so a scraper cannot choose. Each one also listens on a Unix
socket in a folder that only their supervisor's user can open, and writes its metrics to whoever connects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ANSWER_S: Final = 5.0
_LONGEST_PATH: Final = 100  # bytes; systems allow little more


@dataclass(frozen=True, slots=True)
class Siblings:
    """Which of how many processes this one is, counted from 1, and where each of them can be asked."""

    folder: Path
    number: int
    count: int

    def socket(self, number: int) -> Path:
        """Name the socket of one of them."""
        return self.folder / f"{number}.sock"

    @property
    def usable(self) -> bool:
        """Whether the system can have a socket there."""
        return len(bytes(self.socket(self.count))) < _LONGEST_PATH


ALONE: Final = Siblings(Path(), 1, 1)
"""A process that shares its port with no other."""


class SiblingMetrics:
    """Gives this process's metrics to its siblings, and theirs to whoever asks this one."""

    def __init__(self, siblings: Siblings, render: Callable[[], bytes]) -> None:
        self.siblings = siblings
        self._render = render
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Let the siblings ask."""
        if self.siblings.count == 1 or not self.siblings.usable:
            return
        path = self.siblings.socket(self.siblings.number)
        path.unlink(missing_ok=True)  # of a process that died
        self._server = await asyncio.start_unix_server(self._tell, path)

    async def stop(self) -> None:
        """Let nobody ask any more."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        self.siblings.socket(self.siblings.number).unlink(missing_ok=True)

    async def of(self, number: int) -> bytes | None:
        """Give the metrics of one process; None when it does not answer."""
        if number == self.siblings.number:
            return await asyncio.to_thread(self._render)
        try:
            async with asyncio.timeout(_ANSWER_S):
                reader, writer = await asyncio.open_unix_connection(self.siblings.socket(number))
                try:
                    return await reader.read() or None
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return None

    async def _tell(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_ANSWER_S):
                writer.write(await asyncio.to_thread(self._render))
                await writer.drain()
        writer.close()
