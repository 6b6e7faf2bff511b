"""An edge under test, the recording flow behind it, and a client that speaks in raw bytes."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any, Self

from edge.frames import CLOSE, PING, PONG, TEXT, frame
from lingua_scheduler.aio import Alarms
from lingua_scheduler.clock import Clock, SystemClock
from lingua_scheduler.edge.limits import NodeSocketOptions, SocketOptions
from lingua_scheduler.edge.server import Edge, EdgeOptions
from lingua_scheduler.edge.surroundings import Surroundings
from lingua_scheduler.edge.writer import Sink
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.wire.close import CloseCode
from support import wait_until

KEY = base64.b64encode(b"0123456789abcdef").decode()
HEARTBEAT = {"type": "client_heartbeat", "session_id": "s-1", "timestamp": 1}


class RecordingPeer:
    """Writes down what it hears."""

    def __init__(self, sink: Sink, remote: str) -> None:
        self.sink = sink
        self.remote = remote
        self.binary_audio = False
        self.messages: list[Any] = []
        self.lost_count = 0
        self.raises: BaseException | None = None

    def received(self, message: Any) -> None:
        """Write it down; fail if told to."""
        self.messages.append(message)
        if self.raises is not None:
            raise self.raises

    def lost(self) -> None:
        """Count it."""
        self.lost_count += 1


class RecordingDoor:
    """Keeps every peer it made."""

    def __init__(self) -> None:
        self.peers: list[RecordingPeer] = []
        self.raises: Exception | None = None

    def open(self, sink: Sink, *, remote: str) -> RecordingPeer:
        """Make a peer; fail if told to."""
        if self.raises is not None:
            raise self.raises
        self.peers.append(RecordingPeer(sink, remote))
        return self.peers[-1]


class RawClient:
    """A TCP connection to the edge."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)

    async def response(self) -> tuple[int, str]:
        """Read the head of an HTTP response: its status and all of it."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        return int(head.split()[1]), head

    async def upgrade(self, path: str = "/ws/session", *, then: bytes = b"", **headers: str | None) -> int:
        """Ask for an upgrade and give the status of the answer."""
        self.ask(path, then=then, **headers)
        status, self.head = await self.response()
        return status

    def ask(self, path: str = "/ws/session", *, then: bytes = b"", **headers: str | None) -> None:
        """Ask for an upgrade; an underscore in a header's name stands for a hyphen, None leaves it out."""
        wanted: dict[str, str | None] = {
            "Host": "localhost",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": KEY,
        }
        wanted |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{name}: {value}\r\n" for name, value in wanted.items() if value is not None]
        self.send(f"GET {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode() + then)

    async def frame(self) -> tuple[int, bytes]:
        """Read one frame of the server."""
        first, length = await self.reader.readexactly(2)
        if length >= 126:
            length = int.from_bytes(await self.reader.readexactly(2 if length == 126 else 8), "big")
        return first & 0x0F, await self.reader.readexactly(length)

    async def message(self) -> dict[str, Any]:
        """Read one message, whatever pings come before it."""
        while True:
            opcode, payload = await self.frame()
            if opcode == TEXT:
                return json.loads(payload)
            assert opcode in (PING, PONG)

    async def close_code(self) -> int:
        """Read until the server says goodbye."""
        while True:
            opcode, payload = await self.frame()
            if opcode == CLOSE:
                return int.from_bytes(payload[:2], "big")

    async def is_open(self) -> bool:
        """Ping, and see whether the answer comes."""
        self.send(frame(PING, b"there?"))
        while True:
            opcode, payload = await self.frame()
            if opcode == PONG and payload == b"there?":
                return True
            if opcode == CLOSE:
                return False

    async def at_end(self) -> bool:
        """Wait until the server has ended the TCP connection, by whatever means."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass
        return True

    def end(self) -> None:
        """Reset the connection."""
        self.writer.transport.abort()


class World:
    """An edge that is listening, what reached the flow behind it, and clients to reach it with."""

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        clients: dict[str, Any] | None = None,
        nodes: dict[str, Any] | None = None,
        routes: list[Any] | None = None,
        before_answers: Any = None,
        **options: Any,
    ) -> None:
        self.sessions = RecordingDoor()
        self.nodes = RecordingDoor()
        self.metrics = Metrics()
        self.alarms = Alarms(clock or SystemClock())
        self.edge = Edge(
            EdgeOptions(
                clients=SocketOptions(**clients or {}),
                nodes=NodeSocketOptions(**nodes or {}),
                **{"port": 0} | options,
            ),
            Surroundings(clock or SystemClock(), self.alarms, self.metrics),
            sessions=self.sessions,
            nodes=self.nodes,
        )
        self.edge.add_routes(routes or [])
        if before_answers is not None:
            self.edge._app.on_response_prepare.append(before_answers)
        self._clients: list[RawClient] = []

    async def __aenter__(self) -> Self:
        await self.edge.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            client.end()
        await wait_until(lambda: not self.edge.connections, description="no connection is left")
        await self.edge.stop()
        assert not len(self.alarms), "no alarm outlives its connection"
        for peer in self.sessions.peers + self.nodes.peers:
            assert peer.lost_count == 1, "every peer is told exactly once"

    @property
    def url(self) -> str:
        """Where the edge is found."""
        host, port = self.edge.address
        return f"http://{host}:{port}"

    async def raw(self, **kwargs: Any) -> RawClient:
        """Open a TCP connection."""
        client = RawClient(*await asyncio.open_connection(*self.edge.address, **kwargs))
        self._clients.append(client)
        return client

    async def client(self, path: str = "/ws/session", **headers: str) -> RawClient:
        """Open a WebSocket."""
        client = await self.raw()
        assert await client.upgrade(path, **headers) == 101
        return client

    async def closed_with(self, *frames: bytes, path: str = "/ws/session") -> CloseCode:
        """Send frames on a new socket and give the code it is closed with; the server lives on."""
        bystander = await self.client()
        offender = await self.client(path)
        offender.send(b"".join(frames))
        code = CloseCode(await offender.close_code())
        assert await bystander.is_open()
        bystander.end()
        return code

    def refused(self, kind: str) -> float:
        """How many refusals of a kind were counted."""
        labels = {"kind": kind}
        return self.metrics.registry.get_sample_value("scheduler_bad_input_total", labels) or 0.0
