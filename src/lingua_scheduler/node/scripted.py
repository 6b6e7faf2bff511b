"""A node under full control, for tests, benchmarks and chaos: it does what it is told, right or wrong.

By itself it only connects, registers and sends one heartbeat. Everything else is a call: take a job, keep it,
answer it late, twice, wrongly or never, vanish and come back. A rule makes it answer every job at once.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import aiohttp
import msgspec
from aiohttp import WSMsgType

from lingua_scheduler.aio import Tasks
from lingua_scheduler.clock import Clock, SystemClock
from lingua_scheduler.node.announcement import About, announcement
from lingua_scheduler.node.first_generation import FirstGeneration
from lingua_scheduler.node.job import JobFailed, Translation
from lingua_scheduler.node.usage import Usage
from lingua_scheduler.node.wording import Timing, ack_of, heartbeat_of, partial_of, result_of, started_of
from lingua_scheduler.wire.address import NODE_PATH, endpoint
from lingua_scheduler.wire.codec import DEFAULT_OPTIONS, decode_to_node, encode
from lingua_scheduler.wire.machine import Gpu
from lingua_scheduler.wire.node import FromNode, JobAssign, JobResult, NodeRegister, NodeRegisterAck, ToNode

_LARGEST_BYTES = DEFAULT_OPTIONS.client_ceiling_bytes
_REMEMBERED = 10_000
_ABNORMAL = 1006
_HEARTBEAT_S = 15.0
_A_GPU = Gpu(name="scripted", memory_gb=8)

M = TypeVar("M")
Rule = Callable[[JobAssign], Translation | JobFailed | None]


@dataclass(frozen=True, slots=True)
class Script:
    """What a scripted node says of itself, and what it does without being told."""

    node_id: str | None = None
    languages: tuple[str, ...] = ("en", "pt", "zh")
    capacity: int = 4
    services: tuple[str, ...] = ("asr", "nmt", "tts")
    gpu: bool = False
    announces: bool = True  # its capacity, its heartbeat and the features of the newer protocol
    heartbeat_s: float = 15.0  # 0: no heartbeat but those asked for
    acks: bool = True  # acknowledges every job at once
    rule: Rule | None = None  # answers every job; None: only those answers that are asked for
    answer_after_s: float = 0.0  # how long the rule takes
    copies: int = 1  # how often each answer of the rule is sent
    text_jobs: bool = False  # announces that it takes words in place of audio

    @classmethod
    def first_generation(cls, **changes: Any) -> Self:
        """Behave as the nodes in the field: nothing is announced or acknowledged, no job is taken twice."""
        old: dict[str, Any] = {"announces": False, "gpu": True, "acks": False, "rule": FirstGeneration()}
        return cls(**{**old, **changes})

    def register(self) -> NodeRegister:
        """Word the registration."""
        gpus = (_A_GPU,) if self.gpu else ()
        about = About(
            node_id=self.node_id,
            services=self.services,
            version="scripted",
            gpus=gpus,
            text_jobs=self.text_jobs,
        )
        message = announcement(self.languages, self.capacity, about, self.heartbeat_s or _HEARTBEAT_S)
        if self.announces:
            return message
        return msgspec.structs.replace(
            message, max_concurrent_jobs=None, heartbeat_interval_seconds=None, features=None
        )


class ScriptedNode:
    """A node that does what it is told; `async with` connects, registers and leaves."""

    def __init__(self, url: str, script: Script | None = None, *, clock: Clock | None = None) -> None:
        self._url = endpoint(url, NODE_PATH)
        self._script = script or Script()
        self._clock = clock or SystemClock()
        self._http: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse[bool] | None = None
        self._tasks = Tasks()
        self._unread: deque[ToNode] = deque(maxlen=_REMEMBERED)
        self._news = asyncio.Event()
        self.received: deque[ToNode] = deque(maxlen=_REMEMBERED)  # everything heard, over all connections
        self.node_id = self._script.node_id or ""
        self.close_code: int | None = None  # set once a connection has ended

    async def __aenter__(self) -> Self:
        await self.connect()
        await self.register()
        await self.beat()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    # Coming and going

    async def connect(self) -> None:
        """Open a connection without a word."""
        self._http = self._http or aiohttp.ClientSession()
        self._socket = await self._http.ws_connect(self._url, max_msg_size=_LARGEST_BYTES, decode_text=False)
        self.close_code = None
        self._tasks.start(self._read(self._socket), name="scripted node")
        if self._script.heartbeat_s:
            self._tasks.start(self._keep_beating(), name="scripted heartbeat")

    async def register(self, *, wait: bool = True, **members: Any) -> NodeRegisterAck | None:
        """Register, by default as before the last loss; members of `node_register` may be changed."""
        message = msgspec.structs.replace(self._script.register(), node_id=self.node_id or None)
        await self.send(msgspec.structs.replace(message, **members))
        if not wait:
            return None
        ack = await self.expect(NodeRegisterAck)
        self.node_id = ack.node_id
        return ack

    async def crash(self) -> None:
        """Vanish without a word; `connect` and `register` bring the node back."""
        ours = self._socket.get_extra_info("socket") if self._socket else None
        with suppress(OSError):
            if ours is not None:
                with socket.fromfd(ours.fileno(), ours.family, ours.type) as copy:  # as no transport lets us
                    copy.shutdown(socket.SHUT_RDWR)
        await self._forget()

    async def leave(self) -> None:
        """Close the connection in order."""
        if self._socket is not None:
            await self._socket.close()
        await self._forget()

    async def flap(self, times: int) -> None:
        """Vanish and come back so many times."""
        for _ in range(times):
            await self.crash()
            await self.connect()
            await self.register()
            await self.beat()

    # What it says

    async def send(self, message: FromNode) -> None:
        """Send any message."""
        await self.send_raw(encode(message))

    async def send_raw(self, data: bytes) -> None:
        """Send a text frame as it is."""
        if self._socket is None:
            raise ConnectionError("the scripted node is not connected")
        await self._socket.send_frame(data, WSMsgType.TEXT)

    async def beat(self, *, cpu_percent: float = 5.0, mem_percent: float = 20.0, **members: Any) -> None:
        """Send a heartbeat; members of `resource_usage` may be given."""
        usage = Usage(cpu_percent, mem_percent, 5.0 if self._script.gpu else None)
        message = heartbeat_of(
            self._script.register(), self.node_id, usage, running_jobs=0, now_ms=self._clock.wall_ms()
        )
        figures = msgspec.structs.replace(message.resource_usage, **members)
        await self.send(msgspec.structs.replace(message, resource_usage=figures))

    async def ack(self, job: JobAssign, **members: Any) -> None:
        """Acknowledge a job."""
        await self.send(msgspec.structs.replace(ack_of(job, self.node_id), **members))

    async def started(self, job: JobAssign, **members: Any) -> None:
        """Tell that a job is being worked on."""
        await self.send(msgspec.structs.replace(started_of(job, self.node_id), **members))

    async def partial(self, job: JobAssign, text: str, *, final: bool = False, **members: Any) -> None:
        """Tell what was understood so far."""
        message = partial_of(job, self.node_id, text, final=final)
        await self.send(msgspec.structs.replace(message, **members))

    async def answer(
        self, job: JobAssign, outcome: Translation | JobFailed | None = None, **members: Any
    ) -> JobResult:
        """Send a result, by default a good one, with any member changed; return what was sent."""
        said = f"utterance {job.utterance_index}"
        translation = Translation(text_asr=said, text_translated=f"{said} in {job.tgt_lang}")
        timing = Timing(took_ms=1, done_ms=self._clock.wall_ms())
        result = result_of(job, outcome or translation, self.node_id, timing)
        changed = msgspec.structs.replace(result, **members)
        await self.send(changed)
        return changed

    # What it hears

    async def next_job(self, timeout_s: float = 10.0) -> JobAssign:
        """Wait for the next job that was not taken yet."""
        return await self.expect(JobAssign, timeout_s=timeout_s)

    async def expect(self, kind: type[M], *, timeout_s: float = 10.0, **members: Any) -> M:
        """Wait for the first unread message of a type whose members have these values; others stay unread."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    for message in self._unread:
                        if isinstance(message, kind) and _has(message, members):
                            self._unread.remove(message)
                            return message
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            unread = [type(message).__name__ for message in self._unread]
            raise TimeoutError(f"no {kind.__name__} within {timeout_s} s; unread: {unread}") from None

    # Inside

    async def _read(self, socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
        while (frame := await socket.receive()).type in (WSMsgType.TEXT, WSMsgType.BINARY):
            message = decode_to_node(frame.data)
            self.received.append(message)
            if isinstance(message, JobAssign):
                await self._assigned(message)
            self._unread.append(message)
            self._news.set()
        self.close_code = socket.close_code or _ABNORMAL

    async def _assigned(self, job: JobAssign) -> None:
        if self._script.acks:
            await self.ack(job)
        outcome = self._script.rule(job) if self._script.rule else None
        if outcome is None:
            return
        if self._script.answer_after_s:
            self._tasks.start(self._answer_later(job, outcome), name="scripted answer")
        else:
            await self._answer_copies(job, outcome)

    async def _answer_later(self, job: JobAssign, outcome: Translation | JobFailed) -> None:
        await self._wait(self._script.answer_after_s)
        await self._answer_copies(job, outcome)

    async def _answer_copies(self, job: JobAssign, outcome: Translation | JobFailed) -> None:
        with suppress(ConnectionError, aiohttp.ClientError):  # nobody hears it, and it is not kept
            for _ in range(self._script.copies):
                await self.answer(job, outcome)

    async def _keep_beating(self) -> None:
        with suppress(ConnectionError, aiohttp.ClientError):
            while True:
                await self._wait(self._script.heartbeat_s)
                if self.node_id:
                    await self.beat()

    async def _wait(self, seconds: float) -> None:
        over = asyncio.Event()
        alarm = self._clock.call_at(self._clock.now() + seconds, over.set)
        try:
            await over.wait()
        finally:
            alarm.cancel()

    async def _forget(self) -> None:
        self._socket = None
        await self._tasks.stop()
        if self._http is not None:
            await self._http.close()
            self._http = None


def _has(message: object, members: dict[str, Any]) -> bool:
    return all(getattr(message, name) == value for name, value in members.items())
