"""Commands of ours as processes of their own, and what tests ask of them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

START_S = 30.0
LINGUA = (sys.executable, "-m", "lingua_scheduler.cli")


class Command:
    """A running command; what it prints is kept."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._changed = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())

    @property
    def pid(self) -> int:
        """The process."""
        return self.process.pid

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            async with self._changed:
                self.lines.append(line.decode())
                self._changed.notify_all()
        async with self._changed:
            self._changed.notify_all()

    def count(self, words: str) -> int:
        """Count the lines that have these words."""
        return sum(words in line for line in self.lines)

    async def says(self, words: str, *, times: int = 1) -> str:
        """Wait until so many lines have these words; give the last of them."""
        try:
            async with self._changed, asyncio.timeout(START_S):
                while self.count(words) < times:
                    assert not self._reader.done(), f"ended before {words!r}:\n{''.join(self.lines)}"
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"no {words!r} in:\n{''.join(self.lines)}") from None
        return [line for line in self.lines if words in line][times - 1]

    async def url(self) -> str:
        """Wait until an instance listens; give its address."""
        line = await self.says("instance_started")
        return "http://" + line.split("http://")[1].split('"')[0].split()[0]

    def tell(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    async def ended(self) -> int:
        """Wait for its end; give the exit code."""
        code = await asyncio.wait_for(self.process.wait(), START_S)
        await asyncio.wait((self._reader,), timeout=START_S)
        return code

    async def end(self) -> None:
        """Make sure that it is gone, and whoever shares its output."""
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        await asyncio.wait_for(self._reader, START_S)


@asynccontextmanager
async def lingua(*arguments: str, **environment: str) -> AsyncIterator[Command]:
    """Run a command of ours; it must not outlive the block."""
    process = await asyncio.create_subprocess_exec(
        *LINGUA,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "LINGUA_NODE_HEALTH__REQUIRE_GPU": "false", **environment},
    )
    command = Command(process)
    try:
        yield command
    finally:
        await command.end()
