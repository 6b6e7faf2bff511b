"""The deployment at a glance: every instance, every node, and what they have to do."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from lingua_scheduler import __version__
from lingua_scheduler.admin.nodes import NodeRow, NodeViews, exclusion
from lingua_scheduler.admin.read_model import Picture
from lingua_scheduler.aio import unhurried
from lingua_scheduler.core.company import Presence
from lingua_scheduler.core.placement import Exclusion
from lingua_scheduler.store.survey import Mail

_CORE_TYPES = frozenset({"asr", "nmt", "tts"})
_PART = 1000  # a version travels as one number: its three parts, each below this


class InstanceRow(msgspec.Struct, frozen=True, kw_only=True):
    """An instance as people see it."""

    instance_id: str
    hostname: str
    url: str
    pid: int
    version: str
    started_at_ms: int
    uptime_seconds: int
    is_online: bool
    draining: bool
    inbox_length: int
    inbox_pending: int
    dlq_length: int
    nodes_owned: int
    sessions_owned: int
    jobs_open: int


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """All instances, and a page of the nodes; `next` is the cursor of the page after."""

    instances: list[InstanceRow]
    total_instances: int
    online_instances: int
    total_nodes: int
    online_nodes: int
    ready_nodes: int
    total_sessions: int
    total_jobs: int
    total_pending: int
    total_dlq: int
    lost_instances: list[str]  # that died lately and are not back
    redis_key_prefix: str
    nodes: list[NodeRow]
    next: str | None


class DeadLetterRow(msgspec.Struct, frozen=True):
    """A letter that nobody could deal with, without what is in it."""

    letter_id: str
    instance_id: str
    source: str
    reason: str
    deliveries: int
    sent_ms: int
    buried_ms: int
    bytes: int


class DeadLetterPage(msgspec.Struct, frozen=True):
    """How many there are, and the newest of them."""

    total: int
    letters: list[DeadLetterRow]


class ClusterViews:
    """Makes the page of the whole deployment."""

    def __init__(self, key_prefix: str, nodes: NodeViews) -> None:
        self._key_prefix = key_prefix
        self._nodes = nodes

    async def cluster(self, picture: Picture, limit: int, cursor: str) -> Cluster:
        """Show everything, with so many nodes from the one after the cursor on."""
        page = await self._nodes.page(picture, limit, cursor)
        rows = [self._instance(picture, each) for _, each in sorted(picture.living.items())]
        online = ready = 0
        async for facts in unhurried(picture.nodes):
            if exclusion(picture, facts) is not Exclusion.OFFLINE:
                online += 1
                ready += facts.types >= _CORE_TYPES and facts.closed is not Exclusion.STATUS_NOT_READY
        return Cluster(
            instances=rows,
            total_instances=len(rows),
            online_instances=sum(row.is_online for row in rows),
            total_nodes=page.total,
            online_nodes=online,
            ready_nodes=ready,
            total_sessions=sum(row.sessions_owned for row in rows),
            total_jobs=sum(row.jobs_open for row in rows),
            total_pending=sum(row.inbox_pending for row in rows),
            total_dlq=sum(mail.dead for mail in picture.mail.values()),
            lost_instances=list(picture.lost),
            redis_key_prefix=self._key_prefix,
            nodes=page.nodes,
            next=page.next,
        )

    def _instance(self, picture: Picture, presence: Presence) -> InstanceRow:
        about, mail = presence.about, picture.mail.get(presence.instance_id, Mail())
        return InstanceRow(
            instance_id=presence.instance_id,
            hostname=_host(presence.url),
            url=presence.url,
            pid=about.get("pid", 0),
            version=version_text(about.get("version", 0)),
            started_at_ms=presence.started_ms,
            uptime_seconds=max(0, picture.at_ms - presence.started_ms) // 1000,
            is_online=presence.instance_id in picture.reachable,
            draining=presence.draining,
            inbox_length=mail.inbox,
            inbox_pending=mail.pending,
            dlq_length=mail.dead,
            nodes_owned=about.get("nodes", 0),
            sessions_owned=about.get("sessions", 0),
            jobs_open=about.get("jobs", 0),
        )


def dead_letters(picture: Picture, limit: int) -> DeadLetterPage:
    """Show the newest dead letters of all instances."""
    return DeadLetterPage(
        total=max(sum(mail.dead for mail in picture.mail.values()), len(picture.dead)),
        letters=[
            DeadLetterRow(
                letter_id=letter.id,
                instance_id=letter.instance_id,
                source=letter.source,
                reason=letter.reason,
                deliveries=letter.deliveries,
                sent_ms=letter.sent_ms,
                buried_ms=letter.buried_ms,
                bytes=len(letter.body),
            )
            for letter in picture.dead[:limit]
        ],
    )


def version_number(text: str = __version__) -> int:
    """Write a version as a number, for what can carry only numbers."""
    parts = [int(part) for part in text.split(".")[:3] if part.isdecimal()]
    number = 0
    for part in [*parts, 0, 0, 0][:3]:
        number = number * _PART + min(part, _PART - 1)
    return number


def version_text(number: int) -> str:
    """Read what `version_number` wrote; empty for 0, which nobody wrote."""
    rest, patch = divmod(number, _PART)
    major, minor = divmod(rest, _PART)
    return f"{major}.{minor}.{patch}" if number else ""


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
