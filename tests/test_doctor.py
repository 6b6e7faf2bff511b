"""`lingua doctor` finds what is wrong with what an instance depends on, and says what to do."""

from __future__ import annotations

import json
import re
import resource
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lingua_scheduler.commands import deployment_checks, redis_checks
from lingua_scheduler.commands import doctor as doctors
from lingua_scheduler.commands.doctor import DoctorRequest, doctor
from lingua_scheduler.commands.hub_checks import hub_findings
from lingua_scheduler.commands.redis_checks import Check
from lingua_scheduler.core.catalogue import ModelHubOptions
from lingua_scheduler.edge.server import EdgeOptions
from lingua_scheduler.store.connection import StoreOptions
from model_hub import model_hub, service


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """Look where no configuration lies about and the port of the defaults is nobody's business."""
    monkeypatch.chdir(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return {"LINGUA_SERVER__PORT": str(port)}


def findings(capsys, environ, **request) -> tuple[int, dict[str, dict[str, str]]]:
    code = doctor(DoctorRequest(as_json=True, **request), environ)
    return code, {each["about"]: each for each in json.loads(capsys.readouterr().out)}


def test_a_good_place_has_no_bad_findings(capsys, nowhere, redis_server) -> None:
    code, found = findings(capsys, nowhere, redis_url=redis_server.url)
    assert code == 0, found
    assert set(found) == {
        "configuration file",
        "configuration",
        "redis version",
        "redis memory",
        "redis latency",
        "redis safety",
        "clock",
        "model hub",
        "port",
        "open files",
        "engines",
    }
    assert all(each["grade"] in ("ok", "note") for each in found.values())
    assert all(each["advice"] for each in found.values() if each["grade"] != "ok")


def test_for_people_each_finding_is_a_line_and_its_advice_another(capsys, nowhere) -> None:
    assert doctor(DoctorRequest(), nowhere) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        "note  redis: no address is set: the embedded Redis is used, and forgets all when it stops" in lines
    )
    assert "      set redis.url where several instances, or a restart, must know of each other" in lines


def test_a_redis_that_is_not_there_is_bad(capsys, nowhere) -> None:
    code, found = findings(capsys, nowhere, redis_url="redis://127.0.0.1:1")
    assert (code, found["redis"]["grade"]) == (1, "bad")


def test_a_wrong_key_of_the_configuration_is_bad(capsys, nowhere, tmp_path) -> None:
    (tmp_path / "lingua.toml").write_text("[server]\nprot = 1\n")
    (tmp_path / "lingua.toml").chmod(0o600)
    code, found = findings(capsys, nowhere)
    assert (code, found["configuration"]["grade"]) == (1, "bad")
    assert "did you mean server.port?" in found["configuration"]["found"]


@pytest.mark.parametrize(("mode", "grade"), [(0o600, "ok"), (0o644, "ok"), (0o664, "bad"), (0o666, "bad")])
def test_a_configuration_that_others_may_change_is_bad(capsys, nowhere, tmp_path, mode, grade) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("")
    file.chmod(mode)
    _, found = findings(capsys, nowhere, config=file)
    assert found["configuration file"]["grade"] == grade


def test_a_file_that_was_named_and_is_not_there_is_bad(capsys, nowhere, tmp_path) -> None:
    code, found = findings(capsys, nowhere, config=tmp_path / "gone.toml")
    assert (code, found["configuration file"]["grade"]) == (1, "bad")


def test_a_port_that_another_program_has_is_bad(monkeypatch) -> None:
    monkeypatch.setattr(doctors, "_ANSWER_S", 0.05)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        found = doctors._port(EdgeOptions(port=int(port)))
    assert (found.grade, "server.port" in found.advice) == ("bad", True)


def test_too_few_open_files_are_bad(monkeypatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    found = doctors._files(EdgeOptions())
    assert (found.grade, "LimitNOFILE" in found.advice) == ("bad", True)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, resource.RLIM_INFINITY))
    assert "ulimit -n" in doctors._files(EdgeOptions()).advice
    assert doctors._files(EdgeOptions(max_connections=100)).grade == "ok"


async def hub_checks_of(**options) -> dict[str, Check]:
    return {check.about: check for check in await hub_findings(ModelHubOptions(**options))}


async def test_a_hub_that_answers_is_good_and_bad_entries_are_noted() -> None:
    async with model_hub(service("a")) as hub:
        found = await hub_checks_of(base_url=hub.url)
        assert (found["model hub"].grade, found["model hub"].found) == ("ok", "1 services")
        hub.services.append({})
        found = await hub_checks_of(base_url=hub.url)
        assert (found["model hub"].grade, bool(found["model hub"].advice)) == ("note", True)


async def test_a_hub_that_fails_is_bad_unless_the_local_index_can_be_used(tmp_path) -> None:
    gone = {"base_url": "http://127.0.0.1:1", "storage_path": str(tmp_path)}
    found = await hub_checks_of(**gone)
    assert {about: check.grade for about, check in found.items()} == {
        "model hub": "bad",
        "local index": "bad",
    }
    (tmp_path / "services_index.json").write_text('{"a": {}}')
    found = await hub_checks_of(**gone)
    assert {about: check.grade for about, check in found.items()} == {
        "model hub": "note",
        "local index": "ok",
    }
    assert "model_hub.base_url" in found["model hub"].advice
    assert set(await hub_checks_of(storage_path=str(tmp_path))) == {"local index"}


async def test_an_address_that_is_never_asked_is_bad() -> None:
    found = await hub_checks_of(base_url="http://169.254.169.254")
    assert (found["model hub"].grade, "forbidden" in found["model hub"].found) == ("bad", True)


@pytest.mark.parametrize(
    ("info", "grade"),
    [
        ({"redis_version": "7.0.15"}, "ok"),
        ({"redis_version": "6.2.1"}, "bad"),
        ({"redis_version": "7.2.4", "valkey_version": "8.0.1"}, "ok"),
        ({"redis_version": "7.2.4", "valkey_version": "7.1.0"}, "bad"),
        ({}, "bad"),
    ],
)
def test_versions(info, grade) -> None:
    assert redis_checks.version(info).grade == grade


@pytest.mark.parametrize(
    ("info", "grade"),
    [
        ({"maxmemory_policy": "noeviction", "maxmemory": "1000", "used_memory": "10"}, "ok"),
        ({"maxmemory_policy": "noeviction", "maxmemory": "0"}, "note"),
        ({"maxmemory_policy": "noeviction", "maxmemory": "1000", "used_memory": "900"}, "bad"),
        ({"maxmemory_policy": "allkeys-lru", "maxmemory": "1000"}, "bad"),
        ({}, "bad"),
    ],
)
def test_memory(info, grade) -> None:
    assert redis_checks.memory(info).grade == grade


@pytest.mark.parametrize(
    ("info", "durability", "grade"),
    [
        ({"connected_slaves": "1"}, "wait", "ok"),
        ({"connected_slaves": "0", "aof_enabled": "1"}, "wait", "bad"),
        ({"connected_slaves": "0", "aof_enabled": "1"}, "none", "ok"),
        ({"connected_slaves": "0", "aof_enabled": "0"}, "none", "note"),
    ],
)
def test_safety_is_held_against_what_is_promised(info, durability, grade) -> None:
    options = StoreOptions(url="redis://somewhere", durability=durability)
    assert redis_checks.safety(info, options).grade == grade


@pytest.mark.parametrize(("median_ms", "grade"), [(0.2, "ok"), (6.0, "note"), (60.0, "bad")])
def test_latency(median_ms, grade) -> None:
    assert redis_checks.latency(median_ms).grade == grade


@pytest.mark.parametrize(("skew_ms", "grade"), [(0, "ok"), (-300, "note"), (300, "note"), (-2500, "bad")])
def test_clocks(skew_ms, grade) -> None:
    assert redis_checks.clock(skew_ms).grade == grade


# A deployment that runs


def served_answer(answer: dict | int):
    """Run a server that answers as an instance does, or refuses with a status."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            ready = self.path == "/ready"
            status = 200 if ready or isinstance(answer, dict) else answer
            body = json.dumps({"ready": True, "complaints": []} if ready else answer).encode()
            self.asked.append(self.headers.get("Authorization"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    Handler.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, Handler


@pytest.fixture
def instance():
    """Give a way to let somebody answer as an instance; it ends with the test."""
    servers = []

    def answers(answer: dict | int) -> tuple[dict[str, str], list[str | None]]:
        server, handler = served_answer(answer)
        servers.append(server)
        return {"LINGUA_SERVER__PORT": str(server.server_port)}, handler.asked

    yield answers
    for server in servers:
        server.shutdown()
        server.server_close()


def trouble(kind: str, level: str = "warn", **members: object) -> dict[str, object]:
    return {"kind": kind, "level": level, "where": "", "why": "", "count": 0, "of": 0, "names": [], **members}


def deployment(capsys, environ, **request) -> tuple[int, list[dict[str, str]]]:
    code = doctor(DoctorRequest(as_json=True, **request), environ)
    return code, [each for each in json.loads(capsys.readouterr().out) if each["about"] == "deployment"]


def test_an_instance_that_listens_here_is_asked_what_is_wrong(capsys, nowhere, instance) -> None:
    environ, asked = instance(
        {
            "troubles": [
                trouble("pair_unserved", "bad", where="fr:de", count=3),
                trouble("nodes_lost", count=1, names=["gpu-7"]),
            ]
        }
    )
    code, found = deployment(capsys, {**environ, "LINGUA_ADMIN__TOKEN": "geheim"})
    assert code == 1
    assert [(each["grade"], each["found"], each["advice"]) for each in found] == [
        (
            "bad",
            "no node serves fr:de, which 3 sessions ask for",
            "see LinguaNoNodeForPair in docs/runbook.md",
        ),
        ("note", "1 nodes went away without a word: gpu-7", "see LinguaNodeLost in docs/runbook.md"),
    ]
    assert asked[-1] == "Bearer geheim"


def test_another_instance_can_be_named_with_a_token_of_its_own(capsys, nowhere, instance, tmp_path) -> None:
    environ, asked = instance({"troubles": []})
    (tmp_path / "token").write_text("other\n")
    url = f"http://127.0.0.1:{environ['LINGUA_SERVER__PORT']}"
    code, found = deployment(capsys, nowhere, url=url, token_file=tmp_path / "token")
    assert (code, [each["found"] for each in found]) == (0, [f"{url} names nothing that is wrong"])
    assert asked == ["Bearer other"]


def test_an_instance_that_does_not_tell_is_a_note(capsys, nowhere, instance) -> None:
    environ, _ = instance(401)
    code, [found] = deployment(capsys, environ)
    assert (code, found["grade"]) == (0, "note")
    assert "--token-file" in found["advice"]


def test_where_nobody_listens_nobody_is_asked(capsys, nowhere) -> None:
    assert deployment(capsys, nowhere) == (0, [])


def test_every_kind_of_trouble_has_a_sentence_and_a_page_of_the_runbook() -> None:
    root = Path(__file__).parent.parent
    source = (root / "src/lingua_scheduler/admin/troubles.py").read_text("utf-8")
    assert set(re.findall(r'kind="(\w+)"', source)) == set(deployment_checks._SENTENCES)
    runbook = (root / "docs/runbook.md").read_text("utf-8")
    for _, alert in deployment_checks._SENTENCES.values():
        assert f"\n### {alert}\n" in runbook
