"""What there is to document: messages, records, options, limits, codes and scripts, read from the code."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Iterator, Mapping
from functools import cache, reduce
from importlib.resources import files
from operator import or_
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import inspect as shapes

import lingua_scheduler
from lingua_scheduler import client, errors, node
from lingua_scheduler.config import Config, choices, record_of
from lingua_scheduler.core import hints
from lingua_scheduler.core.lifecycle import JobState
from lingua_scheduler.secret import Secret
from lingua_scheduler.store.scripts import Source, read_source
from lingua_scheduler.wire import common, machine
from lingua_scheduler.wire.node import FromNode, ToNode
from lingua_scheduler.wire.session import FromClient, ToClient

DIRECTIONS: Mapping[str, Any] = {
    "from-client": FromClient,
    "to-client": ToClient,
    "from-node": FromNode,
    "to-node": ToNode,
}
LUA = files("lingua_scheduler.store") / "lua"

_ROOT = Path(lingua_scheduler.__file__).parent
_LIMIT = re.compile(
    r"(^|_)(max|min|limit|burst|backlog|deadline|timeout|threshold|queued|batch|per|candidates|cap|late|pending"
    r"|base|ack|drain|lease|grace|shortest|margin|keep|ended|count)(_|$)"
)
_ALL_LIMITS = ("server.clients", "server.nodes", "wire")
_CODE = r'"([A-Z]{5,}|[A-Z]+(?:_[A-Z]+)+)"'
_NAMED_CODE = rf"(?:\w ?= ?|Refused\(\s*|\d: ){_CODE}"
_EXACT_BITS = 32  # integers from here on are written as powers of two


def source(*rooms: str) -> str:
    """Give the text of every module in these rooms."""
    return "\n".join(
        file.read_text(encoding="utf-8") for room in rooms for file in (_ROOT / room).rglob("*.py")
    )


def messages(direction: str) -> dict[str, type[msgspec.Struct]]:
    """Give the messages of one direction by their type."""
    return {kind.__struct_config__.tag: kind for kind in get_args(DIRECTIONS[direction])}


@cache
def records() -> dict[str, type[msgspec.Struct]]:
    """Give the records inside messages by their name."""
    found: dict[str, type[msgspec.Struct]] = {}
    waiting: list[Any] = list(DIRECTIONS.values())
    while waiting:
        part = waiting.pop()
        waiting += get_args(part)
        if (record := record_of(part)) is not None and record.__name__ not in found:
            found[record.__name__] = record
            waiting += [field.type for field in msgspec.structs.fields(record)]
    sent = {kind.__name__ for direction in DIRECTIONS for kind in messages(direction).values()}
    return {name: found[name] for name in sorted(found) if name not in sent}


def options() -> dict[str, type[msgspec.Struct]]:
    """Give the record of every table of the configuration by its dotted name."""

    def inner(record: type[msgspec.Struct], at: str) -> Iterator[tuple[str, type[msgspec.Struct]]]:
        for field in msgspec.structs.fields(record):
            if (found := record_of(field.type)) is not None:
                yield at + field.name, found
                yield from inner(found, f"{at}{field.name}.")

    return dict(inner(Config, ""))


def library_options() -> dict[str, type[msgspec.Struct]]:
    """Give the option records of the Python client and the node SDK by their names."""
    rooms = (client, node)
    names = [
        module.name for room in rooms for module in pkgutil.iter_modules(room.__path__, f"{room.__name__}.")
    ]
    return {
        name: kind
        for module in names
        for name, kind in vars(importlib.import_module(module)).items()
        if name.endswith("Options") and kind.__module__ == module
    }


def plain(record: type[msgspec.Struct]) -> list[msgspec.structs.FieldInfo]:
    """Give the options of a record, without its inner tables."""
    return [field for field in msgspec.structs.fields(record) if record_of(field.type) is None]


def limits(table: str) -> list[msgspec.structs.FieldInfo]:
    """Give the options of a table that bound something."""
    return [field for field in plain(options()[table]) if table in _ALL_LIMITS or _LIMIT.search(field.name)]


def error_codes() -> list[str]:
    """Collect every error code that some part of the house raises, sends or explains."""
    found = {*hints._HINTS, *hints.NODE_FAILURE_CODES}  # noqa: SLF001 the sentences have no other list
    known = [kind for kind in vars(errors).values() if inspect.isclass(kind)]
    found |= {kind.code for kind in known if issubclass(kind, errors.LinguaError)}
    found |= set(re.findall(_CODE, source("flow", "edge")))
    found |= set(re.findall(_NAMED_CODE, source("store", "client", "node")))
    return sorted(found - {state.value for state in JobState})


def scripts() -> dict[str, Source]:
    """Give every Lua script by its name."""
    names = sorted(file.name for file in LUA.iterdir() if file.name.endswith(".lua"))
    return {name.removesuffix(".lua"): read_source(LUA, name.removesuffix(".lua")) for name in names}


WORDS: Mapping[Any, str] = {
    bytes: "base64",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "text",
    Secret: "text",
    Any: "any JSON",
}
"""How the pages call what is on the wire."""

NAMED: Mapping[Any, str] = {
    kind: name
    for module in (common, machine)
    for name, kind in vars(module).items()
    if kind == common.Number
    or (get_origin(kind) is Annotated and name[0].isupper() and get_origin(get_args(kind)[0]) is not tuple)
}
"""The bounded types that have a name of their own."""


def type_word(kind: Any) -> str:
    """Name the type of a member or an option."""
    if NoneType in get_args(kind):
        kind = reduce(or_, (part for part in get_args(kind) if part is not NoneType))
    if kind in NAMED or kind in WORDS:
        return NAMED.get(kind) or WORDS[kind]
    if (record := record_of(kind)) is not None:
        return f"[{record.__name__}](#{record.__name__.lower()})"
    return _compound_word(get_origin(kind), get_args(kind))


def _compound_word(origin: Any, parts: tuple[Any, ...]) -> str:
    if origin is Annotated:
        most = parts[1].max_length
        return type_word(parts[0]).replace("list of", f"list of up to {most}" if most else "list of")
    if origin is tuple:
        return f"list of {type_word(parts[0])}"
    if origin is dict:
        return f"object of {type_word(parts[1])}"
    return "word" if origin is Literal else " or ".join(map(type_word, parts))


def bounds(kind: Any) -> str:
    """Say what a type accepts beyond its word."""
    shape: Any = shapes.type_info(kind)
    if isinstance(shape, shapes.UnionType):
        shape = shape.types[0]
    said = [f"one of {', '.join(f'`{word}`' for word in choices(kind))}"] if choices(kind) else []
    for name, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<")):
        if (bound := getattr(shape, name, None)) is not None:
            said.append(f"{sign} {amount(bound)}")
    if (most := getattr(shape, "max_length", None)) is not None:
        what = "members" if isinstance(shape, shapes.DictType) else "characters"
        said.append(f"{shape.min_length or 0} to {most} {what}")
    if getattr(shape, "pattern", None):
        said.append(f"like `{shape.pattern}`")
    return ", ".join(said)


def amount(value: Any, name: str = "") -> str:
    """Write a value as TOML does; bytes also as people say them."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return json.dumps(value, default=str)
    for unit, size in (("MiB", 2**20), ("KiB", 2**10)):
        if "byte" in name and value and value % size == 0:
            return f"{value:.0f} ({value / size:g} {unit})"
    bits = value.bit_length() if isinstance(value, int) else 0
    return f"2^{bits} - 1" if bits >= _EXACT_BITS and value == 2**bits - 1 else f"{value:.15g}"
