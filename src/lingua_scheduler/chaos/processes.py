"""Child processes of a chaos run: started, told things, stopped, frozen and killed by their process id."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from lingua_scheduler.chaos.history import Op, Recorder
from lingua_scheduler.errors import LinguaError

_START_S = 30.0
_POLL_S = 0.05


class ChaosError(LinguaError):
    """The run itself cannot go on; this says nothing about what was tested."""


class Child:
    """One process; its output goes to a file, its own lines about readiness come to us."""

    def __init__(self, name: str, arguments: tuple[str, ...], *, log: Path, recorder: Recorder) -> None:
        self.name = name
        self.log = log
        self._arguments = (sys.executable, *arguments)
        self._recorder = recorder
        self._process: asyncio.subprocess.Process | None = None
        self._told_end = False
        self.frozen = False

    async def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start it; it is not ready yet."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**_clean_environment(), **(environment or {})},
                cwd=self.log.parent,
            )
        self._recorder.note(Op.STARTED, instance=self.name, pid=self._process.pid)

    async def said(self, words: str) -> None:
        """Wait until it has printed a line with these words; ChaosError when it ends or takes too long."""
        if self._process is None or self._process.stdout is None:
            raise ChaosError(f"{self.name} does not run")
        try:
            async with asyncio.timeout(_START_S):
                while line := await self._process.stdout.readline():
                    if words in line.decode(errors="replace"):
                        return
        except TimeoutError:
            pass
        raise ChaosError(f"{self.name} is not ready; see {self.log}")

    @property
    def pid(self) -> int:
        """Its process id; 0 when it has ended."""
        return self._process.pid if self._process is not None and self._process.returncode is None else 0

    @property
    def exit_code(self) -> int | None:
        """What it ended with; None while it runs."""
        return self._process.returncode if self._process is not None else None

    def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        if self.pid and self._process is not None and self._process.stdin is not None:
            with suppress(OSError, RuntimeError):
                self._process.stdin.write(f"{line}\n".encode())

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it lives."""
        if self.pid and self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def freeze(self) -> None:
        """Stop it without its knowing."""
        self.frozen = True
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self.send(signal.SIGCONT)
        self.frozen = False

    async def kill(self) -> None:
        """End it at once."""
        self.send(signal.SIGKILL)
        await self.ended()

    async def stop(self, within_s: float) -> int | None:
        """Ask it to end; kill it when it does not in time. Return its exit code, None when it was killed."""
        self.thaw()
        self.send(signal.SIGTERM)
        try:
            return await asyncio.wait_for(self.ended(), within_s)
        except TimeoutError:
            await self.kill()
            return None

    async def ended(self) -> int:
        """Wait for its end and give its exit code."""
        if self._process is None:
            return 0
        code = await self._process.wait()
        if not self._told_end:
            self._told_end = True
            self._recorder.note(Op.ENDED, instance=self.name, count=code)
        return code

    def measured(self) -> tuple[int, int] | None:
        """Its resident memory in KiB and its open files; None when it has ended."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
            files = len(list(Path(f"/proc/{self.pid}/fd").iterdir()))
        except OSError:
            return None
        line = next((line for line in status.splitlines() if line.startswith("VmRSS:")), "VmRSS: 0 kB")
        return int(line.split()[1]), files


def _clean_environment() -> dict[str, str]:
    """What a child inherits: everything but settings of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LINGUA_")}


async def http_get(port: int, path: str, *, within_s: float = 2.0) -> tuple[int, str] | None:
    """Ask a local server; its status and body, or None when it does not answer in time."""
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                answer = (await reader.read()).decode(errors="replace")
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError):
        return None
    head, _, body = answer.partition("\r\n\r\n")
    words = head.split(maxsplit=2)
    return (int(words[1]), body) if len(words) > 1 and words[1].isdigit() else None


async def until_answers(port: int, path: str, *, within_s: float = _START_S) -> None:
    """Wait until a local server says that all is well; ChaosError when it does not in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while True:
                answer = await http_get(port, path)
                if answer is not None and answer[0] == 200:  # noqa: PLR2004
                    return
                await asyncio.sleep(_POLL_S)
    raise ChaosError(f"nobody answers at port {port}")
