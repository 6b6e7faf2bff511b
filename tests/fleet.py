"""Instances as processes on one Redis or on a cluster, and whoever connects to them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.store.connection import Connection, StoreOptions
from lingua_scheduler.store.keys import Keys
from processes import Command, lingua
from support import leaks, wait_until
from world import FakeNode, Speaker

RESUMES = {"supports_resume": True}

QUICK = {
    "LINGUA_COMPANY__PRESENCE_TTL_S": "2",
    "LINGUA_PEERS__LOOK_MS": "200",
    "LINGUA_PEERS__SETTLE_MS": "700",
    "LINGUA_PEERS__RETAKE_MS": "200",
    "LINGUA_SEGMENTATION__SHORT_MERGE_MS": "0",
    "LINGUA_TRANSCRIPT__KEEP_S": "0",
}
"""Settings of instances that miss each other soon, but not before the next beat (0.5 s)."""

_TROUBLE = ("CROSSSLOT", "MOVED", "ASK ", "non local key", "undeclared key", "Traceback", "Task exception")


@dataclass(frozen=True)
class Ground:
    """A Redis under instances: every server that holds keys, and how to reach them under one prefix."""

    options: StoreOptions
    servers: list[EmbeddedRedis]

    @property
    def keys(self) -> Keys:
        """The catalogue under the prefix."""
        return Keys(self.options.key_prefix)

    @property
    def environment(self) -> dict[str, str]:
        """Lead a process here."""
        return {
            "LINGUA_REDIS__URL": self.options.url,
            "LINGUA_REDIS__MODE": self.options.mode,
            "LINGUA_REDIS__KEY_PREFIX": self.options.key_prefix,
        }

    def all_keys(self, pattern: str = "*") -> list[str]:
        """Name every key that is there, under any prefix."""
        found = []
        for server in self.servers:
            with server.client() as client:
                found += [key.decode() for key in client.scan_iter(pattern, count=1000)]
        return found


@contextmanager
def ground(servers: list[EmbeddedRedis], **where: Any) -> Iterator[Ground]:
    """Give these servers under a prefix of its own; afterwards no key may stay for ever."""
    made = Ground(StoreOptions(**where, key_prefix=f"test-{secrets.token_hex(4)}"), servers)
    yield made
    left = []
    for server in servers:
        with server.client() as client:
            left += leaks(client, made.keys)
            client.flushall()
    assert not left, "keys left behind:\n" + "\n".join(left)


@dataclass(frozen=True)
class Member:
    """One instance of a fleet."""

    id: str
    command: Command
    url: str

    def tell(self, number: int) -> None:
        """Send a signal."""
        self.command.tell(number)


class Fleet:
    """Instances that share a Redis."""

    def __init__(self, place: Ground, http: aiohttp.ClientSession, stack: AsyncExitStack) -> None:
        self.ground = place
        self.keys = place.keys
        self.commands: list[Command] = []
        self._http = http
        self._stack = stack
        self._connection = Connection(place.options)
        stack.push_async_callback(self._connection.close)

    async def run(self, *names: str, **environment: str) -> list[Member]:
        """Start instances under these names; return when they listen and know each other."""
        commands = [await self.begin(name, **environment) for name in names]
        urls = await asyncio.gather(*(command.url() for command in commands))
        members = [Member(*each) for each in zip(names, commands, urls, strict=True)]
        await self.acquainted(*members)
        return members

    async def begin(self, name: str, **environment: str) -> Command:
        """Start an instance under a name, without waiting for it."""
        settings = {**QUICK, **self.ground.environment, **environment}
        command = await self._stack.enter_async_context(
            lingua("serve", "--port", "0", "--instance-id", name, **settings)
        )
        self.commands.append(command)
        return command

    async def acquainted(self, *members: Member) -> None:
        """Return when each of these sees all of the others."""
        for member in members:
            await wait_until(
                lambda member=member: self._sees(member, len(members)),
                description=f"{member.id} sees the others",
            )

    async def _sees(self, member: Member, count: int) -> bool:
        return await self.metric(member, "instances_alive") >= count

    async def session(self, member: Member, **wish: Any) -> Speaker:
        """Connect a client and open its session."""
        socket = await self._http.ws_connect(f"{member.url}/ws/session", max_msg_size=0)
        return await Speaker(socket).init(**wish)

    async def resumed(self, member: Member, before: Speaker, **wish: Any) -> Speaker:
        """Come back to any instance with the token a client has; what was not kept is not sent again."""
        again = await self.session(member, resume_token=before.ack["resume_token"], **{**RESUMES, **wish})
        assert (again.id, again.ack["resumed"]) == (before.id, True), again.ack
        again._seq = again.ack.get("last_seq", -1) + 1
        return again

    async def node(self, member: Member, *languages: str, **fields: Any) -> FakeNode:
        """Connect a node that is ready for jobs."""
        socket = await self._http.ws_connect(f"{member.url}/ws/node", max_msg_size=0)
        node = await FakeNode(socket).register(*languages, **fields)
        await node.beat()
        await node.expect("node_status", status="ready")
        return node

    async def get(self, member: Member, path: str) -> tuple[int, str]:
        """Ask over HTTP."""
        async with self._http.get(f"{member.url}{path}") as answer:
            return answer.status, await answer.text()

    async def metric(self, member: Member, name: str, **labels: str) -> float:
        """Read a metric; the sum over the labels that are not named."""
        _, text = await self.get(member, "/metrics")
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == f"scheduler_{name}" and labels.items() <= sample.labels.items()
        )

    async def counts(self, member: Member, name: str, *, least: float = 1, **labels: str) -> None:
        """Wait until a metric has come to a value."""

        async def enough() -> bool:
            return await self.metric(member, name, **labels) >= least

        await wait_until(enough, description=f"{name} {labels} is {least}", timeout_s=15)

    async def serves(self, member: Member, lang: str) -> None:
        """Wait until an instance knows a node, wherever it is, that understands a language."""

        async def served() -> bool:
            return f'"lang":"{lang}"' in (await self.get(member, "/api/v1/languages"))[1]

        await wait_until(served, description=f"{lang} is served", timeout_s=15)

    async def redis(self, *command: Any) -> Any:
        """Run one command on Redis."""
        return await self._connection.call(*command)

    async def redis_until(self, holds: Callable[[Any], bool], *command: Any, timeout_s: float = 15) -> Any:
        """Wait until a command has an answer that holds; return the answer."""
        reply: Any = None

        async def fits() -> bool:
            nonlocal reply
            reply = await self.redis(*command)
            return holds(reply)

        await wait_until(fits, description=f"{command}", timeout_s=timeout_s)
        return reply

    async def letters_ever(self, member: Member) -> int:
        """Count the letters that were ever put into an inbox."""
        facts = await self.redis("XINFO", "STREAM", self.keys.inbox(member.id))
        return int(dict(zip(facts[::2], facts[1::2], strict=True))[b"entries-added"])

    async def record(self, speaker: Speaker) -> dict[str, str]:
        """Read a session's record."""
        flat = await self.redis("HGETALL", self.keys.session(speaker.id))
        return {
            name.decode(): value.decode(errors="replace")
            for name, value in zip(flat[::2], flat[1::2], strict=True)
        }

    def assert_quiet(self) -> None:
        """No process has met a key in the wrong slot, or an error that nobody expected."""
        lines = [line for command in self.commands for line in command.lines]
        troubled = [line for line in lines if any(word in line for word in _TROUBLE)]
        assert not troubled, "".join(troubled[:20])


@asynccontextmanager
async def fleet(place: Ground) -> AsyncIterator[Fleet]:
    """Run instances for the length of a block; none of them may have met trouble."""
    async with AsyncExitStack() as stack:
        http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        await stack.enter_async_context(http)
        made = Fleet(place, http, stack)
        yield made
    made.assert_quiet()


async def arrives(wire: FakeNode | Speaker, kind: str, *, timeout_s: float = 15, **fields: Any) -> Any:
    """Take a message that may need some time to come."""
    await wait_until(lambda: wire.seen(kind, **fields), description=f"{kind} {fields}", timeout_s=timeout_s)
    return await wire.expect(kind, **fields)
