"""The import contracts hold something: a house that breaks each rule once is found out for each."""

import os
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINT_IMPORTS = str(Path(sysconfig.get_path("scripts")) / "lint-imports")

ROOMS = ("commands", "edge", "admin", "node", "client", "flow", "store", "wire", "core", "tracing")
MODULES = (
    "cli",
    "app",
    "embedded_cluster",
    "embedded",
    "config",
    "aio",
    "clock",
    "errors",
    "log",
    "metrics",
    "secret",
)

ALLOWED = {
    "cli": "from lingua_scheduler import app",
    "app": "from lingua_scheduler import config, embedded\nfrom lingua_scheduler.edge import one\n"
    "from lingua_scheduler.store import one",
    "config": "from lingua_scheduler.edge import one\nfrom lingua_scheduler.flow import one",
    "embedded": "import redis",
    "edge/one": "import aiohttp\nfrom lingua_scheduler.flow import one",
    "client/one": "import aiohttp",
    "tracing/otlp": "import opentelemetry.sdk.trace",
    "flow/one": "import asyncio\nfrom lingua_scheduler.wire import one",
    "store/one": "import redis.asyncio\nimport hiredis\nfrom lingua_scheduler import clock\n"
    "from lingua_scheduler.core import one",
    "wire/one": "from lingua_scheduler.core import one",
    "core/one": "from lingua_scheduler import errors",
    "clock": "import asyncio, time",
}

# (importing module, forbidden line, what the report must name)
FORBIDDEN = [
    (
        "flow/to_store",
        "from lingua_scheduler.store import one",
        "flow.to_store -> lingua_scheduler.store.one",
    ),
    ("store/to_flow", "from lingua_scheduler.flow import one", "store.to_flow -> lingua_scheduler.flow.one"),
    (
        "client/to_edge",
        "from lingua_scheduler.edge import one",
        "client.to_edge -> lingua_scheduler.edge.one",
    ),
    (
        "node/to_client",
        "from lingua_scheduler.client import one",
        "node.to_client -> lingua_scheduler.client.one",
    ),
    ("core/to_wire", "from lingua_scheduler.wire import one", "core.to_wire -> lingua_scheduler.wire.one"),
    ("wire/to_flow", "from lingua_scheduler.flow import one", "wire.to_flow -> lingua_scheduler.flow.one"),
    ("edge/to_config", "from lingua_scheduler import config", "edge.to_config -> lingua_scheduler.config"),
    ("metrics", "from lingua_scheduler.core import one", "metrics -> lingua_scheduler.core.one"),
    ("core/waits", "import asyncio", "core.waits -> asyncio"),
    ("core/asks_the_time", "from time import monotonic", "core.asks_the_time -> time"),
    ("wire/connects", "import socket", "wire.connects -> socket"),
    (
        "core/borrows_a_clock",
        "from lingua_scheduler import clock",
        "core.borrows_a_clock -> lingua_scheduler.clock",
    ),
    ("flow/knows_redis", "import redis", "flow.knows_redis -> redis"),
    ("app", "from hiredis import pack_command", "app -> hiredis"),
    ("flow/traces", "import opentelemetry", "flow.traces -> opentelemetry"),
    ("flow/serves", "from aiohttp import web", "flow.serves -> aiohttp"),
    ("config", "import aiohttp", "config -> aiohttp"),
]


def build(folder: Path, lines: list[tuple[str, str]]) -> None:
    package = folder / "src" / "lingua_scheduler"
    for room in ("", *ROOMS):
        (package / room).mkdir(parents=True, exist_ok=True)
        (package / room / "__init__.py").touch()
    for module in (*MODULES, *(f"{room}/one" for room in ROOMS)):
        (package / f"{module}.py").touch()
    for module, text in lines:
        with (package / f"{module}.py").open("a") as source:
            source.write(text + "\n")
    (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())


def report(folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, LINT_IMPORTS, "--no-cache", "--no-logo"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "COLUMNS": "300"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def contract_names() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [contract["name"] for contract in settings["tool"]["importlinter"]["contracts"]]


def test_a_house_built_to_plan_is_accepted(tmp_path: Path) -> None:
    build(tmp_path, list(ALLOWED.items()))
    code, text = report(tmp_path)
    assert code == 0, text


@pytest.fixture(scope="module")
def broken(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("house")
    build(folder, [*ALLOWED.items(), *((module, line) for module, line, _ in FORBIDDEN)])
    code, text = report(folder)
    assert code == 1, text
    return text


@pytest.mark.parametrize(("module", "line", "named"), FORBIDDEN)
def test_every_forbidden_import_is_named(broken: str, module: str, line: str, named: str) -> None:
    assert f"lingua_scheduler.{named}" in broken


@pytest.mark.parametrize("name", contract_names())
def test_no_contract_is_without_effect(broken: str, name: str) -> None:
    assert f"{name} BROKEN" in broken


def test_a_new_room_must_be_given_its_place(tmp_path: Path) -> None:
    build(tmp_path, [*ALLOWED.items(), ("cellar", "")])
    code, text = report(tmp_path)
    assert code == 1
    assert "lingua_scheduler.cellar" in text
