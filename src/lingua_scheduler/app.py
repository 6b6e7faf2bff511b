"""The composition root: builds every object once, and knows the order of start and stop."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import ceil
from typing import Any

import msgspec

from lingua_scheduler.admin.siblings import ALONE, Siblings
from lingua_scheduler.aio import unhurried
from lingua_scheduler.clock import Clock
from lingua_scheduler.config import Config
from lingua_scheduler.core.placement import Exclusion, NodeFacts
from lingua_scheduler.core.pools import PoolPlan
from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.front import Front
from lingua_scheduler.log import get_logger
from lingua_scheduler.store.instances import BEATS_PER_PRESENCE

_log = get_logger(__name__)

_RENEWALS_PER_LEASE = 3
_LOOK_AT_CATALOGUE_S = 1.0  # how often it is seen whether the model hub is to be asked
_STOP_S = 3.0  # for all that is still to be written when sockets are closed; what is left expires by itself
_SPANS_S = 1.0  # for the spans of the last utterances
_LAST_WORDS_S = 0.1  # for each part of it when that time is over


class Instance(Front):
    """One scheduler: `start` serves until `stop`."""

    async def start(self) -> None:
        """Reach Redis, build the house, listen; what was begun is undone when that fails."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        config = _with_lasting_leases(self.config)
        if not config.redis.url:
            self._redis = EmbeddedRedis()
            await asyncio.to_thread(self._redis.start)
            config = msgspec.structs.replace(
                config, redis=msgspec.structs.replace(config.redis, url=self._redis.url)
            )
        self._open_stores(config)
        self._closers.append(self.stores.connection.close)
        await self.stores.connection.call("PING")
        self._build(config, await self.stores.instances.shared_secret(secrets.token_bytes(32)))
        await self.company.enter()
        await self.snapshot.refresh(self.stores.nodes)
        await self.credentials.refresh()
        await self.edge.start()
        await self.processes.start()
        self._closers.append(self.processes.stop)
        self._url = self.url
        await self.company.beat()  # with the address, which is known now
        self.sessions.watch_idle()
        self._start_loops(config)
        await self.subscription.turn()
        self.lag.start()
        _log.info("instance_started", instance=self.id, address=self.url)

    def _build(self, config: Config, secret: bytes) -> None:
        self._lay_ground(config)
        self._secret = secret
        pools = PoolPlan(config.pools)
        self._build_company(config)
        failover = self._build_jobs(config, pools)
        rules = self._build_sessions(config, failover)
        self._build_letters(config, failover)
        self._build_doors(config, rules, failover, pools)
        self._build_operations(config, pools)
        writers = [
            self._deliver_spans,
            self.company.leave,
            self.watch.stop,
            self.subscription.stop,
            self.lag.stop,
            self._tasks.stop,
            self.post.stop,
            self.transcripts.stop,
            self.endings.stop,
            self.node_door.stop,
            self.dispatch.stop,
            self.signalling.stop,
            self.room_post.stop,
            self.rooms.settle,
            self.sessions.stop,
            self.resume.stop,
        ]
        self._closers += [*(partial(self._in_time, stop) for stop in writers), self.edge.stop]

    async def _deliver_spans(self) -> None:
        if self.tracing is not None:
            await asyncio.to_thread(self.tracing.stop, _SPANS_S)

    def _start_loops(self, config: Config) -> None:
        """Start what runs for ever; `watch` says when one of them does not."""
        watch, stores = self.watch, self.stores
        watch.loop("inbox", self.letters.receive, every_s=0)
        watch.loop("retake", self.letters.try_again, every_s=config.peers.retake_ms / 1000)
        watch.loop("presence", self._stay, every_s=config.company.presence_ttl_s / BEATS_PER_PRESENCE)
        watch.loop("company", self._look_around, every_s=config.peers.look_ms / 1000)
        watch.loop("read model", self.desk.refresh, every_s=config.admin.refresh_ms / 1000)
        watch.loop("keys", self.credentials.refresh, every_s=config.auth.refresh_s)
        watch.loop("snapshot", self._refresh, every_s=config.placement.refresh_ms / 1000)
        watch.loop(
            "sweep", lambda: self.snapshot.sweep(stores.nodes), every_s=config.placement.sweep_ms / 1000
        )
        watch.loop("catalogue", self.subscription.turn, every_s=_LOOK_AT_CATALOGUE_S)
        watch.loop("leases", self.sessions.renew, every_s=config.lives.session_lease_s / _RENEWALS_PER_LEASE)

    async def _stay(self) -> None:
        await self.company.beat()
        self.sessions.secret = await self.stores.instances.shared_secret(self.sessions.secret)

    async def _look_around(self) -> None:
        before = self.company.reachable
        await self.company.look()
        if newcomers := self.company.reachable - before:
            await self._nodes_changed([facts for facts in self.snapshot.nodes() if facts.owner in newcomers])
        self.rooms.look()
        await self.adoption.adopt_missing(self.company.absent)

    async def _refresh(self) -> None:
        await self._nodes_changed(await self.snapshot.refresh(self.stores.nodes))

    async def _nodes_changed(self, changed: list[NodeFacts]) -> None:
        async for facts in unhurried(changed):
            self.dispatch.waiting.capacity(facts, facts.free)
            link = self.routing.link(facts.node_id) if facts.closed is Exclusion.OFFLINE else None
            if link is not None:
                link.restore()

    @property
    def url(self) -> str:
        """Where clients and browsers find this instance."""
        host, port = self.edge.address
        return f"http://{host}:{port}"

    async def _in_time(self, stop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Let something end that may still write; all of it shares one short time, for Redis may be away."""
        now = asyncio.get_running_loop().time()
        if self._stop_until is None:
            self._stop_until = now + _STOP_S
        with suppress(TimeoutError):
            async with asyncio.timeout_at(max(self._stop_until, now + _LAST_WORDS_S)):
                await stop()

    async def stop(self) -> None:
        """Close sockets, end sessions, leave nothing behind in Redis, then let Redis go."""
        while self._closers:
            await self._closers.pop()()
        if self._redis is not None:
            await asyncio.to_thread(self._redis.stop)
        _log.info("instance_stopped", instance=self.id)


@asynccontextmanager
async def running(
    config: Config, *, clock: Clock | None = None, siblings: Siblings = ALONE
) -> AsyncIterator[Instance]:
    """Run an instance for as long as the block lasts."""
    instance = Instance(config, clock=clock, siblings=siblings)
    await instance.start()
    try:
        yield instance
    finally:
        await instance.stop()


def _with_lasting_leases(config: Config) -> Config:
    """Let a session's record outlive its owner by the time in which its client may return."""
    window_s = config.resume.window_s * _RENEWALS_PER_LEASE / (_RENEWALS_PER_LEASE - 1)
    lease_s = max(config.lives.session_lease_s, ceil(window_s))
    return msgspec.structs.replace(
        config, lives=msgspec.structs.replace(config.lives, session_lease_s=lease_s)
    )
