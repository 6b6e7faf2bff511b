"""What people are shown: one picture of the deployment, taken in the background, however many ask for it.

Nothing here is asked of Redis because somebody looks. A picture is replaced as a whole by the next one; what
was made of it for one caller serves everybody until then.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
from aiohttp import ETag, hdrs, web

from lingua_scheduler.admin.autoscale import Scaling
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
    living: Mapping[InstanceId, Presence] = field(default_factory=dict)
    reachable: frozenset[InstanceId] = frozenset()
    mail: Mapping[InstanceId, Mail] = field(default_factory=dict)
    dead: tuple[DeadLetter, ...] = ()  # the newest ones
    scaling: Scaling = field(default_factory=Scaling)
    services: Standing = field(default_factory=Standing)  # what the model hub offers
    lost: tuple[InstanceId, ...] = ()  # instances that died lately


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
    scaling: Callable[[list[NodeFacts], Mapping[NodeId, About], Mapping[InstanceId, Presence]], Scaling]
    services: Callable[[], Standing] = Standing
    lost: Callable[[], tuple[InstanceId, ...]] = tuple


class ReadModel:
    """Takes pictures, and answers from the latest."""

    def __init__(self, sources: Sources, clock: Clock, metrics: Metrics) -> None:
        self._sources = sources
        self._clock = clock
        self._metrics = metrics
        self._asked_at: dict[NodeId, float] = {}
        self._mail_at = float("-inf")
        self._made: dict[Hashable, tuple[bytes, str]] = {}
        self.picture = Picture()
        metrics.dashboard_snapshot_age_seconds.set_function(self.age_s)

    def age_s(self) -> float:
        """Tell how old the picture is; 0 before there is one."""
        picture = self.picture
        return max(0.0, (self._clock.wall_ms() - picture.at_ms) / 1000) if picture.version else 0.0

    async def refresh(self) -> None:
        """Take the next picture; what Redis does not tell stays as it was."""
        sources, before = self._sources, self.picture
        nodes = sorted(sources.snapshot.nodes(), key=lambda facts: facts.node_id)
        company = sources.company
        try:
            abouts: Mapping[NodeId, About] = await self._abouts(nodes)
            mail, dead = await self._letters([*{*company.living, company.instance_id}])
        except StoreError as error:
            _log.debug("survey_failed", reason=str(error))
            abouts, mail, dead = before.abouts, before.mail, before.dead
        began = self._clock.now()
        scaling = sources.scaling(nodes, abouts, company.living)
        own = sources.own()  # tells what was just looked at, too
        self.picture = Picture(
            version=before.version + 1,
            at_ms=self._clock.wall_ms(),
            nodes=tuple(nodes),
            abouts=abouts,
            living={**company.living, own.instance_id: own},
            reachable=company.reachable,
            mail=mail,
            dead=dead,
            scaling=scaling,
            services=sources.services(),
            lost=sources.lost(),
        )
        self._made.clear()
        self._metrics.took("read_model", self._clock.now() - began)

    def present(self) -> tuple[set[NodeId], set[InstanceId]]:
        """Name the nodes and instances that are there."""
        picture = self.picture
        there = {
            facts.node_id
            for facts in picture.nodes
            if facts.owner in picture.reachable and facts.closed is not Exclusion.OFFLINE
        }
        return there, {*picture.reachable}

    async def _abouts(self, nodes: list[NodeFacts]) -> dict[NodeId, About]:
        """Ask about some nodes, those first that were not asked about for the longest time."""
        now = self._clock.now()
        known = {facts.node_id for facts in nodes}
        self._asked_at = {each: at for each, at in self._asked_at.items() if each in known}
        asked = self._asked_at
        due = [facts for facts in nodes if asked.get(facts.node_id, float("-inf")) <= now - _NODE_EVERY_S]
        due.sort(key=lambda facts: asked.get(facts.node_id, float("-inf")))
        found = await self._sources.survey.nodes(due[:_BATCH])
        asked.update((facts.node_id, now) for facts in due[:_BATCH])
        kept = {each: about for each, about in self.picture.abouts.items() if each in known}
        return {**kept, **found}

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

    def answer(self, request: web.Request, key: Hashable, make: Callable[[Picture], Any]) -> web.Response:
        """Answer with what is made of the picture; `key` names it, everything it depends on included."""
        began = self._clock.now()
        self._metrics.stats_requests_total.inc()
        if self.age_s() > STALE_S:
            self._metrics.stats_stale_total.inc()
        made = self._made.get(key)
        if made is None:
            body = msgspec.json.encode(make(self.picture))
            made = body, hashlib.blake2s(body, digest_size=12).hexdigest()
            if len(self._made) >= _MOST_MADE:
                self._made.clear()
            self._made[key] = made
        response = _response(request, *made)
        response.headers["Lingua-Version"] = str(self.picture.version)
        took_s = self._clock.now() - began
        self._metrics.stats_request_duration_seconds.observe(took_s)
        self._metrics.took("request", took_s)
        return response


def _response(request: web.Request, body: bytes, tag: str) -> web.Response:
    known = request.if_none_match or ()
    if any(etag.value in (tag, "*") for etag in known):
        response = web.Response(status=304, headers=_HEADERS)
    else:
        response = web.Response(body=body, content_type="application/json", headers=_HEADERS)
    response.etag = ETag(tag)
    return response
