"""`lingua keys`: make, list and revoke the keys of tenants, nodes and operators, straight in Redis.

A key is shown once, when it is made. What is kept is its digest.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from lingua_scheduler.config import Config
from lingua_scheduler.core.keys import KeyFacts, KeyKind, KeyRecord, digest_of, made_key
from lingua_scheduler.errors import ConfigError, LinguaError
from lingua_scheduler.log import printable
from lingua_scheduler.secret import Secret
from lingua_scheduler.store.auth_keys import AuthKeyStore
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts

_DAY_MS: Final = 86_400_000
_LONGEST_DAYS: Final = 36_500
_Made = tuple[Secret, KeyFacts]
_HEADS: Final = ("ID", "KIND", "FOR", "CREATED", "EXPIRES", "STATE", "LABEL")


@dataclass(frozen=True, slots=True)
class KeysRequest:
    """What somebody wants to do with keys."""

    what: str  # create, list or revoke
    key_id: str | None = None
    kind: str | None = None
    tenant: str = ""
    node_id: str = ""
    label: str = ""
    ttl_days: float | None = None  # None: for ever
    max_sessions: int = 0
    store: bool = True  # False: word it for a configuration file instead
    as_json: bool = False


def keys(config: Config, request: KeysRequest) -> int:
    """Do it and print the outcome; return the exit code."""
    _check(request)
    made = _made(request) if request.what == "create" else None
    if made is not None and not request.store:
        print(_for_configuration(*made, request))
        return 0
    if not config.redis.url:
        raise ConfigError("redis.url: keys are in Redis; name it, for example with --redis-url")
    print(asyncio.run(_outcome(config, request, made)))
    return 0


def _check(request: KeysRequest) -> None:
    what = request.what
    if (request.key_id is not None) != (what == "revoke"):
        wants = "no id" if request.key_id else "an id, as `lingua keys list` names it"
        raise ConfigError(f"keys {what}: takes {wants}")
    if what != "create" and not request.store:
        raise ConfigError(f"keys {what}: --no-store is for keys create")
    if what == "create" and request.kind is None:
        raise ConfigError("keys create: --kind: expected tenant, node or admin")
    if request.ttl_days is not None and not 0 < request.ttl_days <= _LONGEST_DAYS:
        raise ConfigError(f"keys create: --ttl-days: expected more than 0 and at most {_LONGEST_DAYS}")
    if request.ttl_days is not None and not request.store:
        raise ConfigError("keys create: --ttl-days: a key in a configuration file does not expire")


async def _outcome(config: Config, request: KeysRequest, made: _Made | None) -> str:
    connection = Connection(config.redis)
    store = AuthKeyStore(Scripts(connection), Keys(config.redis.key_prefix))
    try:
        if made is not None:
            return await _created(store, *made, request)
        if request.what == "list":
            return _listed(await store.all(), request)
        return await _revoked(store, request)
    finally:
        await connection.close()


def _made(request: KeysRequest) -> _Made:
    kind = KeyKind(request.kind or "")
    key_id, key = made_key(kind)
    members = {
        "id": key_id,
        "kind": kind,
        "digest": digest_of(key),
        "tenant": request.tenant,
        "node_id": request.node_id,
        "label": request.label,
        "max_sessions": request.max_sessions,
    }
    try:
        return key, msgspec.convert(members, KeyFacts)
    except msgspec.ValidationError as error:
        complaint = str(error).replace("`", "").replace("Expected", "expected")
        raise ConfigError(f"keys create: {printable(complaint)}") from None


async def _created(store: AuthKeyStore, key: Secret, facts: KeyFacts, request: KeysRequest) -> str:
    ttl_ms = round((request.ttl_days or 0) * _DAY_MS)
    if not await store.add(facts, ttl_ms=ttl_ms):
        raise LinguaError("keys create: the id is taken: try again")
    if request.as_json:
        return json.dumps({"id": facts.id, "key": str(key)}, indent=2)
    return f"{key!s}\nThis is the only time that it is shown. Its id is {facts.id}."


def _for_configuration(key: Secret, facts: KeyFacts, request: KeysRequest) -> str:
    """Word a key for a configuration file, where only its digest stands."""
    if request.as_json:
        return json.dumps({"key": str(key), **msgspec.to_builtins(facts)}, indent=2)
    said = {name: value for name, value in msgspec.to_builtins(facts).items() if value}
    lines = [f"{name} = {json.dumps(value)}" for name, value in said.items()]
    return "\n".join([f"# {key!s} is shown only now; below is its digest", "[[auth.keys]]", *lines])


def _listed(records: tuple[KeyRecord, ...], request: KeysRequest) -> str:
    if request.as_json:
        return json.dumps([_facts(record) for record in records], indent=2)
    if not records:
        return "no keys"
    rows = [_HEADS, *map(_row, records)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


async def _revoked(store: AuthKeyStore, request: KeysRequest) -> str:
    key_id = request.key_id or ""
    if not await store.revoke(key_id):
        raise LinguaError(
            f"no key {printable(key_id)} in Redis; one of a configuration file is removed there"
        )
    if request.as_json:
        return json.dumps({"revoked": key_id}, indent=2)
    return f"revoked {printable(key_id)}: every instance closes what it opened within seconds"


def _facts(record: KeyRecord) -> dict[str, Any]:
    facts = record.facts
    return {
        "id": facts.id,
        "kind": facts.kind.value,
        "tenant": facts.tenant,
        "node_id": facts.node_id,
        "label": facts.label,
        "max_sessions": facts.max_sessions,
        "created": _time(record.created_ms),
        "expires": _time(record.expires_ms),
        "revoked": _time(record.revoked_ms),
    }


def _row(record: KeyRecord) -> tuple[str, ...]:
    facts = record.facts
    state = f"revoked {_time(record.revoked_ms)}" if record.revoked_ms else "good"
    expires = _time(record.expires_ms) or "never"
    cells = (facts.id, facts.kind, facts.tenant or facts.node_id, _time(record.created_ms), expires)
    return tuple(printable(str(cell)) or "-" for cell in (*cells, state, facts.label))


def _time(wall_ms: int) -> str | None:
    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="seconds") if wall_ms else None
