"""`lingua doctor` finds what is wrong with what an instance depends on, and says what to do."""

from __future__ import annotations

import json
import resource
import socket

import pytest

from lingua_scheduler.commands import doctor as doctors
from lingua_scheduler.commands import redis_checks
from lingua_scheduler.commands.doctor import DoctorRequest, doctor
from lingua_scheduler.edge.server import EdgeOptions
from lingua_scheduler.store.connection import StoreOptions


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
