"""How each fault is done to the processes and the network of a run, and healed again."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from lingua_scheduler.chaos.faults import TRAITS, Fault, Victim
from lingua_scheduler.chaos.fleet import PREFIX, Fleet, InstancePlace
from lingua_scheduler.chaos.habits import Habit
from lingua_scheduler.chaos.history import Op
from lingua_scheduler.chaos.plan import Step
from lingua_scheduler.chaos.processes import http_get
from lingua_scheduler.chaos.proxy import CLEAR, Proxy, Weather
from lingua_scheduler.chaos.redis_faults import RedisFaults
from lingua_scheduler.embedded import free_port
from lingua_scheduler.store.keys import Keys

TWIN = "twin of "
"""How the second process under one id is called in the history."""

NOT_REACHED = "crash point not reached"
"""What is noted when an armed instance lives on."""

_DRAIN_S = 20.0
_CRASH_S = 15.0
_FLAP_S = 0.5
_SCRAPE_S = 0.1
_TWIN_S = 10.0  # it may wait for the id for longer than a presence lives
_STARVED_S, _FED_S = 0.08, 0.02
_SOME = 0.4

_HABITS = {
    Fault.NODE_TWICE: Habit.TWICE,
    Fault.NODE_LATE: Habit.LATE,
    Fault.NODE_MUTE: Habit.MUTE,
    Fault.NODE_FULL: Habit.FULL,
    Fault.NODE_SLOW: Habit.SLOW,
}
_BAD_WEATHER = {
    Fault.NODE_LATENCY: Weather(latency_ms=300, jitter_ms=60, slice_bytes=64),
    Fault.CLIENT_LATENCY: Weather(latency_ms=100, jitter_ms=100, slice_bytes=512),
    Fault.CLIENT_BLACKHOLE: Weather(blackhole=True),
    Fault.CLIENT_SLOW_READER: Weather(rate_bytes_s=4000, down_only=True),
}
_POISON = (b"\xff\x00 no json", b'{"type":"unheard_of"}', b"{" * 5000)


POISONED_LETTERS = len(_POISON)
"""How many letters one poisoning sends."""


class Injector:
    """Does one fault at a time or several at once; each is healed by the call that began it."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._redis = RedisFaults(fleet.redis)
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._ways: dict[Fault, Callable[[Step], Awaitable[None]]] = {
            Fault.NODE_KILL: self._node_kill,
            Fault.NODE_CRASH_AFTER_ACK: self._node_crash,
            Fault.NODE_FREEZE: self._node_freeze,
            Fault.NODE_DRAIN: self._node_drain,
            Fault.NODE_FLAP: self._node_flap,
            Fault.NODES_GONE: self._nodes_gone,
            Fault.CLIENT_RESET: lambda step: self._client_reset(step, _SOME),
            Fault.CLIENT_STORM: lambda step: self._client_reset(step, 1.0),
            Fault.CLIENT_HALF_CLOSE: self._client_half_close,
            Fault.INSTANCE_KILL: self._instance_kill,
            Fault.INSTANCE_CRASH: self._instance_crash,
            Fault.INSTANCE_DRAIN: self._instance_drain,
            Fault.INSTANCE_PAUSE: self._instance_freeze,
            Fault.INSTANCE_FREEZE: self._instance_freeze,
            Fault.INSTANCE_STARVE: self._instance_starve,
            Fault.INSTANCE_TWIN: self._instance_twin,
            Fault.SCRAPE_STORM: self._scrape_storm,
            Fault.REDIS_BLACKHOLE: self._redis_blackhole,
            Fault.REDIS_CUT_OFF: self._redis_cut_off,
            Fault.INBOX_POISON: self._inbox_poison,
            Fault.INBOX_DELETED: self._inbox_deleted,
            **dict.fromkeys(_HABITS, self._habit),
            **dict.fromkeys(_BAD_WEATHER, self._weather),
            **self._redis.ways,
        }

    async def inject(self, step: Step) -> None:
        """Begin a fault, let it last, heal it."""
        note = self._fleet.recorder.note
        async with self._turn(step):
            note(Op.FAULT, reason=step.fault.value, index=step.victim)
            await self._ways[step.fault](step)
            note(Op.HEALED, reason=step.fault.value, index=step.victim)

    @asynccontextmanager
    async def _turn(self, step: Step) -> AsyncIterator[None]:
        """Wait until whoever would be hit is whole again: stops and starts take their own time."""
        trait = TRAITS[step.fault]
        name = "nodes" if trait.victim in (Victim.NODE, Victim.ODD_NODE, Victim.NODES) else trait.victim.value
        async with AsyncExitStack() as turns:
            if trait.downs_instance and step.fault is not Fault.INSTANCE_CRASH:
                await turns.enter_async_context(self._locks["an instance is away"])
            if trait.victim is Victim.NODES or trait.downs_node:
                await turns.enter_async_context(self._locks["nodes are away"])
            if trait.victim in (Victim.NODE, Victim.ODD_NODE, Victim.INSTANCE):
                await turns.enter_async_context(self._locks[f"{name} {step.victim}"])
            yield

    def _place(self, step: Step) -> InstancePlace:
        return self._fleet.places[step.victim]

    # Nodes

    async def _node_kill(self, step: Step) -> None:
        await self._fleet.nodes[step.victim].kill()
        await asyncio.sleep(step.lasts_s)
        await self._fleet.restart_node(step.victim)

    async def _node_crash(self, step: Step) -> None:
        self._fleet.nodes[step.victim].tell(Habit.CRASH.value)
        await asyncio.sleep(step.lasts_s)
        await self._fleet.nodes[step.victim].kill()
        await self._fleet.restart_node(step.victim)

    async def _node_freeze(self, step: Step) -> None:
        node = self._fleet.nodes[step.victim]
        node.freeze()
        await asyncio.sleep(step.lasts_s)
        node.thaw()

    async def _node_drain(self, step: Step) -> None:
        await self._fleet.nodes[step.victim].stop(_DRAIN_S)
        await asyncio.sleep(step.lasts_s)
        await self._fleet.restart_node(step.victim)

    async def _node_flap(self, step: Step) -> None:
        door = self._fleet.node_doors[step.victim]
        for _ in range(round(step.lasts_s / _FLAP_S)):
            door.reset()
            await asyncio.sleep(_FLAP_S)

    async def _nodes_gone(self, step: Step) -> None:
        numbers = range(len(self._fleet.nodes))
        await asyncio.gather(*(self._fleet.nodes[number].kill() for number in numbers))
        await asyncio.sleep(step.lasts_s)
        await asyncio.gather(*(self._fleet.restart_node(number) for number in numbers))

    async def _habit(self, step: Step) -> None:
        self._fleet.nodes[step.victim].tell(_HABITS[step.fault].value)
        await asyncio.sleep(step.lasts_s)
        self._fleet.nodes[step.victim].tell(Habit.STEADY.value)

    # The network of nodes and clients

    async def _weather(self, step: Step) -> None:
        of_nodes = step.fault is Fault.NODE_LATENCY
        door = self._fleet.node_doors[step.victim] if of_nodes else self._fleet.client_door
        await _under(door, _BAD_WEATHER[step.fault], step.lasts_s)

    async def _client_reset(self, step: Step, share: float) -> None:
        self._fleet.client_door.reset(share)
        await asyncio.sleep(step.lasts_s)

    async def _client_half_close(self, step: Step) -> None:
        self._fleet.client_door.half_close()
        await asyncio.sleep(step.lasts_s)

    # Instances

    async def _instance_kill(self, step: Step) -> None:
        place = self._place(step)
        await place.child.kill()
        await asyncio.sleep(step.lasts_s)
        await place.start()

    async def _instance_crash(self, step: Step) -> None:
        """Wait until an armed instance has died by itself."""
        place = self._place(step)
        try:
            await asyncio.wait_for(place.child.ended(), _CRASH_S)
        except TimeoutError:
            self._fleet.recorder.note(Op.ERROR, instance=place.id, reason=NOT_REACHED)
            await place.child.kill()
        await asyncio.sleep(step.lasts_s)
        await place.start()

    async def _instance_drain(self, step: Step) -> None:
        place = self._place(step)
        place.draining = True
        await place.child.stop(_DRAIN_S)
        await asyncio.sleep(step.lasts_s)
        await place.start()

    async def _instance_freeze(self, step: Step) -> None:
        child = self._place(step).child
        child.freeze()
        await asyncio.sleep(step.lasts_s)
        child.thaw()

    async def _instance_starve(self, step: Step) -> None:
        child = self._place(step).child
        for _ in range(round(step.lasts_s / (_STARVED_S + _FED_S))):
            child.freeze()
            await asyncio.sleep(_STARVED_S)
            child.thaw()
            await asyncio.sleep(_FED_S)

    async def _instance_twin(self, step: Step) -> None:
        """Start a second process under a living id: it must refuse to start."""
        place = self._place(step)
        twin = await place.process(place.id, free_port())
        twin.name = f"{TWIN}{place.id}"
        with suppress(TimeoutError):
            await asyncio.wait_for(twin.ended(), _TWIN_S)
        await twin.kill()

    async def _scrape_storm(self, step: Step) -> None:
        for _ in range(round(step.lasts_s / _SCRAPE_S)):
            await http_get(self._place(step).port, "/metrics")
            await asyncio.sleep(_SCRAPE_S)

    # Between instances and Redis

    async def _redis_blackhole(self, step: Step) -> None:
        proxies = [place.redis_proxy for place in self._fleet.places if place.redis_proxy is not None]
        await asyncio.gather(*(_under(proxy, Weather(blackhole=True), step.lasts_s) for proxy in proxies))

    async def _redis_cut_off(self, step: Step) -> None:
        proxy = self._place(step).redis_proxy
        if proxy is not None:
            await _under(proxy, Weather(blackhole=True), step.lasts_s)

    async def _inbox_poison(self, step: Step) -> None:
        inbox = Keys(PREFIX).inbox(self._place(step).id)
        for body in _POISON:
            await self._fleet.redis.whole().call("XADD", inbox, "*", "body", body, "source", "nobody")
        await asyncio.sleep(step.lasts_s)

    async def _inbox_deleted(self, step: Step) -> None:
        await self._fleet.redis.whole().call("DEL", Keys(PREFIX).inbox(self._place(step).id))
        await asyncio.sleep(step.lasts_s)


async def _under(proxy: Proxy, weather: Weather, lasts_s: float) -> None:
    proxy.weather = weather
    try:
        await asyncio.sleep(lasts_s)
    finally:
        proxy.weather = CLEAR
