"""Instances as the stores of presence and letters see them: several lives under several ids, on one Redis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lingua_scheduler.core.company import Letter, Presence
from lingua_scheduler.core.model import InstanceId
from lingua_scheduler.store.connection import Connection, StoreOptions
from lingua_scheduler.store.dead_letters import DeadLetters
from lingua_scheduler.store.inbox import InboxStore
from lingua_scheduler.store.instances import GROUP, CompanyOptions, InstanceStore
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts

A, B, C = InstanceId("instance-a"), InstanceId("instance-b"), InstanceId("instance-c")
STARTED_MS = 1_800_000_000_000


class Life:
    """One process under an instance id."""

    def __init__(
        self,
        options: StoreOptions,
        instance_id: InstanceId = A,
        *,
        boot: str = "boot-1",
        limits: CompanyOptions | None = None,
    ) -> None:
        limits = limits or CompanyOptions()
        self.id = instance_id
        self.presence = Presence(instance_id, boot, f"http://{instance_id}", STARTED_MS, about={"nodes": 2})
        self.connection = Connection(options)
        self.keys = Keys(options.key_prefix)
        scripts = Scripts(self.connection)
        self.instances = InstanceStore(scripts, self.keys, limits)
        self.inbox = InboxStore(self.connection, scripts, self.keys, instance_id, limits)
        self.dead_letters = DeadLetters(self.connection, scripts, self.keys, limits)

    async def call(self, *args: Any) -> Any:
        """Run one command."""
        return await self.connection.call(*args)

    async def enter(self) -> Life:
        """Become known."""
        await self.instances.enter(self.presence)
        return self

    def says(self, **members: Any) -> Presence:
        """Give the presence with other facts."""
        return replace(self.presence, **members)

    async def take(self) -> list[Letter]:
        """Take what is there now."""
        return await self.inbox.take(block_s=0)

    async def die(self) -> None:
        """Let the presence lapse, in its slot and in the registry, as time would do."""
        line = await self.call("HGET", self.keys.registry(), self.id)
        if line is not None:
            await self.call("HSET", self.keys.registry(), self.id, b"1 " + line.partition(b" ")[2])
        await self.call("DEL", self.keys.presence(self.id))

    async def waiting(self) -> int:
        """Count the letters in the inbox."""
        return await self.call("XLEN", self.keys.inbox(self.id))

    async def pending(self) -> int:
        """Count the letters that were handed out and are not settled."""
        return (await self.call("XPENDING", self.keys.inbox(self.id), GROUP))[0]


def bodies(letters: list[Any]) -> list[bytes]:
    """Give what is in letters, dead or alive."""
    return [letter.body for letter in letters]
