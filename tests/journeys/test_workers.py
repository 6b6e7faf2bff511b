"""The story of one machine with several instances: one port, one supervisor, nobody stays dead."""

from __future__ import annotations

import os
import re
import signal
import socket
from pathlib import Path

import aiohttp
import pytest

from lingua_scheduler.commands.port import kept_port
from lingua_scheduler.commands.worker import packed, unpacked
from lingua_scheduler.config import load
from lingua_scheduler.edge.server import EdgeOptions
from lingua_scheduler.embedded import process_exists
from lingua_scheduler.errors import ConfigError
from processes import Command, lingua
from support import wait_until
from world import FakeNode, Speaker

needs_proc = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")


@pytest.fixture
def environment(store_options):
    """Lead workers to the test's Redis and prefix."""
    return {"LINGUA_REDIS__URL": store_options.url, "LINGUA_REDIS__KEY_PREFIX": store_options.key_prefix}


def workers(count: int, *arguments: str, **environment: str):
    return lingua("serve", "--workers", str(count), "--port", "0", *arguments, **environment)


async def ready(command: Command) -> str:
    """Wait until all workers are ready; give their address."""
    return (await command.says("workers are ready at")).split(" at ")[1].strip()


def pids(command: Command) -> list[int]:
    """Name the processes of the workers that came up, oldest first."""
    lines = [line for line in command.lines if '"worker_ready"' in line]
    return [int(re.search(r'"pid":(\d+)', line)[1]) for line in lines]


def sees(command: Command) -> set[str]:
    """Name the instances that were started."""
    return set(re.findall(r'"instance":"([\w.-]+)","address"', "".join(command.lines)))


async def well(url: str) -> None:
    """Whichever worker is asked, it is ready."""
    async with aiohttp.ClientSession() as http, http.get(f"{url}/ready") as answer:
        assert await answer.json() == {"ready": True, "complaints": []}


async def test_workers_share_a_port_and_translate_for_each_other(environment):
    async with workers(2, "--instance-id", "host", **environment) as serve, aiohttp.ClientSession() as http:
        url = await ready(serve)
        assert sees(serve) == {"host-1", "host-2"}
        node = await FakeNode(await http.ws_connect(f"{url}/ws/node")).register()
        await node.beat()
        await node.expect("node_status", status="ready")
        for _ in range(6):  # whichever worker the system gives each of them to
            speaker = await Speaker(await http.ws_connect(f"{url}/ws/session")).init()
            await speaker.say()
            await node.answer(await node.job(session_id=speaker.id))
            await speaker.expect("translation_result", utterance_index=0)
        serve.tell(signal.SIGTERM)
        assert await serve.ended() == 0
        assert serve.count("instance_stopped") == 2


async def test_hup_replaces_one_worker_after_the_other(environment):
    async with workers(2, "--instance-id", "host", **environment) as serve:
        url = await ready(serve)
        before = pids(serve)
        serve.tell(signal.SIGHUP)
        await serve.says("all workers are new")
        await serve.says("restart_finished")
        said = "".join(serve.lines).partition("restart_started")[2]
        steps = re.findall(r'"worker":(\d),"pid":\d+,"event":"(\w+)"', said)
        assert steps == [
            ("1", "worker_replaced"),
            ("1", "worker_ready"),
            ("2", "worker_replaced"),
            ("2", "worker_ready"),
        ]
        assert serve.count("drain_finished") == 2
        assert serve.count("worker_died") == 0
        assert len(set(pids(serve))) == 4
        assert not any(process_exists(pid) for pid in before)
        await well(url)
        serve.tell(signal.SIGTERM)
        assert await serve.ended() == 0


async def test_hup_with_a_configuration_that_cannot_be_used_changes_nothing(environment, tmp_path):
    file = tmp_path / "lingua.toml"
    file.write_text("[drain]\ndeadline_s = 5\n")
    async with workers(2, "--config", str(file), **environment) as serve:
        url = await ready(serve)
        file.write_text("[drain]\ndeadline_s = -5\n")
        serve.tell(signal.SIGHUP)
        await serve.says("restart_refused")
        await well(url)
        file.write_text("[server]\ntls_certificate_file = '/nowhere'\n")
        serve.tell(signal.SIGHUP)
        await serve.says("restart_given_up")
        await serve.says('"worker_ready"', times=3)
        await well(url)
        serve.tell(signal.SIGTERM)
        assert await serve.ended() == 0


async def test_hup_does_not_open_the_port_to_everybody(environment, tmp_path):
    """As at the start: beyond this machine only with keys, or when somebody says that none are wanted."""
    file = tmp_path / "lingua.toml"
    file.write_text("[drain]\ndeadline_s = 5\n")
    async with workers(2, "--config", str(file), **environment) as serve:
        url = await ready(serve)
        file.write_text("[server]\nhost = '0.0.0.0'\n")
        serve.tell(signal.SIGHUP)
        refusal = await serve.says("restart_refused")
        assert "server.host: 0.0.0.0 can be reached from elsewhere, and there is no key" in refusal
        await well(url)
        assert serve.count('"worker_ready"') == 2
        file.write_text("[server]\nhost = '0.0.0.0'\n[auth]\ninsecure = true\n")
        serve.tell(signal.SIGHUP)
        await serve.says("all workers are new")
        file.write_text("[server]\nhost = '0.0.0.0'\n")  # and not to lose what was asked for
        serve.tell(signal.SIGHUP)
        await serve.says("restart_refused", times=2)
        await well(url)


@needs_proc
async def test_workers_whose_supervisor_was_killed_drain_and_end(environment):
    async with workers(2, **environment) as serve:
        await ready(serve)
        left = pids(serve)
        serve.tell(signal.SIGKILL)
        await wait_until(
            lambda: not any(process_exists(pid) for pid in left), description="the workers have ended"
        )


async def test_the_worst_exit_code_of_the_workers_is_that_of_the_command(environment):
    settings = {**environment, "LINGUA_DRAIN__DEADLINE_S": "0.5"}
    async with workers(2, **settings) as serve, aiohttp.ClientSession() as http:
        url = await ready(serve)
        node = await FakeNode(await http.ws_connect(f"{url}/ws/node")).register()
        await node.beat()
        await node.expect("node_status", status="ready")
        speaker = await Speaker(await http.ws_connect(f"{url}/ws/session")).init()
        await speaker.say()
        await node.job()
        serve.tell(signal.SIGTERM)
        assert await serve.ended() == 3


async def test_a_second_signal_reaches_the_workers_too(environment):
    async with workers(2, **environment) as serve, aiohttp.ClientSession() as http:
        url = await ready(serve)
        node = await FakeNode(await http.ws_connect(f"{url}/ws/node")).register()
        await node.beat()
        await node.expect("node_status", status="ready")
        speaker = await Speaker(await http.ws_connect(f"{url}/ws/session")).init()
        await speaker.say()
        await node.job()
        serve.tell(signal.SIGTERM)
        await serve.says("drain_started", times=2)
        serve.tell(signal.SIGTERM)
        assert await serve.ended() == 4


async def test_workers_share_an_embedded_redis_and_one_that_dies_is_replaced():
    async with workers(2) as serve:
        url = await ready(serve)
        os.kill(pids(serve)[0], signal.SIGKILL)
        assert "SIGKILL" in await serve.says("worker_died")
        await serve.says('"worker_ready"', times=3)

        async def know_each_other() -> bool:
            async with aiohttp.ClientSession() as http, http.get(f"{url}/metrics") as answer:
                return "scheduler_instances_alive 2.0" in await answer.text()

        await wait_until(know_each_other, description="the workers see each other", timeout_s=20)
        serve.tell(signal.SIGINT)
        assert await serve.ended() == 0


async def test_a_start_that_is_refused_ends_with_one_line_per_worker_and_exit_code_2(environment, tmp_path):
    settings = {**environment, "LINGUA_SERVER__TLS_CERTIFICATE_FILE": str(tmp_path / "missing.pem")}
    async with workers(2, **settings) as serve:
        assert await serve.ended() == 2
        assert serve.count("lingua: server.tls_certificate_file") in (1, 2)
        assert serve.count("Traceback") == 0


@pytest.mark.parametrize("arguments", [("--workers", "0"), ("--workers", "-1")])
async def test_no_workers_are_too_few(arguments):
    async with lingua("serve", *arguments) as serve:
        assert await serve.ended() == 2
        assert serve.count("lingua: --workers") == 1


def test_a_kept_port_is_taken_for_others_and_shared_with_workers() -> None:
    with kept_port(EdgeOptions(port=0)) as port:
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", port))
        with socket.socket() as worker:
            worker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            worker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            worker.bind(("127.0.0.1", port))
            worker.listen()
            with socket.create_connection(("127.0.0.1", port)):
                worker.accept()[0].close()
    with kept_port(EdgeOptions(port=port, host="localhost")) as same:
        assert same == port


def test_a_port_on_which_somebody_serves_is_refused_even_if_it_could_be_shared() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=r"server\.port"), kept_port(EdgeOptions(port=port)):
            pass
        with kept_port(EdgeOptions(port=port, reuse_port=True)) as shared:
            assert shared == port


def test_a_worker_gets_the_whole_configuration_secrets_included() -> None:
    environ = {
        "LINGUA_ADMIN__TOKEN": "geheim",
        "LINGUA_REDIS__URL": "redis://:pass@host:1",
        "LINGUA_LOG__LEVELS": '{store = "debug"}',
        "LINGUA_POOLS__BY_CAPABILITY": '[{pool_id = 3, required_services = ["a"]}]',
    }
    config = load(environ=environ).config
    assert unpacked(packed(config)) == config
    assert "geheim" not in repr(unpacked(packed(config)).admin)
