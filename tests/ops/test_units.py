"""What the files for operators name is there: paths, ports, options, commands and signals."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from lingua_scheduler.admin.autoscale import ScalingAnswer
from lingua_scheduler.cli import _parser
from lingua_scheduler.commands import workers
from lingua_scheduler.config import Config, load
from lingua_scheduler.node.options import LinkOptions

ROOT = Path(__file__).parent.parent.parent
OPS = ROOT / "ops"
UNITS = sorted((OPS / "systemd").glob("*.service"))
DOCKERFILE = (OPS / "docker/Dockerfile").read_text(encoding="utf-8")
COMPOSE = (OPS / "docker/compose.yml").read_text(encoding="utf-8")
KEDA = (OPS / "keda/scaledobject.yml").read_text(encoding="utf-8")


class Unit(configparser.RawConfigParser):
    """A unit of systemd; where a key stands more than once, its last value counts."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            strict=False, delimiters=("=",), comment_prefixes=("#",), empty_lines_in_values=False
        )
        self.optionxform = str  # type: ignore[assignment,method-assign]
        self.read(path, encoding="utf-8")


def instructions() -> list[tuple[str, str]]:
    """Give the instructions of the Dockerfile, with continued lines joined."""
    joined = DOCKERFILE.replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def said(word: str) -> list[str]:
    return [rest for instruction, rest in instructions() if instruction == word]


def settings(text: str) -> dict[str, str]:
    """Give the variables for our configuration that a text sets."""
    return dict(re.findall(r"\b(LINGUA_\w+)(?:=|: )\"?([^\s\"]*)", text))


def understood(command: list[str]) -> None:
    """Our command line takes this command."""
    _parser().parse_args(command)


# systemd


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_understands_the_unit(path: Path, tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("needs systemd-analyze")
    ours = Path(sys.executable).parent / "lingua"  # that of the unit is not installed here
    name = path.name.replace("@.", "@5010.")
    (tmp_path / path.name).write_text(path.read_text("utf-8").replace("/opt/lingua/bin/lingua", str(ours)))
    done = subprocess.run(
        [program, "verify", "--man=no", str(tmp_path / name)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if "lingua-scheduler" in line]
    assert not complaints
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_the_unit_runs_a_command_of_ours(path: Path) -> None:
    line = Unit(path)["Service"]["ExecStart"].replace("%H", "host").replace("%i", "5010")
    program, *command = shlex.split(line)
    assert program == "/opt/lingua/bin/lingua"
    understood(command)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_the_unit_leaves_time_for_the_drain_and_tells_only_one_process(path: Path) -> None:
    """Workers that hear SIGTERM from systemd and from their supervisor would take it for two orders."""
    service = Unit(path)["Service"]
    assert (service["KillSignal"], service["KillMode"]) == ("SIGTERM", "mixed")
    assert int(service["TimeoutStopSec"]) > Config().drain.deadline_s + workers._KILL_AFTER_S
    assert service["RestartPreventExitStatus"] == str(workers._REFUSED)


def test_only_the_unit_that_can_be_reloaded_says_so() -> None:
    """SIGHUP is for the supervisor of several workers; it would end a single instance."""
    for path in UNITS:
        service = Unit(path)["Service"]
        assert ("--workers" in service["ExecStart"]) == ("ExecReload" in service)
        assert service.get("ExecReload", "/bin/kill -HUP $MAINPID") == "/bin/kill -HUP $MAINPID"


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_the_unit_gives_the_process_no_more_than_it_needs(path: Path) -> None:
    service = Unit(path)["Service"]
    wanted = {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "LimitCORE": "0"}
    assert {key: service[key] for key in wanted} == wanted
    assert service["User"] == "lingua"
    assert int(service["LimitNOFILE"]) > Config().server.max_connections


# Docker


def test_every_file_that_goes_into_the_image_exists_and_is_let_through() -> None:
    let_through = set(
        re.findall(r"^!(.+)$", (OPS / "docker/Dockerfile.dockerignore").read_text(), re.MULTILINE)
    )
    for words in map(str.split, said("COPY")):
        if not words[0].startswith("--from"):
            assert all((ROOT / source).exists() for source in words[:-1]), words
            assert set(words[:-1]) <= let_through


def test_the_image_is_made_from_the_locked_requirements() -> None:
    assert any("--require-hashes --requirement requirements/run.txt" in line for line in said("RUN"))
    needed = re.findall(
        r'^(?:readme|license-files) = \[?"([^"]+)', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    assert set(needed) <= {word for line in said("COPY") for word in line.split()}


def test_the_image_runs_as_nobody_in_particular_and_is_stopped_by_a_drain() -> None:
    order = [word for word, _ in instructions()]
    assert order.count("FROM") == 2
    assert said("USER") == ["10001"]
    assert order.index("USER") > len(order) - 1 - order[::-1].index("COPY")
    assert said("STOPSIGNAL") == ["SIGTERM"]
    assert [json.loads(line) for line in said("ENTRYPOINT")] == [["lingua"]]
    for line in said("CMD"):
        understood(json.loads(line))


def test_the_image_listens_where_it_says_and_where_its_health_is_asked_for() -> None:
    found = settings("\n".join(said("ENV")))
    config = load(environ=found).config
    assert said("EXPOSE") == [str(config.server.port)]
    check = said("HEALTHCHECK")[0]
    program = json.loads(check[check.index("[") :])
    assert program[:2] == ["python", "-c"]
    compile(program[2], "health", "exec")
    assert "/health" in program[2]
    assert "LINGUA_SERVER__PORT" in found


def test_every_setting_of_the_compose_file_is_one_of_ours() -> None:
    found = settings(COMPOSE)
    assert {"LINGUA_REDIS__URL", "LINGUA_INSTANCE__ID"} <= set(found)
    load(environ=found)


def test_every_command_of_the_compose_file_is_one_of_ours() -> None:
    commands = [json.loads(line) for line in re.findall(r"^ +command: (\[.*\])$", COMPOSE, re.MULTILINE)]
    ours = [command for command in commands if command[0] != "valkey-server"]
    assert sorted(command[0] for command in ours) == ["node", "serve"]
    for command in ours:
        understood(command)


def test_every_file_and_service_of_the_compose_file_exists() -> None:
    here = OPS / "docker"
    for path in re.findall(r"^ +- (\.[^:]+):", COMPOSE, re.MULTILINE):
        assert (here / path).exists(), path
    context = here / re.findall(r"context: (\S+)", COMPOSE)[0]
    assert (context / re.findall(r"dockerfile: (\S+)", COMPOSE)[0]).exists()
    services = set(re.findall(r"^  ([\w-]+):$", COMPOSE.split("\nservices:\n")[1], re.MULTILINE))
    targets = re.findall(r'"([\w-]+):(\d+)"', (OPS / "prometheus/prometheus.yml").read_text())
    hosts = re.findall(r"(?:ws://|@)([\w-]+):(\d+)", COMPOSE)
    assert {host for host, _ in [*hosts, *targets]} <= services
    assert {port for _, port in targets} == {str(Config().server.port)}


def test_every_port_of_the_compose_file_is_open_to_this_machine_only() -> None:
    """Its instances let everybody in."""
    published = re.findall(r'^ +- "([\d.:]+)"$', COMPOSE, re.MULTILINE)
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_docker_waits_for_the_drain() -> None:
    grace = re.findall(r"stop_grace_period: (\d+)s", COMPOSE)
    assert grace
    longest = max(Config().drain.deadline_s, LinkOptions().drain_s)
    assert all(int(seconds) > longest for seconds in grace)


# KEDA


def test_the_autoscaler_asks_for_a_number_that_is_there() -> None:
    fields = {field.name for field in msgspec.structs.fields(ScalingAnswer)}
    assert re.findall(r'valueLocation: "(\w+)"', KEDA)[0] in fields
    url = urlsplit(re.findall(r'url: "([^"]+)"', KEDA)[0])
    assert (url.path, url.port) == ("/api/v1/autoscale", Config().server.port)
    assert set(parse_qs(url.query)) <= {"pool", "pair"}


@pytest.mark.parametrize("path", sorted(OPS.rglob("*.yml")), ids=lambda path: path.name)
def test_every_file_is_yaml(path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with the speech engines")
    assert all(yaml.safe_load_all(path.read_text(encoding="utf-8")))


# The pages


def test_the_configuration_that_the_page_proposes_is_accepted(tmp_path: Path) -> None:
    page = (ROOT / "docs/deployment.md").read_text(encoding="utf-8")
    (proposed,) = re.findall(r"^```\n(\[server\]\n.*?)^```", page, re.DOTALL | re.MULTILINE)
    file = tmp_path / "lingua.toml"
    file.write_text(proposed)
    assert load(file, environ={}).config.redis.durability == "wait"


@pytest.mark.parametrize("page", ["runbook", "deployment"])
def test_every_path_that_a_page_names_is_served(page: str) -> None:
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    admin = "".join(file.read_text("utf-8") for file in (ROOT / "src/lingua_scheduler/admin").glob("*.py"))
    for path in set(re.findall(r"/api/v1/([\w{}/-]+)", text)):
        assert re.search(rf'"(?:/api/v1/)?{re.escape(path)}"', admin), path


@pytest.mark.parametrize("page", ["runbook", "deployment"])
def test_every_command_that_a_page_names_is_understood(page: str) -> None:
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    named = {line for line in re.findall(r"`lingua ([^`]+)`", text) if " " in line}
    assert named
    known = _parser().format_help()
    for line in named:
        command, *rest = shlex.split(line)
        assert re.search(rf"^    {command} ", known, re.MULTILINE), line
        if command in ("drain", "config"):
            understood([command, *rest])
