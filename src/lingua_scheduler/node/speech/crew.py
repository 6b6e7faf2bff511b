"""The workers of a node: processes that are lent to one job at a time, and replaced when they die."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from lingua_scheduler.aio import Tasks
from lingua_scheduler.clock import Clock
from lingua_scheduler.log import get_logger
from lingua_scheduler.node.speech.calls import (
    HEADER_BYTES,
    AnyCall,
    AnyReply,
    Failed,
    Partial,
    Report,
    Setup,
    decoded_reply,
    framed,
    size_of,
)
from lingua_scheduler.node.speech.errors import (
    EngineError,
    EngineFailed,
    EngineHung,
    ModelMissing,
    WorkerDied,
)
from lingua_scheduler.node.speech.options import SpeechOptions

_log = get_logger(__name__)

_PROGRAM = "lingua_scheduler.node.speech.worker"
_LAST_WORDS_S = 2.0  # time for a worker to end by itself

ReplyT = TypeVar("ReplyT", bound=AnyReply)
TellPartial = Callable[[str], Awaitable[None]]


class Worker:
    """One process with a full set of engines. A call that misses its deadline kills it."""

    def __init__(self, options: SpeechOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._running: asyncio.Task[AnyReply] | None = None
        self.report = Report()

    @property
    def alive(self) -> bool:
        """The process is there."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int | None:
        """The process, for people who look for it."""
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Start the process and let it load and try its engines."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", _PROGRAM),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is for the node, which lets its jobs finish
        )
        setup = Setup(engines={str(name): made for name, made in self._options.all_engines().items()})
        self.report = await self.call(
            setup, Report, service="start", deadline_s=self._options.deadlines.start_s
        )

    async def call(
        self,
        call: AnyCall,
        wanted: type[ReplyT],
        *,
        service: str,
        deadline_s: float,
        tell: TellPartial | None = None,
    ) -> ReplyT:
        """Ask and wait for the reply; EngineError when there is none. A cancelled call goes on to its end."""
        self._running = asyncio.get_running_loop().create_task(
            self._exchange(call, service, deadline_s, tell), name=f"engine call {service}"
        )
        reply = await asyncio.shield(self._running)
        if isinstance(reply, Failed):
            kind = ModelMissing if reply.missing else EngineFailed
            raise kind(reply.service or service, reply.message)
        if not isinstance(reply, wanted):
            raise EngineFailed(service, f"expected {wanted.__name__}, received {type(reply).__name__}")
        return reply

    async def settle(self) -> None:
        """Wait until nothing is being worked on."""
        if self._running is not None:
            await asyncio.wait([self._running])
            if not self._running.cancelled():
                self._running.exception()  # it was told, or nobody waits for it

    def kill(self) -> None:
        """End the process at once."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def stop(self) -> None:
        """End the process, in order if it listens."""
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(_LAST_WORDS_S):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()
        await self.settle()

    async def _exchange(
        self, call: AnyCall, service: str, deadline_s: float, tell: TellPartial | None
    ) -> AnyReply:
        hung = False

        def give_up() -> None:
            nonlocal hung
            hung = True
            self.kill()

        alarm = self._clock.call_at(self._clock.now() + deadline_s, give_up)
        try:
            return await self._conversation(call, tell)
        except (OSError, EOFError):  # the pipe has ended
            if self._process is not None:
                await self._process.wait()
            if hung:
                raise EngineHung(service, deadline_s) from None
            code = self._process.returncode if self._process is not None else None
            raise WorkerDied(service, f"the worker ended with code {code} during {service}") from None
        finally:
            alarm.cancel()

    async def _conversation(self, call: AnyCall, tell: TellPartial | None) -> AnyReply:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise EOFError
        process.stdin.write(framed(call))
        await process.stdin.drain()
        while True:
            size = size_of(await process.stdout.readexactly(HEADER_BYTES))
            reply = decoded_reply(await process.stdout.readexactly(size))
            if not isinstance(reply, Partial):
                return reply
            if tell is not None:
                await tell(reply.text)


class Crew:
    """All workers of a node."""

    def __init__(self, options: SpeechOptions, clock: Clock) -> None:
        self._workers = [Worker(options, clock) for _ in range(options.workers)]
        self._free: asyncio.Queue[Worker] = asyncio.Queue()
        self._tasks = Tasks()
        self._stopping = False

    @property
    def workers(self) -> tuple[Worker, ...]:
        """All of them."""
        return tuple(self._workers)

    async def start(self) -> Report:
        """Start all workers, the first alone: it may put weights together that all use. Give its report."""
        first, *others = self._workers
        await first.start()
        await asyncio.gather(*(worker.start() for worker in others))
        for worker in self._workers:
            self._free.put_nowait(worker)
        return first.report

    async def stop(self) -> None:
        """End every worker; calls that run fail."""
        self._stopping = True
        await self._tasks.stop()
        await asyncio.gather(*(worker.stop() for worker in self._workers))

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[Worker]:
        """Lend a worker to a job, when one is free; it must not be used afterwards."""
        worker = await self._free.get()
        try:
            if not worker.alive:  # its last start failed
                await self._restarted(worker)
            yield worker
        finally:
            if not self._stopping:
                self._tasks.start(self._returned(worker), name="worker returned")

    async def _restarted(self, worker: Worker) -> None:
        try:
            await worker.start()
        except (EngineError, OSError) as error:
            raise ModelMissing("asr", f"the engines could not be started: {error}") from error

    async def _returned(self, worker: Worker) -> None:
        """Take a worker back when it has really finished; one that died is replaced."""
        await worker.settle()
        if not worker.alive:
            _log.warning("worker_replaced", pid=worker.pid)
            try:
                await worker.start()
            except (EngineError, OSError) as error:
                _log.error("worker_not_started", error=type(error).__name__)
                worker.kill()
        self._free.put_nowait(worker)
