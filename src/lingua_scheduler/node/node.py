"""A node as a program: runs the handlers, comes back after every loss, leaves in order."""

from __future__ import annotations

import asyncio
import functools
import signal
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import aiohttp

from lingua_scheduler.clock import Clock, Handle, SystemClock
from lingua_scheduler.errors import LinguaError
from lingua_scheduler.log import get_logger
from lingua_scheduler.node.announcement import About, announcement
from lingua_scheduler.node.answers import Key
from lingua_scheduler.node.backoff import Backoff
from lingua_scheduler.node.events import Abort, Begin, Event, Leave, Refused, Registered, Settled, Stalled
from lingua_scheduler.node.job import FAILED, Handler, Job, JobFailed, Translation
from lingua_scheduler.node.options import LinkOptions
from lingua_scheduler.node.protocol import LinkState, NodeProtocol
from lingua_scheduler.node.trace import JobTrace
from lingua_scheduler.node.uplink import NodeGaveUp, Uplink
from lingua_scheduler.node.usage import Machine
from lingua_scheduler.tracing.spans import Tracer
from lingua_scheduler.wire.address import NODE_PATH, endpoint
from lingua_scheduler.wire.close import CloseCode, reconnects
from lingua_scheduler.wire.common import plain_code
from lingua_scheduler.wire.machine import LanguageCapabilities
from lingua_scheduler.wire.node import JobAssign

_log = get_logger(__name__)

DEFAULT_URL = "ws://127.0.0.1:5010"
_LAST_WORK_S = 5.0  # time for cancelled handlers to end
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Node:
    """A machine that executes jobs; `run` serves until the node is asked to leave."""

    def __init__(
        self,
        *,
        handler: Handler,
        languages: Iterable[str] | LanguageCapabilities,
        capacity: int = 4,
        url: str = DEFAULT_URL,
        about: About | None = None,
        options: LinkOptions | None = None,
        clock: Clock | None = None,
    ) -> None:
        about, options, clock = about or About(), options or LinkOptions(), clock or SystemClock()
        self._handler = handler
        self._clock = clock
        self._options = options
        self._protocol = NodeProtocol(
            announcement(languages, capacity, about, options.heartbeat_s),
            options,
            clock=clock,
            usage=about.usage or Machine().usage,
        )
        address = endpoint(url, NODE_PATH)
        self._uplink = Uplink(address, self._protocol, self._act, options=options, clock=clock)
        self._backoff = Backoff(options.reconnect_min_s, options.reconnect_max_s)
        self._working: dict[Key, asyncio.Task[Translation | JobFailed]] = {}
        self._go_on = asyncio.Event()  # ends a pause between connections
        self._overdue: Handle | None = None  # ends a drain that takes too long
        self._done = False
        self._failure: LinguaError | None = None
        self._ended = asyncio.Event()
        self.tracer: Tracer | None = None  # shows what the node does in the scheduler's traces
        self.registered = asyncio.Event()  # set while the scheduler knows the node

    @property
    def node_id(self) -> str | None:
        """The id it is registered with; None before the first registration unless one was given."""
        return self._protocol.node_id

    @property
    def running_jobs(self) -> int:
        """How many handlers run."""
        return len(self._protocol.work)

    async def run(self) -> None:
        """Serve until asked to leave; NodeRefused or NodeGaveUp when the scheduler does not want the node."""
        try:
            with self._signals():
                async with aiohttp.ClientSession() as http:
                    while not self._done:
                        await self._serve(http)
        finally:
            if self._overdue is not None:
                self._overdue.cancel()
            await self._give_up_work()
            self._ended.set()
        if self._failure is not None:
            raise self._failure

    async def drain(self) -> None:
        """Take no new jobs, finish those that run while there is time, deliver them, then end `run`."""
        self._leave()
        await self._ended.wait()

    def stop(self) -> None:
        """End `run` now; jobs that run are given up, and the scheduler sees it at once."""
        self._done = True
        self._go_on.set()
        self._uplink.hang_up()

    # Connections

    async def _serve(self, http: aiohttp.ClientSession) -> None:
        """Hold one connection, then pause as its end demands."""
        try:
            code = await self._uplink.serve(http)
        except NodeGaveUp as failure:
            self._fail(failure)
            return
        self.registered.clear()
        self._leave_if_settled()
        if self._done:
            return
        if not reconnects(code):
            self._fail(NodeGaveUp(f"the scheduler closed the connection for good, with code {code}"))
            return
        if code == CloseCode.REPLACED:
            self._backoff.stretch()  # whoever has this id now would lose it in turn
        pause_s = self._backoff.pause_s()
        _log.info("node_disconnected", node=self.node_id, code=code, pause_s=round(pause_s, 2))
        await self._pause(pause_s)

    async def _pause(self, pause_s: float) -> None:
        self._go_on.clear()
        alarm = self._clock.call_at(self._clock.now() + pause_s, self._go_on.set)
        try:
            await self._go_on.wait()
        finally:
            alarm.cancel()

    # What the protocol asks for

    def _act(self, event: Event) -> None:
        match event:
            case Begin():
                self._begin(event.assign)
            case Abort():
                self._working[event.key].cancel()
            case Registered():
                self._backoff.reset()
                self.registered.set()
                _log.info("node_registered", node=self.node_id)
            case Refused():
                self._fail(event.error)
            case Stalled():
                self._uplink.hang_up()
            case Leave():
                self._leave()
            case Settled():
                self.stop()

    def _begin(self, assign: JobAssign) -> None:
        key = assign.job_id, assign.attempt_id
        working = asyncio.get_running_loop().create_task(self._work(key, assign), name=f"job {assign.job_id}")
        self._working[key] = working
        working.add_done_callback(functools.partial(self._worked, key))

    async def _work(self, key: Key, assign: JobAssign) -> Translation | JobFailed:
        self._protocol.started(key)
        self._uplink.stir()
        trace = JobTrace.of(self.tracer, assign, self.node_id, self._clock)
        outcome: Translation | JobFailed = JobFailed(FAILED, "the job was given up")
        try:
            outcome = await self._handled(
                Job(assign, functools.partial(self._tell_partial, key), trace), _names(assign)
            )
        finally:
            if trace is not None:
                trace.end(outcome if isinstance(outcome, JobFailed) else None)
        return outcome

    async def _handled(self, job: Job, names: dict[str, str]) -> Translation | JobFailed:
        try:
            said: object = await self._handler(job)
            if isinstance(said, Translation):
                _log.debug("job_done", **names)
                return said
            _log.error("handler_failed", error=f"gave a {type(said).__name__}", **names)
        except JobFailed as failure:
            _log.info("job_failed", code=plain_code(failure.code), **names)
            return failure
        except Exception as error:  # noqa: BLE001 whatever a handler does, its node lives on
            # The message of a foreign error may quote what was said.
            _log.error("handler_failed", error=type(error).__name__, where=_place(error), **names)
        return JobFailed(FAILED, "the node could not process the job")

    def _worked(self, key: Key, working: asyncio.Task[Translation | JobFailed]) -> None:
        del self._working[key]
        outcome = JobFailed(FAILED, "the job was given up") if working.cancelled() else working.result()
        self._protocol.finished(key, outcome)
        self._leave_if_settled()
        self._uplink.stir()

    def _tell_partial(self, key: Key, text: str, final: bool) -> None:  # noqa: FBT001
        self._protocol.partial(key, text, final=final)
        self._uplink.stir()

    # The end

    def _leave(self) -> None:
        if self._overdue is None:
            _log.info("node_drains", node=self.node_id, running=self.running_jobs)
            self._overdue = self._clock.call_at(self._clock.now() + self._options.drain_s, self.stop)
            self._protocol.leave()
            self._leave_if_settled()
            self._uplink.stir()

    def _leave_if_settled(self) -> None:
        """End a node that leaves, has nothing to deliver and no connection to close in order."""
        if self._overdue is not None and self._protocol.state is LinkState.CLOSED and self._protocol.settled:
            self.stop()

    def _fail(self, failure: LinguaError) -> None:
        self._failure = failure
        self.stop()

    async def _give_up_work(self) -> None:
        for working in self._working.values():
            working.cancel()
        if self._working:
            await asyncio.wait(self._working.values(), timeout=_LAST_WORK_S)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Drain on the first signal, stop on the second."""
        loop, caught = asyncio.get_running_loop(), []
        if self._options.handle_signals:
            for number in _SIGNALS:
                with suppress(
                    NotImplementedError, RuntimeError, ValueError
                ):  # Windows, or not the main thread
                    loop.add_signal_handler(number, self._signalled)
                    caught.append(number)
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)

    def _signalled(self) -> None:
        if self._overdue is None:
            self._leave()
        else:
            self.stop()


def _names(assign: JobAssign) -> dict[str, str]:
    """What every log line about a job carries."""
    return {"session": assign.session_id, "job": assign.job_id, "trace_id": assign.trace_id}


def _place(error: Exception) -> str:
    """Name the line that failed."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
