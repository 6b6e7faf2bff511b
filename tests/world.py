"""A whole instance under test: real sockets and real Redis, time moved by hand, peers that speak plain JSON.

Peers send and read dictionaries, so a test sees exactly what is on the wire.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from lingua_scheduler.app import Instance, running
from lingua_scheduler.clock import VirtualClock
from lingua_scheduler.config import Config
from lingua_scheduler.store.connection import StoreOptions
from lingua_scheduler.store.keys import Keys
from support import wait_until

PATIENCE_S = 5.0
NOISE = 0xFF  # bytes of this do not parse as Opus framing: 60 of them count as 20 ms

FAST = {"segmentation": {"pause_ms": 300, "max_duration_ms": 1000}, "results": {"gap_timeout_ms": 500}}


def configured(store: StoreOptions, **tables: dict[str, Any]) -> Config:
    """Give a configuration for tests: any port, CPU nodes, no short merge; tables override."""
    base: dict[str, dict[str, Any]] = {
        "server": {"port": 0},
        "node_health": {"require_gpu": False},
        "segmentation": {"short_merge_ms": 0},
        "transcript": {"keep_s": 0},
    }
    for table, values in tables.items():
        base[table] = {**base.get(table, {}), **values}
    config = msgspec.convert(base, Config)
    return msgspec.structs.replace(config, redis=store)


class Wire:
    """One WebSocket on which everything received is kept until it is asked for."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.inbox: list[dict[str, Any]] = []
        self._arrived = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for frame in self.socket:
            if frame.type is aiohttp.WSMsgType.TEXT:
                async with self._arrived:
                    self.inbox.append(msgspec.json.decode(frame.data))
                    self._arrived.notify_all()
        async with self._arrived:
            self._arrived.notify_all()

    async def send(self, message_type: str, **fields: Any) -> None:
        """Send one message."""
        await self.socket.send_str(msgspec.json.encode({"type": message_type, **fields}).decode())

    async def send_raw(self, data: str | bytes) -> None:
        """Send a text or binary frame as it is."""
        await (self.socket.send_str(data) if isinstance(data, str) else self.socket.send_bytes(data))

    async def expect(
        self, message_type: str, matching: Callable[[dict[str, Any]], bool] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Take the first message of this type with these members out of the inbox, waiting for it."""

        def found() -> dict[str, Any] | None:
            for message in self.inbox:
                fits = all(message.get(name) == value for name, value in fields.items())
                if message["type"] == message_type and fits and (matching is None or matching(message)):
                    return message
            return None

        async with self._arrived:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    while (message := found()) is None:
                        ended = self._reader.done() or self.socket.closed
                        code = self.socket.close_code
                        assert not ended, f"closed ({code}) before {message_type} {fields}; got {self.inbox}"
                        await self._arrived.wait()
            except TimeoutError:
                raise AssertionError(f"no {message_type} {fields}; got {self.inbox}") from None
            self.inbox.remove(message)
            return message

    def seen(self, message_type: str, **fields: Any) -> list[dict[str, Any]]:
        """Give the messages of a type that are in the inbox now."""
        return [
            message
            for message in self.inbox
            if message["type"] == message_type
            and all(message.get(name) == value for name, value in fields.items())
        ]

    async def closed(self) -> int:
        """Wait until the server has closed the socket; return the code."""
        await asyncio.wait_for(asyncio.shield(self._reader), PATIENCE_S)
        return self.socket.close_code or 0

    async def hang_up(self) -> None:
        """Close the socket without a protocol message."""
        await self.socket.close()
        await self._reader

    def reset(self) -> None:
        """Cut the TCP connection without a goodbye."""
        transport = self.socket.get_extra_info("transport") or self.socket._response.connection.transport
        transport.abort()


class Speaker(Wire):
    """A client on `/ws/session`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        super().__init__(socket)
        self.id = ""
        self.ack: dict[str, Any] = {}
        self._seq = 0

    async def init(self, **wish: Any) -> Speaker:
        """Open a session, zh to en unless said otherwise."""
        basic = {"client_version": "1", "platform": "test", "src_lang": "zh", "tgt_lang": "en"}
        await self.send("session_init", **{**basic, **wish})
        self.ack = await self.expect("session_init_ack")
        self.id = self.ack["session_id"]
        return self

    async def chunk(self, audio: int | bytes = 0, *, final: bool = False, **fields: Any) -> None:
        """Send audio: so many bytes of noise, or these bytes."""
        data = bytes([NOISE]) * audio if isinstance(audio, int) else audio
        message = {"session_id": self.id, "seq": self._seq, "is_final": final}
        message["payload"] = base64.b64encode(data).decode()
        await self.send("audio_chunk", **{**message, **fields})
        self._seq += 1

    async def final(self) -> None:
        """Send the empty final chunk."""
        await self.chunk(final=True)

    async def say(self, audio: int | bytes = 600) -> None:
        """Speak one whole utterance."""
        await self.chunk(audio, final=True)

    async def utterance(self, index: int, audio: bytes = b"\xff" * 600, **fields: Any) -> None:
        """Send a whole utterance in one message."""
        message = {
            "session_id": self.id,
            "utterance_index": index,
            "manual_cut": True,
            "src_lang": "zh",
            "tgt_lang": "en",
            "audio": base64.b64encode(audio).decode(),
            "audio_format": "pcm16",
            "sample_rate": 16000,
        }
        await self.send("utterance", **{**message, **fields})

    async def sync(self) -> None:
        """Return once the server has handled everything sent before."""
        await self.send("client_heartbeat", session_id=self.id, timestamp=1)
        await self.expect("server_heartbeat")


class FakeNode(Wire):
    """A node on `/ws/node` that does only what the test says."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        super().__init__(socket)
        self.id = ""
        self._languages: dict[str, Any] = {}

    async def register(self, *languages: str, **fields: Any) -> FakeNode:
        """Register with all core services ready, for zh and en unless named otherwise."""
        await self.ask_to_register(*languages, **fields)
        self.id = (await self.expect("node_register_ack"))["node_id"]
        return self

    async def ask_to_register(self, *languages: str, **fields: Any) -> None:
        """Send a registration without waiting for the answer; None removes a member."""
        spoken = list(languages or ("zh", "en"))
        self._languages = {
            "asr_languages": spoken,
            "tts_languages": spoken,
            "semantic_languages": spoken,
            "semantic_core_ready": True,
        }
        message = {
            "version": "2.0.0",
            "capability_schema_version": "2.0",
            "platform": "linux",
            "hardware": {"cpu_cores": 8, "memory_gb": 32, "gpus": [{"name": "RTX", "memory_gb": 12}]},
            "installed_models": [],
            "installed_services": SERVICES,
            "capability_by_type": [{"type": kind, "ready": True} for kind in KINDS],
            "features_supported": {},
            "accept_public_jobs": True,
            "language_capabilities": self._languages,
            "features": ["exact_flags", "any_order"],
        }
        members = {**message, **fields}
        await self.send(
            "node_register", **{name: value for name, value in members.items() if value is not None}
        )

    async def beat(self, *, usage: dict[str, Any] | None = None, **fields: Any) -> None:
        """Send a healthy heartbeat; members override."""
        calm = {"cpu_percent": 1.0, "gpu_percent": 1.0, "mem_percent": 1.0, "running_jobs": 0}
        message = {
            "node_id": self.id,
            "timestamp": 1,
            "resource_usage": {**calm, **(usage or {})},
            "installed_services": SERVICES,
            "capability_by_type": [{"type": kind, "ready": True} for kind in KINDS],
        }
        await self.send("node_heartbeat", **{**message, **fields})

    async def job(self, **fields: Any) -> dict[str, Any]:
        """Take the next assignment; its audio is decoded to bytes."""
        job = await self.expect("job_assign", **fields)
        job["audio"] = base64.b64decode(job["audio"])
        return job

    async def answer(
        self, job: dict[str, Any], asr: str = "你好", translated: str = "hello", **fields: Any
    ) -> None:
        """Return a successful result for a job; members override or are added, None removes one."""
        message: dict[str, Any] = {
            "job_id": job["job_id"],
            "attempt_id": job["attempt_id"],
            "node_id": self.id,
            "session_id": job["session_id"],
            "utterance_index": job["utterance_index"],
            "success": True,
            "text_asr": asr,
            "text_translated": translated,
            "trace_id": job["trace_id"],
        }
        message.update(fields)
        await self.send("job_result", **{name: value for name, value in message.items() if value is not None})

    async def sync(self) -> None:
        """Return once the server has handled everything sent before."""
        await self.send_raw("?")
        await self.expect("error", code="INVALID_MESSAGE")

    async def fail(self, job: dict[str, Any], code: str, message: str = "no", **details: Any) -> None:
        """Return a failed result for a job."""
        error: dict[str, Any] = {"code": code, "message": message}
        if details:
            error["details"] = details
        await self.answer(job, success=False, text_asr=None, text_translated=None, error=error)


KINDS = ("asr", "nmt", "tts", "semantic")
SERVICES = [
    {"service_id": f"{kind}-service", "type": kind, "device": "gpu", "status": "running"} for kind in KINDS
]


class World:
    """One running instance and whoever connects to it."""

    def __init__(self, instance: Instance, clock: VirtualClock, http: aiohttp.ClientSession) -> None:
        self.instance = instance
        self.clock = clock
        self._http = http

    async def speaker(self) -> Speaker:
        """Connect a client that has not said anything yet."""
        return Speaker(await self._http.ws_connect(f"{self.instance.url}/ws/session", max_msg_size=0))

    async def session(self, **wish: Any) -> Speaker:
        """Connect a client and open its session."""
        return await (await self.speaker()).init(**wish)

    async def stranger(self) -> FakeNode:
        """Connect a node that has not registered yet."""
        return FakeNode(await self.node_socket())

    async def node_socket(self) -> aiohttp.ClientWebSocketResponse:
        """Open a bare connection for a node."""
        return await self._http.ws_connect(f"{self.instance.url}/ws/node", max_msg_size=0)

    async def node(self, *languages: str, **fields: Any) -> FakeNode:
        """Connect a node that is ready for jobs."""
        node = await (await self.stranger()).register(*languages, **fields)
        await node.beat()
        await node.expect("node_status", status="ready")
        return node

    async def taken(self, *nodes: FakeNode, **fields: Any) -> tuple[FakeNode, dict[str, Any]]:
        """Wait for an assignment to any of these nodes; give the node and its job."""
        await wait_until(
            lambda: any(node.seen("job_assign", **fields) for node in nodes),
            description=f"job_assign {fields}",
        )
        node = next(node for node in nodes if node.seen("job_assign", **fields))
        return node, await node.job(**fields)

    @property
    def keys(self) -> Keys:
        """The keys of this instance's Redis."""
        return Keys(self.instance.config.redis.key_prefix)

    async def redis(self, *command: Any) -> Any:
        """Run one command on the instance's Redis."""
        return await self.instance.stores.connection.call(*command)

    def counted(self, name: str, **labels: str) -> float:
        """Read a counter."""
        return self.instance.metrics.registry.get_sample_value(f"scheduler_{name}", labels) or 0.0

    async def written(self, *nodes: FakeNode) -> None:
        """Return once everything these nodes sent is handled and written."""
        for node in nodes:
            await node.sync()
        links = list(self.instance.node_door._links)
        await wait_until(
            lambda: all(link._writing is None for link in links), description="nodes are written"
        )

    async def reserved(self) -> list[str]:
        """List the slots that are held in Redis now."""
        redis, keys = self.instance.stores.connection, Keys(self.instance.config.redis.key_prefix)
        pools = self.instance.snapshot.pools
        held = [await redis.call("ZRANGE", keys.reserved(pool), 0, -1) for pool in pools]
        return [member.decode() for members in held for member in members]

    async def settled(self, *peers: Speaker | FakeNode) -> None:
        """Return once what these peers sent is handled, written to Redis, and what followed was received."""
        instance = self.instance

        def quiet() -> bool:
            placing = len(instance.dispatch._lanes) - len(instance.dispatch.waiting)
            return not (len(instance.endings._tasks) or placing)

        for peer in peers:
            await peer.sync()
        await wait_until(quiet, description="nothing is being placed or written")
        for peer in peers:
            await peer.sync()

    async def live(self, seconds: float, *nodes: FakeNode) -> None:
        """Let much time pass while these nodes keep beating."""
        while seconds > 0:
            self.clock.advance(min(seconds, 10))
            seconds -= 10
            for node in nodes:
                await node.beat()
                await node.sync()
            links = self.instance.routing._links.values()
            await wait_until(
                lambda links=links: all(link._writing is None for link in links),
                description="beats are written",
            )

    async def forget(self, *speakers: Speaker, nodes: tuple[FakeNode, ...] = ()) -> None:
        """Let the time pass in which clients that left could come back, while these nodes keep beating."""
        sessions = self.instance.sessions

        def left() -> bool:
            return not any(session and session.attached for session in map(sessions.get, ids))

        ids = [speaker.id for speaker in speakers]
        await wait_until(left, description="the server has noticed that its clients left")
        await self.live(self.instance.config.resume.window_s, *nodes)

    async def pass_time(self, seconds: float, *watching: Speaker) -> None:
        """Move the clock once the server has handled what the watching clients sent."""
        for speaker in watching:
            await speaker.sync()
        self.clock.advance(seconds)


@asynccontextmanager
async def world(store: StoreOptions, **tables: dict[str, Any]) -> AsyncIterator[World]:
    """Run an instance on virtual time for as long as the block lasts."""
    clock = VirtualClock()
    unlimited = aiohttp.TCPConnector(limit=0)
    async with (
        running(configured(store, **tables), clock=clock) as instance,
        aiohttp.ClientSession(connector=unlimited) as http,
    ):
        yield World(instance, clock, http)
