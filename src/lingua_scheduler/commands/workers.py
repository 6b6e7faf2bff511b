"""`lingua serve --workers N`: one small process that keeps N instances running on one port.

The supervisor serves nobody. It keeps the port, starts the workers, replaces those that die, and passes on
signals: SIGTERM and SIGINT drain all workers (a second one stops them), SIGHUP replaces them one after the
other under a configuration that is read anew.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from lingua_scheduler.admin.siblings import Siblings
from lingua_scheduler.commands.binding import refuse_open_door
from lingua_scheduler.commands.child import Child
from lingua_scheduler.commands.port import kept_port
from lingua_scheduler.config import Config
from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.errors import ConfigError, LinguaError
from lingua_scheduler.log import configure, get_logger
from lingua_scheduler.node.backoff import Backoff

_log = get_logger(__name__)

_REFUSED = 2
_PAUSE_MIN_S, _PAUSE_MAX_S = 0.5, 30.0  # before a worker that died is replaced
_HEALTHY_S = 60.0  # a worker that lived so long begins with the shortest pause again
_KILL_AFTER_S = 15.0  # past the deadline of the drain
_LONGEST_ID = 64


def run_workers(count: int, read: Callable[[], Config]) -> int:
    """Run instances until told to stop; return the worst of their exit codes. `read` gives their options."""
    config = read()
    if len(config.instance.id) + len(f"-{count}") > _LONGEST_ID:
        raise ConfigError(f"instance.id: longer than {_LONGEST_ID} characters with the number of a worker")
    configure(config.log)
    with (
        kept_port(config.server) as port,
        _redis(config) as redis_url,
        TemporaryDirectory(prefix="lingua-") as folder,
    ):
        children = [Child(Siblings(Path(folder), number, count)) for number in range(1, count + 1)]
        return asyncio.run(Supervisor(children, read, port=port, redis_url=redis_url).run(config))


@contextmanager
def _redis(config: Config) -> Iterator[str]:
    """Give the URL of the Redis all workers share; start one if none is configured."""
    if config.redis.url:
        yield config.redis.url
        return
    with EmbeddedRedis() as server:
        yield server.url


class Supervisor:
    """Keeps its workers alive."""

    def __init__(
        self, children: list[Child], read: Callable[[], Config], *, port: int, redis_url: str
    ) -> None:
        self._read = read
        self._port = port
        self._redis_url = redis_url
        self._children = children
        self._stop = asyncio.Event()
        self._rolling: asyncio.Task[None] | None = None
        self._announced = False
        self._code = 0

    async def run(self, config: Config) -> int:
        """Serve until a signal; return the worst exit code."""
        self._config = self._settled(config)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_stop)
        loop.add_signal_handler(signal.SIGHUP, self._told_to_roll)
        keeping = [
            asyncio.create_task(self._keep(child), name=f"worker {child.number}") for child in self._children
        ]
        await asyncio.gather(*keeping)
        if self._rolling is not None:
            self._rolling.cancel()
        return max(self._code, *(child.code for child in self._children))

    def _settled(self, config: Config) -> Config:
        """Give a configuration whose port and Redis are those the supervisor keeps."""
        replace = msgspec.structs.replace
        return replace(
            config,
            server=replace(config.server, port=self._port, reuse_port=True),
            redis=replace(config.redis, url=self._redis_url),
        )

    def _config_of(self, child: Child) -> Config:
        replace, own = msgspec.structs.replace, self._config.instance
        named = replace(own, id=f"{own.id}-{child.number}") if own.id else own
        return replace(self._config, instance=named)

    # One worker

    async def _keep(self, child: Child) -> None:
        """Keep one worker alive until the end."""
        backoff = Backoff(_PAUSE_MIN_S, _PAUSE_MAX_S)
        while not self._stop.is_set():
            asked_for = await self._life(child)
            if self._stop.is_set() or asked_for:
                continue
            _log.warning("worker_died", worker=child.number, pid=child.pid, why=child.epitaph)
            if not self._announced and child.code == _REFUSED:  # no other start would go better
                self._code = _REFUSED
                self._stop_all()
                return
            if child.lived_s > _HEALTHY_S:
                backoff.reset()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), backoff.pause_s())

    async def _life(self, child: Child) -> bool:
        """Run one process from its start to its end; True when that was asked for."""
        await child.start(self._config_of(child))
        if self._stop.is_set():
            child.send(signal.SIGTERM)
        if await child.ready():
            _log.info("worker_ready", worker=child.number, pid=child.pid)
            self._announce()
        await child.ended()
        return child.retired

    def _announce(self) -> None:
        if not self._announced and all(child.was_ready for child in self._children):
            self._announced = True
            url = self._children[0].url
            _say(f"{len(self._children)} workers are ready at {url}")

    # All of them

    def _told_to_stop(self) -> None:
        _log.info("workers_stopping", again=self._stop.is_set())
        self._stop_all()

    def _stop_all(self) -> None:
        if not self._stop.is_set():
            asyncio.get_running_loop().call_later(self._patience_s, self._kill_all)
        self._stop.set()
        for child in self._children:
            child.send(signal.SIGTERM)

    @property
    def _patience_s(self) -> float:
        return self._config.drain.deadline_s + _KILL_AFTER_S

    def _kill_all(self) -> None:
        for child in self._children:
            child.send(signal.SIGKILL)

    def _told_to_roll(self) -> None:
        if self._rolling is None or self._rolling.done():
            self._rolling = asyncio.create_task(self._roll(), name="rolling restart")

    async def _roll(self) -> None:
        """Replace one worker after the other; stop at the first whose successor does not come up."""
        before = self._config
        try:
            wanted = self._settled(self._read())
            await asyncio.to_thread(refuse_open_door, wanted)
        except LinguaError as refusal:
            _log.error("restart_refused", reason=str(refusal))
            return
        self._config = wanted
        _log.info("restart_started", workers=len(self._children))
        for child in self._children:
            if self._stop.is_set():
                return
            _log.info("worker_replaced", worker=child.number, pid=child.pid)
            if not await child.renewed(kill_after_s=self._patience_s):
                _log.error("restart_given_up", worker=child.number)
                self._config = before
                return
        _log.info("restart_finished")
        _say("all workers are new")


def _say(words: str) -> None:
    """Print a line at once and in one piece: logs may go to the same place."""
    print(f"lingua: {words}\n", end="", flush=True)
