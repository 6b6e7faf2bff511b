"""Several people in a room: on one instance, or each on another one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from lingua_scheduler.store.connection import StoreOptions
from neighbours import acquainted, shown
from support import wait_until
from world import FakeNode, Speaker, World, world

SPOKEN = {"A": "zh", "B": "en", "C": "en", "D": "ja"}
ALL = ("zh", "en", "ja", "de")
TEXT = ["exact_flags", "any_order", "text_jobs"]


class Party:
    """Who came, by name; the instances take turns in receiving them."""

    def __init__(self, *houses: World) -> None:
        self.houses = houses
        self.code = ""
        self.guests: dict[str, Speaker] = {}
        self.homes: dict[str, World] = {}
        self.nodes: list[FakeNode] = []

    def __getitem__(self, name: str) -> Speaker:
        return self.guests[name]

    def house(self, name: str) -> World:
        """Give the instance that a guest came to."""
        return self.homes[name]

    async def node(self, *languages: str, **fields: Any) -> FakeNode:
        """Connect a node to the first instance; all of them know it."""
        node = await self.houses[0].node(*(languages or ALL), **{"max_concurrent_jobs": 50, **fields})
        self.nodes.append(node)
        for house in self.houses:
            await shown(house, len(self.nodes))
        return node

    async def arrive(self, name: str, **wish: Any) -> Speaker:
        """Open a session on the next instance."""
        home = self.houses[len(self.guests) % len(self.houses)]
        guest = await home.session(**{"src_lang": SPOKEN.get(name, "en"), **wish})
        self.guests[name], self.homes[name] = guest, home
        return guest

    async def open(self, name: str, *, wish: dict[str, Any] | None = None, **about: Any) -> Speaker:
        """Arrive and open the room."""
        guest = await self.arrive(name, **(wish or {}))
        await guest.send("room_create", client_ts=1, **_about(name, about))
        self.code = (await guest.expect("room_create_ack"))["room_code"]
        await members(guest, 1)
        return guest

    async def join(self, name: str, *, wish: dict[str, Any] | None = None, **about: Any) -> Speaker:
        """Arrive and join the room; return when everybody who is there knows."""
        guest = await self.arrive(name, **(wish or {}))
        await guest.send("room_join", room_code=self.code, **_about(name, about))
        await guest.expect("room_create_ack", room_code=self.code)
        await self.gathered()
        return guest

    async def everybody(self, *names: str) -> None:
        """Let the first open the room and the others join it."""
        await self.open(names[0])
        for name in names[1:]:
            await self.join(name)

    async def gathered(self) -> None:
        """Return when everybody in the room has seen everybody else."""
        inside = [guest for guest in self.guests.values() if not guest.socket.closed]
        for guest in inside:
            await members(guest, len(inside))

    async def say(self, name: str) -> None:
        """Let somebody speak one utterance."""
        await self[name].say()

    async def quiet(self, *names: str) -> None:
        """Return when everything that was on its way has arrived."""
        await self.quiet_on(*self.houses)
        for name in names or self.guests:
            if not self[name].socket.closed:
                await self[name].sync()

    async def quiet_on(self, *houses: World) -> None:
        """Return when nothing is on its way on these instances."""
        for _ in range(2):  # what arrives may send something in its turn
            for house in houses:
                await house.settled()
                await wait_until(lambda house=house: _still(house), description="nothing is on its way")


async def _still(house: World) -> bool:
    instance = house.instance
    busy = len(instance.room_post) or len(instance.post._tasks) or instance.rooms.busy
    return not busy and await _empty(house)


async def _empty(house: World) -> bool:
    return not await house.redis("XLEN", house.keys.inbox(house.instance.id))


def _about(name: str, about: dict[str, Any]) -> dict[str, Any]:
    said = {"display_name": name, "preferred_lang": SPOKEN.get(name), **about}
    return {key: value for key, value in said.items() if value is not None}


async def members(guest: Speaker, count: int) -> list[dict[str, Any]]:
    """Wait until a guest was shown this many members, newest view last; forget the older views."""

    def newest() -> list[dict[str, Any]] | None:
        views = guest.seen("room_members")
        return views[-1]["members"] if views and len(views[-1]["members"]) == count else None

    seen = await wait_until(newest, description=f"{count} members; {guest.inbox[-3:]}", timeout_s=5)
    guest.inbox[:] = [message for message in guest.inbox if message["type"] != "room_members"][:]
    guest.inbox.append({"type": "room_members", "room_code": "", "members": seen})
    return seen


@asynccontextmanager
async def party(store: StoreOptions, instances: int, **tables: dict[str, Any]) -> AsyncIterator[Party]:
    """Run one or two instances on one Redis."""
    async with world(store, **tables) as a:
        if instances == 1:
            yield Party(a)
            return
        async with world(store, **tables) as b:
            await acquainted(a, b)
            yield Party(a, b)
