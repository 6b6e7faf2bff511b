"""Processes of a measurement: instances, and those that make load; nothing shares their event loops."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from lingua_scheduler.errors import LinguaError

_START_S = 30.0
_STOP_S = 35.0
_CALM = {
    "LINGUA_NODE_HEALTH__REQUIRE_GPU": "false",
    "LINGUA_NODES__RESOURCE_THRESHOLD": "100",
    "LINGUA_NODES__MEMORY_THRESHOLD": "100",
    "LINGUA_LOG__FORMAT": "json",
}
_CRASHES = (b"task_crashed", b"Traceback (most recent call last)", b"message_failed")
_KEPT_LINES = 20
_LINE_BYTES = 1 << 20


class BenchError(LinguaError):
    """The measurement could not be made."""


@dataclass(slots=True)
class Running:
    """An instance that runs."""

    url: str  # of its WebSockets
    pid: int
    crashes: list[str] = field(default_factory=list)  # lines of its log that tell of an unforeseen error
    exit_code: int | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rpartition(":")[2])


@asynccontextmanager
async def instance(
    redis_url: str,
    instance_id: str,
    environment: Mapping[str, str] | None = None,
    *,
    cores: frozenset[int] | None = None,
) -> AsyncIterator[Running]:
    """Run an instance for the length of a block, on these processors if any are named."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("LINGUA_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "lingua_scheduler.cli", "serve", "--port", "0"),
        *("--redis-url", redis_url, "--instance-id", instance_id),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**inherited, **_CALM, **(environment or {})},
        limit=_LINE_BYTES,
    )
    pin(process.pid, cores)
    reading: asyncio.Task[None] | None = None
    running = Running("", process.pid)
    try:
        running.url = await _address(process)
        pin(process.pid, cores)
        reading = asyncio.create_task(_read_away(process, running))
        yield running
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()
        running.exit_code = process.returncode
        if reading is not None:
            await reading


class Loader:
    """A process that makes load: a module of this package that obeys short orders."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    @classmethod
    @asynccontextmanager
    async def started(
        cls, module: str, settings: Path, *, cores: frozenset[int] | None = None
    ) -> AsyncIterator[Loader]:
        """Run it for the length of a block."""
        log = settings.with_suffix(".err")
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", f"{__package__}.{module}", str(settings)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
            )
        pin(process.pid, cores)
        try:
            yield cls(process, log)
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def tell(self, order: str) -> None:
        """Give it an order."""
        if self._process.stdin is not None:
            self._process.stdin.write(f"{order}\n".encode())

    async def said(self, word: str, *, within_s: float = _START_S) -> None:
        """Wait until it has said this; BenchError when it ends or takes too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self._process.stdout is not None and (line := await self._process.stdout.readline()):
                    if line.strip().decode() == word:
                        return
        tail = self._log.read_text(errors="replace")[-800:]
        raise BenchError(f"a process that makes load did not say {word}: {tail or 'nothing'}")


def pin(pid: int, cores: frozenset[int] | None) -> None:
    """Let all threads of a process run on these processors only; None leaves it as it is."""
    if cores is None:
        return
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), cores)


async def _address(process: asyncio.subprocess.Process) -> str:
    if process.stderr is None:
        raise BenchError("the instance's output cannot be read")
    seen = b""
    try:
        async with asyncio.timeout(_START_S):
            while line := await process.stderr.readline():
                seen += line
                if b"edge_listening" in line:
                    return f"ws://127.0.0.1:{msgspec.json.decode(line)['port']}"
    except TimeoutError:
        pass
    raise BenchError(f"an instance did not start: {seen[-500:].decode(errors='replace')}")


async def _read_away(process: asyncio.subprocess.Process, running: Running) -> None:
    while process.stderr is not None and (line := await process.stderr.readline()):
        if any(sign in line for sign in _CRASHES) and len(running.crashes) < _KEPT_LINES:
            running.crashes.append(line[:300].decode(errors="replace").strip())
