"""The tables of the reference pages, made from the code, so that no page falls behind it.

A table stands in a page between `<!-- table: KIND about -->` and `<!-- end -->`. Its facts are made here; the
columns in `by_hand` are written by people and kept, row by row, under the row's first cell. After a change of
the code, `python -m lingua_scheduler.commands.reference` writes the pages of a checkout anew.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import msgspec

from lingua_scheduler.commands import facts
from lingua_scheduler.commands.check import checkout
from lingua_scheduler.commands.config_text import explained
from lingua_scheduler.core.hints import hint
from lingua_scheduler.core.lifecycle import NodeStatus
from lingua_scheduler.core.ordering import MissingReason
from lingua_scheduler.instruments import (
    PREFIX,
    CounterAlias,
    CounterBy,
    GaugeTable,
    HistogramBy,
    OneOf,
    Values,
)
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.store.keys import Keys, hash_tag
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.common import BadInput
from lingua_scheduler.wire.session import BackpressureAction, UiEventKind

PAGES = ("protocol", "configuration", "redis-keys", "limits", "metrics", "errors")
ENUMS: Mapping[str, type[Enum]] = {
    kind.__name__: kind for kind in (UiEventKind, MissingReason, BackpressureAction, NodeStatus, BadInput)
}
KEY_ROLES: Mapping[str, tuple[str, ...]] = {
    "before": ("shelf",),
    "shelves": ("shelf",),
    "rest": ("audio", "ended", "voice"),
}
"""Which keys the headers of scripts name by the part they play, not by their own name."""

_BLOCK = re.compile(r"(<!-- table: (.+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_CLOSE_ROW = re.compile(r"^(\d{4})\s+(\w+)\s+(yes|no)\s+(.+)$", re.MULTILINE)
_SCRIPT_WORDS = re.compile(r"^-- (?!KEYS:|ARGV:|include:|durable:)(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows made from the code, and the columns that people add to them."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    by_hand: tuple[str, ...] = ()

    def text(self, before: str) -> str:
        """Write it as Markdown; `before` is what stands in the page now."""
        known = cells(before)
        lines = [(*self.columns, *self.by_hand), ("---",) * (len(self.columns) + len(self.by_hand))]
        for row in self.rows:
            made = tuple(cell.replace("|", "\\|") for cell in row)
            lines.append((*made, *(known.get((made[0], column), "") for column in self.by_hand)))
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cells(table: str) -> dict[tuple[str, str], str]:
    """Read a table of a page: its cells by the row's first cell and the column's head."""
    rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in table.splitlines()
        if line.startswith("|")
    ]
    return {(row[0], head): cell for row in rows[2:] for head, cell in zip(rows[0], row, strict=False)}


def tables(page: str) -> dict[str, str]:
    """Give the tables of a page by their names."""
    return {block[2]: block[3] for block in _BLOCK.finditer(page)}


def refreshed(page: str) -> str:
    """Give a page with every table made anew; KeyError for a table nobody can make."""

    def made(block: re.Match[str]) -> str:
        kind, _, about = block[2].partition(" ")
        return block[1] + _MAKERS[kind](about).text(block[3]) + block[4]

    return _BLOCK.sub(made, page)


def _members(record: type[msgspec.Struct]) -> Table:
    rows = [
        (f"`{field.encode_name}`", facts.type_word(field.type), "yes" if field.required else "no")
        for field in msgspec.structs.fields(record)
    ]
    return Table(("member", "type", "required"), rows, ("meaning",))


def _message(about: str) -> Table:
    direction, tag = about.split()
    return _members(facts.messages(direction)[tag])


def _record(about: str) -> Table:
    return _members(facts.records()[about])


def _types(_about: str) -> Table:
    rows = [(name, _json_word(kind), facts.bounds(kind)) for kind, name in facts.NAMED.items()]
    return Table(("type", "JSON", "accepts"), sorted(rows), ("used for",))


def _json_word(kind: Any) -> str:
    bare = get_args(kind)[0] if get_origin(kind) is Annotated else float
    return "object" if get_origin(bare) is dict else facts.WORDS[bare]


def _enum(about: str) -> Table:
    used = facts.source("flow", "edge", "core", "wire")
    rows = [(f"`{word.value}`", "yes" if f"{about}.{word.name}" in used else "no") for word in ENUMS[about]]
    return Table(("word", "in use"), rows, ("meaning",))


def _options(about: str) -> Table:
    return _explained(facts.options()[about])


def _library(about: str) -> Table:
    return _explained(facts.library_options()[about])


def _explained(record: type[msgspec.Struct]) -> Table:
    meanings, defaults = explained(record), record()
    rows = [
        (
            f"`{field.name}`",
            facts.type_word(field.type),
            facts.amount(getattr(defaults, field.name), field.name),
            facts.bounds(field.type),
            meanings[field.name],
        )
        for field in facts.plain(record)
    ]
    return Table(("option", "type", "default", "accepts", "meaning"), rows)


def _limits(about: str) -> Table:
    """Show tables with the same options side by side."""
    names = about.split()
    defaults = [facts.options()[name]() for name in names]
    heads = ("default",) if len(names) == 1 else tuple(f"default in `[{name}]`" for name in names)
    rows = [
        (f"`{limit.name}`", *(facts.amount(getattr(table, limit.name), limit.name) for table in defaults))
        for limit in facts.limits(names[0])
    ]
    return Table((f"limit in {' and '.join(f'`[{name}]`' for name in names)}", *heads), rows, ("beyond it",))


def _metrics(_about: str) -> Table:
    declared = Metrics()
    labels = {
        f"{PREFIX}{name.removesuffix('_total')}": _labels(made) for name, made in vars(declared).items()
    }
    rows = []
    for metric in declared.registry.collect():
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        unit = next((word for word in ("seconds", "bytes") if word in name), "count")
        rows.append((f"`{name}`", metric.type, labels.get(metric.name, ""), unit, metric.documentation))
    return Table(("metric", "type", "labels", "unit", "meaning"), rows)


def _labels(made: object) -> str:
    if isinstance(made, GaugeTable | CounterAlias):
        return "; ".join(f"`{name}`" for name in made.labels)
    declared = made.values if isinstance(made, CounterBy | HistogramBy) else {}
    return "; ".join(f"`{name}`{_values(values)}" for name, values in declared.items())


def _values(values: Values) -> str:
    known = sorted(values.known) if isinstance(values, OneOf) else []
    return f": {', '.join(f'`{value}`' for value in known)}" if known else ""


def _keys(about: str) -> Table:
    uses = {
        name: {key for word in script.keys for key in KEY_ROLES.get(word, (word,))}
        for name, script in facts.scripts().items()
    }
    rows = [
        (
            f"`{rule.name}`",
            f"`{rule.template}`",
            rule.type,
            rule.ttl or f"no TTL; removed by {rule.owner}",
            rule.meaning,
            ", ".join(f"`{name}`" for name, keys in uses.items() if rule.name in keys) or "none",
        )
        for rule in Keys.catalogue()
        if hash_tag(rule.template).split(":")[0] == about
    ]
    return Table(("name", "key, after the prefix", "type", "life", "meaning", "scripts"), rows)


def _scripts(_about: str) -> Table:
    rows = []
    for name, script in facts.scripts().items():
        header = (facts.LUA / f"{name}.lua").read_text(encoding="utf-8").split("\nlocal ")[0]
        does = " ".join(_SCRIPT_WORDS.findall(header))
        keys, args = (" ".join(f"`{word}`" for word in words) for words in (script.keys, script.args))
        rows.append((f"`{name}`", does, keys, args))
    return Table(("script", "does", "keys", "arguments"), rows)


def _errors(_about: str) -> Table:
    rows = [(f"`{code}`", hint(code, "en") or "") for code in facts.error_codes()]
    return Table(("code", "hint"), rows, ("who gets it, and when", "what to do"))


def _close_codes(_about: str) -> Table:
    used = facts.source("edge", "flow")
    rows = [
        (code, f"`{name}`", "yes" if f"CloseCode.{name}" in used else "no", reconnect, meaning)
        for code, name, reconnect, meaning in _CLOSE_ROW.findall(inspect.getdoc(CloseCode) or "")
    ]
    return Table(("code", "name", "sent", "reconnect", "meaning"), rows, ("what to do",))


_MAKERS: Mapping[str, Callable[[str], Table]] = {
    "message": _message,
    "record": _record,
    "types": _types,
    "enum": _enum,
    "options": _options,
    "library": _library,
    "limits": _limits,
    "metrics": _metrics,
    "keys": _keys,
    "scripts": _scripts,
    "errors": _errors,
    "close-codes": _close_codes,
}


def refresh(docs: Path) -> list[str]:
    """Write the pages in a folder anew; name those that changed."""
    changed = []
    for name in PAGES:
        page = docs / f"{name}.md"
        before = page.read_text(encoding="utf-8")
        if (after := refreshed(before)) != before:
            page.write_text(after, encoding="utf-8")
            changed.append(page.name)
    return changed


if __name__ == "__main__":
    print("changed:", ", ".join(refresh(checkout() / "docs")) or "nothing")
