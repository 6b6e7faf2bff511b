"""The pages about nodes and engines: their examples run, their tables are those of the code."""

from __future__ import annotations

import asyncio
import importlib.util
import pkgutil
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

import lingua_scheduler.node.speech.engines as house
from client.scripted import ScriptedServer
from lingua_scheduler.commands.config_text import explained
from lingua_scheduler.node.speech import options as node_options
from lingua_scheduler.node.speech import speech_options
from lingua_scheduler.wire.codec import decode_node
from lingua_scheduler.wire.node import AsrPartial, JobResult, NodeRegister, NodeRegisterAck
from node.jobs import assign
from node.speech import tiny

ROOT = Path(__file__).parents[3]
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("nodes", "engines")}
_TABLE = re.compile(r"<!-- options: (\w+) -->\n(.*?)<!-- end -->", re.DOTALL)


def example(name: str) -> str:
    """Give the code below a marker."""
    found = re.search(rf"<!-- example: {name} -->\n```\w+\n(.*?)```", PAGES["nodes"], re.DOTALL)
    assert found, name
    return found[1]


def imported(code: str, name: str, folder: Path):
    """Make a module of an example."""
    file = folder / f"{name}.py"
    file.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_the_node_in_fifteen_lines_serves(tmp_path) -> None:
    code = example("node")
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    module = imported(code, "fifteen_lines", tmp_path)
    async with ScriptedServer("/ws/node", decode_node) as scheduler:
        running = asyncio.create_task(asyncio.to_thread(module.main, scheduler.url))
        peer = await scheduler.peer()
        assert (await peer.hear(NodeRegister)).language_capabilities.asr_languages == ("en", "pt")
        await peer.say(NodeRegisterAck(node_id="node-1", message="ok"))
        await peer.say(assign(audio=b"hello\0"), assign("job-2", audio=b"what\0"))
        assert (await peer.hear(AsrPartial)).text == "hello"
        assert (await peer.hear(JobResult, job_id="job-1")).text_translated == "olá"
        failed = await peer.hear(JobResult, job_id="job-2")
        assert failed.error.message == "this is not in the dictionary"
        await peer.close(4500)
        with pytest.raises(Exception, match="for good"):
            await running


async def test_the_engine_of_the_page_translates(desk, tmp_path, monkeypatch) -> None:
    imported(example("engine"), "glossary", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    words = tmp_path / "glossary.txt"
    words.write_text("hello = olá\nworld = mundo\n", encoding="utf-8")
    table = tomllib.loads(example("engine configuration"))["node"]
    table["nmt"]["file"] = str(words)
    async with desk(nmt=speech_options(table).nmt) as hands:
        assert hands.crew.workers[0].report.pairs == (("en", "pt"),)
        assert (await hands.do(assign(audio=tiny.spoken("hello world")))).text_translated == "olá mundo"
    words.unlink()
    async with desk(nmt=speech_options(table).nmt) as hands:
        (trouble,) = hands.crew.workers[0].report.troubles
        assert trouble.message == f"nmt: {words} is missing: set file in [node.nmt]"


@pytest.mark.parametrize("page", PAGES)
def test_every_configuration_on_the_pages_is_accepted(page, engines_installed) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", PAGES[page], re.DOTALL)
    tables = [tomllib.loads(block) for block in blocks]
    nodes = [table["node"] for table in tables if "node" in table and "glossary" not in str(table)]
    assert len(nodes) >= 1
    for table in nodes:
        speech_options(table)


def records() -> dict[str, type[msgspec.Struct]]:
    """Give every option record of the reference node and its engines."""
    modules = [node_options] + [
        importlib.import_module(f"{house.__name__}.{module.name}")
        for module in pkgutil.iter_modules(house.__path__)
    ]
    return {
        name: kind
        for module in modules
        for name, kind in vars(module).items()
        if name.endswith("Options") and kind.__module__ == module.__name__
    }


def option_table(record: type[msgspec.Struct]) -> str:
    """Write the options of a record for a page."""
    lines = ["| option | default | meaning |", "| --- | --- | --- |"]
    meanings = explained(record)
    for field in msgspec.structs.fields(record):
        default = field.default if field.default is not msgspec.NODEFAULT else None
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        inner = isinstance(default, msgspec.Struct)
        shown = (
            ""
            if inner or default in (None, (), {}, "")
            else f"`{msgspec.json.encode(default, enc_hook=str).decode()}`"
        )
        shown = "required" if field.required else shown
        lines.append(f"| `{field.name}` | {shown} | {meanings[field.name]} |")
    return "\n".join(lines) + "\n"


def test_the_tables_of_options_are_those_of_the_code() -> None:
    shown = {name: table for page in PAGES.values() for name, table in _TABLE.findall(page)}
    assert shown == {name: option_table(record) for name, record in records().items()}


def test_the_lock_is_about_the_packages_of_the_extra() -> None:
    listed = (ROOT / "requirements" / "speech.in").read_text(encoding="utf-8").splitlines()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [line for line in listed if not line.startswith("#")] == extras["optional-dependencies"]["speech"]
    locked = (ROOT / "requirements" / "speech.txt").read_text(encoding="utf-8")
    for line in extras["optional-dependencies"]["speech"]:
        assert re.search(rf"^{re.split('[=<>]', line)[0]}==", locked, re.MULTILINE)
    assert len(re.findall(r"^\S+==", locked, re.MULTILINE)) <= locked.count("--hash=sha256:")
