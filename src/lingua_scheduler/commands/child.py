"""One place for a worker: the process that holds it now, and whether it came up."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress

from lingua_scheduler.admin.siblings import Siblings
from lingua_scheduler.commands.worker import READY, packed
from lingua_scheduler.config import Config

_COMMAND = (sys.executable, "-P", "-m", "lingua_scheduler.commands.worker")
_SIGNALLED = 128  # exit codes from here on name a signal, as in a shell


class Child:
    """A worker and its successors, one process at a time.

    Each runs in a session of its own, so that Ctrl-C in the terminal reaches the supervisor only. Its
    standard input stays open as long as the supervisor lives.
    """

    def __init__(self, siblings: Siblings) -> None:
        self.number = siblings.number
        self._arguments = (str(siblings.folder), str(siblings.number), str(siblings.count))
        self.url = ""
        self.code = 0
        self.was_ready = False
        self.retired = False  # its end was asked for, to be replaced
        self._process: asyncio.subprocess.Process | None = None
        self._came_up: asyncio.Future[bool] | None = None
        self._renewal: asyncio.Future[bool] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._killer: asyncio.TimerHandle | None = None
        self._started_at = 0.0
        self.lived_s = 0.0

    @property
    def pid(self) -> int:
        """The process that was started last."""
        return self._process.pid if self._process is not None else 0

    @property
    def epitaph(self) -> str:
        """Say how the last process ended."""
        if self.code > _SIGNALLED:
            return signal.Signals(self.code - _SIGNALLED).name
        return f"exit code {self.code}"

    async def start(self, config: Config) -> None:
        """Start a process; `ready` and `ended` tell how it goes on."""
        loop = asyncio.get_running_loop()
        self.was_ready = self.retired = False
        self.code = 0
        self._started_at = loop.time()
        self._came_up = loop.create_future()
        pipe = asyncio.subprocess.PIPE
        self._process = process = await asyncio.create_subprocess_exec(
            *_COMMAND, *self._arguments, stdin=pipe, stdout=pipe, start_new_session=True
        )
        self._reader = loop.create_task(self._read(process, self._came_up))
        if process.stdin is not None:
            with suppress(ConnectionError):  # it died already
                process.stdin.write(packed(config))
                await process.stdin.drain()

    async def _read(self, process: asyncio.subprocess.Process, came_up: asyncio.Future[bool]) -> None:
        """Read what the process says until its end."""
        if process.stdout is not None:
            async for line in process.stdout:
                if line.startswith(READY) and not came_up.done():
                    self.url = line.removeprefix(READY).decode().strip()
                    came_up.set_result(True)
        if not came_up.done():
            came_up.set_result(False)

    async def ready(self) -> bool:
        """Wait until the process serves; False when it ended before."""
        self.was_ready = self._came_up is not None and await self._came_up
        if self._renewal is not None and not self._renewal.done():
            self._renewal.set_result(self.was_ready)
        return self.was_ready

    async def ended(self) -> None:
        """Wait for the end of the process and keep its exit code."""
        if self._process is None:
            return
        code = await self._process.wait()
        if code == -signal.SIGTERM and not self.was_ready:  # told to stop before it had begun
            code = 0
        self.code = _SIGNALLED - code if code < 0 else code
        self.lived_s = asyncio.get_running_loop().time() - self._started_at
        if self._reader is not None:
            self._reader.cancel()
        if self._killer is not None:
            self._killer.cancel()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it lives."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def renewed(self, *, kill_after_s: float) -> bool:
        """Drain the process and wait until its successor serves; False when that does not come up."""
        loop = asyncio.get_running_loop()
        self._renewal = loop.create_future()
        self._killer = loop.call_later(kill_after_s, self.send, signal.SIGKILL)
        self.retired = True
        self.send(signal.SIGTERM)
        try:
            return await self._renewal
        finally:
            self._renewal = None
