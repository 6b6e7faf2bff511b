"""Lua scripts with a signature: the header of a script file names its keys and arguments on both sides.

::

    -- Reserve one slot of the best candidate.
    -- KEYS: pair free node
    -- ARGV: job attempt ttl_ms exclude...
    -- include: now_ms
    -- durable: promises 1 to 3

The names become Lua locals and keyword arguments of the call; nobody writes an index. A last name with three
dots takes a list. Each include is one file in `include/` that defines one local function of the file's name.
A script with a durable line, which says what rests on it, is answered once what it wrote or found is as safe
as `redis.durability` says.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from operator import itemgetter
from typing import Any

from lingua_scheduler.errors import StoreError
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.keys import hash_tag
from lingua_scheduler.store.packing import Argument
from lingua_scheduler.store.replies import ScriptUnknown

_HEADER = re.compile(r"--\s*(KEYS|ARGV|include|durable):(.*)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCRIPT_LINE = re.compile(r"(?:@?user_script):(\d+)")
_NOT_A_NAME = re.compile(
    "and|break|do|else|elseif|end|false|for|function|if|in|local|nil|not|or|repeat|return|then|true|until|while"
    "|self|KEYS|ARGV|redis|cjson|cmsgpack|struct|bit|math|string|table|unpack|ipairs|pairs|tonumber|tostring|type"
)


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one header line; `rest` is the last one when it takes a list."""

    fixed: tuple[str, ...] = ()
    rest: str | None = None

    def __iter__(self) -> Iterator[str]:
        """Give every name in order."""
        return iter((*self.fixed, self.rest) if self.rest else self.fixed)

    def layout(self) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
        """Make what lays given values out in the order of the names."""
        fixed, rest = self.fixed, self.rest
        if len(fixed) > 1:
            laid: Callable[[dict[str, Any]], tuple[Any, ...]] = itemgetter(*fixed)
        else:
            laid = lambda given: tuple(given[name] for name in fixed)  # noqa: E731 it is one of two
        return laid if rest is None else lambda given: (*laid(given), *given[rest])

    def locals(self, table: str) -> str:
        """Write the Lua that gives the values of `table` their names."""
        lua = ""
        if self.fixed:
            values = ", ".join(f"{table}[{index}]" for index in range(1, len(self.fixed) + 1))
            lua = f"local {', '.join(self.fixed)} = {values} "
        if self.rest:
            skip = len(self.fixed)
            copy = f"for i = {skip + 1}, #{table} do {self.rest}[i - {skip}] = {table}[i] end"
            lua += f"local {self.rest} = {{}} {copy}"
        return lua.rstrip()


@dataclass(frozen=True, slots=True)
class Source:
    """A script ready to be sent: its names, its whole text and where each line of it comes from."""

    name: str
    keys: Names
    args: Names
    text: str
    origin: tuple[str, ...] = field(repr=False)  # per line of the text: file:line
    durable: bool = False

    @property
    def sha(self) -> str:
        """The name Redis gives the script."""
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


Meter = Callable[[str, float, StoreError | None], None]
"""Told after each call: the script's name, the seconds it took, and how it failed if it did."""


class Script:
    """One Lua script that is called like a function, with keyword arguments only."""

    def __init__(self, connection: Connection, source: Source, meter: Meter | None = None) -> None:
        self.source = source
        self._connection = connection
        self._meter = meter
        self._sha = source.sha
        self._names = frozenset((*source.keys, *source.args))
        self._keys, self._args = source.keys.layout(), source.args.layout()
        self.durable = source.durable

    async def __call__(self, **values: Any) -> Any:
        """Run the script where its keys live and return its reply."""
        if values.keys() != self._names:
            raise TypeError(self._complaint(values))
        keys = self._keys(values)
        rest = (len(keys), *keys, *self._args(values))
        if len(keys) > 1:
            self._check_tag(keys)
        started = time.perf_counter()
        failure: StoreError | None = None
        try:
            try:
                return await self._connection.asked(("EVALSHA", self._sha, *rest), durable=self.durable)
            except ScriptUnknown:
                # EVAL runs the script and makes the server remember it, on whichever server has the slot now.
                return await self._connection.call("EVAL", self.source.text, *rest, durable=self.durable)
        except StoreError as error:
            self._point_at_file(error)
            failure = error
            raise
        except TypeError as error:
            raise TypeError(self._wrong_type(values) or str(error)) from error
        finally:
            if self._meter is not None:
                self._meter(self.source.name, time.perf_counter() - started, failure)

    def _complaint(self, values: dict[str, Any]) -> str:
        missing = [name for name in (*self.source.keys, *self.source.args) if name not in values]
        unknown = [name for name in values if name not in self._names]
        facts = [f"missing {', '.join(missing)}"] if missing else []
        facts += [f"unknown {', '.join(unknown)}"] if unknown else []
        return f"script {self.source.name}: {'; '.join(facts)}"

    def _wrong_type(self, values: dict[str, Any]) -> str:
        lists = (self.source.keys.rest, self.source.args.rest)
        for name, given in values.items():
            for value in given if name in lists else [given]:
                if isinstance(value, bool) or not isinstance(value, Argument):
                    kind = type(value).__name__
                    return f"script {self.source.name}: {name} is {kind}, not text, bytes or a number"
        return ""

    def _check_tag(self, keys: Sequence[str]) -> None:
        first = keys[0]
        beginning = first[: first.find("}") + 1]
        for key in keys:
            if (not beginning or not key.startswith(beginning)) and hash_tag(key) != hash_tag(first):
                raise ValueError(f"script {self.source.name}: keys of two hash tags, {first!r} and {key!r}")

    def _point_at_file(self, error: StoreError) -> None:
        """Name the file and line of the script instead of the line of the text that was sent."""
        if error.args and isinstance(error.args[0], str):
            error.args = (_SCRIPT_LINE.sub(self._file_line, error.args[0]), *error.args[1:])

    def _file_line(self, found: re.Match[str]) -> str:
        line = int(found[1])
        return self.source.origin[line - 1] if 0 < line <= len(self.source.origin) else found[0]


class Scripts:
    """The scripts of one directory, bound to one connection."""

    def __init__(
        self,
        connection: Connection,
        directory: Traversable | None = None,
        *,
        meter: Meter | None = None,
    ) -> None:
        self._connection = connection
        self._meter = meter
        self._directory = directory or files("lingua_scheduler.store") / "lua"
        self._loaded: dict[str, Script] = {}

    def load(self, name: str) -> Script:
        """Read `<name>.lua`; the same name gives the same script."""
        if name not in self._loaded:
            self._loaded[name] = Script(self._connection, read_source(self._directory, name), self._meter)
        return self._loaded[name]


def read_source(directory: Traversable, name: str) -> Source:
    """Read a script with its includes; ValueError names the file that cannot be used."""
    body = (directory / f"{name}.lua").read_text(encoding="utf-8").splitlines()
    header = _header(body)
    keys, args = _names(name, header["KEYS"]), _names(name, header["ARGV"])
    if not keys.fixed:
        raise ValueError(f"script {name}: needs at least one key before any list of keys")
    every = (*keys, *args)
    if len(set(every)) != len(every):
        raise ValueError(f"script {name}: a name appears twice in KEYS and ARGV")
    lines: list[tuple[str, str]] = []
    _inline(directory / "include", header["include"], (name,), {}, lines)
    lines += [(keys.locals("KEYS"), f"{name}.lua:0"), (args.locals("ARGV"), f"{name}.lua:0")]
    lines += [(line, f"{name}.lua:{number}") for number, line in enumerate(body, 1)]
    text = "\n".join(line for line, _ in lines) + "\n"
    origin = tuple(place for _, place in lines)
    return Source(name, keys, args, text, origin, durable=bool(header["durable"]))


def _inline(
    directory: Traversable,
    names: list[str],
    path: tuple[str, ...],
    done: dict[str, bool],
    lines: list[tuple[str, str]],
) -> None:
    for name in names:
        if name in path:
            raise ValueError(f"include {name}: cycle {' > '.join((*path, name))}")
        if name in done:
            continue
        done[name] = True
        body = (directory / f"{name}.lua").read_text(encoding="utf-8").splitlines()
        if not any(line.startswith(f"local function {name}(") for line in body):
            raise ValueError(f"include {name}: does not define local function {name}")
        _inline(directory, _header(body)["include"], (*path, name), done, lines)
        lines += [(line, f"include/{name}.lua:{number}") for number, line in enumerate(body, 1)]


def _header(body: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"KEYS": [], "ARGV": [], "include": [], "durable": []}
    for line in body:
        if not line.startswith("--"):
            break
        if match := _HEADER.match(line):
            found[match[1]] += match[2].split()
    return found


def _names(script: str, words: list[str]) -> Names:
    rest = words[-1][:-3] if words and words[-1].endswith("...") else None
    fixed = tuple(words[:-1] if rest else words)
    for name in (*fixed, rest) if rest else fixed:
        if not _NAME.fullmatch(name) or _NOT_A_NAME.fullmatch(name):
            raise ValueError(f"script {script}: {name!r} cannot be a name")
    return Names(fixed, rest)
