"""What people are shown: one picture of the deployment, taken in the background, however many ask for it.

Nothing here is asked of Redis because somebody looks. A picture is replaced as a whole by the next one; what
was made of it for one caller serves everybody until then. Of nodes, only those are looked at again that have
changed since the last picture.
"""

from __future__ import annotations

import asyncio
import hashlib
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice, takewhile
from typing import Any, NamedTuple, Protocol

import msgspec
from aiohttp import ETag, hdrs, web

from lingua_scheduler.admin.autoscale import Scaling
from lingua_scheduler.admin.muster import Ability, Muster, Supply
from lingua_scheduler.aio import unhurried
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.catalogue import Standing
from lingua_scheduler.core.company import Presence
from lingua_scheduler.core.model import InstanceId, NodeId
from lingua_scheduler.core.placement import Exclusion, NodeFacts
from lingua_scheduler.errors import StoreError
from lingua_scheduler.flow.company import Company
from lingua_scheduler.flow.snapshot import Snapshot
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.store.dead_letters import DeadLetter
from lingua_scheduler.store.survey import About, Mail

_log = get_logger(__name__)

_BATCH = 100  # nodes asked about at a time
_NODE_EVERY_S = 2.0
_MAIL_EVERY_S = 5.0
_DEAD_SHOWN = 50
STALE_S = 10.0
"""A picture that is older is counted as stale."""
_MOST_MADE = 256
_HEADERS = {hdrs.CACHE_CONTROL: "private, no-cache", "X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, slots=True)
class Picture:
    """The deployment at one moment, as far as one instance knows it."""

    version: int = 0  # 0: nothing has been looked at yet
    at_ms: int = 0
    nodes: tuple[NodeFacts, ...] = ()  # in the order of their ids
    abouts: Mapping[NodeId, About] = field(default_factory=dict)
    ready: Mapping[InstanceId, int] = field(default_factory=dict)  # nodes that may be chosen, by owner
    living: Mapping[InstanceId, Presence] = field(default_factory=dict)
    reachable: frozenset[InstanceId] = frozenset()
    mail: Mapping[InstanceId, Mail] = field(default_factory=dict)
    dead: tuple[DeadLetter, ...] = ()  # the newest ones
    scaling: Scaling = field(default_factory=Scaling)
    services: Standing = field(default_factory=Standing)  # what the model hub offers
    lost: tuple[InstanceId, ...] = ()  # instances that died lately

    def node(self, node_id: NodeId) -> NodeFacts | None:
        """What is known of a node."""
        place = bisect_left(self.nodes, node_id, key=lambda facts: facts.node_id)
        found = self.nodes[place : place + 1]
        return found[0] if found and found[0].node_id == node_id else None

    @property
    def ready_nodes(self) -> int:
        """How many nodes may be chosen now."""
        return sum(self.ready.get(instance_id, 0) for instance_id in self.reachable)


class Surveyor(Protocol):
    """Who reads what no instance keeps in memory."""

    async def nodes(self, wanted: list[NodeFacts]) -> dict[NodeId, About]:
        """Tell what these nodes say of themselves."""
        ...

    async def mail(self, instances: list[InstanceId]) -> dict[InstanceId, Mail]:
        """Count the letters of these instances."""
        ...

    async def dead_letters(self, most: int) -> list[DeadLetter]:
        """Give the newest dead letters."""
        ...


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a picture is taken from."""

    snapshot: Snapshot
    company: Company
    own: Callable[[], Presence]  # this instance as it is now
    survey: Surveyor
    scaling: Callable[[Mapping[Ability, Supply], Mapping[InstanceId, Presence]], Scaling]
    services: Callable[[], Standing] = Standing
    lost: Callable[[], tuple[InstanceId, ...]] = tuple


class _Made(NamedTuple):
    """What was made of a picture for somebody, and of which one."""

    body: bytes
    tag: str
    version: int


class ReadModel:
    """Takes pictures, and answers from the latest."""

    def __init__(self, sources: Sources, clock: Clock, metrics: Metrics) -> None:
        self._sources = sources
        self._clock = clock
        self._metrics = metrics
        self._muster = Muster()
        self._unasked: dict[NodeId, None] = {}  # nodes that were never asked about
        self._asked_at: dict[NodeId, float] = {}  # the others, those first that were asked about long ago
        self._taking = asyncio.Lock()
        self._mail_at = float("-inf")
        self._made: dict[Hashable, _Made] = {}
        self._making = asyncio.Lock()
        self.picture = Picture()
        metrics.dashboard_snapshot_age_seconds.set_function(self.age_s)

    def age_s(self) -> float:
        """Tell how old the picture is; 0 before there is one."""
        picture = self.picture
        return max(0.0, (self._clock.wall_ms() - picture.at_ms) / 1000) if picture.version else 0.0

    async def refresh(self) -> None:
        """Take the next picture, one at a time; what Redis does not tell stays as it was."""
        async with self._taking:
            await self._take_in_nodes()
            mail, dead = self.picture.mail, self.picture.dead
            company = self._sources.company
            try:
                await self._ask_about_nodes()
                mail, dead = await self._letters([*{*company.living, company.instance_id}])
            except StoreError as error:
                _log.debug("survey_failed", reason=str(error))
            await asyncio.sleep(0)  # what follows is done in one go
            began = self._clock.now()
            self.picture = self._taken(mail, dead)
            self._made = {}
            self._metrics.took("read_model", self._clock.now() - began)

    def _taken(self, mail: Mapping[InstanceId, Mail], dead: tuple[DeadLetter, ...]) -> Picture:
        sources, muster, company = self._sources, self._muster, self._sources.company
        scaling = sources.scaling(muster.supplies, company.living)
        own = sources.own()  # tells what was just looked at, too
        return Picture(
            version=self.picture.version + 1,
            at_ms=self._clock.wall_ms(),
            nodes=muster.nodes(),
            abouts=muster.abouts(),
            ready=muster.ready(),
            living={**company.living, own.instance_id: own},
            reachable=company.reachable,
            mail=mail,
            dead=dead,
            scaling=scaling,
            services=sources.services(),
            lost=sources.lost(),
        )

    def present(self, nodes: Iterable[NodeId]) -> tuple[set[NodeId], set[InstanceId]]:
        """Name those of these nodes that are there, and the instances that are."""
        picture = self.picture
        known = [facts for node_id in nodes if (facts := picture.node(node_id)) is not None]
        there = {
            facts.node_id
            for facts in known
            if facts.owner in picture.reachable and facts.closed is not Exclusion.OFFLINE
        }
        return there, {*picture.reachable}

    async def _take_in_nodes(self) -> None:
        """Look at the nodes that have changed."""
        snapshot = self._sources.snapshot
        async for node_id in unhurried(snapshot.changed()):
            facts = snapshot.node(node_id)
            if facts is None:
                self._muster.drop(node_id)
                self._unasked.pop(node_id, None)
                self._asked_at.pop(node_id, None)
                continue
            self._muster.put(facts)
            if node_id not in self._asked_at:
                self._unasked[node_id] = None

    async def _ask_about_nodes(self) -> None:
        """Ask about some nodes, those first that were not asked about for the longest time."""
        now = self._clock.now()
        long_ago = takewhile(lambda each: each[1] <= now - _NODE_EVERY_S, self._asked_at.items())
        due = [*islice(chain(self._unasked, (node_id for node_id, _ in long_ago)), _BATCH)]
        nodes = [facts for node_id in due if (facts := self._muster.node(node_id)) is not None]
        found = await self._sources.survey.nodes(nodes)
        for node_id in due:
            self._unasked.pop(node_id, None)
            self._asked_at.pop(node_id, None)
            self._asked_at[node_id] = now
        for node_id, about in found.items():
            self._muster.learn(node_id, about)

    async def _letters(
        self, instances: list[InstanceId]
    ) -> tuple[Mapping[InstanceId, Mail], tuple[DeadLetter, ...]]:
        now = self._clock.now()
        if now < self._mail_at + _MAIL_EVERY_S and self.picture.mail.keys() >= set(instances):
            return self.picture.mail, self.picture.dead
        survey = self._sources.survey
        mail, dead = await asyncio.gather(survey.mail(instances), survey.dead_letters(_DEAD_SHOWN))
        self._mail_at = now
        return mail, tuple(dead)

    async def answer(
        self, request: web.Request, key: Hashable, make: Callable[[Picture], Any | Awaitable[Any]]
    ) -> web.Response:
        """Answer with what is made of the picture; `key` names it, everything it depends on included."""
        began = self._clock.now()
        self._metrics.stats_requests_total.inc()
        if self.age_s() > STALE_S:
            self._metrics.stats_stale_total.inc()
        made = self._made.get(key) or await self._make(key, make)
        response = _response(request, made)
        took_s = self._clock.now() - began
        self._metrics.stats_request_duration_seconds.observe(took_s)
        self._metrics.took("request", took_s)
        return response

    async def _make(self, key: Hashable, make: Callable[[Picture], Any | Awaitable[Any]]) -> _Made:
        """Make something of the picture, one after the other, unless somebody else did so meanwhile."""
        async with self._making:
            picture, kept = self.picture, self._made
            if key in kept:
                return kept[key]
            said = make(picture)
            body = msgspec.json.encode(await said if isinstance(said, Awaitable) else said)
            made = _Made(body, hashlib.blake2s(body, digest_size=12).hexdigest(), picture.version)
            if len(kept) >= _MOST_MADE:
                kept.clear()
            kept[key] = made
            return made


def _response(request: web.Request, made: _Made) -> web.Response:
    known = request.if_none_match or ()
    if any(etag.value in (made.tag, "*") for etag in known):
        response = web.Response(status=304, headers=_HEADERS)
    else:
        response = web.Response(body=made.body, content_type="application/json", headers=_HEADERS)
    response.etag = ETag(made.tag)
    response.headers["Lingua-Version"] = str(made.version)
    return response
