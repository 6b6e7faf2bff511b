"""The configuration as text for people: the effective one with secrets masked, and a commented example."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import msgspec

from lingua_scheduler.config import (
    ENVIRONMENT_PREFIX,
    FILE_NAME,
    Config,
    Loaded,
    choices,
    is_secret,
    record_of,
)
from lingua_scheduler.secret import mask_url

_WIDTH = 100
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_LIMITS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<", "pattern": "like"}
_HEADER = f"""\
# Lingua Scheduler: every option with its default, made by `lingua config example`.
# Copy what you change into {FILE_NAME}. The environment ({ENVIRONMENT_PREFIX}<TABLE>__<KEY>) wins over
# the file, and flags win over both. `lingua config show` prints what is in effect and where it came from.
"""


def shown(loaded: Loaded) -> str:
    """Give the effective configuration as TOML, secrets masked, with the origin of what is not a default."""
    lines: list[str] = []
    for path, record, default in _tables(loaded.config, Config(), ()):
        lines.append(f"\n[{'.'.join(path)}]")
        for field in _plain_fields(record):
            value = getattr(record, field.name)
            line = _assignment(field.name, _masked(field.name, value))
            if value != getattr(default, field.name):
                line += f"  # from {loaded.origins['.'.join((*path, field.name))]}"
            lines.append(line)
    return "\n".join(lines).lstrip() + "\n"


def example() -> str:
    """Give a file with every option, its explanation, its limits and its default."""
    lines = [_HEADER]
    for path, record, _ in _tables(Config(), Config(), ()):
        lines += [*_comment(inspect.getdoc(type(record)) or ""), f"[{'.'.join(path)}]"]
        explanations = explained(type(record))
        for field in _plain_fields(record):
            about = " ".join(filter(None, (explanations[field.name], _limits(field.type))))
            lines += [*_comment(about), _assignment(field.name, getattr(record, field.name))]
        lines.append("")
    return "\n".join(lines)


def explained(record: type[msgspec.Struct]) -> dict[str, str]:
    """Read the docstrings that stand below the fields of a record, its bases included."""
    found: dict[str, str] = {}
    for base in reversed(record.__mro__[: record.__mro__.index(msgspec.Struct)]):
        for statement, below in itertools.pairwise(_class_body(base)):
            match statement, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
    return found


def _class_body(record: type) -> list[ast.stmt]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(record)))
    return next(statement.body for statement in tree.body if isinstance(statement, ast.ClassDef))


def _tables(
    record: msgspec.Struct, default: msgspec.Struct, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], msgspec.Struct, msgspec.Struct]]:
    if path:
        yield path, record, default
    for field in msgspec.structs.fields(record):
        if record_of(field.type) is not None:
            yield from _tables(getattr(record, field.name), getattr(default, field.name), (*path, field.name))


def _plain_fields(record: msgspec.Struct) -> list[msgspec.structs.FieldInfo]:
    return [field for field in msgspec.structs.fields(record) if record_of(field.type) is None]


def _masked(name: str, value: Any) -> Any:
    if not is_secret(name, value):
        return value
    masked = mask_url(value)
    return masked if masked != value else "***"


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _limits(field_type: Any) -> str:
    words = choices(field_type)
    limits = [f"one of {', '.join(words)}"] if words else []
    for part in _annotations(field_type):
        limits += [
            f"{said} {getattr(part, name)}"
            for name, said in _LIMITS.items()
            if getattr(part, name) is not None
        ]
    return f"({', '.join(limits)})" if limits else ""


def _annotations(field_type: Any) -> Iterator[msgspec.Meta]:
    if get_origin(field_type) is Annotated:
        yield from (part for part in get_args(field_type)[1:] if isinstance(part, msgspec.Meta))
    for part in get_args(field_type):
        yield from _annotations(part)


def _assignment(name: str, value: Any) -> str:
    return f"# {name} is not set" if value is None else f"{name} = {_toml(value)}"


def _toml(value: Any) -> str:
    if isinstance(value, Enum):
        return _toml(value.value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (str, Path)):
        return _quoted(str(value))
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {_toml(inner)}" for name, inner in value.items()) + "}"
    return "[" + ", ".join(_toml(inner) for inner in value) + "]"


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    encodable = text.encode("utf-8", "replace").decode().replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(mark if mark.isprintable() else f"\\U{ord(mark):08X}" for mark in encodable) + '"'
