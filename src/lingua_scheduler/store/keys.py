"""Every key of the scheduler in Redis: its shape, type, end of life and meaning.

A key is `<prefix>:{<tag>}:<rest>`. Keys with one tag live in one slot of a cluster, so one script may touch
them together. Every key has a TTL, or a named owner that removes it; the methods of `Keys` are the catalogue.
"""

from __future__ import annotations

import inspect
import re
from binascii import crc_hqx
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

SLOTS = 16384
"""Slots of a Redis Cluster."""

_Builder = TypeVar("_Builder", bound=Callable[..., str])


def hash_tag(key: str) -> str:
    """Give the part of a key that decides its slot: what stands between the first braces, else all of it."""
    start = key.find("{")
    if start >= 0:
        end = key.find("}", start + 1)
        if end > start + 1:
            return key[start + 1 : end]
    return key


def slot(key: str | bytes) -> int:
    """Give the slot of a key in a Redis Cluster."""
    text = key if isinstance(key, str) else key.decode("utf-8", "surrogateescape")
    return crc_hqx(hash_tag(text).encode("utf-8", "surrogateescape"), 0) % SLOTS


@dataclass(frozen=True, slots=True)
class KeyRule:
    """What is promised about one kind of key."""

    name: str  # the method of Keys that builds it
    template: str  # after the prefix; <part> stands for an argument of that method
    type: str  # in the words of Redis' TYPE
    meaning: str
    ttl: str  # what its time to live is and who renews it; empty when it has none
    owner: str  # who removes it when it has no TTL; empty when it has one

    def matches(self, rest: str) -> bool:
        """Tell whether a key, given without its prefix, is of this kind."""
        parts = re.split(r"<\w+>", self.template)
        return re.fullmatch(".+".join(map(re.escape, parts)), rest, re.DOTALL) is not None


_kinds: list[tuple[Callable[..., str], dict[str, str]]] = []


def _kind(redis_type: str, *, ttl: str = "", owner: str = "") -> Callable[[_Builder], _Builder]:
    def declare(builder: _Builder) -> _Builder:
        _kinds.append((builder, {"type": redis_type, "ttl": ttl, "owner": owner}))
        return builder

    return declare


_LEAVING = "the node's owner when it leaves; the sweep of ended leases"
_RELEASE = "the release of the slot; the sweep of ended reservations"


class Keys:
    """Builds every key under one prefix."""

    def __init__(self, prefix: str) -> None:
        if not prefix or "{" in prefix or "}" in prefix:
            raise ValueError("a key prefix is not empty and has no braces")
        self.prefix = prefix

    @staticmethod
    @cache
    def catalogue() -> tuple[KeyRule, ...]:
        """List every kind of key there is."""
        return tuple(_rule(builder, promise) for builder, promise in _kinds)

    def rule_of(self, key: str) -> KeyRule | None:
        """Find the kind of a key; None for a key that is not in the catalogue."""
        if not key.startswith(f"{self.prefix}:"):
            return None
        rest = key[len(self.prefix) + 1 :]
        return next((rule for rule in self.catalogue() if rule.matches(rest)), None)

    @_kind("hash", ttl="the node's lease (45 s), renewed by each heartbeat")
    def node(self, pool: int, node: str) -> str:
        """Record a node: epoch, owner, capacity, why it is closed, facts."""
        return f"{self.prefix}:{{pool:{pool}}}:node:{node}"

    @_kind("hash", owner=_LEAVING)
    def nodes(self, pool: int) -> str:
        """Tell placement each node's lease end, capacity, owner, epoch, shelf, foreign load and openness."""
        return f"{self.prefix}:{{pool:{pool}}}:nodes"

    @_kind("zset", owner=_LEAVING)
    def shelf(self, pool: int, name: str) -> str:
        """Order nodes that are alike, open and not full by effective load and last use."""
        return f"{self.prefix}:{{pool:{pool}}}:shelf:{name}"

    @_kind("zset", owner=_LEAVING)
    def aside(self, pool: int) -> str:
        """Keep the effective load of nodes that cannot be chosen now: full, closed or out of reach."""
        return f"{self.prefix}:{{pool:{pool}}}:aside"

    @_kind("zset", owner=_LEAVING)
    def leases(self, pool: int) -> str:
        """Order every node of a pool by the end of its lease in ms."""
        return f"{self.prefix}:{{pool:{pool}}}:leases"

    @_kind("zset", owner=_RELEASE)
    def reserved(self, pool: int) -> str:
        """Order every reservation (job#attempt, epoch, node) of a pool by its end in ms."""
        return f"{self.prefix}:{{pool:{pool}}}:reserved"

    @_kind("zset", ttl="1 day after the last change")
    def changes(self, pool: int) -> str:
        """Order nodes by the version of their last change, for snapshots."""
        return f"{self.prefix}:{{pool:{pool}}}:changes"

    @_kind("string", ttl="1 day after the last change")
    def version(self, pool: int) -> str:
        """Count the changes of a pool."""
        return f"{self.prefix}:{{pool:{pool}}}:version"

    @_kind("hash", ttl="1 day after the last registration")
    def where(self, node: str) -> str:
        """Tell a node's pool, and the epoch that fences its older owners."""
        return f"{self.prefix}:{{node:{node}}}:where"

    @_kind("hash", ttl="the session's, renewed by its owner; removed when it ends")
    def session(self, session: str) -> str:
        """Record a session: its owner, counters, affinity and pool, its jobs, what the client was told."""
        return f"{self.prefix}:{{session:{session}}}:session"

    @_kind("string", ttl="the job's longest life; removed when it ends")
    def audio(self, session: str, job: str) -> str:
        """Keep a job's audio for its next attempt."""
        return f"{self.prefix}:{{session:{session}}}:audio:{job}"

    @_kind("string", ttl="`ended_job_s`")
    def ended(self, session: str, job: str) -> str:
        """Tell that a job has ended, by which attempt and how, and that its slot is free."""
        return f"{self.prefix}:{{session:{session}}}:ended:{job}"

    @_kind("string", ttl="60 s")
    def voice(self, session: str, job: str) -> str:
        """Keep the spoken result of a job on its way to the instance that owns the session."""
        return f"{self.prefix}:{{session:{session}}}:voice:{job}"

    @_kind("hash", ttl="the session's and `keep_s` more, renewed with it; `keep_s` when it ends")
    def transcript(self, session: str) -> str:
        """Keep what a session said: lines by index and language, and how many have left."""
        return f"{self.prefix}:{{session:{session}}}:transcript"

    @_kind("zset", ttl="with the transcript")
    def transcript_order(self, session: str) -> str:
        """Order the lines of a session's transcript by the time at which they were said."""
        return f"{self.prefix}:{{session:{session}}}:transcript_order"

    @_kind("hash", ttl="the instance's (`presence_ttl_s`), renewed by it; removed when it leaves")
    def presence(self, instance: str) -> str:
        """Tell that an instance lives: boot, address, start, whether it drains, counts for people."""
        return f"{self.prefix}:{{instance:{instance}}}:presence"

    @_kind("stream", ttl="1 day after the instance's last renewal; removed when it leaves or is forgotten")
    def inbox(self, instance: str) -> str:
        """Keep letters to an instance until they are dealt with; read by the group `scheduler`."""
        return f"{self.prefix}:{{instance:{instance}}}:inbox"

    @_kind("string", ttl="`adoption_s`, renewed while letters are inherited; removed with the inbox")
    def adopter(self, instance: str) -> str:
        """Tell which instance has taken charge of what a dead one left."""
        return f"{self.prefix}:{{instance:{instance}}}:adopter"

    @_kind("stream", ttl="`dead_keep_s` after the last burial")
    def dead(self, instance: str) -> str:
        """Keep letters that an instance could not deal with, for people."""
        return f"{self.prefix}:{{instance:{instance}}}:dead"

    @_kind("hash", ttl="1 day after the last renewal by any instance")
    def registry(self) -> str:
        """List every instance that is known: end of its lease and of its adoption, boot, what it says."""
        return f"{self.prefix}:{{instances}}:registry"

    @_kind("zset", ttl="`dead_keep_s` after the last burial")
    def graves(self) -> str:
        """Order the instances that may have dead letters by the time until which they may."""
        return f"{self.prefix}:{{instances}}:graves"

    @_kind("string", ttl="1 day after the last instance asked")
    def secret(self) -> str:
        """Keep the secret that all instances share."""
        return f"{self.prefix}:{{instances}}:secret"

    @_kind("hash", ttl="`expiry_s` since somebody joined or spoke; removed with the last member")
    def room(self, code: str) -> str:
        """Record a room: id, version, last speech, how many have joined."""
        return f"{self.prefix}:{{room:{code}}}:room"

    @_kind("hash", ttl="with the room")
    def members(self, code: str) -> str:
        """Tell each member's place, time of joining, owner, epoch, mode, language and name."""
        return f"{self.prefix}:{{room:{code}}}:members"

    @_kind("hash", ttl="with the room")
    def wishes(self, code: str) -> str:
        """Tell who wants to hear whose own voice, as far as anybody said."""
        return f"{self.prefix}:{{room:{code}}}:wishes"

    @_kind("hash", ttl="with the room")
    def room_transcript(self, code: str) -> str:
        """Keep what was said in a room: lines by speaker, index and language, and who was there."""
        return f"{self.prefix}:{{room:{code}}}:room_transcript"

    @_kind("zset", ttl="with the room")
    def room_transcript_order(self, code: str) -> str:
        """Order the lines of a room's transcript by the time at which they were said."""
        return f"{self.prefix}:{{room:{code}}}:room_transcript_order"

    @_kind("string", ttl="the code's (5 min); removed when it is used")
    def pairing(self, code: str) -> str:
        """Tell which node a pairing code belongs to."""
        return f"{self.prefix}:{{pair:{code}}}:pairing"

    @_kind("string", ttl="the window in which one notice is enough (5 s)")
    def notice(self, subject: str) -> str:
        """Tell that an instance has logged a missing service; `subject` is a digest of its name."""
        return f"{self.prefix}:{{notice:{subject}}}:notice"

    @_kind("hash", owner="the next change by `lingua keys`, 30 days after a key was revoked or expired")
    def auth_keys(self) -> str:
        """List the keys of tenants, nodes and operators: created, expires, revoked, digest and facts."""
        return f"{self.prefix}:{{keys}}:auth_keys"

    @_kind("string", owner="nobody: it goes on counting")
    def auth_version(self) -> str:
        """Count the changes of these keys."""
        return f"{self.prefix}:{{keys}}:auth_version"


def _rule(builder: Callable[..., str], promise: dict[str, str]) -> KeyRule:
    parts: dict[str, Any] = {
        name: f"<{name}>" for name in inspect.signature(builder).parameters if name != "self"
    }
    template = builder(Keys("prefix"), **parts).removeprefix("prefix:")
    return KeyRule(name=builder.__name__, template=template, meaning=inspect.getdoc(builder) or "", **promise)
