"""`lingua dlq`: what became of letters that no instance could deal with, and a way back or out for them.

Letters are about people's speech. Unless somebody asks for a whole body, only its shape is shown: types, ids,
numbers, and how long everything else is.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from lingua_scheduler.config import Config
from lingua_scheduler.core.company import Posted
from lingua_scheduler.core.model import InstanceId
from lingua_scheduler.errors import ConfigError, LinguaError
from lingua_scheduler.log import printable
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.dead_letters import PAGE, DeadLetter, DeadLetters
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts

_TELLING = re.compile(r"(^|_)(type|ids?|langs?|state|code|reason|why)$")  # members with words of the protocol
_WORD = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_MOST_ITEMS = 20
_MOST_LETTERS = 1000
_HEADS = ("LETTER", "BURIED", "TRIES", "FROM", "BYTES", "TYPE", "REASON")


@dataclass(frozen=True, slots=True)
class DlqRequest:
    """What somebody wants to do with dead letters."""

    what: str  # list, show, replay or drop
    letter: str | None = None
    every: bool = False  # drop all of them
    into: str | None = None  # replay into this instance's inbox
    before: str | None = None  # list what follows this one
    most: int = PAGE
    as_json: bool = False
    whole: bool = False  # show the body as it is


def dlq(config: Config, request: DlqRequest) -> int:
    """Do it and print the outcome; return the exit code."""
    if (request.letter is None) != (request.what == "list" or (request.what == "drop" and request.every)):
        wants = "no letter" if request.letter else "a letter, as `lingua dlq list` names it"
        raise ConfigError(f"dlq {request.what}{' --all' if request.every else ''}: takes {wants}")
    if not 1 <= request.most <= _MOST_LETTERS:
        raise ConfigError(f"dlq list: --limit: expected 1 to {_MOST_LETTERS}")
    if not config.redis.url:
        raise ConfigError("redis.url: dead letters are in Redis; name it, for example with --redis-url")
    print(asyncio.run(_outcome(config, request)))
    return 0


async def _outcome(config: Config, request: DlqRequest) -> str:
    connection = Connection(config.redis)
    letters = DeadLetters(connection, Scripts(connection), Keys(config.redis.key_prefix), config.company)
    try:
        match request.what:
            case "list":
                return await _listed(letters, request)
            case "show":
                return await _shown(letters, request)
            case "replay":
                return await _replayed(letters, request)
            case _:
                return await _dropped(letters, request)
    finally:
        await connection.close()


async def _listed(letters: DeadLetters, request: DlqRequest) -> str:
    page = await letters.page(most=request.most, before=request.before)
    if request.as_json:
        return _json([_facts(letter) for letter in page])
    if not page:
        return "no dead letters"
    rows = [_HEADS, *map(_row, page)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    if len(page) == request.most:
        lines.append(f"perhaps more: lingua dlq list --before {printable(page[-1].id)}")
    return "\n".join(line.rstrip() for line in lines)


async def _shown(letters: DeadLetters, request: DlqRequest) -> str:
    letter = await letters.find(request.letter or "")
    if letter is None:
        raise _unknown(request)
    facts = _facts(letter)
    if request.whole:
        facts["body"] = letter.body.decode(errors="replace")
    if request.as_json:
        return _json(facts)
    body = printable(facts.pop("body")) if request.whole else _json(facts.pop("body"))
    lines = [f"{name.ljust(11)} {_clean(value)}" for name, value in facts.items()]
    return "\n".join([*lines, "body", body])


async def _replayed(letters: DeadLetters, request: DlqRequest) -> str:
    into = InstanceId(request.into) if request.into else None
    outcome = await letters.replay(request.letter or "", to=into)
    if outcome is None:
        raise _unknown(request)
    if outcome.posted is not Posted.SENT:
        gone = f"{_clean(into)} does not live" if into else "no instance lives"
        why = gone if outcome.posted is Posted.GONE else f"the inbox of {_clean(outcome.to)} is full"
        raise LinguaError(f"dlq replay: {why}; the letter stays where it is")
    if request.as_json:
        return _json({"letter": request.letter, "into": outcome.to})
    return f"replayed into the inbox of {outcome.to}"


async def _dropped(letters: DeadLetters, request: DlqRequest) -> str:
    if request.every:
        dropped = await letters.drop_all()
    elif await letters.drop(request.letter or ""):
        dropped = 1
    else:
        raise _unknown(request)
    return _json({"dropped": dropped}) if request.as_json else f"dropped {dropped}"


def outline(value: Any, name: str = "") -> Any:
    """Give the shape of a letter's content: words of the protocol, numbers, and how long the rest is."""
    match value:
        case str() if _TELLING.search(name) and _WORD.fullmatch(value):
            return value
        case str():
            return f"<{len(value)} characters>"
        case list():
            shown = [outline(item, name) for item in value[:_MOST_ITEMS]]
            return shown if len(value) <= _MOST_ITEMS else [*shown, f"<{len(value) - _MOST_ITEMS} more>"]
        case dict():
            return {_clean(key): outline(item, key) for key, item in value.items()}
    return value


def _content(body: bytes) -> Any:
    try:
        return outline(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return f"<{len(body)} bytes that are no JSON>"


def _facts(letter: DeadLetter) -> dict[str, Any]:
    return {
        "letter": letter.id,
        "instance": letter.instance_id,
        "source": letter.source,
        "reason": letter.reason,
        "deliveries": letter.deliveries,
        "sent": _time(letter.sent_ms),
        "buried": _time(letter.buried_ms),
        "bytes": len(letter.body),
        "body": _content(letter.body),
    }


def _row(letter: DeadLetter) -> tuple[str, ...]:
    content = _content(letter.body)
    kind = content.get("type", "?") if isinstance(content, dict) else "?"
    buried = _time(letter.buried_ms)
    cells = (letter.id, buried, letter.deliveries, letter.source, len(letter.body), kind, letter.reason)
    return tuple(_clean(cell) for cell in cells)


def _time(wall_ms: int) -> str:
    try:
        return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{wall_ms} ms"


def _clean(value: Any) -> str:
    return printable(str(value)) or "-"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2)


def _unknown(request: DlqRequest) -> LinguaError:
    return LinguaError(f"no dead letter {_clean(request.letter)}")
