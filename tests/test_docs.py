"""The pages say what the code does: nothing is missing from them, and nothing in them is gone."""

import argparse
import inspect
import re
import shlex
from functools import cache
from pathlib import Path

import msgspec
import pytest

from lingua_scheduler.cli import _parser
from lingua_scheduler.commands import facts, reference
from lingua_scheduler.commands.config_text import explained
from lingua_scheduler.instruments import PREFIX
from lingua_scheduler.metrics import Metrics
from lingua_scheduler.store.keys import Keys, hash_tag
from lingua_scheduler.wire.close import CloseCode
from lingua_scheduler.wire.codec import decode_client, decode_from_server, decode_node, decode_to_node
from lingua_scheduler.wire.common import Lang, Number
from lingua_scheduler.wire.session import SessionInit

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
REFRESH = ".venv/bin/python -m lingua_scheduler.commands.reference"
PAGES = sorted([*DOCS.glob("*.md"), *ROOT.glob("*.md")])
PARTS = {
    "from-client": "## From a client",
    "to-client": "## To a client",
    "from-node": "## From a node",
    "to-node": "## To a node",
}


@cache
def text(page: str) -> str:
    return (DOCS / f"{page}.md").read_text(encoding="utf-8")


def tables(page: str) -> dict[str, str]:
    return reference.tables(text(page))


def rows(table: str) -> set[str]:
    return {row.strip("`") for row, _ in reference.cells(table)}


def section(page: str, heading: str) -> str:
    """Give what stands below a heading, up to the next one of its rank or above."""
    rank = heading.split(maxsplit=1)[0]
    after = text(page).split(f"\n{heading}\n", 1)[1]
    return re.split(rf"^#{{1,{len(rank)}}} ", after, maxsplit=1, flags=re.MULTILINE)[0]


def message_sections(direction: str) -> dict[str, str]:
    part = section("protocol", PARTS[direction])
    found = re.split(r"^### `(\w+)`$", part, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


@pytest.mark.parametrize("page", reference.PAGES)
def test_tables_are_as_the_code_makes_them(page: str) -> None:
    fresh = reference.refreshed(text(page))
    assert fresh == text(page), f"docs/{page}.md is behind the code; run: {REFRESH}"


@pytest.mark.parametrize("page", reference.PAGES)
def test_every_cell_that_people_write_is_written(page: str) -> None:
    """A new member, limit or code comes with an empty cell; somebody must say what it means."""
    heads = ("meaning", "used for", "beyond it", "what to do", "who gets it, and when")
    empty = [
        f"{name}: {row}, {head}"
        for name, table in tables(page).items()
        for (row, head), cell in reference.cells(table).items()
        if head in heads and not cell
    ]
    assert not empty, f"write these cells in docs/{page}.md"


def test_the_tables_are_refreshed_without_touching_what_people_wrote() -> None:
    before = "| word | meaning |\n|---|---|\n| `BUSY` | by \\| hand |\n"
    page = f"<!-- table: enum BackpressureAction -->\n{before}<!-- end -->"
    fresh = reference.refreshed(page)
    assert "| `BUSY` | no | by \\| hand |" in fresh
    assert "| `PAUSE` |" in fresh
    assert reference.refreshed(fresh) == fresh


def test_refreshing_writes_only_the_pages_that_are_behind(tmp_path: Path) -> None:
    for page in reference.PAGES:
        (tmp_path / f"{page}.md").write_text(reference.refreshed(text(page)), encoding="utf-8")
    behind = tmp_path / "metrics.md"
    behind.write_text(behind.read_text("utf-8").replace("counter", "gauge", 1), encoding="utf-8")
    assert reference.refresh(tmp_path) == ["metrics.md"]
    assert reference.refresh(tmp_path) == []


def test_types_are_named_as_people_read_them() -> None:
    """Bounded types by their names, lists with their bound, records with a link, `null` not at all."""
    wish = {field.name: field.type for field in msgspec.structs.fields(SessionInit)}
    assert facts.type_word(wish["src_lang"]) == "Lang"
    assert facts.type_word(wish["auto_langs"]) == "list of up to 16 Lang"
    assert facts.type_word(wish["features"]) == "[Features](#features)"
    assert facts.type_word(Number | None) == "Number"
    assert facts.bounds(Lang) == r"1 to 35 characters, like `^[A-Za-z0-9_-]+\Z`"
    assert facts.amount(8 * 2**20, "queue_bytes") == "8388608 (8 MiB)"


# Messages


@pytest.mark.parametrize("direction", facts.DIRECTIONS)
def test_every_message_has_its_heading_and_table_and_no_other_has(direction: str) -> None:
    known = facts.messages(direction)
    found = message_sections(direction)
    assert set(found) == set(known)
    for tag, part in found.items():
        assert f"<!-- table: message {direction} {tag} -->" in part


def test_every_record_has_its_heading_and_table_and_no_other_has() -> None:
    found = re.findall(r"^### (\w+)$", section("protocol", "## Records"), re.MULTILINE)
    assert found == list(facts.records())
    assert {f"record {name}" for name in found} <= set(tables("protocol"))


def test_messages_marked_as_not_offered_are_those_nobody_handles_or_sends() -> None:
    handled = set(re.findall(r"(?:case |\| |isinstance\(\w+, |type\(\w+\) is )(\w+)\b", facts.source("flow")))
    sent = set(re.findall(r"\b(\w+?)(?:Message)?\(", facts.source("flow", "edge")))
    for direction in facts.DIRECTIONS:
        used = handled if direction.startswith("from") else {*sent, "ErrorMessage"}
        idle = {tag for tag, kind in facts.messages(direction).items() if kind.__name__ not in used}
        marked = {tag for tag, part in message_sections(direction).items() if "**Not offered" in part}
        assert marked == idle, direction


def test_every_example_is_a_message_of_its_direction() -> None:
    for heading, peer, hears, answers in (
        ("## The life of a session", "client", decode_client, decode_from_server),
        ("## The life of a node", "node", decode_node, decode_to_node),
    ):
        lines = re.findall(r"^(\w+) +> (\{.*\})$", section("protocol", heading), re.MULTILINE)
        assert {speaker for speaker, _ in lines} == {peer, "server"}
        for speaker, message in lines:
            decoded = (hears if speaker == peer else answers)(message)
            assert set(msgspec.json.decode(message)) == set(msgspec.to_builtins(decoded)), message


# Options, keys, metrics, codes


def test_every_table_of_the_configuration_has_its_heading_with_all_its_options() -> None:
    page = text("configuration")
    assert set(re.findall(r"^### `\[([\w.]+)\]`$", page, re.MULTILINE)) == set(facts.options())
    for name, record in facts.options().items():
        part = section("configuration", f"### `[{name}]`")
        assert (inspect.getdoc(record) or "") in part
        assert rows(tables("configuration")[f"options {name}"]) == {f.name for f in facts.plain(record)}


def test_the_options_of_client_and_node_have_their_headings() -> None:
    for name, record in facts.library_options().items():
        assert (inspect.getdoc(record) or "") in section("configuration", f"### `{name}`")
        assert rows(tables("configuration")[f"library {name}"]) == set(explained(record))


def test_every_limit_has_its_row() -> None:
    shown = {name for marker in tables("limits") for name in marker.split()[1:]}
    assert shown == {name for name in facts.options() if facts.limits(name)}


def test_every_key_has_its_row() -> None:
    shown = {f"{marker} {row}" for marker, table in tables("redis-keys").items() for row in rows(table)}
    for rule in Keys.catalogue():
        assert f"keys {hash_tag(rule.template).split(':')[0]} {rule.name}" in shown


def test_every_script_has_its_row_and_names_known_keys() -> None:
    known = {rule.name for rule in Keys.catalogue()}
    assert rows(tables("redis-keys")["scripts"]) == set(facts.scripts())
    for script in facts.scripts().values():
        keys = {key for word in script.keys for key in reference.KEY_ROLES.get(word, (word,))}
        assert keys <= known, f"{script.name}: name the kind of each key, or extend KEY_ROLES"


def test_every_metric_has_its_row() -> None:
    declared = set(vars(Metrics())) - {"registry", "took", "waited"}
    shown = {row.removeprefix(PREFIX) for row in rows(tables("metrics")["metrics"])}
    assert declared | {"log_lines_dropped_total"} == shown


def test_every_error_code_and_close_code_has_its_row() -> None:
    assert rows(tables("errors")["errors"]) == set(facts.error_codes())
    assert rows(tables("errors")["close-codes"]) == {str(code.value) for code in CloseCode}


# Commands


def commands() -> dict[str, argparse.ArgumentParser]:
    actions = _parser()._actions
    return next(dict(action.choices) for action in actions if isinstance(action, argparse._SubParsersAction))


def test_every_command_has_its_row_with_all_its_flags() -> None:
    part, _, below = section("configuration", "## Commands and flags").partition("\n| flag |")
    cells, meanings = reference.cells(part), rows(f"| flag |{below}")
    assert {row.strip("`") for row, head in cells if head == "command"} == set(commands())
    used = set()
    for name, command in commands().items():
        flags = {
            flag for action in command._actions for flag in action.option_strings if flag.startswith("--")
        }
        shown = set(re.findall(r"`(--[\w-]+)`", cells[f"`{name}`", "flags"]))
        assert shown == flags - {"--help"}, name
        used |= shown
    assert meanings == used


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_commands_in_the_first_pages_are_understood(page: str) -> None:
    lines = re.findall(r"^(?:\./|\.venv/bin/)lingua (.+)$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
    assert lines
    for line in lines:
        _parser().parse_args(shlex.split(line.partition(" > ")[0], comments=True))


# Links and names


def slugs(page: Path) -> set[str]:
    """Give the anchors of a page as GitHub makes them."""
    found: list[str] = []
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#+ (.+)$", prose, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        twins = sum(1 for other in found if re.fullmatch(rf"{re.escape(slug)}(-\d+)?", other))
        found.append(f"{slug}-{twins}" if twins else slug)
    return set(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        other = (page.parent / name).resolve() if name else page
        assert other.exists(), target
        assert not anchor or anchor in slugs(other), target


@cache
def vocabulary() -> frozenset[str]:
    """Give every name a sentence may use: words of the code, files, options and metrics."""
    sources = [file for kind in ("*.py", "*.lua") for file in (ROOT / "src").rglob(kind)]
    words = {word for file in sources for word in re.findall(r"\w+", file.read_text(encoding="utf-8"))}
    files = {
        str(part) for file in sources for part in _inside(file.relative_to(ROOT / "src/lingua_scheduler"))
    }
    options = {f"{table}.{name}" for table, record in facts.options().items() for name in explained(record)}
    metrics = rows(tables("metrics")["metrics"])
    return frozenset({*words, *files, *options, *metrics, *(file.name for file in ROOT.iterdir())})


def _inside(file: Path) -> list[Path]:
    return [file, Path(file.name), *file.parents]


def is_known(name: str) -> bool:
    """Tell whether the code has this name; what looks like an option or a file must be one."""
    if name.endswith((".py", ".lua", "/")) or name.partition(".")[0] in facts.options():
        return name.rstrip("/") in vocabulary()
    return name in vocabulary() or set(re.findall(r"\w+", name)) <= vocabulary()


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_names_in_the_text_exist(page: Path) -> None:
    """Options, metrics, members, messages and modules that a sentence names are still there."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    names = set(re.findall(r"`([A-Za-z]\w*[_./][\w./]*)`", prose))
    assert {name for name in names if not is_known(name)} == set()
